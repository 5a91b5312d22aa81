import { describe, expect, test } from 'vitest';
import { frozenBy, frozenVerdict } from './freeze.ts';
import type { RequestClass } from './request.ts';

const freeze = (name: string, spec: { stops?: RequestClass[]; pools?: string[]; reason?: string } = {}) => ({ metadata: { name }, spec });

describe('D11: a Freeze', () => {
  test('stops Change and Repair, and Restore only where it is named', () => {
    const stopped = (asked: RequestClass, spec = {}): boolean => frozenBy([freeze('f', spec)], asked, 'web') !== undefined;
    expect([stopped('Change'), stopped('Repair'), stopped('Restore')]).toEqual([true, true, false]);
    expect(stopped('Restore', { stops: ['Restore'] })).toBe(true);
    expect(stopped('Change', { stops: ['Restore'] })).toBe(false);
  });

  test('stops only the pools it names', () => {
    const freezes = [freeze('f', { pools: ['db'] })];
    expect(frozenBy(freezes, 'Change', 'web')).toBeUndefined();
    expect(frozenBy(freezes, 'Change', 'db')?.metadata.name).toBe('f');
  });

  test('only tightens: another one that stops less changes nothing', () => {
    expect(frozenBy([freeze('narrow', { stops: ['Repair'] }), freeze('wide')], 'Change', 'web')?.metadata.name).toBe('wide');
  });

  test('names who froze and why', () => {
    expect(frozenVerdict(freeze('sale', { reason: 'double eleven' }))).toEqual({
      allowed: false,
      limit: 'Freeze/sale',
      wouldPassWhen: 'Freeze sale (double eleven) is deleted',
    });
  });

  test('names what ends it also where there is no reason', () => {
    expect(frozenVerdict(freeze('sale')).wouldPassWhen).toBe('Freeze sale is deleted');
  });
});
