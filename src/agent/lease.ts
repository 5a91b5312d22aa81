import { messageOf } from '../api/errors.ts';
import type { Clock, Log, Random } from '../api/ports.ts';
import { sleep } from '../kube/clock.ts';

export interface LeaseOptions {
  renew: (signal: AbortSignal) => Promise<void>;
  clock: Clock;
  random: Random;
  log: Log;
  signal: AbortSignal;
}

const EVERY_MS = 60_000;
const AGAIN_MS = 10_000;

/** Renews the agent's Lease every 60 s ± 20 %, so that agents do not fall into step; after a failure sooner. Resolves when the signal ends it. */
export async function keepLease({ renew, clock, random, log, signal }: LeaseOptions): Promise<void> {
  while (!signal.aborted) {
    let baseMs = EVERY_MS;
    try {
      await renew(signal);
    } catch (error) {
      if (signal.aborted) return;
      baseMs = AGAIN_MS;
      log.warn({ error: messageOf(error) }, 'the Lease was not renewed');
    }
    await sleep(clock, baseMs * (0.8 + 0.4 * random()), signal).catch(() => undefined);
  }
}
