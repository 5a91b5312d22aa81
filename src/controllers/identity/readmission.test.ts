import { expect, it } from 'vitest';
import type { Bootstrap, Machine } from '../../api/machine.ts';
import { readmissionOf } from './readmission.ts';
import { machineWith, OPEN } from './testing/requests.ts';

const NOW = Date.parse('2026-11-20T12:00:00Z');
const HOUR = 3_600_000;
const agent = { version: '1', apiLevel: 1, bootID: 'b', os: 'linux', arch: 'amd64' };
const admitted: Bootstrap = { ...OPEN, csrUID: 'csr-1', until: '2026-11-21T12:00:00Z' };

function made(bootstrap: Bootstrap | undefined, more: Partial<Machine['status']> = {}, spec: Machine['spec'] = {}): Machine {
  const machine = machineWith(bootstrap, { providerID: 'cloud://1', ...more });
  return { ...machine, spec: { provider: { name: 'cloud' }, ...spec } };
}

it('a node that has no identity yet gets a bootstrap at once', () => {
  expect(readmissionOf(made(undefined), NOW)).toEqual({ inMs: 0, why: 'it has no identity of its own yet', again: false });
});

it('a token that was never used is replaced when it runs out, in the same epoch', () => {
  expect(readmissionOf(made(OPEN), NOW)).toEqual({ inMs: HOUR, why: 'its token ran out before it was used', again: false });
  expect(readmissionOf(made(OPEN), NOW + 2 * HOUR)).toMatchObject({ inMs: -HOUR });
  for (const tokenUntil of ['soon', '1969-12-31T00:00:00Z']) expect(readmissionOf(made({ ...OPEN, tokenUntil }), NOW)?.inMs).toBe(-NOW);
});

it('an agent that was admitted and never reported gets the next epoch when its token has run out', () => {
  expect(readmissionOf(made(admitted), NOW)).toEqual({ inMs: HOUR, why: 'it was admitted and never reported', again: true });
});

it('one that reports gets the next epoch when its certificate has run out', () => {
  expect(readmissionOf(made(admitted, { agent }), NOW)).toEqual({ inMs: 24 * HOUR, why: 'its certificate ran out', again: true });
  const { until: _, ...unknown } = admitted;
  expect(readmissionOf(made(unknown, { agent }), NOW)?.inMs).toBe(-NOW);
});

const open = made(OPEN);
const { status: _status, ...unseen } = open;
it.each<[string, Machine]>([
  ['of no provider', { ...open, spec: {} }],
  ['that is paused', made(OPEN, {}, { paused: true })],
  ['that is being deleted', { ...open, metadata: { ...open.metadata, deletionTimestamp: '2026-11-20T12:00:00Z' } }],
  ['without an instance', { ...open, status: { bootstrap: OPEN } }],
  ['without any status', unseen],
])('a machine %s gets none', (_, machine) => {
  expect(readmissionOf(machine, NOW)).toBeUndefined();
});

it('one that is not paused does', () => {
  expect(readmissionOf(made(OPEN, {}, { paused: false }), NOW)).toBeDefined();
});
