import { kubeError } from '../errors.ts';
import { keyOf } from '../../api/resource.ts';
import type { KubeObject, Stored, WatchEvent } from '../../api/wire.ts';
import { compareVersions } from '../resource-version.ts';
import { requireBounds, requireRoom } from './bounds.ts';
import { ANSWER_MS } from './list.ts';
import { kept, notify, notifyAll } from './reflection.ts';
import type { Reflection } from './reflection.ts';
import { weightOf } from './weights.ts';
import type { Weight } from './weights.ts';

/** A server ends its watches itself; one that it did not end this long after their time is dead. */
const GRACE_MS = 30_000;
/**
 * Bookmarks come each minute, but a real server sends none that is not newer than what the watch was opened with: on a kind where nothing happens
 * none may come for long, as if the stream had died. That two are missing is reason to ask; it proves nothing. Sooner than what is old is
 * no longer trusted (`STORE_STALE_MS`).
 */
export const WATCH_STALE_MS = 130_000;
/** A watch that ends sooner is a failure: reopening at once would be a loop without rest. */
const SHORT_MS = 1000;
/** A watch that was open for this long shows that the server is well: the next failure is a first one. What a server sends before it fails again does not. */
const LASTING_MS = 10_000;

/** From the end of a watch to the answer of the next: no server is put back to a backup, and has as many writes again, in less. */
const GAP_MS = 5000;

/** Ends a watch; no failure. */
export const RELIST = new Error('the store is to be listed again');
/** Ends a watch; no failure. */
export const STALE = new Error('nothing came from the watch for long');

/** Follows until the server ends the watch, or it is ended here. */
export async function watch<T extends KubeObject>(reflection: Reflection<T>): Promise<void> {
  const { options, selection, watches } = reflection;
  const { client, clock, random, resource, signal } = options;
  const timeoutSeconds = Math.ceil((options.watchTimeoutSeconds ?? 300) * (1 + random()));
  const begunAt = clock.monotonic();
  const controller = new AbortController();
  const onAbort = (): void => controller.abort(signal.reason);
  const guard = startGuard(reflection, begunAt + timeoutSeconds * 1000 + GRACE_MS, controller);
  signal.addEventListener('abort', onAbort, { once: true });
  watches.stop = (reason) => controller.abort(reason);
  try {
    const { resourceVersion } = reflection;
    reflection.state = { phase: 'watching', resourceVersion: resourceVersion ?? '' };
    const watched = { ...selection, timeoutSeconds, signal: controller.signal, onOpen: guard.onOpen };
    for await (const event of client.watch(resource, { ...watched, ...(resourceVersion === undefined ? {} : { resourceVersion }) })) {
      take(reflection, event);
    }
  } finally {
    watches.stop = undefined;
    watches.lasted = clock.monotonic() - guard.openedAt() >= LASTING_MS;
    guard.stop();
    signal.removeEventListener('abort', onAbort);
  }
  watches.endedAt = clock.monotonic();
  if (!reflection.lists.due && clock.monotonic() - begunAt < SHORT_MS) {
    throw kubeError('ShortWatch', `the watch of ${resource.plural} was ended after less than ${SHORT_MS} ms`);
  }
}

interface WatchGuard {
  onOpen: () => void;
  /** Monotonic ms; Infinity before it is open. */
  openedAt(): number;
  stop(): void;
}

/** Aborts a watch that is not answered, from which nothing comes any more, or that the server did not end until `latest`. */
function startGuard<T extends KubeObject>(reflection: Reflection<T>, latest: number, controller: AbortController): WatchGuard {
  const { options, watches } = reflection;
  const { clock, resource, staleMs = WATCH_STALE_MS } = options;
  const answeredBy = clock.monotonic() + ANSWER_MS;
  let openedAt = Infinity;
  let cancelTimer: (() => void) | undefined;

  function check(): void {
    const isOpen = openedAt !== Infinity;
    const left = (isOpen ? Math.min(latest, reflection.lastSeenAt + staleMs) : answeredBy) - clock.monotonic();
    if (left > 0) {
      cancelTimer = clock.setTimer(left, check);
      return;
    }
    controller.abort(isOpen ? STALE : kubeError('Stalled', `the watch of ${resource.plural} was not answered within ${ANSWER_MS} ms`));
  }

  check();
  return {
    onOpen() {
      openedAt = clock.monotonic();
      if (isLate(reflection, openedAt)) {
        reflection.lists.due = true;
        controller.abort(RELIST);
      }
      watches.endedAt = undefined;
      if (watches.doubted) reflection.lastSeenAt = openedAt;
      watches.doubted = false;
      cancelTimer?.();
      check();
    },
    openedAt: () => openedAt,
    stop: () => cancelTimer?.(),
  };
}

/** Whether the server may have been put back to a backup since it ended the watch before. */
function isLate<T extends KubeObject>({ options, watches }: Reflection<T>, openedAt: number): boolean {
  return options.relistAfterCut === true && watches.endedAt !== undefined && openedAt - watches.endedAt > GAP_MS;
}

/** One event of a watch into the store. */
function take<T extends KubeObject>(reflection: Reflection<T>, event: Exclude<WatchEvent<Stored<T>>, { type: 'ERROR' }>): void {
  const { options, store, weights } = reflection;
  reflection.lastSeenAt = options.clock.monotonic();
  const version = event.object.metadata.resourceVersion;
  if (event.type === 'BOOKMARK') {
    reflection.resourceVersion = version;
    notify(reflection, { type: 'bookmark', resourceVersion: version });
    return;
  }
  const known = store.get(event.object.metadata);
  const order = known?.metadata.uid === event.object.metadata.uid ? compareVersions(version, known.metadata.resourceVersion) : 1;
  if (order !== undefined && order < 0) {
    reflection.lists.due = true;
    throw kubeError(
      'Disordered',
      `${options.resource.kind} ${event.object.metadata.name}: ${version} came after ${known?.metadata.resourceVersion}`,
    );
  }
  const key = keyOf(event.object.metadata);
  if (event.type === 'DELETED') {
    reflection.resourceVersion = version;
    const differences = store.remove(kept(options, event.object));
    // Another one of this name stays, and what it weighs.
    if (differences.length > 0) weights.set(key, undefined);
    notifyAll(reflection, differences, false);
    return;
  }
  // If the store has the object in this version, it keeps its own copy.
  const object = order === 0 ? undefined : kept(options, event.object);
  if (object !== undefined && options.most !== undefined) weigh(reflection, key, weightOf(object));
  reflection.resourceVersion = version;
  if (object !== undefined) notifyAll(reflection, store.set(object), false);
}

/** Weighs an object that the store is about to take. */
function weigh<T extends KubeObject>({ options, weights }: Reflection<T>, key: string, weight: Weight): void {
  const { most, resource } = options;
  const before = weights.get(key);
  weights.set(key, weight);
  try {
    requireBounds(most, resource.plural, weights, 0);
    requireRoom(most, resource.plural, ({ kept }) => kept);
  } catch (error) {
    weights.set(key, before);
    throw error;
  }
}
