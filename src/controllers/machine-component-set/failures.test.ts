import { describe, expect, test } from 'vitest';
import type { ComponentEntry, ComponentStatus, Machine } from '../../api/machine.ts';
import type { MachineComponentSet } from '../../api/machine-component-set.ts';
import { exhausted, isInEffect, MAX_FAILURES, nextRevision, unrecordedFailure } from '../shared/failure.ts';
import { entryOf } from './entries.ts';
import { failuresOf, type FailureRecord } from './failures.ts';
import type { Standing } from './standing.ts';

const NOW = Date.UTC(2026, 10, 20);
const AT = '2026-11-20T00:00:00Z';
const entry: ComponentEntry = {
  name: 'kubelet',
  action: 'Install',
  version: '2.0.0',
  setUID: 's',
  setRevision: 6,
  joinedRevision: 1,
  revision: 9,
  attempt: 3,
};
const reported: ComponentStatus = { name: 'kubelet', version: '', content: '', revision: 9, running: 0, state: 'Waiting', bootID: 'b' };
const revision = { number: 7, since: 5 };

describe('A3: revisions', () => {
  test('go above all that the entry or the agent ever named', () => {
    expect(nextRevision(undefined, undefined)).toBe(1);
    expect(nextRevision(entry, undefined)).toBe(10);
    expect(nextRevision(entry, { ...reported, revision: 12 })).toBe(13);
    expect(nextRevision(entry, { ...reported, refused: { revision: 15, reason: 'x' } })).toBe(16);
    expect(nextRevision(undefined, { ...reported, revision: 2 })).toBe(3);
  });

  test('end with the last number', () => {
    expect(exhausted(entry, { ...reported, revision: 2_147_483_646 })).toBeUndefined();
    expect(exhausted(entry, { ...reported, revision: 2_147_483_647 })).toMatchObject({
      reason: 'RevisionsExhausted',
      message: expect.stringContaining('revision 2147483647') as string,
    });
  });

  test('entries have no field that is absent: equal ones are equal JSON', () => {
    const { action, version, ...rest } = entry;
    expect(entryOf({ action, version }, rest)).toStrictEqual(entry);
    const more = { left: true, lane: 'Restore' as const, failed: { setRevision: 6, attempt: 1, reason: 'x' } };
    expect(entryOf({ action, version, values: { a: 1 } }, { ...rest, ...more })).toStrictEqual({ ...entry, values: { a: 1 }, ...more });
    const order = 'name action version values setUID setRevision joinedRevision revision attempt left lane failed';
    expect(Object.keys(entryOf({ action, version, values: {} }, { ...more, ...rest })).join(' ')).toBe(order);
  });
});

describe('A5: how an entry failed that does not record it yet', () => {
  const order = { id: 'o', components: [{ name: 'kubelet', revision: 9 }] };
  const machine = (operation: object | undefined, outcome: object | undefined): Machine =>
    ({ spec: { operation }, status: { operation: outcome } }) as unknown as Machine;
  const ended = { id: 'o', state: 'Done', outcome: 'PermanentFailure', message: 'it hung' };
  const reason = (of: Machine, report: ComponentStatus | undefined = reported): string | undefined =>
    unrecordedFailure(of, entry, report)?.reason;

  test('is what the agent reports of this very revision', () => {
    const failed = { revision: 9, reason: 'ProbesFailed', message: 'm', restored: true };
    expect(unrecordedFailure(machine(undefined, undefined), entry, { ...reported, failed })).toEqual({
      reason: 'ProbesFailed',
      message: 'm',
    });
    expect(reason(machine(undefined, undefined), { ...reported, failed: { ...failed, revision: 8 } })).toBeUndefined();
    const recorded = { ...entry, failed: { setRevision: 6, attempt: 1, reason: 'x' } };
    expect(unrecordedFailure(machine(undefined, undefined), recorded, { ...reported, failed })).toBeUndefined();
  });

  test('is that the operation failed which was to carry it out', () => {
    expect(unrecordedFailure(machine(order, ended), entry, reported)).toEqual({ reason: 'OperationFailed', message: 'it hung' });
    expect(unrecordedFailure(machine(order, { ...ended, message: undefined }), entry, undefined)?.message).toBe(
      'the agent reported no cause',
    );
    for (const [operation, outcome] of [
      [undefined, undefined],
      [undefined, ended],
      [order, undefined],
      [order, { ...ended, id: 'another' }],
      [order, { ...ended, outcome: 'TransientFailure' }],
      [{ ...order, components: undefined }, ended],
      [{ ...order, components: [{ name: 'kubelet', revision: 8 }] }, ended],
      [{ ...order, components: [{ name: 'exporter', revision: 9 }] }, ended],
    ])
      expect(reason(machine(operation, outcome)), JSON.stringify([operation, outcome])).toBeUndefined();
  });

  test('is none where the entry is carried out all the same', () => {
    const running = { ...reported, running: 9 };
    expect(reason(machine(order, ended), { ...running, state: 'Healthy' })).toBeUndefined();
    expect(reason(machine(order, ended), { ...running, state: 'Removed' })).toBeUndefined();
    expect(reason(machine(order, ended), { ...running, state: 'Unhealthy' })).toBe('OperationFailed');
    expect(reason(machine(order, ended), { ...running, state: 'Healthy', running: 8 })).toBe('OperationFailed');
  });

  test('counts from where the content began, up to the present number, for one rolloutID', () => {
    const inEffect = (setRevision: number, rolloutID?: string, wanted?: string) =>
      isInEffect({ setRevision, ...(rolloutID === undefined ? {} : { rolloutID }) }, revision, wanted);
    expect([4, 5, 7, 8].map((number) => inEffect(number))).toEqual([false, true, true, false]);
    expect([inEffect(6, 'a'), inEffect(6, 'a', 'a'), inEffect(6, undefined, 'a')]).toEqual([false, true, false]);
    expect(isInEffect(undefined, revision, undefined)).toBe(false);
  });
});

describe('B4: the record of failures', () => {
  const standing = (name: string, change: Partial<Standing> = {}): Standing =>
    ({ machine: { metadata: { namespace: 'web', name, uid: `uid-${name}` } }, hasFailed: true, entry, ...change }) as unknown as Standing;
  const record = (name: string, change: Partial<FailureRecord> = {}): FailureRecord => ({
    machine: `web/${name}`,
    uid: `uid-${name}`,
    setRevision: 6,
    attempt: 1,
    reason: 'ProbesFailed',
    message: '',
    at: '2026-11-19T00:00:00Z',
    ...change,
  });
  const found = (all: Standing[], failures?: FailureRecord[], rolloutID?: string): FailureRecord[] =>
    failuresOf(
      {
        spec: rolloutID === undefined ? {} : { rolloutID },
        ...(failures === undefined ? {} : { status: { failures } }),
      } as unknown as MachineComponentSet,
      revision,
      all,
      NOW,
    );

  test('has what the entry records, else what is known of it', () => {
    const failed = { setRevision: 5, attempt: 2, reason: 'ProbesFailed', message: 'x'.repeat(300) };
    expect(found([standing('a', { entry: { ...entry, failed } })])).toStrictEqual([
      { machine: 'web/a', uid: 'uid-a', setRevision: 5, attempt: 2, reason: 'ProbesFailed', message: 'x'.repeat(256), at: AT },
    ]);
    expect(found([standing('a', { failure: { reason: 'AgentStale', message: 'm' } })], undefined, 'again')).toStrictEqual([
      { machine: 'web/a', uid: 'uid-a', setRevision: 7, attempt: 3, rolloutID: 'again', reason: 'AgentStale', message: 'm', at: AT },
    ]);
    expect(found([standing('a', { entry: undefined })])).toMatchObject([{ setRevision: 7, attempt: 1, reason: 'Unknown', message: '' }]);
    expect(found([standing('a', { hasFailed: false })])).toEqual([]);
  });

  test('keeps what is recorded, also of a machine that is gone, and adds those that failed since, by name', () => {
    const kept = [record('z'), record('gone')];
    const all = [standing('z'), standing('c'), standing('b'), standing('well', { hasFailed: false })];
    const failures = found(all, kept);
    expect(failures.map(({ machine }) => machine)).toEqual(['web/z', 'web/gone', 'web/b', 'web/c']);
    expect(failures.slice(0, 2)).toEqual(kept);
  });

  test('forgets what was of another content or rolloutID, and what names no machine', () => {
    const { uid: _uid, ...unnamed } = record('a');
    const { setRevision: _revision, ...never } = record('a');
    expect(found([], [record('a', { setRevision: 4 }), record('b', { setRevision: 8 }), unnamed, never])).toEqual([]);
    expect(found([], [record('a')], 'again')).toEqual([]);
    expect(found([], [record('a', { rolloutID: 'again' })], 'again')).toHaveLength(1);
    expect(found([], [record('a', { rolloutID: 'again' })])).toEqual([]);
  });

  test('B6: forgets that an agent was stale once it proves otherwise, and not before', () => {
    const stale = record('a', { reason: 'AgentStale' });
    const well = standing('a', { hasFailed: false });
    expect(found([well], [stale])).toEqual([]);
    expect(found([standing('a')], [stale])).toEqual([stale]);
    expect(found([], [stale])).toEqual([stale]);
    expect(found([well], [record('a')])).toHaveLength(1);
  });

  test('has no more than its limit', () => {
    expect(found(Array.from({ length: MAX_FAILURES + 5 }, (_, index) => standing(`m${index}`)))).toHaveLength(MAX_FAILURES);
  });
});
