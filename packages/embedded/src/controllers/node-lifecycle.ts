import type { Json, JsonObject } from '@kubenode/api-machinery/wire';
import { listAt, objectAt, textAt } from '../json.ts';
import { parsed, type Entry } from '../store/entry.ts';
import { now } from '../world.ts';
import { change, type Context, type EmbeddedController } from './controller.ts';
import { taintsOf } from './node-taints.ts';

const NODES = '/nodes';
const LEASES = 'coordination.k8s.io/leases';
const LEASE_PREFIX = 'kube-node-lease/';
const CHECK_MS = 5000;

/** What was last seen of a kubelet, and when, by this server's clock. */
interface LastSeen {
  /** Of Node and Lease: thousands that did not change are not parsed again. */
  versions: string;
  trace: string;
  atMs: number;
  /** Whether Unknown is written for this state already, or need not be. */
  isReported: boolean;
}

/**
 * Sets Ready=Unknown on a Node whose kubelet did not respond for `graceMs`, as kube-controller-manager's node lifecycle controller does:
 * what counts is when this server saw the Lease or the Ready condition change, not what a node's clock wrote. Only the kubelet sets True
 * again. The taints of effect NoSchedule follow the conditions and the cordon of each Node at once; no taint evicts pods here.
 */
export function nodeLifecycleController({ world, tasks }: Context, graceMs: number): EmbeddedController {
  const served = world.registry.byStorage(NODES);
  const lastSeen = new Map<string, LastSeen>();
  let cancel: (() => void) | undefined;

  function traceOf(node: Entry, lease: Entry | undefined): string {
    const renewTime = lease === undefined ? undefined : textAt(parsed(lease), 'spec', 'renewTime');
    return `${node.uid} ${renewTime ?? ''} ${textAt(readyOf(parsed(node)) ?? {}, 'lastHeartbeatTime') ?? ''}`;
  }

  function check(): void {
    const nowMs = world.clock.monotonic();
    const names = new Set<string>();
    for (const node of Array.from(world.store.table(NODES).entries())) {
      names.add(node.name);
      const lease = world.store.table(LEASES).get(`${LEASE_PREFIX}${node.name}`);
      const versions = `${node.rv} ${lease?.rv ?? ''}`;
      const before = lastSeen.get(node.name);
      const isSame = before?.versions === versions;
      const trace = isSame ? before.trace : traceOf(node, lease);
      const known = { versions, trace, atMs: before?.trace === trace ? before.atMs : nowMs, isReported: isSame && before.isReported };
      lastSeen.set(node.name, known);
      if (known.isReported || nowMs - known.atMs <= graceMs) continue;
      markUnknown(node);
      known.isReported = true;
    }
    for (const name of lastSeen.keys()) if (!names.has(name)) lastSeen.delete(name);
  }

  function markUnknown(node: Entry): void {
    const ready = readyOf(parsed(node));
    if (served === undefined || ready === undefined || textAt(ready, 'status') === 'Unknown') return;
    const unknown: JsonObject = {
      status: 'Unknown',
      reason: 'NodeStatusUnknown',
      message: 'Kubelet stopped posting node status.',
      lastTransitionTime: now(world),
    };
    change(world, served, node, 'status', (object) => {
      const conditions: Json[] = listAt(object, 'status', 'conditions').map((item) =>
        textAt(item, 'type') === 'Ready' ? { ...objectAt(item), ...unknown } : item,
      );
      return { ...object, status: { ...objectAt(object, 'status'), conditions } };
    });
  }

  /** Soon after the write that asks for it, never inside it. */
  function taint(name: string): void {
    tasks.add(`taints of node ${name}`, () => {
      const entry = world.store.table(NODES).get(name);
      const taints = entry === undefined ? undefined : taintsOf(parsed(entry), now(world));
      if (entry === undefined || served === undefined || taints === undefined) return;
      change(world, served, entry, '', (node) => {
        const { taints: _taints, ...spec } = objectAt(node, 'spec');
        return { ...node, spec: taints.length === 0 ? spec : { ...spec, taints } };
      });
    });
  }

  function arm(): void {
    cancel = world.clock.setTimer(CHECK_MS, () => {
      check();
      arm();
    });
  }

  return {
    start() {
      for (const { name } of world.store.table(NODES).entries()) taint(name);
      arm();
    },
    onEvent({ type, resource, entry }) {
      if (resource === NODES && type !== 'DELETED') taint(entry.name);
    },
    stop: () => cancel?.(),
  };
}

function readyOf(node: JsonObject): Json | undefined {
  return listAt(node, 'status', 'conditions').find((item) => textAt(item, 'type') === 'Ready');
}
