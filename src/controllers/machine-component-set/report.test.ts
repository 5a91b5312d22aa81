import { describe, expect, test } from 'vitest';
import { API_VERSION } from '../../api/kind.ts';
import type { ComponentEntry, ComponentStatus, Machine } from '../../api/machine.ts';
import type { MachineComponentSet } from '../../api/machine-component-set.ts';
import type { Stored } from '../../api/wire.ts';
import type { ComponentSetFacts } from './decide.ts';
import type { SetView } from './observe.ts';
import { statusOf, type SetStatus } from './report.ts';
import type { Standing } from './standing.ts';

const NOW = Date.UTC(2026, 10, 21, 12);
const ago = (seconds: number): string => `${new Date(NOW - seconds * 1000).toISOString().slice(0, 19)}Z`;
const entry: ComponentEntry = {
  name: 'kubelet',
  action: 'Install',
  version: '2',
  setUID: 's',
  setRevision: 2,
  joinedRevision: 0,
  revision: 5,
  attempt: 1,
};
const target = { action: 'Install' as const, version: '2' };
const revision = { number: 2, ...target, startedAt: ago(500), since: 1 };

function machine(name: string, status: Machine['status'] = {}): Stored<Machine> {
  return {
    apiVersion: API_VERSION,
    kind: 'Machine',
    metadata: { name, namespace: 'web', uid: name, resourceVersion: '1', creationTimestamp: ago(9999) },
    spec: { components: [entry] },
    status: { agent: { version: '1', apiLevel: 1, bootID: 'b', os: 'linux', arch: 'amd64' }, ...status },
  };
}

/** Has the content, and nothing is known of it yet. */
function standing(name: string, change: Partial<Standing> = {}): Standing {
  return {
    machine: machine(name),
    entry,
    reported: undefined,
    verified: [],
    agentFresh: true,
    unseenMs: 0,
    agentUnseenMs: 0,
    isOwn: true,
    hasStayed: true,
    target,
    isJoiner: false,
    cohort: 0,
    isGiven: true,
    hasFailed: false,
    failure: undefined,
    isAside: false,
    isHeld: false,
    proves: false,
    passes: false,
    ...change,
  };
}
const passed = { proves: true, passes: true };
const waiting: ComponentStatus = {
  name: 'kubelet',
  version: '1',
  content: '',
  revision: 5,
  running: 4,
  state: 'Waiting',
  needs: 'Restart',
};
const batch = (current: number | undefined) => ({ sizes: [1, 2, 5], current, cohort: 0, room: 1 });

interface World {
  members?: Standing[];
  joiners?: Standing[];
  former?: Standing[];
  facts?: Partial<ComponentSetFacts>;
  spec?: Partial<MachineComponentSet['spec']>;
  status?: SetStatus;
  conflicts?: SetView['conflicts'];
  current?: number | undefined;
  generation?: number | undefined;
}

function statusOfWorld({
  members = [],
  joiners = [],
  former = [],
  facts = {},
  spec = {},
  status,
  conflicts = [],
  ...rest
}: World = {}): SetStatus {
  const generation = 'generation' in rest ? {} : { generation: 4 };
  const set: Stored<MachineComponentSet> = {
    apiVersion: API_VERSION,
    kind: 'MachineComponentSet',
    metadata: { name: 's', uid: 's', resourceVersion: '1', ...generation, creationTimestamp: ago(9999) },
    spec: { componentName: 'kubelet', version: '2', soakSeconds: 100, ...spec },
    ...(status === undefined ? {} : { status }),
  };
  const view: SetView = {
    set,
    now: NOW,
    machines: [],
    former: [],
    open: [],
    highestRevision: 2,
    conflicts,
    component: () => undefined,
    wanted: () => undefined,
  };
  const shown = batch('current' in rest ? rest.current : 1);
  return statusOf(view, {
    revision,
    standings: { members, joiners, former },
    batches: { shown, havePassed: false, byContent: new Map() },
    failures: [],
    halted: undefined,
    writes: 0,
    obstacles: [],
    overCeiling: 0,
    requirements: [],
    hasRequirements: false,
    isComplete: false,
    ...facts,
  });
}

const conditionOf = (world: World, type: string) => {
  const found = statusOfWorld(world).conditions?.find((each) => each.type === type);
  return found === undefined ? undefined : `${found.status} ${found.reason}: ${found.message}`;
};

describe('counts', () => {
  test('are of members and of joiners', () => {
    const status = statusOfWorld({
      members: [standing('a', passed), standing('b', { isAside: true }), standing('c', { reported: waiting })],
      joiners: [
        standing('d', passed),
        standing('e', { reported: waiting, isOwn: false }),
        standing('f', { reported: { ...waiting, state: 'Healthy' } }),
      ],
    });
    expect(status).toMatchObject({ desired: 6, updated: 2, progress: '2/6', offline: 1, waiting: 1, failed: 0, batch: 2, batches: 3 });
    expect(status.observedGeneration).toBe(4);
    const { needs: _, ...asking } = waiting;
    expect(statusOfWorld({ members: [standing('a', { reported: asking })] }).waiting).toBe(0);
    expect(statusOfWorld({ current: undefined }).batch).toBe(0);
    expect(statusOfWorld({ current: 0 }).batch).toBe(1);
  });

  test('of failures stand beside each of them, and there is no empty list', () => {
    const failure = { machine: 'web/a', uid: 'a', setRevision: 2, attempt: 1, reason: 'x', message: '', at: ago(1) };
    expect(statusOfWorld({ facts: { failures: [failure] } })).toMatchObject({ failed: 1, failures: [failure] });
    expect(Object.keys(statusOfWorld())).not.toEqual(expect.arrayContaining(['failures']));
    expect(Object.keys(statusOfWorld())).not.toEqual(expect.arrayContaining(['canary']));
  });

  test('what is not known has no field', () => {
    const { conditions, ...rest } = statusOfWorld();
    const counts = { desired: 0, updated: 0, failed: 0, offline: 0, waiting: 0, batch: 2, batches: 3, progress: '0/0' };
    expect(rest).toStrictEqual({ revision, ...counts, observedGeneration: 4 });
    expect(conditions?.map(({ type, observedGeneration }) => [type, observedGeneration])).toEqual(
      ['Progressing', 'Available', 'Halted', 'Paused', 'Conflict'].map((type) => [type, 4]),
    );
    const early = statusOfWorld({ generation: undefined });
    expect([early, ...(early.conditions ?? [])].filter((each) => 'observedGeneration' in each)).toEqual([]);
  });

  test('a revision is complete from the first time that it is', () => {
    expect(statusOfWorld().revision?.completedAt).toBeUndefined();
    expect(statusOfWorld({ facts: { isComplete: true } }).revision?.completedAt).toBe(ago(0));
    const before = { ...revision, completedAt: ago(9) };
    expect(statusOfWorld({ facts: { isComplete: true, revision: before } }).revision?.completedAt).toBe(ago(9));
  });
});

describe('until when it soaks', () => {
  const soaking = (name: string, seconds: number, change: Partial<Standing> = {}) =>
    standing(name, {
      machine: machine(name, { soaks: [{ name: 'kubelet', revision: 5, bootID: 'b', since: ago(seconds) }] }),
      proves: true,
      ...change,
    });
  test('is when the last one ends of those that are proved and have not passed', () => {
    expect(statusOfWorld({ members: [soaking('a', 40), soaking('b', 10), soaking('c', 30)] }).soakUntil).toBe(ago(-90));
    expect(
      statusOfWorld({ members: [soaking('a', 40), soaking('b', 10, { passes: true }), soaking('c', 5, { proves: false })] }).soakUntil,
    ).toBe(ago(-60));
    expect(statusOfWorld({ members: [standing('a', passed)], joiners: [soaking('b', 10)] }).soakUntil).toBeUndefined();
  });
});

describe('E2, E3: evidence and what was verified', () => {
  const spec = { unitDigest: 'd2' };
  const evidence = { unitDigest: 'd2', at: ago(50) };
  const verified = { unitDigest: 'd2', version: '2', at: ago(60) };
  const all = [standing('a', passed)];
  const complete = { isComplete: true };
  const old = (change: Partial<SetStatus>): SetStatus => ({ desired: 1, updated: 1, failed: 0, ...change });

  test('are given when all batches have passed, for the digest that the set carries', () => {
    const status = statusOfWorld({ members: all, spec, facts: complete });
    expect(status).toMatchObject({ evidence: { unitDigest: 'd2', at: ago(0) }, verified: { unitDigest: 'd2', version: '2', at: ago(0) } });
    expect(statusOfWorld({ members: all, spec }).evidence).toBeUndefined();
    expect(statusOfWorld({ members: all, spec }).verified).toBeUndefined();
    expect(statusOfWorld({ members: all, facts: complete }).evidence).toBeUndefined();
    expect(statusOfWorld({ members: all, facts: complete }).verified).toStrictEqual({ version: '2', at: ago(0) });
  });

  test('evidence stays while it is proved, and not of another digest', () => {
    expect(statusOfWorld({ members: all, spec, status: old({ evidence, verified }) }).evidence).toEqual(evidence);
    expect(statusOfWorld({ members: all, spec, status: old({ evidence }) }).evidence).toBeUndefined();
    expect(statusOfWorld({ members: all, spec, status: old({ evidence }), facts: complete }).evidence).toEqual(evidence);
    expect(statusOfWorld({ spec, status: old({ evidence }) }).evidence).toEqual(evidence);
    const other = { ...evidence, unitDigest: 'd1' };
    expect(statusOfWorld({ members: all, spec, status: old({ evidence: other, verified }) }).evidence).toBeUndefined();
    const removing = { revision: { ...revision, action: 'Remove' as const } };
    expect(statusOfWorld({ members: all, spec, status: old({ evidence }), facts: removing }).evidence).toEqual(evidence);
  });

  test('what was verified stays until something else is, and is gone after a removal', () => {
    const before = { ...verified, unitDigest: 'd1', version: '1' };
    const status = old({ verified: before });
    expect(statusOfWorld({ members: all, spec, status }).verified).toEqual(before);
    expect(statusOfWorld({ spec, status, facts: complete }).verified).toStrictEqual(before);
    expect(statusOfWorld({ members: all, spec, status, facts: complete }).verified).toMatchObject({ version: '2', at: ago(0) });
    expect(statusOfWorld({ members: all, spec, status: old({ verified }), facts: complete }).verified).toStrictEqual(verified);
    const removed = { ...complete, revision: { ...revision, action: 'Remove' as const } };
    expect(statusOfWorld({ members: all, spec, status, facts: removed }).verified).toBeUndefined();
  });

  test('B8: a canary alone proves nothing of what all others get', () => {
    const canary = standing('a', { ...passed, target: { ...target, version: '3' } });
    expect(statusOfWorld({ members: [canary], spec, facts: complete }).verified).toBeUndefined();
    expect(statusOfWorld({ members: [canary, ...all], spec, facts: complete }).verified).toMatchObject({ version: '2' });
    expect(statusOfWorld({ members: [standing('a', { proves: true })], spec, facts: complete }).verified).toBeUndefined();
  });

  test('B8: of each machine of a canary it reports how far it is, in order', () => {
    const of = (name: string, change: Partial<Standing> = {}) => standing(name, { target: { ...target, version: '3' }, ...change });
    const failed = { hasFailed: true, failure: { reason: 'x', message: 'why' } };
    const members = [
      of('e', failed),
      of('d', passed),
      of('c', { proves: true }),
      of('b'),
      of('a', { isGiven: false }),
      standing('z', passed),
    ];
    const canary = { selector: { a: 'b' }, version: '3' };
    expect(statusOfWorld({ members, spec: { canary } }).canary).toStrictEqual([
      { machine: 'web/a', state: 'Pending' },
      { machine: 'web/b', state: 'Updating' },
      { machine: 'web/c', state: 'Soaking' },
      { machine: 'web/d', state: 'Verified' },
      { machine: 'web/e', state: 'Failed', message: 'why' },
    ]);
    expect(statusOfWorld({ members }).canary).toBeUndefined();
  });
});

describe('Available', () => {
  test.each<[Standing[], string]>([
    [[], 'Unknown NoMachines: the set selects no machine'],
    [[standing('a', passed), standing('b')], 'False Behind: not every machine runs the content of this revision'],
    [
      [standing('a', { hasFailed: true }), standing('b', { isAside: true })],
      'False NoneUpdated: no machine runs the content of this revision',
    ],
    [
      [standing('a', passed), standing('b', { hasFailed: true })],
      'True UpdatedWithExceptions: every machine that neither failed nor is set aside (offline or held)',
    ],
    [[standing('a', passed)], 'True Updated: '],
  ])('%#', (members, expected) => {
    expect(conditionOf({ members }, 'Available')).toBe(expected);
  });
});

describe('Progressing reports the first thing that a person who waits should know', () => {
  const obstacle = { machine: 'web/a', reason: 'Held' as const, message: 'a is held' };
  const missing = { machine: 'web/b', reason: 'ComponentMissing' as const, message: 'no component' };
  const halted = { reason: 'MaxFailed' as const, message: '1 failed' };
  const idle = standing('a', { isGiven: false });
  const all = [standing('a', passed)];
  const refused = standing('a', {
    isGiven: true,
    machine: machine('a', { verdict: { allowed: false, limit: 'p/few', wouldPassWhen: '13:00' } }),
    reported: waiting,
  });
  const busy = (status: object): Standing => standing('a', { machine: machine('a', status) });
  test.each<[World, string]>([
    [{ conflicts: [{ machine: 'web/a', set: 'x' }], members: all }, 'False Conflict: another set selects the same machines'],
    [{ facts: { halted }, members: all }, 'False Halted: 1 failed'],
    [{}, 'False NoMachines: the set selects no machine'],
    [{ members: all, facts: { isComplete: true } }, 'False Complete: kubelet 2'],
    [{ members: [idle], spec: { paused: true } }, 'False Paused: spec.paused'],
    [{ members: [idle], facts: { obstacles: [obstacle] } }, 'False Held: batch 2 of 3: a is held'],
    [{ members: [idle], facts: { obstacles: [obstacle, missing] } }, 'False ComponentMissing: batch 2 of 3: no component and 1 more'],
    [{ members: [standing('a')], facts: { obstacles: [missing] } }, 'False ComponentMissing: batch 2 of 3: no component'],
    [{ members: [standing('a')], facts: { obstacles: [obstacle] } }, 'True RollingOut: batch 2 of 3; a is held'],
    [{ members: [idle], facts: { obstacles: [obstacle], writes: 1 } }, 'True RollingOut: batch 2 of 3; a is held'],
    [{ members: [idle], facts: { overCeiling: 1 } }, 'False Ceiling: batch 2 of 3: spec.ceiling lets no more machines go'],
    [{ members: [standing('a'), idle], facts: { overCeiling: 1 } }, 'True RollingOut: batch 2 of 3'],
    [{ members: [idle], current: undefined }, 'True RollingOut: machines that came later follow'],
    [{ members: [standing('a', { proves: true })] }, 'True Soaking: batch 2 of 3'],
    [{ members: [standing('a', { proves: true }), standing('b')] }, 'True RollingOut: batch 2 of 3'],
    [{ members: [standing('a', { proves: true }), standing('b', { isAside: true })] }, 'True Soaking: batch 2 of 3'],
    [{ members: [idle], former: [standing('x')] }, 'True RollingOut: batch 2 of 3; web/x was given this content and is selected no more'],
    [{ members: [refused] }, 'True RollingOut: batch 2 of 3; web/a waits for p/few, which lets it pass when 13:00'],
    [{ members: [{ ...refused, isOwn: false }] }, 'True RollingOut: batch 2 of 3'],
    [{ members: [busy({ agent: { hold: true } })] }, 'True RollingOut: batch 2 of 3; web/a is held by the file /etc/kubenode/hold'],
    [{ members: [busy({ underWay: 'Repair' })] }, 'True RollingOut: batch 2 of 3; web/a is under repair'],
    [{ members: [busy({ underWay: 'Delete' })] }, 'True RollingOut: batch 2 of 3; web/a is being deleted'],
    [{ members: [busy({ underWay: 'Change' })] }, 'True RollingOut: batch 2 of 3'],
    [{ members: [{ ...busy({ underWay: 'Repair' }), ...passed }, standing('b')] }, 'True RollingOut: batch 2 of 3'],
    [{ members: [{ ...refused, reported: { ...waiting, state: 'Healthy' } }] }, 'True RollingOut: batch 2 of 3'],
  ])('%#', (world, expected) => {
    expect(conditionOf(world, 'Progressing')).toBe(expected);
  });
});

test('conditions of a halt, a pause, a conflict and of requirements', () => {
  expect(conditionOf({}, 'Halted')).toBe('False WithinLimits: ');
  expect(conditionOf({ facts: { halted: { reason: 'TooManyOffline', message: 'm' } } }, 'Halted')).toBe('True TooManyOffline: m');
  expect(conditionOf({}, 'Paused')).toBe('False NotPaused: ');
  expect(conditionOf({ spec: { paused: true } }, 'Paused')).toBe('True Paused: spec.paused: no machine is given new content');
  expect(conditionOf({}, 'Conflict')).toBe('False NoConflict: ');
  const conflicts = [
    { machine: 'web/a', set: 'x' },
    { machine: 'web/b', set: 'y' },
  ];
  expect(conditionOf({ conflicts: conflicts.slice(0, 1) }, 'Conflict')).toBe(
    'True SameMachines: set x also selects web/a for kubelet: neither writes',
  );
  expect(conditionOf({ conflicts }, 'Conflict')).toMatch(/^True SameMachines: set x and 1 more also selects/);
  expect(conditionOf({}, 'RequirementsMet')).toBeUndefined();
  expect(conditionOf({ facts: { hasRequirements: true } }, 'RequirementsMet')).toBe('True Met: ');
  const requirements = (count: number) => ({ hasRequirements: true, requirements: Array.from({ length: count }, (_, at) => `r${at}`) });
  expect(conditionOf({ facts: requirements(3) }, 'RequirementsMet')).toBe('False NotWanted: r0; r1; r2');
  expect(conditionOf({ facts: requirements(5) }, 'RequirementsMet')).toBe('False NotWanted: r0; r1; r2 and 2 more');
  const before = statusOfWorld({ facts: { hasRequirements: true } });
  expect(conditionOf({ status: before }, 'RequirementsMet')).toBeUndefined();
  expect(statusOfWorld().conditions?.every(({ observedGeneration }) => observedGeneration === 4)).toBe(true);
});
