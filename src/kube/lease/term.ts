import { kubeError } from '../errors.ts';
import { messageOf } from '../../api/errors.ts';
import { askedMsOf } from '../api-error.ts';
import { sleep } from '../clock.ts';
import { isOurs, release, renew, unrenewedMs } from './candidate.ts';
import type { Candidate, AcquiredLease } from './candidate.ts';

/** One acquisition of the Lease; a new acquisition, also by the same process, is a new term. */
export interface Term {
  /** `spec.leaseTransitions` of this acquisition; grows with every term of anyone. */
  readonly transitions: number;
  /** Aborted when the term ends, for any reason. */
  readonly signal: AbortSignal;
  /** False from the moment the term can no longer be relied on, also where a process that was stopped has not yet run its timers. */
  isValid(): boolean;
  /** Ends the term where it is not valid any more, without waiting for a timer, and throws why it ended. */
  require(): void;
  /** Asks the API server whether the Lease is still from this term. */
  isOurs(): Promise<boolean>;
}

/** A term, with what ends it. */
interface RunningTerm {
  readonly term: Term;
  readonly controller: AbortController;
  /** Ends its timer and listener. */
  readonly stop: () => void;
}

/** One term. Resolves with whether to try for another term. */
export async function serve(candidate: Candidate, acquired: AcquiredLease, lead: (term: Term) => Promise<void>): Promise<boolean> {
  const { options, about } = candidate;
  const { signal, log } = options;
  const { term, controller, stop } = beginTerm(candidate, acquired);
  const { transitions } = term;
  const keeping = keep(candidate, acquired, controller);
  let failure: { error: unknown } | undefined;
  try {
    // A stop, or a pause past the deadline, may have come before the term began.
    if (term.isValid()) {
      log.info({ ...about, transitions }, 'leads');
      await lead(term);
    }
  } catch (error) {
    // A `lead` that passes on why its term ended has not failed.
    if (error !== controller.signal.reason) failure = { error };
  }
  const deposed = !signal.aborted && !term.isValid();
  controller.abort(kubeError('LeaseOver', `the work under the Lease ${about.lease} is done`));
  stop();
  log.info({ ...about, transitions, reason: messageOf(controller.signal.reason) }, 'no longer leads');
  if ((await keeping) && !deposed) await release(candidate, acquired);
  if (failure !== undefined) throw failure.error;
  return deposed;
}

function beginTerm(candidate: Candidate, acquired: AcquiredLease): RunningTerm {
  const { options, times, about } = candidate;
  const { clock, signal } = options;
  const controller = new AbortController();
  let cancelTimer: (() => void) | undefined;
  const expire = (): void =>
    controller.abort(kubeError('LeaseLost', `the Lease ${about.lease} could not be renewed for ${times.renewDeadlineMs} ms`));
  const guard = (): void => {
    const left = times.renewDeadlineMs - unrenewedMs(candidate, acquired);
    if (left > 0) cancelTimer = clock.setTimer(left, guard);
    else expire();
  };
  const onStop = (): void => controller.abort(signal.reason);
  signal.addEventListener('abort', onStop, { once: true });
  if (signal.aborted) onStop();
  guard();

  const term: Term = {
    transitions: acquired.transitions,
    signal: controller.signal,
    isOurs: () => isOurs(candidate, acquired, controller.signal),
    isValid: () => !controller.signal.aborted && unrenewedMs(candidate, acquired) < times.renewDeadlineMs,
    require() {
      if (term.isValid()) return;
      expire();
      throw controller.signal.reason;
    },
  };
  const stop = (): void => {
    cancelTimer?.();
    signal.removeEventListener('abort', onStop);
  };
  return { term, controller, stop };
}

/** Renews until the term ends; resolves with whether the Lease may still be ours. */
async function keep(candidate: Candidate, acquired: AcquiredLease, term: AbortController): Promise<boolean> {
  const { options, times, about } = candidate;
  const { clock, log } = options;
  const { retryPeriodMs, renewDeadlineMs } = times;
  let waitMs = retryPeriodMs;
  while (!term.signal.aborted) {
    try {
      await sleep(clock, waitMs, term.signal);
      waitMs = retryPeriodMs;
      if (!(await renew(candidate, acquired, term.signal))) {
        term.abort(kubeError('LeaseLost', `the Lease ${about.lease} belongs to another process`));
        return false;
      }
    } catch (error) {
      // A server that asks for time gets it, as long as one more try is left before the term ends.
      waitMs = Math.max(retryPeriodMs, Math.min(askedMsOf(error), renewDeadlineMs - unrenewedMs(candidate, acquired) - retryPeriodMs));
      if (!term.signal.aborted) log.warn({ ...about, error: messageOf(error), retryInMs: waitMs }, 'the Lease cannot be renewed');
    }
  }
  return true;
}
