import { CodedError, messageOf } from '../api/errors.ts';
import type { Clock, Log } from '../api/ports.ts';
import type { Resource } from '../api/resource.ts';
import { ceilingMs } from '../kube/backoff.ts';
import type { Client } from '../kube/client.ts';
import { sleep } from '../kube/clock.ts';
import { troubleWithKinds } from '../kube/served.ts';
import { cliError } from './errors.ts';

export interface KindsGateOptions {
  client: Client;
  kinds: readonly Resource[];
  /** The command that installs kinds that are absent. */
  install: string;
  clock: Clock;
  log: Log;
  /** Called with the reason why nothing is done; undefined when work goes on again. */
  onTrouble?: (why: string | undefined) => void;
}

export interface KindsGate {
  /** For the work: through it a definition that changes is noticed, since that ends its watches before their time. */
  readonly client: Client;
  /** Resolves when the server has the kinds, in the version that this program knows; until then it asks again, and reports why once. */
  fit(signal: AbortSignal): Promise<void>;
  /** Runs the work until it ends by itself, or they no longer fit. */
  during(signal: AbortSignal, work: (signal: AbortSignal) => Promise<void>): Promise<void>;
}

const AGAIN = { baseMs: 250, maxMs: 5000 };
/** A server that ends a watch in its time may be this early. */
const SLACK_MS = 2000;

/**
 * Keeps controllers from a server whose kinds are absent or newer: nothing is written into what this program would prune. It notices a change
 * when the server ends the watches of the changed kind, about a second later.
 */
export function kindsGate({ client, kinds, install, clock, log, onTrouble }: KindsGateOptions): KindsGate {
  let reported: string | undefined;
  let onEarlyEnd: () => void = () => undefined;

  function report(why: string | undefined, next?: string): void {
    if (why === reported) return;
    reported = why;
    onTrouble?.(why);
    if (why === undefined) log.info({}, 'the server has the kinds that are wanted');
    else log.warn(next === undefined ? {} : { next }, why);
  }

  /** Whether they fit; an error is another problem, and proves nothing about kinds. */
  async function checkKinds(signal: AbortSignal): Promise<boolean> {
    const trouble = await troubleWithKinds(client, kinds, { signal });
    const next = trouble?.reason === 'KindsAbsent' ? install : 'run a KubeNode that is as new as its kinds';
    report(trouble === undefined ? undefined : `${trouble.reason}: ${trouble.message}`, next);
    return trouble === undefined;
  }

  async function fit(signal: AbortSignal): Promise<void> {
    for (let tries = 1; !signal.aborted; tries++) {
      try {
        if (await checkKinds(signal)) return;
      } catch (error) {
        if (!signal.aborted) report(messageOf(error), error instanceof CodedError ? error.next : undefined);
      }
      await sleep(clock, ceilingMs(AGAIN, tries), signal).catch(() => undefined);
    }
  }

  return {
    client: noticing(client, clock, () => onEarlyEnd()),
    fit,

    async during(signal, work) {
      const unfit = new AbortController();
      const both = AbortSignal.any([signal, unfit.signal]);
      let checking = false;
      let again = false;
      const watchOver = async (): Promise<void> => {
        again = true;
        if (checking) return;
        checking = true;
        while (again && !both.aborted) {
          again = false;
          try {
            if (!(await checkKinds(both))) unfit.abort(cliError('KindsUnfit', reported ?? ''));
          } catch {
            // The server is away: it is asked again when it is back.
            again = true;
            await sleep(clock, AGAIN.maxMs, both).catch(() => undefined);
          }
        }
        checking = false;
      };
      onEarlyEnd = () => void watchOver();
      try {
        const fits = await checkKinds(both).catch(() => {
          void watchOver();
          return true;
        });
        if (fits) await work(both);
      } finally {
        onEarlyEnd = () => undefined;
        unfit.abort(cliError('KindsUnfit', 'the work is over'));
      }
    },
  };
}

/** The same client, save that a watch which is opened again before its time is noticed. Costs nothing an event. */
function noticing(client: Client, clock: Clock, onEarlyEnd: () => void): Client {
  const until = new Map<string, number>();
  return {
    ...client,
    watch(resource, options = {}) {
      const id = JSON.stringify([resource.group, resource.plural, options.namespace, options.fieldSelector, options.labelSelector]);
      const now = clock.monotonic();
      if (now < (until.get(id) ?? -Infinity)) onEarlyEnd();
      until.set(id, now + (options.timeoutSeconds ?? 0) * 1000 - SLACK_MS);
      return client.watch(resource, options);
    },
  };
}
