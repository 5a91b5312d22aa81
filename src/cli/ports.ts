import type { Clock, Log } from '../api/ports.ts';
import type { Client } from '../kube/client.ts';
import type { Metrics } from '../kube/metrics.ts';

/** What every controller is given. */
export interface Ports {
  client: Client;
  clock: Clock;
  random: () => number;
  log: Log;
  signal: AbortSignal;
  metrics?: Metrics;
}

/** Runs all until the first fails or the signal ends them; one that fails ends the others, so that a restart finds a clean slate. */
export async function together(signal: AbortSignal, works: ((signal: AbortSignal) => Promise<void>)[]): Promise<void> {
  const failed = new AbortController();
  const both = AbortSignal.any([signal, failed.signal]);
  await Promise.all(
    works.map(async (work) => {
      try {
        await work(both);
      } catch (error) {
        failed.abort(error);
        if (!signal.aborted) throw error;
      }
    }),
  );
}
