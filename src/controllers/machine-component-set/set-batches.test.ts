import { describe, expect, test } from 'vitest';
import { API_VERSION } from '../../api/kind.ts';
import type { ComponentEntry } from '../../api/machine.ts';
import { roomFor, setBatches, type SetBatches } from './batches.ts';
import type { Content } from './content.ts';
import type { Standing } from './standing.ts';

const AT = '2026-11-20T00:00:00Z';
const BATCHES = [2, '50%', '100%'];
const main: Content = { action: 'Install', version: '2.0.0' };
const canary: Content = { action: 'Install', version: '3.0.0' };
const entry: ComponentEntry = {
  name: 'kubelet',
  action: 'Install',
  version: '2.0.0',
  setUID: 's',
  setRevision: 5,
  joinedRevision: 1,
  revision: 9,
  attempt: 1,
};
const before: ComponentEntry = { ...entry, version: '1.0.0' };

/** A machine in use that was given nothing of this content. */
function standing(change: Partial<Standing> = {}): Standing {
  return {
    machine: {
      apiVersion: API_VERSION,
      kind: 'Machine',
      metadata: { namespace: 'web', name: 'a', uid: 'a', resourceVersion: '1', creationTimestamp: AT },
      spec: {},
      status: { phase: 'Running', firstReadyAt: AT, verified: [{ ...before, bootID: 'b', since: AT }] },
    },
    entry: before,
    reported: undefined,
    verified: [],
    agentFresh: true,
    unseenMs: 0,
    agentUnseenMs: 0,
    isOwn: true,
    hasStayed: true,
    target: main,
    isJoiner: false,
    cohort: 0,
    isGiven: false,
    hasFailed: false,
    failure: undefined,
    isAside: false,
    isHeld: false,
    proves: false,
    passes: false,
    ...change,
  };
}
const waiting = standing();
const given = standing({ entry, isGiven: true });
const passing = standing({ entry, isGiven: true, proves: true, passes: true });
const failed = standing({ entry, hasFailed: true });
const aside = standing({ isAside: true });
const of = (cohort: number, each: Standing): Standing => ({ ...each, cohort });
const times = (count: number, each: Standing): Standing[] => Array.from({ length: count }, () => each);

const batchesOf = (members: Standing[], former: Standing[] = []): SetBatches => setBatches(BATCHES, { members, former }, main);
const stateOf = (members: Standing[], former: Standing[] = []) => {
  const { current, room } = batchesOf(members, former).shown;
  return { current, room };
};
const PASSED = { current: undefined, room: Infinity };

describe('B3: the batch under way', () => {
  test('has room for as many as were not given the content, and passes with as many as it has slots', () => {
    expect(batchesOf(times(8, waiting)).shown).toEqual({ cohort: 0, sizes: [2, 4, 8], current: 0, room: 2 });
    expect(stateOf([given, ...times(7, waiting)])).toEqual({ current: 0, room: 1 });
    expect(stateOf([passing, given, ...times(6, waiting)])).toEqual({ current: 0, room: 0 });
    expect(stateOf([...times(2, passing), ...times(6, waiting)])).toEqual({ current: 1, room: 2 });
    expect(stateOf([...times(3, passing), given, ...times(4, waiting)])).toEqual({ current: 1, room: 0 });
    expect(stateOf([...times(7, passing), waiting])).toEqual({ current: 2, room: 1 });
    expect(stateOf(times(8, passing))).toEqual(PASSED);
  });

  test('has no room where more were given the content than it has slots', () => {
    expect(stateOf([...times(4, given), ...times(4, waiting)])).toEqual({ current: 0, room: 0 });
  });

  test('does not wait for machines that failed or are set aside, and leaves their slots to others', () => {
    expect(stateOf([passing, failed])).toEqual(PASSED);
    expect(stateOf([passing, aside])).toEqual(PASSED);
    expect(stateOf([passing, passing, failed, aside, waiting, ...times(3, passing)])).toEqual({ current: 2, room: 3 });
    expect(stateOf([failed, ...times(7, waiting)])).toEqual({ current: 0, room: 2 });
    expect(stateOf([{ ...given, isAside: true }, ...times(7, waiting)])).toEqual({ current: 0, room: 2 });
  });

  test('is never passed without a machine: one must have passed, ever', () => {
    expect(stateOf([failed, aside])).toEqual({ current: 0, room: 2 });
    expect(stateOf([{ ...passing, isAside: true }])).toEqual({ current: 0, room: 1 });
  });

  test('is none where no machine is there', () => {
    expect(batchesOf([])).toEqual({
      shown: { cohort: undefined, sizes: [0, 0, 0], current: undefined, room: Infinity },
      havePassed: true,
      byContent: new Map(),
    });
    expect(() => setBatches([], { members: [], former: [] }, main)).toThrow('must have at least one entry');
  });
});

describe('B5: machines that were added', () => {
  test('have batches of their own, after those of the others', () => {
    const added = times(4, of(6, waiting));
    const last = times(3, of(7, waiting));
    expect(batchesOf([...last, ...added, passing, given]).shown).toEqual({ cohort: 0, sizes: [2, 2, 2], current: 0, room: 0 });
    expect(batchesOf([...last, ...added, passing, passing]).shown).toEqual({ cohort: 6, sizes: [2, 2, 4], current: 0, room: 2 });
    expect(batchesOf([...last, ...times(4, of(6, passing)), passing]).shown).toMatchObject({ cohort: 7, sizes: [2, 2, 3], current: 0 });
    expect(batchesOf([of(10, waiting), of(9, waiting), passing]).shown).toMatchObject({ cohort: 9 });
    expect(stateOf([of(7, passing), of(6, passing), passing])).toEqual(PASSED);
  });

  test('need none of their own that passes where the content has worked on others', () => {
    expect(stateOf([passing, failed, of(6, failed), of(6, aside)])).toEqual(PASSED);
    expect(stateOf([passing, of(6, failed), of(6, waiting)])).toEqual({ current: 0, room: 2 });
    expect(stateOf([passing, of(6, failed), of(6, given)])).toEqual({ current: 0, room: 1 });
    expect(stateOf([failed, of(6, failed)])).toEqual({ current: 0, room: 1 });
  });

  test('take slots of the batch under way with what is in flight there', () => {
    expect(stateOf([...times(8, waiting), of(6, given)])).toEqual({ current: 0, room: 1 });
    expect(stateOf([...times(8, waiting), ...times(3, of(6, given))])).toEqual({ current: 0, room: 0 });
    const verified = standing({ entry, isGiven: true });
    verified.machine = { ...verified.machine, status: { ...verified.machine.status, verified: [{ ...entry, bootID: 'b', since: AT }] } };
    expect(stateOf([...times(8, waiting), of(6, verified)])).toEqual({ current: 0, room: 2 });
    expect(stateOf([...times(8, waiting), of(6, { ...waiting, entry: { ...before, revision: 8 } })])).toEqual({ current: 0, room: 2 });
  });
});

describe('B3: what is in flight on machines that are to have it no more', () => {
  test('takes slots of the batch under way', () => {
    expect(stateOf(times(8, waiting), [given])).toEqual({ current: 0, room: 1 });
    expect(stateOf(times(8, waiting), times(3, given))).toEqual({ current: 0, room: 0 });
    expect(stateOf(times(8, waiting), [passing, failed, aside, { ...given, isOwn: false }])).toEqual({ current: 0, room: 1 });
    expect(stateOf(times(8, waiting), [{ ...given, isAside: true }, failed, { ...given, entry: undefined }])).toEqual({
      current: 0,
      room: 2,
    });
  });

  test('of a canary takes slots of the batches of the canary alone, and the other way round', () => {
    const isCanary = standing({ target: canary });
    const promoted = standing({ entry: { ...entry, version: '3.0.0' } });
    const chosen = standing({ entry, target: canary });
    const rooms = (members: Standing[]) => {
      const batches = batchesOf(members);
      return [roomFor(batches, main, 0), roomFor(batches, canary, 0)];
    };
    const all = [...times(8, waiting), ...times(8, isCanary)];
    expect(rooms(all)).toEqual([2, 2]);
    expect(rooms([...all, promoted])).toEqual([2, 1]);
    expect(rooms([...all, chosen])).toEqual([1, 2]);
    expect(rooms([...all, { ...chosen, entry: undefined }])).toEqual([2, 2]);
  });
});

describe('B8: each content has batches of its own', () => {
  const canaries = times(4, standing({ target: canary }));
  const proved = times(4, standing({ target: canary, entry: { ...entry, version: '3.0.0' }, isGiven: true, proves: true, passes: true }));

  test('whose status shows the batches of the others first, then those of the canary', () => {
    expect(batchesOf([...canaries, ...times(8, waiting)])).toMatchObject({ shown: { sizes: [2, 4, 8], current: 0 }, havePassed: false });
    expect(batchesOf([...canaries, ...times(8, passing)])).toMatchObject({ shown: { sizes: [2, 2, 4], current: 0 }, havePassed: false });
    expect(batchesOf([...proved, ...times(8, waiting)])).toMatchObject({ shown: { sizes: [2, 4, 8], current: 0 }, havePassed: false });
    expect(batchesOf([...proved, ...times(8, passing)])).toMatchObject({ shown: { sizes: [2, 4, 8], ...PASSED }, havePassed: true });
    expect(batchesOf(proved)).toMatchObject({ shown: { sizes: [2, 2, 4], ...PASSED }, havePassed: true });
  });

  test('and what no machine is to have waits until all have passed', () => {
    const other: Content = { action: 'Install', version: '4.0.0' };
    expect(roomFor(batchesOf([waiting]), other, 0)).toBe(0);
    expect(roomFor(batchesOf([passing]), other, 0)).toBe(Infinity);
  });

  test('and another cohort than the one under way has no room', () => {
    const batches = batchesOf([waiting, of(6, waiting)]);
    expect([roomFor(batches, main, 0), roomFor(batches, main, 6)]).toEqual([1, 0]);
    const over = batchesOf([passing, of(6, passing)]);
    expect([roomFor(over, main, 0), roomFor(over, main, 6), roomFor(over, main, 8)]).toEqual([Infinity, Infinity, Infinity]);
  });
});
