import { describe, expect, test } from 'vitest';
import { API_VERSION } from '../../api/kind.ts';
import type { ComponentEntry, Machine } from '../../api/machine.ts';
import type { MachineComponent } from '../../api/machine-component.ts';
import type { MachineComponentSet } from '../../api/machine-component-set.ts';
import type { Stored } from '../../api/wire.ts';
import { TerminalError } from '../../kube/queue.ts';
import { revisionOf } from './content.ts';
import type { SetView } from './observe.ts';
import { isSame, planOf, stampedWith } from './plan.ts';

const AT = '2026-11-20T00:00:00Z';
type Spec = Partial<MachineComponentSet['spec']>;
type Status = NonNullable<MachineComponentSet['status']>;

function uncounted(spec: Spec = {}, status?: Status): Stored<MachineComponentSet> {
  return {
    apiVersion: API_VERSION,
    kind: 'MachineComponentSet',
    metadata: { name: 's', uid: 's', resourceVersion: '7', creationTimestamp: AT },
    spec: { componentName: 'kubelet', version: '2.0.0', batches: ['100%'], ...spec },
    ...(status === undefined ? {} : { status }),
  };
}

/** One whose content is counted. */
function setOf(spec: Spec = {}, status: Status = {}): Stored<MachineComponentSet> {
  const { revision } = revisionOf(uncounted(spec), { floor: 0, hasAdded: false, at: AT });
  return uncounted(spec, { revision, ...status });
}

const machine = (name: string): Stored<Machine> => ({
  apiVersion: API_VERSION,
  kind: 'Machine',
  metadata: { namespace: 'web', name, uid: name, resourceVersion: '3', creationTimestamp: AT },
  spec: {},
  status: { phase: 'Running', firstReadyAt: AT, agent: { version: '1', apiLevel: 1, bootID: 'b', os: 'linux', arch: 'amd64' } },
});
const component: MachineComponent = {
  apiVersion: API_VERSION,
  kind: 'MachineComponent',
  metadata: { name: 'kubelet-2.0.0' },
  spec: { componentName: 'kubelet', version: '2.0.0', platforms: [{ os: 'linux', arch: 'any', artifacts: [] }] },
};
/** So many machines that have nothing yet; `open`: those for which an entry was announced. */
function viewOf(count: number, set = setOf(), { open = [], highestRevision = 0 }: Partial<SetView> = {}): SetView {
  const names = Array.from({ length: count }, (_, index) => `m${index}`);
  return {
    set,
    now: Date.parse(AT),
    machines: names.map((name) => ({
      machine: machine(name),
      entry: undefined as ComponentEntry | undefined,
      reported: undefined,
      verified: [],
      agentFresh: true,
      unseenMs: 0,
      agentUnseenMs: 0,
    })),
    former: [],
    open,
    highestRevision,
    conflicts: [],
    component: () => component,
    wanted: () => undefined,
  };
}

function written(view: SetView) {
  const plan = planOf(view, 4);
  if (plan.step !== 'Write') throw new Error(`a plan to write is expected, not to ${plan.step}`);
  return plan;
}
const keys = (all: { machine: string }[] | undefined): string[] | undefined => all?.map((each) => each.machine).toSorted();

describe('B9: what is planned for a set', () => {
  test('is announced, each entry with the version of its Machine, in a status that bears the epoch', () => {
    const { writes, settle, hasMore, status } = written(viewOf(2));
    expect(writes.map((each) => each.machine.metadata.name).toSorted()).toEqual(['m0', 'm1']);
    expect(status.writing?.toSorted((a, b) => (a.machine < b.machine ? -1 : 1))).toEqual([
      { machine: 'web/m0', resourceVersion: '3' },
      { machine: 'web/m1', resourceVersion: '3' },
    ]);
    expect([settle, hasMore, status.epoch]).toEqual([[], false, 4]);
  });

  test('is at most 50 entries at once, and no other is announced', () => {
    for (const [count, hasMore] of [
      [50, false],
      [51, true],
    ] as const) {
      const plan = written(viewOf(count));
      expect([plan.writes.length, plan.hasMore]).toEqual([50, hasMore]);
      expect(keys(plan.status.writing)).toEqual(plan.writes.map((each) => `web/${each.machine.metadata.name}`).toSorted());
    }
  });

  test('announces nothing where nothing is to be written', () => {
    const { writes, status, hasMore } = written(
      viewOf(2, setOf({ paused: true }, { writing: [{ machine: 'web/m0', resourceVersion: '3' }] })),
    );
    expect([writes, hasMore, 'writing' in status]).toEqual([[], false, false]);
  });

  test('goes on with what was announced and is wanted still', () => {
    const { writes, settle, status } = written(viewOf(2, setOf(), { open: [machine('m0')] }));
    expect([writes.length, settle, keys(status.writing)]).toEqual([2, [], ['web/m0', 'web/m1']]);
  });

  test('settles first what was announced and is not wanted any more, which stays announced, and gives nothing else', () => {
    const open = [machine('m0'), machine('gone')];
    const { writes, settle, hasMore, status, isComplete } = written(viewOf(2, setOf(), { open }));
    expect(settle.map(({ metadata }) => metadata.name)).toEqual(['gone']);
    expect([writes, hasMore, keys(status.writing), isComplete]).toEqual([[], true, ['web/gone', 'web/m0'], false]);
  });

  test('is nothing by a leader of an earlier term', () => {
    const bearing = (epoch: number): Stored<MachineComponentSet> => setOf({}, { epoch });
    expect(() => planOf(viewOf(1, bearing(5)), 4)).toThrow(expect.objectContaining({ code: 'Deposed' }) as Error);
    expect(() => stampedWith(bearing(5), 4)).toThrow('another term has begun');
    expect(written(viewOf(1, bearing(4))).status.epoch).toBe(4);
    expect(stampedWith(bearing(3), 4)).toEqual({ ...bearing(4).status });
    expect(stampedWith(uncounted(), 4)).toEqual({ epoch: 4 });
  });

  test('is valid for the very set that was read, and no other version of it', () => {
    const set = setOf();
    const live = (change: object): Stored<MachineComponentSet> => ({ ...set, metadata: { ...set.metadata, ...change } });
    expect(isSame(live({}), set)).toBe(true);
    expect(isSame(undefined, set)).toBe(false);
    expect(isSame(live({ resourceVersion: '8' }), set)).toBe(false);
    expect(isSame(live({ uid: 'another' }), set)).toBe(false);
    expect(isSame(live({ deletionTimestamp: AT }), set)).toBe(false);
  });
});

describe('A1: content is counted before anything is given', () => {
  const evidence = { unitDigest: 'A', at: AT };

  test('a new content gets the next number, and what was proved before is evidence no more', () => {
    const old = setOf({ version: '1.0.0' }, { evidence, desired: 3 });
    const plan = planOf(viewOf(1, { ...setOf(), status: old.status ?? {} }), 4);
    expect(plan).toMatchObject({ step: 'Count', isNext: true, revision: { number: 2, version: '2.0.0' } });
    expect(plan.status).toEqual({ desired: 3, revision: plan.step === 'Count' ? plan.revision : undefined, epoch: 4 });
  });

  test('B5: another selector that adds no machine is noted under the same number, and the evidence stays', () => {
    const { status = {} } = setOf({}, { evidence });
    const plan = planOf(viewOf(0, { ...setOf({ pools: ['web'] }), status }), 4);
    expect(plan).toMatchObject({ step: 'Count', isNext: false, revision: { number: 1 }, status: { evidence, epoch: 4 } });
    const { evidence: _none, ...without } = status;
    expect('evidence' in planOf(viewOf(0, { ...setOf({ pools: ['web'] }), status: without }), 4).status).toBe(false);
  });

  test('a status that was lost goes on above what Machines bear', () => {
    expect(planOf(viewOf(1, uncounted(), { highestRevision: 6 }), 4)).toMatchObject({
      step: 'Count',
      isNext: true,
      revision: { number: 7 },
    });
  });
});

test('batches that no server should have let pass are an error that no further try changes', () => {
  expect(() => planOf(viewOf(1, setOf({ batches: ['50%', '20%'] })), 4)).toThrow(TerminalError);
  expect(() => planOf(viewOf(1, setOf({ offlinePolicy: { maxOfflineFraction: 'many' } })), 4)).toThrow(TerminalError);
});
