import { describe, expect, it } from 'vitest';
import type { Cluster } from '../../api/cluster.ts';
import { CodedError } from '../../api/errors.ts';
import type { Fleet } from '../../api/fleet.ts';
import { API_VERSION } from '../../api/kind.ts';
import type { Rollout } from '../../api/rollout.ts';
import type { Condition } from '../../api/wire.ts';
import {
  authorship,
  digestsInUse,
  dueOf,
  expendable,
  failedTry,
  HELD_BACK,
  isSameRollout,
  rolloutOf,
  triedOf,
  type Tries,
} from './decide.ts';

const condition = (type: string, status: Condition['status'], reason = 'x'): Condition => ({
  type,
  status,
  reason,
  message: '',
  lastTransitionTime: '2026-01-01T00:00:00Z',
});
const accepted = {
  commit: 'c1',
  observedGeneration: 2,
  rollout: { sequence: 1 },
  clusters: ['one'],
  conditions: [condition('Other', 'False'), condition('Ready', 'True')],
};
const fleet = (status: Fleet['status'], generation: number | undefined = 2): Fleet => ({
  apiVersion: API_VERSION,
  kind: 'Fleet',
  metadata: { name: 'main', ...(generation === undefined ? {} : { generation }) },
  spec: { source: { path: '/x' }, stages: [] },
  ...(status === undefined ? {} : { status }),
});
const without = (field: 'rollout' | 'clusters'): Fleet['status'] =>
  Object.fromEntries(Object.entries(accepted).filter(([name]) => name !== field));
const tries = (more: Partial<Tries> = {}): Tries => ({ seen: 'c1  2', refused: false, failures: 1, notBeforeMs: 1000, ...more });

describe('whether a head is to be tried', () => {
  it.each<[string, Fleet['status'], Tries | undefined, number, ReturnType<typeof dueOf>]>([
    ['it is accepted', accepted, undefined, 0, { state: 'Accepted' }],
    [
      'it is accepted but for sets that keep machines',
      { ...accepted, conditions: [condition('Ready', 'False', HELD_BACK)] },
      undefined,
      0,
      { state: 'Accepted' },
    ],
    ['nothing is known of it', undefined, undefined, 0, { state: 'Due' }],
    ['it was not Ready', { ...accepted, conditions: [condition('Ready', 'False')] }, undefined, 0, { state: 'Due' }],
    [
      'something else is True',
      { ...accepted, conditions: [condition('Other', 'True'), condition('Ready', 'False')] },
      undefined,
      0,
      { state: 'Due' },
    ],
    ['something else is held back', { ...accepted, conditions: [condition('Other', 'False', HELD_BACK)] }, undefined, 0, { state: 'Due' }],
    ['another was accepted', { ...accepted, commit: 'c0' }, undefined, 0, { state: 'Due' }],
    ['the Fleet was changed since', { ...accepted, observedGeneration: 1 }, undefined, 0, { state: 'Due' }],
    ['no Rollout is counted yet', without('rollout'), undefined, 0, { state: 'Due' }],
    ['no clusters are named yet', without('clusters'), undefined, 0, { state: 'Due' }],
    ['it was refused', undefined, tries({ refused: true }), 5000, { state: 'Refused' }],
    ['another head was refused', undefined, tries({ refused: true, seen: 'c0  2' }), 5000, { state: 'Due' }],
    ['it was refused over another accepted commit', { commit: 'c0' }, tries({ refused: true }), 5000, { state: 'Due' }],
    ['it was refused for another Fleet', undefined, tries({ refused: true, seen: 'c1  1' }), 5000, { state: 'Due' }],
    ['it failed a moment ago', undefined, tries(), 999, { state: 'Later', afterMs: 1 }],
    ['it failed, and its time has come', undefined, tries(), 1000, { state: 'Due' }],
  ])('%s', (_what, status, before, now, due) => {
    expect(dueOf(fleet(status), 'c1', before, now)).toEqual(due);
  });

  it('is another matter for another head, another accepted commit, or another Fleet', () => {
    expect(triedOf(fleet(accepted), 'c2')).toBe('c2 c1 2');
    expect(triedOf({ ...fleet(undefined), metadata: { name: 'main' } }, undefined)).toBe('  0');
  });
});

describe('a try that failed', () => {
  const verdict = new CodedError('RenderThrew', 'x', { verdict: true });
  it('counts of the same matter, and begins again with another', () => {
    const first = failedTry(undefined, 'a', new Error('x'), 100, () => 0);
    expect(first).toEqual({ seen: 'a', refused: false, failures: 1, notBeforeMs: 600 });
    expect(failedTry(first, 'a', new Error('x'), 100, () => 0)).toMatchObject({ failures: 2, notBeforeMs: 1100 });
    expect(failedTry({ ...first, failures: 9 }, 'b', new Error('x'), 100, () => 0)).toMatchObject({ seen: 'b', failures: 1 });
    expect(failedTry({ ...first, failures: 30 }, 'a', new Error('x'), 100, () => 0).notBeforeMs).toBe(150_100);
  });
  it('refuses only by a verdict', () => {
    expect(failedTry(undefined, 'a', verdict, 0, () => 0).refused).toBe(true);
    expect(failedTry(undefined, 'a', new CodedError('GitTimeout', 'x'), 0, () => 0).refused).toBe(false);
  });
});

const rollout = (sequence: number, units: Record<string, string | undefined>, more: Partial<Rollout['spec']> = {}): Rollout => ({
  apiVersion: API_VERSION,
  kind: 'Rollout',
  metadata: { name: `main-${sequence}` },
  spec: {
    fleet: 'main',
    commit: `c${sequence}`,
    sequence,
    stages: [],
    units: Object.entries(units).map(([unit, digest]) => ({
      unit,
      clusters: [{ name: 'one', ...(digest === undefined ? {} : { digest }) }],
    })),
    ...more,
  },
});

describe('a Rollout', () => {
  const planned = { units: [], stages: [{ name: 's', clusters: ['one'], soakSeconds: 0, maxClusters: 1 }], kept: [], heldBack: undefined };
  it('reports what a commit is, as far as that is known, and not at any length', () => {
    expect(rolloutOf(fleet(undefined), undefined, 'c1', planned, 4)).toEqual({
      apiVersion: API_VERSION,
      kind: 'Rollout',
      metadata: { name: 'main-4' },
      spec: { fleet: 'main', commit: 'c1', sequence: 4, stages: planned.stages, units: [] },
    });
    const { spec } = rolloutOf(fleet(undefined), { subject: `s${'x'.repeat(300)}`, author: `a${'x'.repeat(300)}` }, 'c1', planned, 4);
    expect([spec.subject?.length, spec.author?.length, spec.subject?.[0], spec.author?.[0]]).toEqual([200, 100, 's', 'a']);
  });

  it('of a commit that is judged again has the author and the subject of the one before', () => {
    const before = [rolloutOf(fleet(undefined), { subject: 'Fewer', author: 'ada' }, 'c1', planned, 4)];
    expect(authorship('c1', [], before)).toEqual({ subject: 'Fewer', author: 'ada' });
    expect(authorship('c1', [{ subject: 'New', author: 'eve' }], before)).toEqual({ subject: 'New', author: 'eve' });
    expect(authorship('c2', [], before)).toBeUndefined();
  });

  it('is the same whatever people steer it by', () => {
    expect(isSameRollout(rollout(1, { a: 'A' }), rollout(1, { a: 'A' }, { paused: true, retry: 'r' }))).toBe(true);
    expect(isSameRollout(rollout(1, { a: 'A' }), rollout(1, { a: 'B' }))).toBe(false);
  });

  it('is expendable when it is old, owns nothing and pauses nothing', () => {
    const newer = Array.from({ length: 49 }, (_, index) => rollout(index + 10, { a: 'A' }));
    const old = [
      rollout(1, { a: 'A' }),
      rollout(2, { a: 'A', b: 'B' }),
      rollout(3, { a: 'A' }, { paused: true }),
      rollout(4, { a: 'A' }),
      rollout(5, { b: 'B', a: 'A' }),
    ];
    const names = (rollouts: Rollout[]): number[] => expendable(rollouts).map(({ spec }) => spec.sequence);
    expect(names([...old, ...newer])).toEqual([4, 2, 1]);
    expect(names([...old.slice(0, 2), ...newer])).toEqual([1]);
    expect(names([...old.slice(0, 1), ...newer])).toEqual([]);
    expect(names([rollout(0, {}), ...newer, rollout(100, { b: 'B' })])).toEqual([0]);
  });
});

it('digests in use are those that rollouts want, and that clusters hold or held', () => {
  const cluster = (status: Cluster['status']): Cluster => ({
    apiVersion: API_VERSION,
    kind: 'Cluster',
    metadata: { name: 'one' },
    spec: {},
    ...(status === undefined ? {} : { status }),
  });
  const verified = (digest: string) => ({ digest, commit: 'c', at: '2026-01-01T00:00:00Z' });
  const used = digestsInUse(
    [rollout(1, { a: 'A', gone: undefined })],
    [
      cluster(undefined),
      cluster({}),
      cluster({
        units: [
          { unit: 'b', fleet: 'main', digest: 'B', verified: [verified('C'), verified('D')] },
          { unit: 'e', fleet: 'main', begun: 'E' },
        ],
      }),
    ],
  );
  expect(used).toEqual(new Set(['A', 'B', 'C', 'D']));
});
