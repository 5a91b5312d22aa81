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
  /** Called with every state seen, in order; undefined when it is gone. `again`: read without reliance on what was seen before. */
  onMachine: (machine: Stored<Machine> | undefined, again: boolean) => void;
}

/**
 * A pause is drawn from a window that is wide from the start, since a server that restarts loses every agent at once, and then as long as the
 * failure has lasted: by its number of tries an agent that drew a few short pauses would wait a minute for a server that was away for seconds.
 */
const WINDOW_MS = { least: 8_000, most: 60_000 };
const REOPEN_MS = 1_000;
/** The server ends a watch after once to twice this time: two requests an hour. */
const WATCH_SECONDS = 2_400;
/** Bookmarks come about each minute; silence for this long is a connection that died unnoticed. */
const SILENCE_MS = 300_000;
/**
 * Watches have failed for this long: the Machine is polled between them. Told by time, not by their number: a server that restarts refuses
 * several in a second, and an agent that took that for a lasting failure would not look again for a minute.
 */
const DEGRADED_AFTER_MS = 60_000;
const POLL_MS = 60_000;
/** More refusals than this in a row are a failure like any other. */
const MISPLACED = 3;

/**
 * Follows one object. It never lists, since an agent may not: it reads the object once, watches it by name from there, goes on from the
 * last bookmark after an interruption, and polls while watches fail. Resolves when the signal ends it.
 */
export async function watchMachine(options: MachineWatchOptions): Promise<void> {
  const { client, machine, clock, random, log, signal, onMachine } = options;
  let from: string | undefined;
  let begun = false;
  let failures = 0;
  /** Monotonic ms; the first of them. */
  let failingSince = 0;
  /** Watches in a row that were refused for where they were to begin. */
  let refused = 0;

  const degraded = (): boolean => failures > 0 && clock.monotonic() - failingSince >= DEGRADED_AFTER_MS;

  async function read(): Promise<void> {
    const found = await client.find(Machines, machine, { signal });
    onMachine(found, true);
    if (!begun) from = found?.metadata.resourceVersion;
    begun = true;
  }

  /** Follows until the server ends it. */
  async function follow(): Promise<void> {
    const ended = new AbortController();
    const onAbort = (): void => ended.abort(signal.reason);
    signal.addEventListener('abort', onAbort, { once: true });
    let cancel: (() => void) | undefined;
    let again = from === undefined;
    const rearm = (): void => {
      cancel?.();
      cancel = clock.setTimer(SILENCE_MS, () => ended.abort(new Error(`the watch was silent for ${SILENCE_MS / 1000} s`)));
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
        failures = 0;
        refused = 0;
        from = event.object.metadata.resourceVersion;
        if (event.type === 'DELETED') onMachine(undefined, again);
        else if (event.type !== 'BOOKMARK') onMachine(event.object, again);
        again = false;
      }
    } finally {
      cancel?.();
      signal.removeEventListener('abort', onAbort);
    }
  }

  while (!signal.aborted) {
    /** How long the server asked to be left alone, and as long again by chance, so that not all are back at once. */
    let askedMs = 0;
    try {
      if (!begun || degraded()) await read();
      await follow();
      failures = 0;
    } catch (error) {
      if (signal.aborted) return;
      // The history is gone, or the server has less of it than was seen. Without a version a watch begins with the object as it is; with the
      // version of the object, which may not have changed for months, it would end the same way.
      const misplaced = isExpired(error) || isFromTheFuture(error);
      if (misplaced) from = undefined;
      // A server that answers so is well: it lost its history when it restarted, and with it every agent's place. That is no reason to wait.
      refused = misplaced ? refused + 1 : 0;
      if (misplaced && refused <= MISPLACED) failures = 0;
      else if (failures++ === 0) failingSince = clock.monotonic();
      askedMs = askedMsOf(error) * (1 + random());
      log.warn({ error: messageOf(error), failures }, 'the Machine is not watched');
    }
    const pauseMs = degraded()
      ? POLL_MS * (0.5 + random())
      : failures === 0
        ? REOPEN_MS * random()
        : random() * Math.min(WINDOW_MS.most, Math.max(WINDOW_MS.least, clock.monotonic() - failingSince));
    await sleep(clock, Math.max(askedMs, pauseMs), signal).catch(() => undefined);
  }
}
