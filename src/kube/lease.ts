import { acquire, newCandidate, pause } from './lease/candidate.ts';
import type { LeaseOptions } from './lease/candidate.ts';
import { serve } from './lease/term.ts';
import type { Term } from './lease/term.ts';

export type { LeaseOptions } from './lease/candidate.ts';
export type { Term } from './lease/term.ts';

/**
 * Leader election over one Lease, after client-go's: a process that does not have it waits until the record has stayed unchanged for its
 * duration by the own clock, so clocks need not agree, only run at about the same speed (renewDeadline × skew < duration).
 *
 * Runs `lead` once a term. Resolves when `signal` stopped it or `lead` returned while its term lasted; rejects with what `lead`
 * threw. In all three cases the Lease is released. `lead` must return soon after its term's signal is aborted; a new term begins
 * only after it did, and never with a signal that is already aborted.
 *
 * Caveat: a leader that is paused between `Term.require` and its request sends it when it wakes; what must never happen twice is conditioned
 * on a resourceVersion as well.
 */
export async function runLeaderElection(options: LeaseOptions, lead: (term: Term) => Promise<void>): Promise<void> {
  const candidate = newCandidate(options);
  for (;;) {
    const acquired = await acquire(candidate);
    if (acquired === undefined || !(await serve(candidate, acquired, lead))) return;
    await pause(candidate);
  }
}
