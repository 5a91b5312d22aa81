import { describe, expect, it } from 'vitest';
import { API_VERSION } from '../../../api/kind.ts';
import type { ComponentEntry, ComponentStatus, Machine, Operation, OperationStatus, Soak } from '../../../api/machine.ts';
import { contentOf } from '../../../api/machine/values.ts';
import type { Stored } from '../../../api/wire.ts';
import { decideMachine, type Owner } from './decide.ts';

const entry: ComponentEntry = {
  name: 'kubelet',
  action: 'Install',
  version: '2.0.0',
  setUID: 'set',
  setRevision: 2,
  joinedRevision: 0,
  revision: 5,
  attempt: 1,
};
const reported: ComponentStatus = {
  name: 'kubelet',
  version: '1.0.0',
  content: '',
  revision: 5,
  running: 4,
  state: 'Healthy',
  bootID: 'b',
};
const failed = { revision: 5, reason: 'ProbesFailed', message: 'it did not come up', restored: true };
const record = { name: 'kubelet', version: '1.0.0', revision: 4, setUID: 'set', bootID: 'b', since: '2026-11-20T00:00:00Z' };

function decide(
  status: Partial<ComponentStatus>,
  verified = [record],
  own: Partial<ComponentEntry> = {},
  owner?: Owner,
  ended?: { order: Operation; outcome: OperationStatus },
  metadata: Partial<Machine['metadata']> = {},
): ReturnType<typeof decideMachine> {
  const machine: Stored<Machine> = {
    apiVersion: API_VERSION,
    kind: 'Machine',
    metadata: { name: 'a', namespace: 'web', uid: 'u', resourceVersion: '1', creationTimestamp: '2026-11-20T00:00:00Z', ...metadata },
    spec: { components: [{ ...entry, ...own }], ...(ended === undefined ? {} : { operation: ended.order }) },
    status: {
      agent: { version: '1', apiLevel: 1, bootID: 'b', os: 'linux', arch: 'amd64' },
      components: [{ ...reported, ...status }],
      verified,
      ...(ended === undefined ? {} : { operation: ended.outcome }),
    },
  };
  return decideMachine({ machine, now: Date.UTC(2026, 10, 20), agentFresh: true, owner: () => owner });
}

describe('A5: what is written when a machine failed', () => {
  it('waits until the agent has restored what ran before', () => {
    expect(decide({ failed, state: 'Restoring' }).changes).toEqual([]);
    expect(decide({ failed, state: 'Healthy' }).changes).toMatchObject([{ entry: { version: '1.0.0', revision: 6 }, reason: 'Failed' }]);
  });

  it('is also written where restoring did not work: the node must not stay with what failed', () => {
    const [change] = decide({ failed: { ...failed, restored: false }, state: 'Failed' }).changes;
    expect(change?.entry).toMatchObject({ version: '1.0.0', failed: { reason: 'ProbesFailed', message: 'it did not come up' } });
  });

  it('reports why the content stays where there is nothing to go back to', () => {
    const messageOf = (...of: Parameters<typeof decide>) => decide(...of).changes[0]?.message;
    expect(messageOf({ failed })).toBe('ProbesFailed; back to 1.0.0');
    expect(messageOf({ failed }, [])).toBe('ProbesFailed; nothing is verified here');
    expect(messageOf({ failed }, [{ ...record, version: '2.0.0' }])).toBe('ProbesFailed; this is what was verified here');
  });

  it('is written once', () => {
    const own = { version: '1.0.0', revision: 6, failed: { setRevision: 2, attempt: 1, reason: 'ProbesFailed' } };
    expect(decide({ failed, revision: 6 }, [record], own).changes).toEqual([]);
    expect(decide({ failed: { ...failed, revision: 6 }, revision: 6 }, [record], own).changes).toEqual([]);
  });

  it('carries the number of the failure where the content stays, so that an operation that waits for it goes on', () => {
    const owner = {
      number: 4,
      rolloutID: undefined,
      unitDigest: undefined,
      soakMs: 0,
      target: { action: 'Install' as const, version: '2.0.0' },
    };
    const [change] = decide({ failed }, [], {}, owner).changes;
    expect(change?.entry).toMatchObject({ revision: 5, setRevision: 4, attempt: 1, failed: { setRevision: 4, attempt: 1 } });
  });

  it('is also written where the agent reports no cause of its failed operation', () => {
    const order = {
      id: 'op',
      epoch: 1,
      kind: 'Change' as const,
      components: [{ name: 'kubelet', revision: 5 }],
      notAfter: '2026-11-20T00:00:00Z',
    };
    const outcome = { id: 'op', state: 'Done' as const, outcome: 'PermanentFailure' as const, message: 'killed' };
    const changesOf = (change: object): unknown =>
      decide({ state: 'Unhealthy', ...change }, [record], {}, undefined, { order, outcome }).changes;
    expect(changesOf({})).toMatchObject([{ entry: { version: '1.0.0', failed: { reason: 'OperationFailed', message: 'killed' } } }]);
    expect(changesOf({ running: 5, state: 'Healthy' })).toEqual([]);
    expect(decide({}, [record], {}, undefined, { order, outcome: { ...outcome, id: 'another' } }).changes).toEqual([]);
    expect(decide({}, [record], {}, undefined, { order, outcome: { ...outcome, outcome: 'TransientFailure' } }).changes).toEqual([]);
  });

  it('is only the record of it where the Machine is being deleted, as soon as it is known: no content and no revision is given there', () => {
    const owner = { number: 3, rolloutID: 'r', unitDigest: undefined, soakMs: 0, target: { action: 'Install' as const, version: '2.0.0' } };
    const going = (status: Partial<ComponentStatus>, own: Partial<ComponentEntry> = {}) =>
      decide(status, [record], own, owner, undefined, { deletionTimestamp: '2026-11-20T00:00:00Z' });
    const mark = { setRevision: 3, attempt: 1, rolloutID: 'r', reason: 'ProbesFailed', message: 'it did not come up' };
    const recorded = {
      changes: [
        { entry: { ...entry, setRevision: 3, failed: mark }, reason: 'Failed', message: 'ProbesFailed; the machine is being deleted' },
      ],
      status: undefined,
      requeueAfterMs: undefined,
    };
    expect(going({ failed, state: 'Healthy' })).toEqual(recorded);
    expect(going({ failed, state: 'Restoring' })).toEqual(recorded);
    const nothing = { ...recorded, changes: [] };
    expect(going({ failed }, { failed: mark })).toEqual(nothing);
    expect(going({ refused: { revision: 5, reason: 'OtherContent' } })).toEqual(nothing);
    expect(going({ running: 5 })).toEqual(nothing);
  });

  it('does not answer a failure of an older entry', () => {
    expect(decide({ failed: { ...failed, revision: 3 } }).changes).toEqual([]);
  });
});

describe('A3: what is written when an agent refuses', () => {
  it.each([
    ['the same revision with other content', { refused: { revision: 5, reason: 'OtherContent' } }, 6],
    ['an older one', { revision: 9, refused: { revision: 5, reason: 'Older' } }, 10],
    ['or simply knows more', { revision: 7 }, 8],
  ])('%s: the content again, above both numbers', (_what, status, revision) => {
    const [change] = decide(status).changes;
    expect(change).toMatchObject({ reason: 'Refused', entry: { version: '2.0.0', revision } });
    expect(contentOf(change?.entry ?? entry)).toBe(contentOf(entry));
  });

  it.each([
    ['refused the number of the entry', { revision: 5, refused: { revision: 5, reason: 'OtherContent' } }, {}, 5, 6],
    ['has one above the entry', { revision: 9, refused: { revision: 5, reason: 'Older' } }, {}, 9, 10],
    ['refused one that is above what it has', { revision: 3, refused: { revision: 5, reason: 'Older' } }, {}, 5, 6],
    [
      'refused one below what it has, and the entry is between them',
      { revision: 9, refused: { revision: 4, reason: 'Older' } },
      { revision: 6 },
      9,
      10,
    ],
  ])('names the highest number that the agent knows where it %s', (_what, status, own, known, revision) => {
    const [change] = decide(status, [record], own).changes;
    expect(change?.message).toBe(`the agent knows revision ${known}: written again as ${revision}`);
  });

  it('nothing for a refusal that was answered', () => {
    expect(decide({ revision: 4, refused: { revision: 4, reason: 'Older' } }).changes).toEqual([]);
  });
});

describe('E3: what is proved, since when, and what has lasted long enough', () => {
  const now = Date.UTC(2026, 10, 20, 12);
  const ago = (seconds: number): string => `${new Date(now - seconds * 1000).toISOString().slice(0, 19)}Z`;
  const of = (name: string, change: Partial<ComponentEntry> = {}): ComponentEntry => ({ ...entry, name, setUID: name, ...change });
  const proof = (each: ComponentEntry): ComponentStatus => ({
    ...reported,
    name: each.name,
    version: each.version,
    content: contentOf(each),
    revision: each.revision,
    running: each.revision,
    state: each.action === 'Remove' ? 'Removed' : 'Healthy',
  });
  const soak = (name: string, since: string, rest: Partial<Soak> = {}): Soak => ({ name, revision: 5, bootID: 'b', since, ...rest });
  function judged(
    entries: ComponentEntry[],
    status: Machine['status'] = {},
    { owners = {}, fresh = true }: { owners?: Record<string, Partial<Owner>>; fresh?: boolean } = {},
  ): ReturnType<typeof decideMachine> {
    const machine: Stored<Machine> = {
      apiVersion: API_VERSION,
      kind: 'Machine',
      metadata: { name: 'a', namespace: 'web', uid: 'u', resourceVersion: '1', generation: 3, creationTimestamp: '2026-11-20T00:00:00Z' },
      spec: { components: entries },
      status: {
        agent: { version: '1', apiLevel: 1, bootID: 'b', os: 'linux', arch: 'amd64' },
        components: entries.map(proof),
        phase: 'Running',
        ...status,
      },
    };
    const target = { action: 'Install' as const, version: '2.0.0' };
    const owner = (uid: string): Owner | undefined =>
      owners[uid] === undefined
        ? undefined
        : { number: 2, rolloutID: undefined, unitDigest: undefined, soakMs: 100_000, target, ...owners[uid] };
    return decideMachine({ machine, now, agentFresh: fresh, owner });
  }
  const conditionOf = ({ status }: ReturnType<typeof decideMachine>) => status?.conditions.find(({ type }) => type === 'UpToDate');
  const kubelet = of('kubelet');
  const exporter = of('exporter');
  const owners = { kubelet: {}, exporter: { soakMs: 30_000 } };

  it('begins a soak where there is none, and decides again when the first one ends', () => {
    const first = judged([kubelet, exporter], {}, { owners });
    expect(first.status?.soaks).toEqual([soak('kubelet', ago(0)), soak('exporter', ago(0))]);
    expect(first.requeueAfterMs).toBe(30_000);
    expect(judged([exporter, kubelet], {}, { owners }).requeueAfterMs).toBe(30_000);
    expect(judged([kubelet], { soaks: [soak('kubelet', ago(40))] }, { owners }).requeueAfterMs).toBe(60_000);
    expect(judged([kubelet]).requeueAfterMs).toBe(60_000);
  });

  it('records as verified what has lasted for as long as its set declares, and not a moment before', () => {
    const soaked = (seconds: number) => judged([kubelet], { soaks: [soak('kubelet', ago(seconds))], verified: [record] }, { owners });
    expect(soaked(99).status?.verified).toEqual([record]);
    const almost = judged(
      [kubelet],
      { soaks: [soak('kubelet', ago(100))], verified: [record] },
      { owners: { kubelet: { soakMs: 100_001 } } },
    );
    expect([almost.status?.verified, almost.requeueAfterMs]).toEqual([[record], 1]);
    expect(soaked(100)).toMatchObject({
      requeueAfterMs: undefined,
      status: { soaks: [], verified: [{ name: 'kubelet', version: '2.0.0', revision: 5, bootID: 'b', since: ago(100) }, record] },
    });
  });

  it('keeps no soak of what was verified: its record shows since when', () => {
    const proved = { ...record, version: '2.0.0', revision: 5 };
    const { status, requeueAfterMs } = judged([kubelet], { soaks: [soak('kubelet', ago(100))], verified: [proved] }, { owners });
    expect([status?.soaks, status?.verified, requeueAfterMs]).toEqual([[], [proved], undefined]);
  });

  it('keeps the two last contents of each component', () => {
    const verified = [
      record,
      { ...record, name: 'exporter' },
      { ...record, version: '0.9.0', revision: 3 },
      { ...record, version: '0.8.0', revision: 2 },
    ];
    const { status } = judged([kubelet], { soaks: [soak('kubelet', ago(100))], verified }, { owners: { kubelet: { unitDigest: 'd' } } });
    expect(status?.verified.map(({ name, version, unitDigest }) => [name, version, unitDigest])).toEqual([
      ['kubelet', '2.0.0', 'd'],
      ['kubelet', '1.0.0', undefined],
      ['exporter', '1.0.0', undefined],
    ]);
  });

  it('begins a soak again that another boot, another revision or a clock ahead began', () => {
    const again = (each: Soak) => judged([kubelet], { soaks: [each] }, { owners }).status?.soaks;
    const begun = [soak('kubelet', ago(0))];
    expect(again(soak('kubelet', ago(50), { bootID: 'a' }))).toEqual(begun);
    expect(again(soak('kubelet', ago(50), { revision: 4 }))).toEqual(begun);
    expect(again(soak('kubelet', ago(-50)))).toEqual(begun);
    expect(again(soak('kubelet', ago(50)))).toEqual([soak('kubelet', ago(50))]);
  });

  it('verifies at once what goes back to what was verified here, and nothing else', () => {
    const back = { ...record, version: '2.0.0' };
    const restored = (change: Partial<ComponentEntry>, verified = [back]) =>
      judged([of('kubelet', change)], { verified }, { owners }).status?.verified[0]?.revision;
    expect(restored({ lane: 'Restore' })).toBe(5);
    expect(restored({})).toBe(4);
    expect(restored({ lane: 'Restore' }, [record])).toBe(4);
    expect(restored({ lane: 'Restore' }, [{ ...back, name: 'exporter' }])).toBe(4);
  });

  it('keeps of a removal that it lasted, with no boot', () => {
    const gone = of('kubelet', { action: 'Remove' });
    const begun = { name: 'kubelet', revision: 5, since: ago(0) };
    expect(judged([gone], {}, { owners }).status?.soaks).toEqual([begun]);
    const old = { ...begun, since: ago(100) };
    const result = judged([gone], { soaks: [old] }, { owners });
    expect([result.status?.soaks, result.status?.verified, result.requeueAfterMs]).toEqual([[{ ...old, done: true }], [], undefined]);
    const kept = judged([gone], { soaks: [{ ...begun, since: ago(7), done: true }] }, { owners });
    expect([kept.status?.soaks, kept.requeueAfterMs]).toEqual([[{ ...begun, since: ago(7), done: true }], undefined]);
  });

  it.each<[string, ReturnType<typeof judged>, string, string, string]>([
    ['nothing is wanted', judged([]), 'Unknown', 'NothingWanted', 'no set has given it content yet'],
    ['it soaks', judged([kubelet, exporter], {}, { owners }), 'False', 'Soaking', 'kubelet, exporter'],
    ['it soaks for the first time', judged([kubelet], { phase: 'Installing' }, { owners }), 'False', 'FirstInstallation', 'kubelet'],
    ['it is not proved', judged([kubelet, exporter], { components: [proof(exporter)] }), 'False', 'Updating', 'kubelet'],
    ['its agent is stale', judged([kubelet], {}, { fresh: false }), 'Unknown', 'AgentStale', 'the agent does not renew its Lease'],
    ['it failed', judged([of('kubelet', { failed: { setRevision: 2, attempt: 1, reason: 'x' } }), exporter]), 'False', 'Failed', 'kubelet'],
    ['all is proved', judged([kubelet], { soaks: [soak('kubelet', ago(100))] }, { owners }), 'True', 'AllProved', ''],
  ])('reports it where %s', (_, decision, status, reason, message) => {
    expect(conditionOf(decision)).toMatchObject({ status, reason, message, observedGeneration: 3 });
  });

  it('writes nothing where all is as it was, in any order of the conditions', () => {
    const first = judged([kubelet], { soaks: [soak('kubelet', ago(50))] }, { owners });
    const other = { type: 'Other', status: 'True' as const, reason: 'R', message: '', lastTransitionTime: ago(9) };
    const before = { soaks: first.status?.soaks ?? [], verified: first.status?.verified ?? [] };
    const conditions = first.status?.conditions ?? [];
    expect(judged([kubelet], { ...before, conditions }, { owners }).status).toBeUndefined();
    expect(judged([kubelet], { ...before, conditions: [other, ...conditions] }, { owners }).status).toBeUndefined();
    expect(judged([kubelet], { ...before, conditions: [other] }, { owners }).status?.conditions).toHaveLength(2);
  });
});
