import type { Lease } from '../../api/builtin.ts';
import type { Clock } from '../../api/ports.ts';
import { keyOf, type ObjectKey } from '../../api/resource.ts';
import type { Stored } from '../../api/wire.ts';
import type { Reflector } from '../../kube/reflector.ts';
import { renewalMs } from '../../kube/renewal.ts';

const DEFAULT_DURATION_MS = 180_000;

export interface LeaseAge {
  /**
   * From the last renewal that was seen to the last time the server was heard. Nobody is silent for not having been listened to: only
   * what the store would have shown counts.
   */
  silentMs: number;
  /** Renewed within its duration, and heard of. */
  fresh: boolean;
}

export interface LeaseAges {
  /** undefined: there is no such Lease. */
  of(key: ObjectKey): LeaseAge | undefined;
  /** Until when it is fresh if it is not renewed, monotonic ms; undefined: there is no such Lease. */
  freshUntilMs(key: ObjectKey): number | undefined;
  /** Since the server was last heard. */
  quietMs(): number;
  stop(): void;
}

/**
 * How long holders of Leases have been silent, by this process' own clock: a node whose clock is wrong is not a dead node. Only
 * for a Lease that was there at the first list is it asked when the API server took its last renewal. `clock` shows that server's time.
 */
export function leaseAges(store: Pick<Reflector<Lease>, 'list' | 'get' | 'subscribe' | 'quietMs'>, clock: Clock): LeaseAges {
  const seen = new Map<string, { uid: string; renewTime: string | undefined; at: number }>();

  function note(lease: Stored<Lease>, isOld: boolean): void {
    const renewTime = lease.spec?.renewTime;
    const known = seen.get(keyOf(lease.metadata));
    if (known?.uid === lease.metadata.uid && known.renewTime === renewTime) return;
    const age = isOld && renewTime !== undefined ? Math.max(0, clock.now() - renewalMs(lease)) : 0;
    seen.set(keyOf(lease.metadata), { uid: lease.metadata.uid, renewTime, at: clock.monotonic() - (Number.isFinite(age) ? age : 0) });
  }

  for (const lease of store.list()) note(lease, true);
  const stop = store.subscribe((event) => {
    if (event.type === 'added') note(event.object, event.initial);
    else if (event.type === 'updated') note(event.object, false);
    else if (event.type === 'deleted') seen.delete(keyOf(event.object.metadata));
  });

  function freshUntilMs(key: ObjectKey): number | undefined {
    const lease = store.get(key);
    const known = seen.get(keyOf(key));
    if (lease === undefined || known === undefined) return undefined;
    return known.at + (lease.spec?.leaseDurationSeconds ?? DEFAULT_DURATION_MS / 1000) * 1000;
  }

  return {
    of(key) {
      const known = seen.get(keyOf(key));
      const untilMs = freshUntilMs(key);
      if (known === undefined || untilMs === undefined) return undefined;
      return { silentMs: Math.max(0, clock.monotonic() - known.at - store.quietMs()), fresh: clock.monotonic() <= untilMs };
    },
    freshUntilMs,
    quietMs: () => store.quietMs(),
    stop,
  };
}
