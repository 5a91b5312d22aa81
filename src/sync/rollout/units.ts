/** The rendered units that live objects are compared with. What the cache lost is rendered again from its recorded commit, with backoff (docs/protocols.md#e8). */
import { syncErrorCodes } from '../errors.ts';
import { isCoded, messageOf } from '../../api/errors.ts';
import type { Clock, Log, Random } from '../../api/ports.ts';
import { halfJitterMs } from '../../kube/backoff.ts';
import type { Bundles, StoredUnit } from '../bundles.ts';

export interface WantedUnit {
  digest: string;
  /** That it was applied from. */
  commit: string;
  unit: string;
  cluster: string;
}

export interface UnitsOptions {
  bundles: Pick<Bundles, 'get' | 'put'>;
  render: (fleet: string, commit: string, unit: string, cluster: string, signal: AbortSignal) => Promise<StoredUnit>;
  clock: Pick<Clock, 'monotonic'>;
  random: Random;
  log: Log;
  signal: AbortSignal;
}

const RETRY = { baseMs: 1000, maxMs: 300_000 };

export function openUnits({ bundles, render, clock, random, log, signal }: UnitsOptions) {
  const inHand = new Map<string, StoredUnit>();
  const missing = new Map<string, string>();
  const failures = new Map<string, { count: number; notBeforeMs: number }>();

  /** A commit that cannot be rendered costs one try, however many units came with it. */
  async function renderAgain(fleet: string, commit: string, units: readonly WantedUnit[]): Promise<void> {
    const key = `${fleet} ${commit}`;
    const failed = failures.get(key);
    if (failed !== undefined && failed.notBeforeMs > clock.monotonic()) return;
    let failure: unknown;
    for (const { digest, unit, cluster } of units) {
      try {
        const rendered = await render(fleet, commit, unit, cluster, signal);
        await bundles.put(digest, rendered);
        inHand.set(digest, rendered);
        missing.delete(digest);
      } catch (error) {
        signal.throwIfAborted();
        failure = error;
        missing.set(digest, messageOf(error));
        if (isCoded(error, syncErrorCodes, 'DigestMismatch', 'InvalidDigest')) continue;
        for (const other of units) if (!inHand.has(other.digest)) missing.set(other.digest, messageOf(error));
        break;
      }
    }
    if (failure === undefined) {
      failures.delete(key);
      return;
    }
    const count = (failed?.count ?? 0) + 1;
    failures.set(key, { count, notBeforeMs: clock.monotonic() + halfJitterMs(RETRY, count, random) });
    log.warn({ fleet, commit, error: messageOf(failure) }, 'what was applied could not be rendered again');
  }

  return {
    async load(fleet: string, wanted: readonly WantedUnit[]): Promise<void> {
      const lost = new Map<string, WantedUnit>();
      for (const each of wanted) {
        if (inHand.has(each.digest) || lost.has(each.digest)) continue;
        const unit = await bundles.get(each.digest);
        if (unit === undefined) lost.set(each.digest, each);
        else {
          inHand.set(each.digest, unit);
          missing.delete(each.digest);
        }
      }
      for (const [commit, units] of Map.groupBy(lost.values(), (each) => each.commit)) await renderAgain(fleet, commit, units);
    },
    get: (digest: string): StoredUnit | undefined => inHand.get(digest),
    /** Why a unit is not at hand; undefined when it is. */
    missing: (digest: string): string | undefined => missing.get(digest),
    /**
     * When the next try is due, of those that were not due at `loadedMs` yet; both ms of the monotonic clock. What was due by then and is missing still
     * was not wanted by the load: its cell is away, or it is another fleet's.
     */
    dueAtMs: (loadedMs: number): number | undefined =>
      missing.size === 0
        ? undefined
        : minOf([...failures.values()].flatMap(({ notBeforeMs }) => (notBeforeMs > loadedMs ? notBeforeMs : []))),
    keep(used: ReadonlySet<string>): void {
      for (const digest of [...inHand.keys(), ...missing.keys()]) {
        if (used.has(digest)) continue;
        inHand.delete(digest);
        missing.delete(digest);
      }
      if (missing.size === 0) failures.clear();
    },
  };
}

const minOf = (times: readonly number[]): number | undefined => (times.length === 0 ? undefined : Math.min(...times));
