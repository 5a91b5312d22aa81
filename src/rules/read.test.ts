import { describe, expect, it } from 'vitest';
import { FACTS } from '../api/facts.ts';
import { factNamed } from '../api/named-fact.ts';
import { compileRule, indexRules } from './index.ts';
import { Marks } from './marks.ts';
import { runPass } from './pass.ts';
import { readFact } from './read.ts';
import type { History } from './history.ts';
import { replay } from './replay.ts';
import { RecordedMachine } from './recorded.ts';
import { observeHeartbeats } from './heartbeats.ts';
import { takeSnapshot } from './snapshot.ts';
import { history, rule } from './testing.ts';

type Leaf = { fact: string; operator: string; value: unknown; params?: Record<string, string | number> };
const reading = (...all: Leaf[]) => rule('r', { when: { all }, holdsForSeconds: 0 });
const fired = async (leaves: Leaf[], events: History['events'], rest: Partial<History> = {}) =>
  (await replay([reading(...leaves)], history(events, rest))).jobs.map(({ at }) => at);

const FULL: History['events'][number] = {
  at: 0,
  conditions: { A: { status: 'True', reason: 'Broken' } },
  machineConditions: { D: { status: 'True', reason: 'Full' } },
  labels: { gpu: 'yes' },
  annotations: { note: 'x' },
  unschedulable: true,
  taints: ['t'],
  info: { kernelVersion: '6.1', architecture: 'amd64', osImage: 'Debian', kubeletVersion: 'v1', containerRuntimeVersion: 'containerd://2' },
  components: { kubelet: { wanted: '2', version: '1', state: 'Healthy', driftRepairs: 3 } },
  peers: { rack: { total: 4, unhealthy: 1, conditions: { A: 1 } } },
};

it.each<[string, unknown, Record<string, string | number>?]>([
  ['condition.A.status', 'True'],
  ['condition.A.reason', 'Broken'],
  ['condition.A.health', 'Unhealthy'],
  ['condition.A.ageSeconds', 0],
  ['condition.A.rises', 1, { windowSeconds: 60 }],
  ['node.label.gpu', 'yes'],
  ['node.annotation.note', 'x'],
  ['node.unschedulable', true],
  ['node.cordon', 'Foreign'],
  ['node.kernel', '6.1'],
  ['node.architecture', 'amd64'],
  ['node.osImage', 'Debian'],
  ['node.kubelet', 'v1'],
  ['node.runtime', 'containerd://2'],
  ['machine.phase', 'Running'],
  ['machine.condition.D.status', 'True'],
  ['machine.condition.D.reason', 'Full'],
  ['machine.label.tier', 'web'],
  ['machine.name', 'node-1'],
  ['machine.pool', 'web'],
  ['machine.provider', 'none', { default: 'none' }],
  ['machine.failureDomain', 'none', { default: 'none' }],
  ['component.kubelet.version', '1'],
  ['component.kubelet.state', 'Healthy'],
  ['component.kubelet.driftRepairs', 3],
  ['component.kubelet.wanted', '2'],
  ['component.kubelet.upToDate', false],
  ['heartbeat.kubelet', 'Fresh'],
  ['heartbeat.agent', 'Fresh'],
  ['peers.rack.total', 4],
  ['peers.rack.unhealthy', 1],
  ['peers.rack.unhealthyPercent', 25],
  ['peers.rack.condition.A', 1],
  ['hysteresis.peers.rack.unhealthy', true, { enter: 1, leave: 0 }],
])('reads %s as %j', async (fact, value, params = {}) => {
  const leaf = { fact, operator: 'equal', value, params };
  expect(await fired([leaf], [FULL], { pool: 'web', machineLabels: { tier: 'web' }, untilSeconds: 1 })).toEqual([0]);
});

it('the share of unhealthy peers counts one, where there is one, and unknown, where there is none', async () => {
  const leaf = { fact: 'peers.rack.unhealthyPercent', operator: 'greaterThanInclusive', value: 0 };
  const rack = (total: number, unhealthy: number) => [{ at: 0, peers: { rack: { total, unhealthy } } }];
  expect(await fired([{ ...leaf, operator: 'equal', value: 100 }], rack(1, 1), { untilSeconds: 1 })).toEqual([0]);
  const { jobs, last } = await replay([reading(leaf)], history(rack(0, 0), { untilSeconds: 1 }));
  expect(jobs).toEqual([]);
  expect(last[0]).toMatchObject({ truth: 'Unknown', missing: [expect.stringContaining('it is alone in its rack')] });
});

describe('it reports what is found, and why none is', () => {
  const found = async (leaf: Omit<Leaf, 'value'> & { value?: unknown }, ...events: History['events']) => {
    const { last } = await replay([reading({ value: 'True', ...leaf })], history(events, { untilSeconds: events.at(-1)?.at ?? 0 }));
    return last[0]?.facts[1]?.found;
  };
  const of = (fact: string, value: unknown = 'x', rest: Partial<Leaf> = {}): Leaf => ({ fact, operator: 'equal', value, ...rest });
  const stale: History['events'] = [FULL, { at: 10, detectors: 'Stale' }, { at: 700 }];
  const unsure: History['events'] = [{ at: 0, conditions: { A: 'Unknown' } }];

  it('of a condition', async () => {
    expect(await found(of('condition.A.status', 'False'), FULL)).toBe('"True" (Broken)');
    expect(await found(of('condition.A.status', 'False'), ...unsure)).toBe('"Unknown": its detector does not know');
    expect(await found(of('condition.A.status', 'False'), ...stale)).toBe('"Unknown": its heartbeat is 600 s old');
    expect(await found(of('condition.A.status', 'False'), { at: 0, nodeReplaced: true })).toContain(
      'unknown: Node node-1 is another one now',
    );
    expect(await found(of('condition.A.reason'), ...stale)).toBe('unknown: its heartbeat is 600 s old');
    expect(await found(of('condition.B.reason'), FULL)).toBe('unknown: Node node-1 has no condition B');
  });

  it('of its health, its age and its rises', async () => {
    expect(await found(of('condition.A.health', 'Healthy'), FULL)).toBe('"Unhealthy" (True, Broken)');
    expect(await found(of('condition.A.health', 'Healthy'), ...unsure)).toBe('"Unknown": its detector does not know');
    expect(await found(of('condition.A.health', 'Healthy'), ...stale)).toBe('"Unknown": its heartbeat is 600 s old');
    const rises = of('condition.A.rises', 9, { params: { windowSeconds: 5000 } });
    expect(await found(rises, FULL)).toBe('1');
    expect(await found(rises, ...unsure)).toBe('unknown: its detector does not know');
    expect(await found(rises, ...stale)).toBe('unknown: its heartbeat is 600 s old');
    expect(await found(rises, { at: 0 })).toBe('unknown: Node node-1 has no condition A');
    const age = of('condition.A.ageSeconds', 9000);
    expect(await found(age, FULL, { at: 70 })).toBe('60');
    expect(await found(age, { at: 0, conditions: { A: 'False' } })).toBe('unknown: it is not unhealthy');
    expect(await found(age, { at: 0 })).toBe('unknown: Node node-1 has no condition A');
  });

  it('of the Node', async () => {
    expect(await found(of('node.label.gpu'), FULL)).toBe('"yes"');
    expect(await found(of('node.label.cpu'), FULL)).toBe('unknown: it has no such label');
    expect(await found(of('node.label.constructor'), FULL)).toBe('unknown: it has no such label');
    expect(await found(of('node.label.cpu', 'x', { params: { default: '' } }), FULL)).toBe('"" (it has no such label)');
    expect(await found(of('node.annotation.toString'), FULL)).toBe('unknown: it has no such annotation');
    expect(await found(of('node.annotation.none'), FULL)).toBe('unknown: it has no such annotation');
    expect(await found(of('node.kernel'), { at: 0 })).toBe('unknown: it is not set');
    expect(await found(of('node.kernel'), { at: 0, info: { kernelVersion: '' } })).toBe('unknown: it is not set');
    expect(await found(of('node.cordon', 'Ours'), { at: 0 })).toBe('"None"');
    const ours = { 'kubenode.io/cordon-owner': 'x' };
    expect(await found(of('node.cordon', 'None'), { at: 0, unschedulable: true, annotations: ours })).toBe('"Ours"');
    expect(await found(of('node.cordon', 'Ours'), { at: 0, unschedulable: true })).toBe('"Foreign"');
    expect(await found(of('node.cordon', 'Ours'), { at: 0, unschedulable: false, annotations: ours })).toBe('"None"');
  });

  it('of the Machine', async () => {
    expect(await found(of('machine.label.constructor'), FULL)).toBe('unknown: it has no such label');
    expect(await found(of('machine.label.tier'), FULL)).toBe('unknown: it has no such label');
    expect(await found(of('machine.provider'), FULL)).toBe('unknown: no provider made it');
    expect(await found(of('machine.failureDomain'), FULL)).toBe('unknown: it is not set');
    expect(await found(of('machine.condition.E.status', 'True'), FULL)).toBe('unknown: the Machine has no condition E');
    const lost: History['events'] = [FULL, { at: 10, agent: 'Stale' }, { at: 60 }];
    expect(await found(of('machine.condition.D.status', 'False'), ...lost)).toBe(`"Unknown": the agent's Lease is not fresh`);
    expect(await found(of('machine.condition.D.reason'), ...lost)).toBe(`unknown: the agent's Lease is not fresh`);
    expect(await found(of('component.kubelet.version'), ...lost)).toBe(`unknown: the agent's Lease is stale`);
    expect(await found(of('heartbeat.agent', 'Fresh'), ...lost)).toBe('"Stale"');
  });

  it('of a component', async () => {
    expect(await found(of('component.kubelet.version'), FULL)).toBe('"1"');
    expect(await found(of('component.other.version'), FULL)).toBe('unknown: the agent has not reported other');
    const stopped = { at: 0, components: { kubelet: { version: '', state: 'Failed' as const } } };
    expect(await found(of('component.kubelet.version'), stopped)).toBe('unknown: no version of kubelet runs');
    expect(await found(of('component.kubelet.wanted'), stopped)).toBe('unknown: no set wants it here');
    expect(await found(of('component.kubelet.upToDate', true), stopped)).toBe('unknown: no set wants it here');
    const at = (version: string) => ({ at: 0, components: { kubelet: { version, wanted: '2' } } });
    expect(await found(of('component.kubelet.upToDate', false), at('2'))).toBe('true');
    expect(await found(of('component.kubelet.upToDate', true), at('1'))).toBe('false');
  });

  it('of peers, and of a number in its band', async () => {
    const rack = { at: 0, peers: { rack: { total: 7, unhealthy: 2 } } };
    expect(await found(of('peers.rack.unhealthyPercent', 3), rack)).toBe('28');
    expect(await found(of('peers.zone.total', 3), rack)).toBe('unknown: its zone is not known');
    expect(await found(of('peers.rack.condition.A', 3), rack)).toBe('0');
    const band = (fact: string) => of(`hysteresis.${fact}`, false, { params: { enter: 2, leave: 0 } });
    expect(await found(band('peers.rack.unhealthy'), rack)).toBe('true (peers.rack.unhealthy is 2)');
    expect(await found(band('peers.zone.unhealthy'), rack)).toBe('unknown: its zone is not known');
  });
});

describe('where no process has ever seen a Lease, or a component is to go', () => {
  const world = new RecordedMachine(history([{ at: 0 }]));
  world.apply({ at: 0, components: { kubelet: { version: '', state: 'Healthy', wanted: '2' } } }, world.startMs);
  const read = (fact: string, value: unknown, machine = world.machine(), agentFreshUntilMs?: number) => {
    const [leaf] = compileRule(reading({ fact, operator: 'equal', value })).leaves;
    if (leaf === undefined) throw new Error('no leaf');
    const node = world.node(world.startMs);
    const input = { heartbeats: undefined, kubeletFreshUntilMs: undefined, peers: {}, pause: { paused: false, releasedAtMs: undefined } };
    const snapshot = takeSnapshot({ nowMs: world.startMs, machine, node, agentFreshUntilMs, ...input });
    return readFact(leaf, snapshot, new Marks(indexRules([]), [], world.startMs, undefined));
  };

  it('what only its agent or its kubelet can report is not known', () => {
    const note = (fact: string, value: unknown) => read(fact, value).note;
    expect(note('component.kubelet.version', 'x')).toBe("the agent's Lease was never seen");
    expect(note('heartbeat.agent', 'Fresh')).toBe('the Lease of the agent was never seen');
    expect(note('heartbeat.kubelet', 'Fresh')).toBe('the Lease of the kubelet was never seen');
  });

  it('a component that is to go is up to date when it is gone', () => {
    const machine = world.machine();
    const removed = (version: string): typeof machine => ({
      ...machine,
      spec: {
        components: machine.spec.components?.map((each) => ({ ...each, action: 'Remove' as const })) ?? [],
      },
      status: { phase: 'Running', ...machine.status, components: machine.status?.components?.map((each) => ({ ...each, version })) ?? [] },
    });
    const freshMs = world.startMs + 1;
    expect(read('component.kubelet.upToDate', true, removed(''), freshMs)).toMatchObject({ value: true, known: true });
    expect(read('component.kubelet.upToDate', true, removed('2'), freshMs)).toMatchObject({ value: false, known: true });
    expect(read('component.kubelet.wanted', 'x', removed('2'), freshMs)).toMatchObject({ known: false, note: 'no set wants it here' });
  });

  it('a machine of no pool is in the one without a name, and one without a phase has none', () => {
    const { metadata, status: _, ...rest } = world.machine();
    const { namespace: __, ...bare } = metadata;
    expect(read('machine.pool', 'x', { ...rest, metadata: bare })).toMatchObject({ value: '', known: true });
    expect(read('machine.phase', 'Running', { ...rest, metadata })).toMatchObject({ known: false, note: 'it has no phase yet' });
  });
});

it('reads lists', async () => {
  expect(await fired([{ fact: 'node.taints', operator: 'contains', value: 't' }], [FULL], { untilSeconds: 1 })).toEqual([0]);
});

it('every fact of the catalogue can be read on a machine without any reports, and has no value there or one it may have', async () => {
  const world = new RecordedMachine(history([{ at: 0 }]));
  const { status: _, ...machine } = world.machine();
  for (const definition of FACTS) {
    const fact = definition.pattern.replace('<scope>', 'rack').replace('<fact>', 'peers.rack.total').replace(/<\w+>/g, 'X');
    const ref = factNamed(fact);
    const value =
      definition.type === 'number'
        ? 1
        : definition.type === 'boolean'
          ? true
          : (('values' in definition ? definition.values[0] : undefined) ?? 'x');
    const params = Object.fromEntries(('params' in definition ? definition.params : []).map((name) => [name, name === 'enter' ? 2 : 1]));
    const subject = compileRule(reading({ fact, operator: definition.type === 'list' ? 'contains' : 'equal', value, params }));
    const { outcomes } = await runPass({
      index: indexRules([subject]),
      names: ['r'],
      snapshot: takeSnapshot({
        nowMs: world.startMs,
        machine,
        node: undefined,
        heartbeats: undefined,
        kubeletFreshUntilMs: undefined,
        agentFreshUntilMs: undefined,
        peers: {},
        pause: { paused: false, releasedAtMs: undefined },
      }),
      observations: [],
    });
    const [outcome] = outcomes;
    expect(outcome?.truth, fact).toBe(definition.missing === 'Never' ? 'False' : 'Unknown');
    expect(ref, fact).toBeDefined();
  }
});

describe('absence', () => {
  const optOut: Leaf = { fact: 'node.annotation.no-repair', operator: 'notEqual', value: 'true', params: { default: '' } };
  const ill: Leaf = { fact: 'condition.A.status', operator: 'equal', value: 'True' };
  it('of a label or annotation stands for the default of the rule', async () => {
    expect(await fired([ill, optOut], [FULL], { untilSeconds: 1 })).toEqual([0]);
    expect(await fired([ill, optOut], [{ ...FULL, annotations: { 'no-repair': 'true' } }], { untilSeconds: 1 })).toEqual([]);
  });
  it('of the whole Node does not', async () => {
    const events = [FULL, { at: 1, nodeReplaced: true }];
    expect(
      await fired([{ fact: 'machine.phase', operator: 'equal', value: 'Degraded' }, optOut], [...events, { at: 2, phase: 'Degraded' }]),
    ).toEqual([]);
  });
});

describe('what the agent reports', () => {
  it('is unknown while it is stale', async () => {
    const outdated: Leaf = { fact: 'component.kubelet.upToDate', operator: 'equal', value: false };
    const late: History['events'] = [
      { ...FULL, components: { kubelet: { wanted: '1', version: '1', state: 'Healthy' } } },
      { at: 10, agent: 'Stale' },
      { at: 100, components: { kubelet: { wanted: '2' } } },
    ];
    expect(await fired([outdated], late)).toEqual([]);
    expect(await fired([outdated], [...late, { at: 200, agent: 'Alive' }], { untilSeconds: 300 })).toEqual([200]);
  });
});

describe('time', () => {
  const bad = (at: number) => ({ at, conditions: { A: 'True' as const } });
  const good = (at: number) => ({ at, conditions: { A: 'False' as const } });
  const age: Leaf = { fact: 'condition.A.ageSeconds', operator: 'greaterThanInclusive', value: 90 };

  it('an age is counted from when it was first seen, and evaluated when it is reached', async () => {
    expect(await fired([age], [good(0), bad(10)], { untilSeconds: 200 })).toEqual([100]);
  });
  it('an age goes on over restarts, and over flapping', async () => {
    expect(await fired([age], [good(0), bad(10), { at: 50, controller: 'Restarts' }], { untilSeconds: 200 })).toEqual([100]);
    expect(await fired([age], [good(0), bad(10), good(40), bad(45)], { untilSeconds: 200 })).toEqual([105]);
    expect(await fired([age], [good(0), bad(10), good(40), bad(101)], { untilSeconds: 300 })).toEqual([191]);
  });
  it('a window forgets what has left it', async () => {
    const calm: Leaf = { fact: 'condition.A.rises', operator: 'equal', value: 1, params: { windowSeconds: 100 } };
    expect(
      await fired([calm, { fact: 'condition.A.status', operator: 'equal', value: 'False' }], [bad(10), good(20), bad(50), good(60)], {
        untilSeconds: 200,
      }),
    ).toEqual([20]);
    const twice: Leaf = { fact: 'condition.A.rises', operator: 'greaterThanInclusive', value: 2, params: { windowSeconds: 100 } };
    expect(await fired([twice], [good(0), bad(10), good(20), bad(111)], { untilSeconds: 200 })).toEqual([]);
    expect(await fired([twice], [good(0), bad(10), good(20), bad(110)], { untilSeconds: 200 })).toEqual([110]);
  });
  it('at most ten rises are remembered', async () => {
    const ten: Leaf = { fact: 'condition.A.rises', operator: 'equal', value: 10, params: { windowSeconds: 100_000 } };
    const events = Array.from({ length: 15 }, (_, index) => [bad(index * 200 + 10), good(index * 200 + 20)]).flat();
    expect(await fired([ten], [good(0), ...events], { untilSeconds: 3000 })).toEqual([1810]);
  });
  it('a hysteresis stays until the number has come down', async () => {
    const high: Leaf = { fact: 'hysteresis.peers.rack.unhealthy', operator: 'equal', value: true, params: { enter: 4, leave: 1 } };
    const marked: Leaf = { fact: 'node.label.now', operator: 'equal', value: 'yes' };
    const rack = (at: number, unhealthy: number) => ({ at, peers: { rack: { total: 9, unhealthy } } });
    const now = (at: number) => ({ at, labels: { now: 'yes' } });
    expect(await fired([high, marked], [rack(0, 3), now(10)], { untilSeconds: 20 })).toEqual([]);
    expect(await fired([high, marked], [rack(0, 4), rack(5, 2), { at: 6, controller: 'Restarts' }, now(10)], { untilSeconds: 20 })).toEqual(
      [10],
    );
    expect(await fired([high, marked], [rack(0, 4), rack(5, 1), rack(6, 3), now(10)], { untilSeconds: 20 })).toEqual([]);
  });
});

it('an edit of its conditions begins a clock again, an edit of its wait does not; an operation ends all of them', async () => {
  const world = new RecordedMachine(history([{ at: 0 }]));
  world.apply({ at: 0, conditions: { A: 'True', B: 'True' } }, world.startMs);
  const at = async (ms: number, spec: object, observations: Awaited<ReturnType<typeof runPass>>['observations'], paused = false) => {
    const subject = compileRule(rule('r', spec));
    const node = world.node(ms);
    const snapshot = takeSnapshot({
      nowMs: ms,
      machine: world.machine(),
      node,
      heartbeats: observeHeartbeats(undefined, 'node-uid-1', node.status?.conditions ?? [], ms),
      kubeletFreshUntilMs: ms,
      agentFreshUntilMs: ms,
      peers: {},
      pause: { paused, releasedAtMs: undefined },
    });
    return runPass({ index: indexRules([subject]), names: ['r'], snapshot, observations });
  };
  const when = { all: [{ fact: 'condition.A.status', operator: 'equal', value: 'True' }] };
  const first = await at(world.startMs, { when, holdsForSeconds: 600 }, []);
  expect(first.changed).toBe(true);
  const sooner = await at(world.startMs + 60_000, { when, holdsForSeconds: 60 }, first.observations);
  expect(sooner.outcomes[0]?.due).toBe(true);
  const edited = { all: [...when.all, { fact: 'condition.B.status', operator: 'equal', value: 'True' }] };
  const again = await at(world.startMs + 60_000, { when: edited, holdsForSeconds: 60 }, first.observations);
  expect(again.outcomes[0]).toMatchObject({ due: false, matchedMs: 0 });
  expect(again.observations).toHaveLength(1);
  const reserved = await at(world.startMs + 60_000, { when, holdsForSeconds: 60 }, first.observations, true);
  expect(reserved).toMatchObject({
    observations: [],
    changed: true,
    nextAtMs: undefined,
    outcomes: [{ truth: 'True', due: false, waits: 'Reservation' }],
  });
  const same = await at(world.startMs + 1000, { when, holdsForSeconds: 600 }, first.observations);
  expect(same.changed).toBe(false);
});
