/**
 * Whether a kubelet or an agent is alive, by the Lease that it renews. There are two questions, since a process that cannot reach the API server
 * knows neither answer, and must then do what is safe:
 *
 * - `isAlive` asks for proof of life: a renewal that this process observed within the duration of the Lease. An order, evidence and a slot in a
 *   limit need it. While the server is not reached it runs out.
 * - `unseenMs` and `presumedAliveUntilMs` ask for proof of absence: only time in which the store would have shown a renewal counts. To set a
 *   machine aside or to repair it needs that. While the server is not reached it does not grow.
 *
 * Both count by the monotonic clock of this process from when it observed a renewal: a node whose clock is wrong is not a dead node. Only of a Lease
 * that was there at the first list is it asked when the API server took its last renewal (docs/protocols.md#h5).
 *
 * Detectors that write conditions on a Node renew no Lease: `src/rules/heartbeats.ts`.
 */
import type { Lease, Node } from '../api/builtin.ts';
import { AGENT_LEASE_SECONDS, agentLeaseName, KUBELET_LEASES } from '../api/names.ts';
import type { Clock } from '../api/ports.ts';
import { keyOf, type ObjectKey } from '../api/resource.ts';
import type { ObjectMeta, Stored } from '../api/wire.ts';
import type { Reflector } from './reflector.ts';
import { renewalMs } from './renewal.ts';

export interface Liveness {
  /** Whether the last renewal proves now that the holder is alive. */
  isAlive(key: ObjectKey): boolean;
  /** Until when it proves that, monotonic ms; undefined: there is no such Lease. */
  aliveUntilMs(key: ObjectKey): number | undefined;
  /** From the last renewal to the last time the server answered; undefined: there is no such Lease. */
  unseenMs(key: ObjectKey): number | undefined;
  /** `aliveUntilMs`, and the time in which the server did not answer. */
  presumedAliveUntilMs(key: ObjectKey): number | undefined;
  /** Since the server last answered. */
  unansweredMs(): number;
  /** Calls for each Lease that appears, goes, or is renewed after it had run out. Returns the cancellation. */
  onReturn(listener: (key: ObjectKey) => void): () => void;
  stop(): void;
}

interface Renewal {
  uid: string;
  renewTime: string | undefined;
  /** Monotonic ms. */
  atMs: number;
  durationMs: number;
}

export function trackLiveness(store: Pick<Reflector<Lease>, 'list' | 'get' | 'subscribe' | 'ageMs'>, clock: Clock): Liveness {
  const renewals = new Map<string, Renewal>();
  const listeners = new Set<(key: ObjectKey) => void>();
  for (const lease of store.list()) note(renewals, lease, true, clock);
  const stop = store.subscribe((event) => {
    if (event.type === 'listed' || event.type === 'bookmark') return;
    const { metadata } = event.object;
    const isOld = event.type === 'added' && event.initial;
    const isNews = event.type === 'deleted' ? renewals.delete(keyOf(metadata)) : note(renewals, event.object, isOld, clock);
    if (isNews) for (const listener of listeners) listener(metadata);
  });
  const renewalOf = (key: ObjectKey): Renewal | undefined => (store.get(key) === undefined ? undefined : renewals.get(keyOf(key)));

  function aliveUntilMs(key: ObjectKey): number | undefined {
    const renewal = renewalOf(key);
    return renewal && renewal.atMs + renewal.durationMs;
  }

  return {
    isAlive(key) {
      const untilMs = aliveUntilMs(key);
      return untilMs !== undefined && clock.monotonic() <= untilMs;
    },
    aliveUntilMs,
    unseenMs(key) {
      const renewal = renewalOf(key);
      return renewal && Math.max(0, clock.monotonic() - renewal.atMs - store.ageMs());
    },
    presumedAliveUntilMs(key) {
      const untilMs = aliveUntilMs(key);
      const ageMs = store.ageMs();
      return untilMs === undefined ? undefined : untilMs + (Number.isFinite(ageMs) ? ageMs : 0);
    },
    unansweredMs: () => store.ageMs(),
    onReturn(listener) {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
    stop,
  };
}

/** `isOld`: it was there at the first list. True where the holder is another one, or its Lease had run out. */
function note(renewals: Map<string, Renewal>, lease: Stored<Lease>, isOld: boolean, clock: Clock): boolean {
  const { uid } = lease.metadata;
  const renewTime = lease.spec?.renewTime;
  const durationMs = durationMsOf(lease);
  const key = keyOf(lease.metadata);
  const known = renewals.get(key);
  if (known?.uid === uid && known.renewTime === renewTime) {
    known.durationMs = durationMs;
    return false;
  }
  const ageMs = isOld ? Math.max(0, clock.now() - renewalMs(lease)) : 0;
  const nowMs = clock.monotonic();
  renewals.set(key, { uid, renewTime, atMs: nowMs - (Number.isNaN(ageMs) ? 0 : ageMs), durationMs });
  return known?.uid !== uid || nowMs > known.atMs + known.durationMs;
}

const durationMsOf = (lease: Lease): number => (lease.spec?.leaseDurationSeconds ?? AGENT_LEASE_SECONDS) * 1000;

/**
 * For a process that reads a Lease once and observed nothing before: until when it proves life by the time that it carries, wall ms; undefined: it
 * was never renewed.
 */
export function claimedAliveUntilMs(lease: Lease | undefined): number | undefined {
  if (lease === undefined) return undefined;
  const renewedMs = renewalMs(lease);
  return Number.isNaN(renewedMs) ? undefined : renewedMs + durationMsOf(lease);
}

/** The Lease of the agent of a Machine. */
export const agentLease = ({ metadata }: { metadata: Pick<ObjectMeta, 'namespace' | 'name'> }): ObjectKey => ({
  namespace: metadata.namespace ?? '',
  name: agentLeaseName(metadata.name),
});

/** The Lease of the kubelet of a Node. */
export const kubeletLease = (node: string): ObjectKey => ({ namespace: KUBELET_LEASES, name: node });

/** Ready=True, and the kubelet is alive: the condition alone stays True after a kubelet died until the node lifecycle controller notices. */
export function isNodeReady(node: Node, kubeletAnswers: boolean): boolean {
  return kubeletAnswers && node.status?.conditions?.some((condition) => condition.type === 'Ready' && condition.status === 'True') === true;
}
