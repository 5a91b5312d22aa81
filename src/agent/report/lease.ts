import { messageOf } from '../../api/errors.ts';
import type { Clock, Log, Random } from '../../api/ports.ts';
import { halfJitterMs } from '../../kube/backoff.ts';
import { sleep } from '../../kube/clock.ts';

export interface AgentLeaseOptions {
  renew: (signal: AbortSignal) => Promise<void>;
  clock: Clock;
  random: Random;
  log: Log;
  signal: AbortSignal;
}

const EVERY_MS = 60_000;
const AGAIN = { baseMs: 10_000, maxMs: 60_000 };

/** Renews the agent's Lease every 60 s ± 20 %, so that agents do not fall into step; after a failure sooner. Resolves when the signal ends it. */
export async function keepLease({ renew, clock, random, log, signal }: AgentLeaseOptions): Promise<void> {
  let failures = 0;
  while (!signal.aborted) {
    try {
      await renew(signal);
      failures = 0;
    } catch (error) {
      if (signal.aborted) return;
      failures++;
      log.warn({ error: messageOf(error), failures }, 'the Lease was not renewed');
    }
    const pauseMs = failures === 0 ? EVERY_MS * (0.8 + 0.4 * random()) : halfJitterMs(AGAIN, failures, random);
    await sleep(clock, pauseMs, signal).catch(() => undefined);
  }
}
