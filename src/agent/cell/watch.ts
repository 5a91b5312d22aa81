import { messageOf } from '../../api/errors.ts';
import type { Clock, Log, Random } from '../../api/ports.ts';
import type { Machine } from '../../api/machine.ts';
import type { Stored } from '../../api/wire.ts';
import { askedMsOf, isExpired, isFromTheFuture } from '../../kube/api-error.ts';
import type { Client } from '../../kube/client.ts';
import { sleep } from '../../kube/clock.ts';
import { Machines } from './wanted.ts';

export interface MachineWatchOptions {
  client: Client;
  machine: { namespace: string; name: string };
  clock: Clock;
  random: Random;
  log: Log;
  signal: AbortSignal;
  /** Called with every state that comes, in order; undefined when it is gone. `refetched`: read without reliance on what was read before. */
  onMachine: (machine: Stored<Machine> | undefined, refetched: boolean) => void;
}

/**
 * A pause is drawn from a window that is wide from the start, since a server that restarts loses every agent at once, and then as long as the
 * failure has lasted: by its number of tries an agent that drew a few short pauses would wait a minute for a server that was away for seconds.
 */
const WINDOW_MS = { least: 8_000, most: 60_000 };
const REOPEN_MS = 1_000;
/** The server ends a watch after once to twice this time: two requests an hour. */
const WATCH_SECONDS = 2_400;
/** Bookmarks come about each minute; a watch from which nothing came for this long is stale: its connection died unnoticed. */
const STALE_MS = 300_000;
/**
 * Watches have failed for this long: the Machine is polled between them. It counts time, not failures: a server that restarts refuses
 * several watches in a second, and an agent that took that for a persistent failure would not try again for a minute.
 */
const DEGRADED_AFTER_MS = 60_000;
const POLL_MS = 60_000;
/** More refusals than this in a row are a failure like any other. */
const MOST_REFUSALS = 3;

/** How far the following is. */
interface Following {
  readonly options: MachineWatchOptions;
  /** The version from which the next watch begins; undefined: with the object as it is. */
  from: string | undefined;
  begun: boolean;
  failures: number;
  /** Monotonic ms of the first of them. */
  failingSinceMs: number;
  /** Watches in a row that were refused for the version from which they were to begin. */
  refused: number;
}

/**
 * Follows one object. It never lists, since an agent may not: it reads the object once, watches it by name from there, goes on from the
 * last bookmark after an interruption, and polls while watches fail. Resolves when the signal ends it.
 */
export async function watchMachine(options: MachineWatchOptions): Promise<void> {
  const { clock, random, log, signal } = options;
  const following: Following = { options, from: undefined, begun: false, failures: 0, failingSinceMs: 0, refused: 0 };
  while (!signal.aborted) {
    /** How long the server asked to be left alone, and as long again by chance, so that not all are back at once. */
    let askedMs = 0;
    try {
      if (!following.begun || isDegraded(following)) await read(following);
      await follow(following);
      following.failures = 0;
    } catch (error) {
      if (signal.aborted) return;
      recordFailure(following, error);
      askedMs = askedMsOf(error) * (1 + random());
      log.warn({ error: messageOf(error), failures: following.failures }, 'the Machine is not watched');
    }
    await sleep(clock, Math.max(askedMs, pauseMs(following)), signal).catch(() => undefined);
  }
}

const isDegraded = ({ options, failures, failingSinceMs }: Following): boolean =>
  failures > 0 && options.clock.monotonic() - failingSinceMs >= DEGRADED_AFTER_MS;

async function read(following: Following): Promise<void> {
  const { client, machine, signal, onMachine } = following.options;
  const found = await client.find(Machines, machine, { signal });
  onMachine(found, true);
  if (!following.begun) following.from = found?.metadata.resourceVersion;
  following.begun = true;
}

/** Follows until the server ends it. */
async function follow(following: Following): Promise<void> {
  const { client, machine, clock, random, signal, onMachine } = following.options;
  const { from } = following;
  const ended = new AbortController();
  const onAbort = (): void => ended.abort(signal.reason);
  signal.addEventListener('abort', onAbort, { once: true });
  let cancel: (() => void) | undefined;
  let refetched = from === undefined;
  const rearm = (): void => {
    cancel?.();
    cancel = clock.setTimer(STALE_MS, () => ended.abort(new Error(`nothing came from the watch for ${STALE_MS / 1000} s`)));
  };
  try {
    rearm();
    const events = client.watch(Machines, {
      namespace: machine.namespace,
      fieldSelector: `metadata.name=${machine.name}`,
      timeoutSeconds: Math.round(WATCH_SECONDS * (1 + random())),
      ...(from === undefined ? {} : { resourceVersion: from }),
      signal: ended.signal,
    });
    for await (const event of events) {
      rearm();
      following.failures = 0;
      following.refused = 0;
      following.from = event.object.metadata.resourceVersion;
      if (event.type === 'DELETED') onMachine(undefined, refetched);
      else if (event.type !== 'BOOKMARK') onMachine(event.object, refetched);
      refetched = false;
    }
  } finally {
    cancel?.();
    signal.removeEventListener('abort', onAbort);
  }
}

function recordFailure(following: Following, error: unknown): void {
  // The history is gone, or the server has less of it than was read before. Without a version a watch begins with the object as it is; with the
  // version of the object, which may not have changed for months, it would end the same way.
  const versionRefused = isExpired(error) || isFromTheFuture(error);
  if (versionRefused) following.from = undefined;
  // A server that answers so is healthy: it lost its history when it restarted, and with it the version of every agent. That is no reason to wait.
  following.refused = versionRefused ? following.refused + 1 : 0;
  if (versionRefused && following.refused <= MOST_REFUSALS) following.failures = 0;
  else if (following.failures++ === 0) following.failingSinceMs = following.options.clock.monotonic();
}

function pauseMs(following: Following): number {
  const { clock, random } = following.options;
  if (isDegraded(following)) return POLL_MS * (0.5 + random());
  if (following.failures === 0) return REOPEN_MS * random();
  const sinceMs = clock.monotonic() - following.failingSinceMs;
  return random() * Math.min(WINDOW_MS.most, Math.max(WINDOW_MS.least, sinceMs));
}
