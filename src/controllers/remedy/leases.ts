import type { Lease } from '../../api/builtin.ts';
import { keyOf, type ObjectKey } from '../../api/resource.ts';
import type { Stored } from '../../api/wire.ts';
import type { Reflector } from '../../kube/reflector.ts';
import { renewalMs } from '../../kube/renewal.ts';

/** As long as a Lease without a duration counts. */
const DEFAULT_DURATION_MS = 180_000;

export interface Renewals {
  /**
   * Until when the last renewal counts, ms by our clock; undefined: never seen. Nobody is silent for not having been listened to: the time
   * in which the server was not heard is added.
   */
  freshUntilMs(key: ObjectKey): number | undefined;
  stop(): void;
}

interface Renewal {
  uid: string;
  renewTime: string | undefined;
  untilMs: number;
}

/**
 * By our clock, not the holder's: a renewal counts from when it was seen. Only of a Lease that was there at the first list is it asked
 * when the API server took its last renewal. `returned` is told of a Lease whose holder had been silent, appeared or is gone.
 */
export function watchRenewals(
  store: Pick<Reflector<Lease>, 'list' | 'subscribe' | 'quietMs'>,
  now: () => number,
  returned: (key: ObjectKey) => void,
): Renewals {
  const seen = new Map<string, Renewal>();

  function note(lease: Stored<Lease>, isOld: boolean): boolean {
    const { renewTime, leaseDurationSeconds } = lease.spec ?? {};
    const { uid } = lease.metadata;
    const key = keyOf(lease.metadata);
    const known = seen.get(key);
    if (known?.uid === uid && known.renewTime === renewTime) return false;
    const nowMs = now();
    const claimed = isOld ? renewalMs(lease) : nowMs;
    const renewedMs = Number.isNaN(claimed) ? nowMs : Math.min(claimed, nowMs);
    const durationMs = leaseDurationSeconds === undefined ? DEFAULT_DURATION_MS : leaseDurationSeconds * 1000;
    seen.set(key, { uid, renewTime, untilMs: renewedMs + durationMs });
    return known === undefined || known.uid !== uid || known.untilMs < nowMs;
  }

  for (const lease of store.list()) note(lease, true);
  const stop = store.subscribe((event) => {
    if (event.type === 'listed' || event.type === 'bookmark') return;
    const { metadata } = event.object;
    if (event.type === 'deleted') {
      if (seen.delete(keyOf(metadata))) returned(metadata);
    } else if (note(event.object, event.type === 'added' && event.initial)) returned(metadata);
  });

  return {
    freshUntilMs(key) {
      const known = seen.get(keyOf(key));
      const quietMs = store.quietMs();
      return known === undefined ? undefined : known.untilMs + (Number.isFinite(quietMs) ? quietMs : 0);
    },
    stop,
  };
}
