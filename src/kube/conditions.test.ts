import { LONGEST_CONDITION_MESSAGE } from '../api/plain-text.ts';
import { describe, expect, test } from 'vitest';
import type { Condition } from '../api/wire.ts';
import { findCondition, isTrue, removeCondition, setCondition, setConditions } from './conditions.ts';

const t0 = Date.UTC(2026, 10, 20);
const ready = { type: 'Ready', status: 'True', reason: 'Running', message: 'all components run', observedGeneration: 3 } as const;

describe('setting a condition', () => {
  test('the first one gets the time of now', () => {
    expect(setCondition(undefined, ready, t0)).toEqual([{ ...ready, lastTransitionTime: '2026-11-20T00:00:00Z' }]);
  });

  test('setting an equal condition returns the list itself', () => {
    const before = setCondition(undefined, ready, t0);
    expect(setCondition(before, { ...ready }, t0 + 60_000)).toBe(before);
    expect(setConditions(before, [ready, ready], t0 + 60_000)).toBe(before);
  });

  test('a new reason, message or generation keeps the transition time; a new status moves it', () => {
    const before = setCondition(undefined, ready, t0);
    const later = setCondition(before, { ...ready, reason: 'Settled', observedGeneration: 4 }, t0 + 60_000);
    expect(findCondition(later, 'Ready')).toMatchObject({ reason: 'Settled', lastTransitionTime: '2026-11-20T00:00:00Z' });
    const failed = setCondition(later, { ...ready, status: 'False' }, t0 + 60_000);
    expect(findCondition(failed, 'Ready')?.lastTransitionTime).toBe('2026-11-20T00:01:00Z');
  });

  test('a message that the schema of Machines would refuse is cut, and the same again changes nothing', () => {
    const long = { ...ready, message: '🙂'.repeat(LONGEST_CONDITION_MESSAGE) };
    const list = setCondition(undefined, long, t0);
    const message = list[0]?.message ?? '';
    expect([message.length <= LONGEST_CONDITION_MESSAGE, message.isWellFormed(), message.endsWith('…')]).toEqual([true, true, true]);
    expect(setCondition(list, long, t0 + 1)).toBe(list);
    const fits = { ...ready, message: 'x'.repeat(LONGEST_CONDITION_MESSAGE) };
    expect(setCondition(undefined, fits, t0)[0]?.message).toBe(fits.message);
  });

  test('the others and their order stay, and the given list is not changed', () => {
    const before = Object.freeze([...setConditions(undefined, [ready, { ...ready, type: 'Joined' }], t0)]);
    const after = setCondition(before, { ...ready, status: 'Unknown' }, t0);
    expect(after.map((condition) => condition.type)).toEqual(['Ready', 'Joined']);
    expect(after[1]).toBe(before[1]);
  });
});

describe('reading conditions', () => {
  const list: readonly Condition[] = setConditions(undefined, [ready, { ...ready, type: 'Paused', status: 'Unknown' }], t0);

  test('absent and Unknown are not true', () => {
    expect(isTrue(list, 'Ready')).toBe(true);
    expect(isTrue(list, 'Paused')).toBe(false);
    expect(isTrue(list, 'Absent')).toBe(false);
    expect(isTrue(undefined, 'Ready')).toBe(false);
  });

  test('a yes to an older generation is no yes to this one', () => {
    expect(isTrue(list, 'Ready', 3)).toBe(true);
    expect(isTrue(list, 'Ready', 4)).toBe(false);
    const unobserved = { type: ready.type, status: ready.status, reason: ready.reason, message: ready.message };
    expect(isTrue(setCondition(undefined, unobserved, t0), 'Ready', 1)).toBe(false);
  });

  test('removing an absent condition returns the list itself', () => {
    expect(removeCondition(list, 'Absent')).toBe(list);
    expect(removeCondition(list, 'Ready').map((condition) => condition.type)).toEqual(['Paused']);
  });
});
