import { describe, expect, it } from 'vitest';
import type { Node, NodeCondition } from '../api/builtin.ts';
import { API_VERSION } from '../api/kind.ts';
import type { Machine } from '../api/machine.ts';
import { observeHeartbeats, SKEW_MS, STALE_AFTER_MS } from './heartbeats.ts';
import { compileRule, indexRules, rulesReading } from './index.ts';
import { PeerIndex, peerOf } from './peers.ts';
import { changes, takeSnapshot, type Snapshot } from './snapshot.ts';
import { bad, rule } from './testing.ts';

const T0 = Date.parse('2026-01-01T00:00:00Z');
const iso = (ms: number) => new Date(ms).toISOString();

const condition = (type: string, status: NodeCondition['status'], rest: Partial<NodeCondition> = {}): NodeCondition => ({
  type,
  status,
  reason: `${type}Is${status}`,
  lastTransitionTime: iso(T0),
  lastHeartbeatTime: iso(T0),
  ...rest,
});
const node = (conditions: NodeCondition[], rest: Partial<Node> = {}): Node => ({
  apiVersion: 'v1',
  kind: 'Node',
  metadata: { name: 'a', uid: 'node-1' },
  status: { conditions },
  ...rest,
});
const machine = (rest: Partial<Machine['status']> = {}, spec: Machine['spec'] = {}): Machine => ({
  apiVersion: API_VERSION,
  kind: 'Machine',
  metadata: { name: 'a', namespace: 'web', uid: 'm-1', labels: { tier: 'web' } },
  spec,
  status: { phase: 'Running', nodeRef: { name: 'a', uid: 'node-1' }, ...rest },
});

interface Given {
  nowMs?: number;
  node?: Node;
  machine?: Machine;
  kubeletFreshUntilMs?: number;
  agentFreshUntilMs?: number;
  pause?: Snapshot['pause'];
  since?: ReturnType<typeof observeHeartbeats>;
}
function snapshot(given: Given = {}): Snapshot {
  const nowMs = given.nowMs ?? T0;
  const of = given.node ?? node([condition('KernelDeadlock', 'False')]);
  return takeSnapshot({
    nowMs,
    machine: given.machine ?? machine(),
    node: of,
    heartbeats: observeHeartbeats(given.since, of.metadata.uid ?? '', of.status?.conditions ?? [], nowMs),
    kubeletFreshUntilMs: given.kubeletFreshUntilMs ?? nowMs + 40_000,
    agentFreshUntilMs: given.agentFreshUntilMs ?? nowMs + 40_000,
    peers: {},
    pause: given.pause ?? { paused: false, releasedAtMs: undefined },
  });
}
const status = (of: Snapshot, type = 'KernelDeadlock') => of.node?.conditions.get(type)?.status;

describe('heartbeats', () => {
  const beats = (value: string) => [condition('KernelDeadlock', 'False', { lastHeartbeatTime: value })];

  it('count from when they were seen to change, not by the time in them', () => {
    const first = observeHeartbeats(undefined, 'n', beats(iso(T0)), T0);
    const next = observeHeartbeats(first, 'n', beats(iso(T0 - 3_600_000)), T0 + 5000);
    expect(next.byType.get('KernelDeadlock')?.aliveMs).toBe(T0 + 5000);
    expect(observeHeartbeats(next, 'n', beats(iso(T0 - 3_600_000)), T0 + 9000)).toBe(next);
  });

  it('from the future prove nothing until they change', () => {
    const future = iso(T0 + SKEW_MS + 1);
    expect(observeHeartbeats(undefined, 'n', beats(future), T0).byType.get('KernelDeadlock')?.aliveMs).toBe(-Infinity);
    expect(status(snapshot({ node: node(beats(future)) }))).toBe('Unknown');
    expect(snapshot({ node: node(beats(future)) }).node?.conditions.get('KernelDeadlock')?.doubt).toContain('until it changes');
  });

  it('of a Node that was replaced under the same name prove nothing about the new one', () => {
    const old = observeHeartbeats(undefined, 'n', beats(iso(T0)), T0);
    const moved = observeHeartbeats(old, 'other', beats(iso(T0)), T0 + STALE_AFTER_MS);
    expect(moved.byType.get('KernelDeadlock')?.aliveMs).toBe(T0);
    const late = observeHeartbeats(old, 'n', beats(iso(T0 - 1000)), T0 + 60_000);
    expect(late.byType.get('KernelDeadlock')?.aliveMs).toBe(T0 + 60_000);
    expect(observeHeartbeats(late, 'other', beats(iso(T0 - 1000)), T0 + 60_000).byType.get('KernelDeadlock')?.aliveMs).toBe(T0 - 1000);
  });

  it('that are a little ahead are taken as now', () => {
    expect(observeHeartbeats(undefined, 'n', beats(iso(T0 + SKEW_MS)), T0).byType.get('KernelDeadlock')?.aliveMs).toBe(T0);
  });

  it('that are stale make a condition Unknown, and it is known beforehand when', () => {
    expect(snapshot({ kubeletFreshUntilMs: T0 + 1e9, agentFreshUntilMs: T0 + 1e9 }).staleAtMs).toBe(T0 + STALE_AFTER_MS + 1);
    expect(status(snapshot({ nowMs: T0 + STALE_AFTER_MS }))).toBe('False');
    expect(status(snapshot({ nowMs: T0 + STALE_AFTER_MS + 1 }))).toBe('Unknown');
  });

  it('that never were make it Unknown', () => {
    const { lastHeartbeatTime: _, ...withoutHeartbeat } = condition('KernelDeadlock', 'True');
    expect(snapshot({ node: node([withoutHeartbeat]) }).node?.conditions.get('KernelDeadlock')).toMatchObject({
      status: 'Unknown',
      doubt: 'it has no heartbeat',
    });
  });

  it('of a kubelet are its Lease as well', () => {
    const ready = node([condition('Ready', 'True'), condition('KernelDeadlock', 'True')]);
    const stale = snapshot({ node: ready, kubeletFreshUntilMs: T0 - 1 });
    expect([status(stale, 'Ready'), status(stale), stale.kubelet]).toEqual(['Unknown', 'True', 'Stale']);
  });

  it('of an agent are its Lease', () => {
    const conditions = [{ type: 'DiskFull', status: 'True' as const, reason: 'R', message: '', lastTransitionTime: iso(T0) }];
    const of = (agentFreshUntilMs: number) => snapshot({ machine: machine({ conditions }), agentFreshUntilMs });
    expect(of(T0 + 1).machineConditions.get('DiskFull')?.status).toBe('True');
    expect(of(T0 - 1).machineConditions.get('DiskFull')?.status).toBe('Unknown');
  });
});

describe('the Node of a machine', () => {
  it('is the one it claimed, by UID', () => {
    const other = node([condition('KernelDeadlock', 'True')], { metadata: { name: 'a', uid: 'node-2' } });
    expect(snapshot({ node: other })).toMatchObject({ node: undefined });
    expect(snapshot({ node: other }).nodeMissing).toContain('replaced under the same name');
  });

  it('is not there where it is gone, or was never claimed, and the snapshot names which', () => {
    const without = (of: Machine): Snapshot =>
      takeSnapshot({
        nowMs: T0,
        machine: of,
        node: undefined,
        heartbeats: undefined,
        kubeletFreshUntilMs: undefined,
        agentFreshUntilMs: undefined,
        peers: {},
        pause: { paused: false, releasedAtMs: undefined },
      });
    expect(without(machine())).toMatchObject({ node: undefined, nodeMissing: 'Node a is gone' });
    const { status: _, ...unclaimed } = machine();
    expect(without(unclaimed)).toMatchObject({ node: undefined, nodeMissing: 'the machine has claimed no Node' });
  });
});

it('a Node with few fields has no facts of the others, and none of them makes it stale', () => {
  const bare: Node = { apiVersion: 'v1', kind: 'Node', metadata: { name: 'a', uid: 'node-1' }, spec: { unschedulable: true } };
  const found = takeSnapshot({
    nowMs: T0,
    machine: machine(),
    node: bare,
    heartbeats: undefined,
    kubeletFreshUntilMs: undefined,
    agentFreshUntilMs: undefined,
    peers: {},
    pause: { paused: false, releasedAtMs: undefined },
  });
  expect(found.node).toMatchObject({ labels: {}, annotations: {}, cordon: 'Foreign', taints: [], info: {}, conditions: new Map() });
  expect(found.staleAtMs).toBeUndefined();
});

it('a snapshot goes stale when the first of its Leases and heartbeats does', () => {
  const until = (kubelet: number, agent: number) =>
    snapshot({ kubeletFreshUntilMs: T0 + kubelet, agentFreshUntilMs: T0 + agent }).staleAtMs;
  expect([until(10, 20), until(20, 10), until(1e9, 1e9)]).toEqual([T0 + 11, T0 + 11, T0 + STALE_AFTER_MS + 1]);
  expect(snapshot({ kubeletFreshUntilMs: T0, agentFreshUntilMs: T0 })).toMatchObject({ kubelet: 'Fresh', agent: 'Fresh' });
  const doubt = snapshot({ nowMs: T0 + 700_000 }).node?.conditions.get('KernelDeadlock')?.doubt;
  expect(doubt).toBe('its heartbeat is 700 s old');
});

describe('a change', () => {
  const index = indexRules(
    [
      rule('a', { when: { all: [bad('KernelDeadlock')] } }),
      rule('b', { when: { all: [bad('ReadonlyFilesystem'), { fact: 'machine.phase', operator: 'equal', value: 'Running' }] } }),
      rule('c', { when: { all: [bad('Other')] }, selector: { tier: 'web' } }),
    ].map(compileRule),
  );
  const before = snapshot();
  const concerns = (after: Given) => rulesReading(index, changes(before, snapshot(after)));

  it('of status, reason or transition runs the rules that read it, and no others', () => {
    for (const rest of [{ status: 'True' as const }, { reason: 'X' }, { lastTransitionTime: iso(T0 + 1) }])
      expect(concerns({ node: node([{ ...condition('KernelDeadlock', 'False'), ...rest }]) })).toEqual(['a']);
    expect(concerns({ node: node([]) })).toEqual(['a']);
    expect(concerns({ machine: machine({ phase: 'Degraded' }) })).toEqual(['b']);
  });

  it('of a heartbeat or a message is none', () => {
    const beat = condition('KernelDeadlock', 'False', { lastHeartbeatTime: iso(T0 + 300_000), message: 'still well' });
    expect(concerns({ nowMs: T0 + 300_000, node: node([beat]) })).toEqual([]);
    expect(changes(before, snapshot({ machine: machine({ observations: [] }) }))).toEqual(new Set());
  });

  it('by which a heartbeat becomes stale is one', () => expect(concerns({ nowMs: T0 + STALE_AFTER_MS + 1 })).toEqual(['a']));

  it('of a label that a selector goes by is one', () => {
    const moved = machine();
    expect(concerns({ machine: { ...moved, metadata: { ...moved.metadata, labels: { tier: 'db' } } } })).toEqual(['c']);
  });

  it('of everything else that the catalogue names is found', () => {
    const after = snapshot({
      node: node([condition('KernelDeadlock', 'False')], {
        metadata: { name: 'a', uid: 'node-1', labels: { x: '1' }, annotations: { y: '2' } },
        spec: { unschedulable: true, taints: [{ key: 't', effect: 'NoSchedule' }] },
        status: { conditions: [condition('KernelDeadlock', 'False')], nodeInfo: { kernelVersion: '6.1' } },
      }),
      machine: machine(
        { components: [{ name: 'kubelet', version: '1', content: '', revision: 1, running: 1, state: 'Healthy' }] },
        { provider: { name: 'local' }, failureDomain: 'z' },
      ),
      kubeletFreshUntilMs: T0 - 1,
    });
    const found = changes(before, { ...after, peers: { rack: { total: 1, unhealthy: 0, byCondition: new Map() } } });
    expect([...(found ?? [])].sort()).toEqual(
      [
        'component.kubelet',
        'heartbeat.kubelet',
        'machine.failureDomain',
        'machine.provider',
        'node.annotation.y',
        'node.cordon',
        'node.kernel',
        'node.label.x',
        'node.taints',
        'node.unschedulable',
        'peers.rack',
      ].sort(),
    );
  });

  it('of one component concerns that alone, and one of its agent concerns all that it reports', () => {
    const with2 = (version: string) =>
      machine({
        components: ['kubelet', 'containerd'].map((name) => ({
          name,
          version: name === 'kubelet' ? version : '1',
          content: '',
          revision: 1,
          running: 1,
          state: 'Healthy' as const,
        })),
      });
    const old = snapshot({ machine: with2('1') });
    expect(changes(old, snapshot({ machine: with2('2') }))).toEqual(new Set(['component.kubelet']));
    expect(changes(old, snapshot({ machine: with2('1') }))).toEqual(new Set());
    const stale = snapshot({ machine: with2('1'), agentFreshUntilMs: T0 - 1 });
    expect(changes(old, stale)).toEqual(new Set(['component.kubelet', 'component.containerd', 'heartbeat.agent']));
    const wanted = (version: string) => {
      const set = { setUID: 's', setRevision: 1, joinedRevision: 0, revision: 1, attempt: 1 };
      return machine({}, { components: [{ name: 'kubelet', action: 'Install', version, ...set }] });
    };
    expect(changes(snapshot({ machine: wanted('1') }), snapshot({ machine: wanted('2') }))).toEqual(new Set(['component.kubelet']));
  });

  it('of the counts of peers is one, and counting them again with the same result is none', () => {
    const rack = (total: number, unhealthy: number, ...ill: [string, number][]) => ({
      ...before,
      peers: { rack: { total, unhealthy, byCondition: new Map(ill) } },
    });
    const known = rack(3, 1, ['KernelDeadlock', 1]);
    const two = (full: number) => rack(3, 2, ['KernelDeadlock', 1], ['DiskFull', full]);
    expect(changes(two(1), two(2))).toEqual(new Set(['peers.rack']));
    expect(changes(known, rack(3, 1, ['KernelDeadlock', 1]))).toEqual(new Set());
    for (const other of [
      rack(4, 1, ['KernelDeadlock', 1]),
      rack(3, 2, ['KernelDeadlock', 1]),
      rack(3, 1, ['KernelDeadlock', 2]),
      rack(3, 1, ['DiskFull', 1]),
      rack(3, 1, ['KernelDeadlock', 1], ['DiskFull', 1]),
      before,
    ]) {
      expect(changes(known, other)).toEqual(new Set(['peers.rack']));
      expect(changes(other, known)).toEqual(new Set(['peers.rack']));
    }
  });

  it('of a reservation concerns everything', () => {
    expect(concerns({ pause: { paused: true, releasedAtMs: undefined } })).toEqual(['a', 'b', 'c']);
    expect(concerns({ pause: { paused: false, releasedAtMs: T0 } })).toEqual(['a', 'b', 'c']);
  });

  it('of the UID of its Node concerns everything', () => {
    expect(concerns({ node: node([], { metadata: { name: 'a', uid: 'node-2' } }) })).toEqual(['a', 'b', 'c']);
    expect(rulesReading(index, changes(undefined, before))).toEqual(['a', 'b', 'c']);
  });
});

describe('peers', () => {
  const inRack = (rack: string | undefined, conditions: NodeCondition[], hasReservation = false) =>
    peerOf(
      snapshot({
        node: node([condition('Ready', 'True'), ...conditions], {
          metadata: { name: 'a', uid: 'node-1', labels: rack === undefined ? {} : { 'topology.kubenode.io/rack': rack } },
        }),
      }),
      hasReservation,
    );

  it('are the others of the same rack, zone, pool and cluster', () => {
    const peers = new PeerIndex();
    peers.set('a', inRack('r1', [condition('KernelDeadlock', 'True')]));
    peers.set('b', inRack('r1', [condition('KernelDeadlock', 'True')]));
    peers.set('c', inRack('r2', []));
    expect(peers.factsFor('a').rack).toEqual({ total: 1, unhealthy: 1, byCondition: new Map([['KernelDeadlock', 1]]) });
    expect(peers.factsFor('c').rack).toEqual({ total: 0, unhealthy: 0, byCondition: new Map() });
    expect(peers.factsFor('c').pool).toMatchObject({ total: 2, unhealthy: 2 });
    expect(peers.factsFor('c').zone).toBeUndefined();
  });

  it('that are all healthy have no condition: the machine itself is none of them', () => {
    const peers = new PeerIndex();
    peers.set('a', inRack('r1', [condition('KernelDeadlock', 'True')]));
    peers.set('b', inRack('r1', []));
    expect(peers.factsFor('a').rack).toEqual({ total: 1, unhealthy: 0, byCondition: new Map() });
    peers.set('b', inRack('r1', [condition('KernelDeadlock', 'True')]));
    peers.set('b', inRack('r1', []));
    expect(peers.factsFor('a').rack).toEqual({ total: 1, unhealthy: 0, byCondition: new Map() });
  });

  it('of a machine without a Node are in the rack and zone that its Machine names', () => {
    const { metadata, spec: _, ...rest } = machine();
    const lost = { ...rest, metadata, spec: { failureDomain: 'z1', labels: { 'topology.kubenode.io/rack': 'r1' } } };
    const peer = peerOf(snapshot({ machine: lost, node: node([], { metadata: { name: 'a', uid: 'another' } }) }), false);
    expect(peer.groups).toEqual({ cluster: '', pool: 'web', zone: 'z1', rack: 'r1' });
  });

  it('are unknown where a label is missing', () => {
    const peers = new PeerIndex();
    peers.set('a', inRack(undefined, []));
    expect(peers.factsFor('a').rack).toBeUndefined();
  });

  it('name which groups moved, and none when none did', () => {
    const peers = new PeerIndex();
    peers.set('a', inRack('r1', []));
    expect(peers.set('a', inRack('r1', [])).size).toBe(0);
    expect([...peers.set('a', inRack('r2', []))].sort()).toEqual(['cluster/', 'pool/web', 'rack/r1', 'rack/r2']);
    expect(peers.groupsOf('a').rack).toBe('rack/r2');
    peers.set('b', inRack('r2', []));
    expect([...peers.set('a', undefined)].sort()).toEqual(['cluster/', 'pool/web', 'rack/r2']);
    expect([peers.factsFor('a'), peers.groupsOf('a')]).toEqual([{}, {}]);
    expect(peers.set('a', undefined).size).toBe(0);
    expect(peers.factsFor('b').rack).toEqual({ total: 0, unhealthy: 0, byCondition: new Map() });
  });

  it('19: a node under repair counts as unhealthy though its object seems healthy', () => {
    expect(inRack('r1', []).unhealthy).toBe(false);
    expect(inRack('r1', [], true).unhealthy).toBe(true);
    expect(peerOf(snapshot({ node: node([], { metadata: { name: 'a', uid: 'gone' } }) }), false).unhealthy).toBe(true);
  });
});
