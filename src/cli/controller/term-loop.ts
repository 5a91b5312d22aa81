import { defenderErrorCodes } from '../../defender/errors.ts';
import { kubeErrorCodes } from '../../kube/errors.ts';
import { isCoded, messageOf } from '../../api/errors.ts';
import { sleep } from '../../kube/clock.ts';
import type { Clock } from '../../api/ports.ts';
import type { Client } from '../../kube/client.ts';
import { runLeaderElection } from '../../kube/lease.ts';
import type { ServerTime } from '../../kube/server-time.ts';
import type { TermHealth } from '../health.ts';
import type { KindsGate } from '../kinds.ts';
import type { Ports } from '../ports.ts';
import type { Leading } from './term.ts';

/** What a process that runs controllers has for its terms. */
export interface TermLoop {
  ports: Ports;
  /** Of this machine: who leads is found by it alone (docs/protocols.md#h5). */
  clock: Clock;
  /** Of the API server. */
  time: ServerTime;
  /** Reaches the API server also while its kinds do not fit. */
  client: Client;
  gate: KindsGate;
  health: Pick<TermHealth, 'lead'>;
  /** The Lease of the leader; undefined: there are no other replicas. */
  lease: { namespace: string; name: string; identity: string; seconds: number } | undefined;
  work: (signal: AbortSignal, term: Leading | undefined) => Promise<void>;
}

/** Works term after term until the signal of the ports ends it. */
export async function runTerms(loop: TermLoop): Promise<void> {
  const { ports, clock, gate, lease } = loop;
  const { signal, log } = ports;
  for (;;) {
    await gate.fit(signal);
    if (signal.aborted) return;
    if (lease === undefined) {
      await lead(loop, signal, undefined);
      continue;
    }
    const { seconds, ...names } = lease;
    await runLeaderElection({ ...ports, clock, ...names, ...leaseTimes(seconds) }, async (term) => {
      try {
        await lead(loop, AbortSignal.any([term.signal, signal]), term);
      } catch (error) {
        // The ledger shows a later term: this one is over, and another may begin, whether or not the clock has noticed it too.
        if (!isCoded(error, defenderErrorCodes, 'Deposed')) throw error;
        log.warn({ error: messageOf(error) }, 'the term is over');
      }
    });
  }
}

function lead(loop: TermLoop, signal: AbortSignal, term: Leading | undefined): Promise<void> {
  return loop.gate.during(signal, (signal) => loop.health.lead(signal, () => workInTime(loop, signal, term)));
}

/** Works while the API server's time is known, and waits for it otherwise. */
async function workInTime(loop: TermLoop, signal: AbortSignal, term: Leading | undefined): Promise<void> {
  for (;;) {
    await timeKnown(loop, signal);
    if (signal.aborted) return;
    try {
      return await loop.work(signal, term);
    } catch (error) {
      if (!isCoded(error, kubeErrorCodes, 'ServerTimeUnknown')) throw error;
      loop.ports.log.warn({ error: messageOf(error) }, 'the work is begun again when the time of the API server is known');
    }
  }
}

/** Resolves when the API server's time is known, or the signal is aborted: nothing is begun without (docs/protocols.md#h5). */
async function timeKnown({ time, client, clock }: TermLoop, signal: AbortSignal): Promise<void> {
  while (time.estimate() === undefined && !signal.aborted) {
    await client.request({ method: 'GET', path: '/version', signal }).catch(() => undefined);
    if (time.estimate() === undefined) await sleep(clock, 1000, signal).catch(() => undefined);
  }
}

/** In the proportions of Kubernetes' own components: 15, 10 and 2 seconds. */
const leaseTimes = (seconds: number) => ({
  durationMs: seconds * 1000,
  renewDeadlineMs: (seconds * 2000) / 3,
  retryPeriodMs: (seconds * 2000) / 15,
});
