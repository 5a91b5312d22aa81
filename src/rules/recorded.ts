/** The machine of a history as it goes through its events: the objects that a cell would have seen. */
import type { Node, NodeCondition } from '../api/builtin.ts';
import type { Machine } from '../api/machine.ts';
import { API_VERSION } from '../api/kind.ts';
import type { Condition, ObjectMeta } from '../api/wire.ts';
import { KUBELET_CONDITIONS } from '../api/node-condition.ts';
import type { History, HistoryEvent } from './history.ts';
import type { PeerFacts } from './snapshot.ts';

const DEFAULT_START = '2026-01-01T00:00:00Z';
/** The Lease of a holder that stops renewing counts for this much longer. */
const LEASE_MS = 40_000;
const DAY_MS = 86_400_000;

type Patch = NonNullable<HistoryEvent['conditions']>[string];
type Strings = Record<string, string>;

export class RecordedMachine {
  readonly startMs: number;
  peers: PeerFacts = {};
  #skewMs = 0;
  #boot = 1;
  #nodes = 1;
  #lastReportMs: Partial<Record<'detectors' | 'kubelet' | 'agent', number>> = {};
  #conditions = new Map<string, NodeCondition>();
  #machineConditions = new Map<string, Condition>();
  #components = new Map<string, NonNullable<HistoryEvent['components']>[string]>();
  #node: Required<Pick<Node, 'metadata' | 'spec'>> & { info: Strings };
  #machine: { metadata: ObjectMeta; phase: NonNullable<NonNullable<Machine['status']>['phase']> };

  constructor(history: History) {
    this.startMs = Date.parse(history.start ?? DEFAULT_START);
    this.#node = { metadata: { name: 'node-1' }, spec: {}, info: {} };
    this.#machine = {
      metadata: { name: 'node-1', namespace: history.pool ?? 'pool', uid: 'machine-1', labels: history.machineLabels ?? {} },
      phase: 'Running',
    };
    for (const type of KUBELET_CONDITIONS) this.#set(type, type === 'Ready' ? 'True' : 'False', this.startMs);
  }

  apply(event: HistoryEvent, nowMs: number): void {
    if (event.clockSkewSeconds !== undefined) this.#skewMs = event.clockSkewSeconds * 1000;
    for (const who of ['detectors', 'kubelet', 'agent'] as const) {
      const state = event[who];
      if (state === 'Stale') this.#lastReportMs[who] ??= nowMs;
      else if (state !== undefined) delete this.#lastReportMs[who];
    }
    if (event.detectors === 'Restarted')
      for (const type of this.#conditions.keys())
        if (!KUBELET_CONDITIONS.has(type)) this.#set(type, { status: 'False', reason: 'Restarted' }, nowMs, true);
    for (const [type, patch] of Object.entries(event.conditions ?? {})) this.#set(type, patch, nowMs);
    for (const [type, patch] of Object.entries(event.machineConditions ?? {})) this.#setOnMachine(type, patch, nowMs);
    this.#node.metadata.labels = merged(this.#node.metadata.labels, event.labels);
    this.#node.metadata.annotations = merged(this.#node.metadata.annotations, event.annotations);
    if (event.unschedulable !== undefined) this.#node.spec = { ...this.#node.spec, unschedulable: event.unschedulable };
    if (event.taints !== undefined)
      this.#node.spec = { ...this.#node.spec, taints: event.taints.map((key) => ({ key, effect: 'NoSchedule' })) };
    if (event.phase !== undefined) this.#machine.phase = event.phase;
    for (const [name, component] of Object.entries(event.components ?? {}))
      this.#components.set(name, { ...this.#components.get(name), ...component });
    Object.assign(this.#node.info, event.info);
    for (const [scope, counts] of Object.entries(event.peers ?? {})) {
      if (counts === undefined) continue;
      const byCondition = new Map(Object.entries(counts.conditions ?? {}));
      this.peers = { ...this.peers, [scope]: { total: counts.total, unhealthy: counts.unhealthy, byCondition } };
    }
    if (event.boot === true) this.#boot += 1;
    if (event.nodeReplaced === true) this.#nodes += 1;
  }

  machine(): Machine {
    const components = [...this.#components];
    return {
      apiVersion: API_VERSION,
      kind: 'Machine',
      metadata: this.#machine.metadata,
      spec: {
        components: components.flatMap(([name, { wanted }]) =>
          wanted === undefined
            ? []
            : [
                {
                  name,
                  action: 'Install' as const,
                  version: wanted,
                  setUID: 'set',
                  setRevision: 1,
                  joinedRevision: 0,
                  revision: 1,
                  attempt: 1,
                },
              ],
        ),
      },
      status: {
        phase: this.#machine.phase,
        nodeRef: { name: 'node-1', uid: 'node-uid-1' },
        agent: { version: '1', apiLevel: 1, bootID: `boot-${this.#boot}`, os: 'linux', arch: 'amd64' },
        components: components.flatMap(([name, { version, state, driftRepairs }]) =>
          version === undefined && state === undefined
            ? []
            : [
                {
                  name,
                  version: version ?? '',
                  content: '',
                  revision: 1,
                  running: 1,
                  state: state ?? 'Healthy',
                  driftRepairs: driftRepairs ?? 0,
                },
              ],
        ),
        conditions: [...this.#machineConditions.values()],
      },
    };
  }

  node(nowMs: number): Node {
    const heartbeat = (type: string) => {
      const lastMs = this.#lastReportMs[KUBELET_CONDITIONS.has(type) ? 'kubelet' : 'detectors'];
      return new Date(Math.min(nowMs, lastMs ?? nowMs) + this.#skewMs).toISOString();
    };
    return {
      apiVersion: 'v1',
      kind: 'Node',
      metadata: { ...this.#node.metadata, uid: `node-uid-${this.#nodes}` },
      spec: this.#node.spec,
      status: {
        conditions: [...this.#conditions.values()].map((each) => ({ ...each, lastHeartbeatTime: heartbeat(each.type) })),
        nodeInfo: { ...this.#node.info, bootID: `boot-${this.#boot}` },
      },
    };
  }

  freshUntilMs(who: 'kubelet' | 'agent', nowMs: number): number {
    const lastMs = this.#lastReportMs[who];
    return lastMs === undefined ? nowMs + DAY_MS : lastMs + LEASE_MS;
  }

  #set(type: string, patch: Patch, nowMs: number, always = false): void {
    if (patch === null) {
      this.#conditions.delete(type);
      return;
    }
    const before = this.#conditions.get(type);
    const { status, reason, transitionAt } =
      typeof patch === 'string' ? { status: patch, reason: undefined, transitionAt: undefined } : patch;
    const given = reason ?? `${type}Is${status}`;
    const moved = always || before?.status !== status || before.reason !== given;
    const transitionMs = transitionAt === undefined ? nowMs + this.#skewMs : this.startMs + transitionAt * 1000;
    const lastTransitionTime =
      moved || transitionAt !== undefined ? new Date(transitionMs).toISOString() : (before.lastTransitionTime ?? '');
    this.#conditions.set(type, { type, status, reason: given, lastTransitionTime });
  }

  #setOnMachine(type: string, patch: Patch, nowMs: number): void {
    if (patch === null) {
      this.#machineConditions.delete(type);
      return;
    }
    const before = this.#machineConditions.get(type);
    const { status, reason } = typeof patch === 'string' ? { status: patch, reason: undefined } : patch;
    const lastTransitionTime = before?.status === status ? before.lastTransitionTime : new Date(nowMs).toISOString();
    this.#machineConditions.set(type, { type, status, reason: reason ?? `${type}Is${status}`, message: '', lastTransitionTime });
  }
}

function merged(strings: Strings | undefined, patch: Record<string, string | null> | undefined): Strings {
  const all = { ...strings };
  for (const [key, value] of Object.entries(patch ?? {})) {
    if (value === null) delete all[key];
    else all[key] = value;
  }
  return all;
}
