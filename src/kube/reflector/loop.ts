import { kubeErrorCodes } from '../errors.ts';
import { CodedError, isCoded, messageOf } from '../../api/errors.ts';
import { plainText } from '../../api/plain-text.ts';
import type { KubeObject } from '../../api/wire.ts';
import { askedMsOf, isExpired, isFromTheFuture } from '../api-error.ts';
import { fullJitterMs } from '../backoff.ts';
import type { Backoff } from '../backoff.ts';
import { sleep } from '../clock.ts';
import { hasReached } from '../resource-version.ts';
import { abandonList, listPage, requestPage } from './list.ts';
import { ageMs } from './reflection.ts';
import type { Reflection } from './reflection.ts';
import { RELIST, STALE, WATCH_STALE_MS, watch } from './watch.ts';

const BACKOFF: Backoff = { baseMs: 800, maxMs: 30_000 };

/** Failures since the server was last well. */
interface Failures {
  count: number;
  /** One of them was that the server no longer has our version. */
  expired: boolean;
}

/** Lists and watches until the signal ends it; never throws. */
export async function follow<T extends KubeObject>(reflection: Reflection<T>): Promise<void> {
  const { options, about, watches } = reflection;
  const { log, resource, signal } = options;
  const failures: Failures = { count: 0, expired: false };
  while (!signal.aborted) {
    watches.lasted = false;
    try {
      await step(reflection);
      if (watches.lasted) reset(failures);
    } catch (error) {
      if (signal.aborted) break;
      if (watches.lasted) reset(failures);
      if (error === RELIST) continue;
      if (error === STALE) {
        watches.doubted = true;
        log.debug({ ...about, ageMs: Math.round(ageMs(reflection)) }, `the watch of ${resource.plural} is stale`);
        continue;
      }
      await recover(reflection, failures, error);
    }
  }
  reflection.state = { phase: 'stopped' };
}

function reset(failures: Failures): void {
  failures.count = 0;
  failures.expired = false;
}

async function step<T extends KubeObject>(reflection: Reflection<T>): Promise<void> {
  const { options, lists, watches } = reflection;
  // A list that was under way may be of two histories: another follows.
  if (watches.cut && options.relistAfterCut === true && lists.partial === undefined) lists.due = true;
  if (lists.due || lists.partial !== undefined) return await listPage(reflection);
  watches.doubted ||= ageMs(reflection) >= (options.staleMs ?? WATCH_STALE_MS);
  if (watches.doubted) await compare(reflection);
  if (!lists.due) await watch(reflection);
}

/**
 * Before a stale watch is opened at its last version: what it missed comes then. But a server restored from a backup sends nothing to a watch
 * until it has counted up to our version, and its content is different then.
 */
async function compare<T extends KubeObject>(reflection: Reflection<T>): Promise<void> {
  const { store, lists } = reflection;
  const { items, metadata } = await requestPage(reflection, { limit: 1 });
  const count = metadata.continue === undefined ? items.length : 1 + (metadata.remainingItemCount ?? store.size - 1);
  if (!hasReached(metadata.resourceVersion, reflection.resourceVersion ?? '') || count !== store.size) lists.due = true;
}

/** Waits after a failure, once it is known what must be listed again. */
async function recover<T extends KubeObject>(reflection: Reflection<T>, failures: Failures, error: unknown): Promise<void> {
  const { options, about, counters, lists, watches } = reflection;
  watches.cut = true;
  const { clock, log, random, resource, signal } = options;
  judge(reflection, error);
  // A server that refuses our version as too old is well: one must not wait as for a server that was away.
  failures.count = isExpired(error) && !failures.expired ? 1 : failures.count + 1;
  failures.expired ||= isExpired(error);
  const waitMs = askedMsOf(error) + fullJitterMs(options.backoff ?? BACKOFF, failures.count, random);
  const retryInMs = Math.round(Math.min(waitMs, options.longestWaitMs ?? Infinity));
  const code = error instanceof CodedError ? error.code : 'Failed';
  counters?.failed();
  const message = plainText(messageOf(error));
  reflection.state = { phase: 'waiting', failures: failures.count, code, error: message, retryInMs };
  log.warn(
    { ...about, failures: failures.count, retryInMs, error: message },
    `${resource.plural} cannot be ${lists.due ? 'listed' : 'watched'}`,
  );
  await sleep(clock, retryInMs, signal).catch(() => undefined);
}

/** Whether it must be listed again, and whether the list under way is good for anything. */
function judge<T extends KubeObject>(reflection: Reflection<T>, error: unknown): void {
  const { lists } = reflection;
  if (isExpired(error)) {
    if (lists.partial?.token !== undefined) lists.paged = false;
    abandonList(reflection);
    lists.due = true;
  } else if (isFromTheFuture(error)) {
    lists.due = true;
  } else if (isCoded(error, kubeErrorCodes, 'StoreTooLarge')) {
    abandonList(reflection);
    lists.due = true;
  }
}
