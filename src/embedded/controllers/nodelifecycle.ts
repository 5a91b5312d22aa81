import type { Json, JsonObject } from '../../api/wire.ts';
import { listAt, objectAt, textAt } from '../json.ts';
import { parsed, type Entry } from '../store/entry.ts';
import { now } from '../world.ts';
import { change, type Context, type Controller } from './controller.ts';

const NODES = '/nodes';
const LEASES = 'coordination.k8s.io/leases';
const LEASE_PREFIX = 'kube-node-lease/';
const LOOK_MS = 5000;

/**
 * Says Ready=Unknown of a Node whose kubelet was not heard for `graceMs`, as kube-controller-manager's node lifecycle controller does:
 * what counts is when this server saw the Lease or the Ready condition change, not what a node's clock wrote. Only the kubelet says True
 * again. Taints are not set.
 */
export function nodeLifecycleController({ world }: Context, graceMs: number): Controller {
  const served = world.registry.byStorage(NODES);
  /** By Node name: what was last seen of its kubelet, and when, by this server's clock. */
  const heard = new Map<string, { trace: string; atMs: number }>();
  let cancel: (() => void) | undefined;

  function traceOf(node: Entry): string {
    const lease = world.store.table(LEASES).get(`${LEASE_PREFIX}${node.name}`);
    const renewTime = lease === undefined ? undefined : textAt(parsed(lease), 'spec', 'renewTime');
    return `${node.uid} ${renewTime ?? ''} ${textAt(readyOf(parsed(node)) ?? {}, 'lastHeartbeatTime') ?? ''}`;
  }

  function look(): void {
    const nowMs = world.clock.monotonic();
    const names = new Set<string>();
    for (const node of Array.from(world.store.table(NODES).entries())) {
      names.add(node.name);
      const trace = traceOf(node);
      const known = heard.get(node.name);
      if (known?.trace !== trace) heard.set(node.name, { trace, atMs: nowMs });
      else if (nowMs - known.atMs > graceMs) markUnknown(node);
    }
    for (const name of heard.keys()) if (!names.has(name)) heard.delete(name);
  }

  function markUnknown(node: Entry): void {
    const ready = readyOf(parsed(node));
    if (served === undefined || ready === undefined || textAt(ready, 'status') === 'Unknown') return;
    const silent: JsonObject = {
      status: 'Unknown',
      reason: 'NodeStatusUnknown',
      message: 'Kubelet stopped posting node status.',
      lastTransitionTime: now(world),
    };
    change(world, served, node, 'status', (object) => {
      const conditions: Json[] = listAt(object, 'status', 'conditions').map((item) =>
        textAt(item, 'type') === 'Ready' ? { ...objectAt(item), ...silent } : item,
      );
      return { ...object, status: { ...objectAt(object, 'status'), conditions } };
    });
  }

  function arm(): void {
    cancel = world.clock.setTimer(LOOK_MS, () => {
      look();
      arm();
    });
  }

  return {
    start: arm,
    onEvent: () => undefined,
    stop: () => cancel?.(),
  };
}

function readyOf(node: JsonObject): Json | undefined {
  return listAt(node, 'status', 'conditions').find((item) => textAt(item, 'type') === 'Ready');
}
