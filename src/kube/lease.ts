import { Leases } from '../api/builtin.ts';
import type { Lease } from '../api/builtin.ts';
import { CodedError, messageOf } from '../api/errors.ts';
import type { Clock, Log, Random } from '../api/ports.ts';
import type { Stored } from '../api/wire.ts';
import { askedMsOf, hasReason } from './api-error.ts';
import type { Client } from './client.ts';
import { microTime, sleep, withDeadline } from './clock.ts';

export interface LeaseOptions {
  client: Client;
  clock: Clock;
  random: Random;
  log: Log;
  /** Stops: the term is ended, `lead` awaited, the Lease released. */
  signal: AbortSignal;
  namespace: string;
  name: string;
  /** Unique a process: two processes of one identity would both lead. */
  identity: string;
  /** How long others wait after the last renewal they saw; whole seconds. Default 15,000. */
  durationMs?: number;
  /** A leader that could not renew for this long steps down; less than `durationMs`. Default 10,000. */
  renewDeadlineMs?: number;
  /** Between renewals, and between attempts. Default 2,000. */
  retryPeriodMs?: number;
}

/** One acquisition of the Lease; a new acquisition, also by the same process, is a new term. */
export interface Term {
  /** `spec.leaseTransitions` of this acquisition; grows with every term of anyone. */
  readonly transitions: number;
  /** Aborted when the term ends, for whatever reason. */
  readonly signal: AbortSignal;
  /** False from the moment the term can no longer be relied on, also where a process that was stopped has not yet run its timers. */
  isValid(): boolean;
  /** Ends the term where it is not valid any more, without waiting for a timer, and throws why it ended. */
  require(): void;
  /** Asks the API server whether the Lease is still that of this term. */
  holds(): Promise<boolean>;
}

/** A moment by both clocks: the monotonic one may stand still while the machine sleeps, the wall clock may be set. */
interface Moment {
  monotonic: number;
  wall: number;
}

interface Held {
  lease: Stored<Lease>;
  /** As they were acquired; each renewal says them again. */
  readonly transitions: number;
  readonly acquireTime: string;
  /** Before the request of the last successful write was sent: others began to wait no earlier. */
  renewedAt: Moment;
}

const JITTER = 1.2;

/**
 * Leader election over one Lease, after client-go's: whoever does not hold it waits until the record has stood unchanged for its
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
  const { client, clock, random, signal, identity } = options;
  const { durationMs, renewDeadlineMs, retryPeriodMs } = timesOf(options);
  const key = { namespace: options.namespace, name: options.name };
  const about = { lease: `${key.namespace}/${key.name}`, identity };
  const log = options.log;
  /** The last record seen, and since when. */
  let observed: { record: string; since: number } | undefined;

  const moment = (): Moment => ({ monotonic: clock.monotonic(), wall: clock.now() });
  const since = (then: Moment): number => Math.max(clock.monotonic() - then.monotonic, clock.now() - then.wall);

  function recordOf(transitions: number, acquireTime: string): NonNullable<Lease['spec']> {
    return {
      holderIdentity: identity,
      leaseDurationSeconds: durationMs / 1000,
      acquireTime,
      renewTime: microTime(clock.now()),
      leaseTransitions: transitions,
    };
  }

  /** One request at a time that never hangs for longer than a few attempts take. */
  function attempt<T>(stop: AbortSignal, request: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const late = (): Error => new CodedError('Stalled', `the Lease ${about.lease} was not answered for in ${2 * retryPeriodMs} ms`);
    return withDeadline(clock, 2 * retryPeriodMs, stop, late, request);
  }

  async function tryAcquire(): Promise<Held | undefined> {
    const current = await attempt(signal, (signal) => client.find(Leases, key, { signal }));
    const acquireTime = microTime(clock.now());
    if (current === undefined) {
      const renewedAt = moment();
      const fresh = { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', metadata: key, spec: recordOf(0, acquireTime) };
      return { transitions: 0, acquireTime, renewedAt, lease: await attempt(signal, (signal) => client.create(Leases, fresh, { signal })) };
    }
    const record = JSON.stringify(current.spec);
    if (observed?.record !== record) observed = { record, since: clock.monotonic() };
    const { holderIdentity = '', leaseDurationSeconds, leaseTransitions = 0 } = current.spec ?? {};
    const expired = clock.monotonic() - observed.since > (leaseDurationSeconds ?? durationMs / 1000) * 1000;
    // Our own name without a term: the answer to an acquisition was lost, or our last term ended early. Nobody else leads.
    if (holderIdentity !== '' && holderIdentity !== identity && !expired) return undefined;
    const renewedAt = moment();
    const transitions = leaseTransitions + 1;
    const next = { ...current, spec: { ...current.spec, ...recordOf(transitions, acquireTime) } };
    return { transitions, acquireTime, renewedAt, lease: await attempt(signal, (signal) => client.update(Leases, next, { signal })) };
  }

  async function acquire(): Promise<Held | undefined> {
    /** The last thing that was said: a server that is away for hours is not worth a line each time. */
    let said: string | undefined;
    while (!signal.aborted) {
      let asked = 0;
      try {
        const held = await tryAcquire();
        if (held !== undefined) return held;
      } catch (error) {
        if (signal.aborted) return undefined;
        // Another was faster; that is what an election is.
        const fields = { ...about, error: messageOf(error) };
        asked = askedMsOf(error);
        if (hasReason(error, 'Conflict', 'AlreadyExists')) log.debug(fields, 'the Lease was taken by another');
        else log[said === fields.error ? 'debug' : 'warn'](fields, 'the Lease cannot be acquired');
        said = fields.error;
      }
      await pause(Math.min(asked, durationMs));
    }
    return undefined;
  }

  /** With jitter, so that candidates do not all ask at once. Ends early when stopped. */
  function pause(leastMs = 0): Promise<void> {
    return sleep(clock, leastMs + retryPeriodMs * (1 + random() * JITTER), signal).catch(() => undefined);
  }

  /**
   * Writes the Lease that we hold. False: another holds it, or it is gone. A conflict alone proves neither: a write whose answer was
   * lost, or a stranger's annotation, also changes the version.
   */
  async function writeHeld(held: Held, stop: AbortSignal, change: () => NonNullable<Lease['spec']>): Promise<boolean> {
    const write = async (current: Stored<Lease>): Promise<void> => {
      const renewedAt = moment();
      const next = { ...current, spec: { ...current.spec, ...change() } };
      held.lease = await attempt(stop, (signal) => client.update(Leases, next, { signal }));
      held.renewedAt = renewedAt;
    };
    try {
      await write(held.lease);
      return true;
    } catch (error) {
      if (!hasReason(error, 'Conflict', 'NotFound')) throw error;
    }
    const current = await attempt(stop, (signal) => client.find(Leases, key, { signal }));
    if (current?.spec?.holderIdentity !== identity || current.spec.leaseTransitions !== held.transitions) return false;
    await write(current);
    return true;
  }

  function renew(held: Held, stop: AbortSignal): Promise<boolean> {
    return writeHeld(held, stop, () => recordOf(held.transitions, held.acquireTime));
  }

  async function release(held: Held): Promise<void> {
    try {
      const spec = { holderIdentity: '', leaseDurationSeconds: 1, renewTime: microTime(clock.now()) };
      if (await writeHeld(held, new AbortController().signal, () => spec)) log.info(about, 'released the Lease');
    } catch (error) {
      // It runs out by itself.
      log.info({ ...about, error: messageOf(error) }, 'the Lease was not released');
    }
  }

  /** Renews until the term ends; resolves with whether the Lease may still be ours. */
  async function keep(held: Held, term: AbortController): Promise<boolean> {
    let waitMs = retryPeriodMs;
    while (!term.signal.aborted) {
      try {
        await sleep(clock, waitMs, term.signal);
        waitMs = retryPeriodMs;
        if (!(await renew(held, term.signal))) {
          term.abort(new CodedError('LeaseLost', `the Lease ${about.lease} is held by another`));
          return false;
        }
      } catch (error) {
        // A server that asks for time gets it, as long as one more try is left before the term ends.
        waitMs = Math.max(retryPeriodMs, Math.min(askedMsOf(error), renewDeadlineMs - since(held.renewedAt) - retryPeriodMs));
        if (!term.signal.aborted) log.warn({ ...about, error: messageOf(error), retryInMs: waitMs }, 'the Lease cannot be renewed');
      }
    }
    return true;
  }

  /** One term. Resolves with whether to stand again. */
  async function serve(held: Held): Promise<boolean> {
    const controller = new AbortController();
    const { transitions } = held;
    let cancelTimer: (() => void) | undefined;
    const expire = (): void =>
      controller.abort(new CodedError('LeaseLost', `the Lease ${about.lease} could not be renewed for ${renewDeadlineMs} ms`));
    const guard = (): void => {
      const left = renewDeadlineMs - since(held.renewedAt);
      if (left > 0) cancelTimer = clock.setTimer(left, guard);
      else expire();
    };
    const onStop = (): void => controller.abort(signal.reason);
    signal.addEventListener('abort', onStop, { once: true });
    if (signal.aborted) onStop();
    guard();

    const term: Term = {
      transitions,
      signal: controller.signal,
      async holds() {
        const current = await attempt(controller.signal, (signal) => client.find(Leases, key, { signal }));
        return current?.spec?.holderIdentity === identity && current.spec.leaseTransitions === transitions;
      },
      isValid: () => !controller.signal.aborted && since(held.renewedAt) < renewDeadlineMs,
      require() {
        if (term.isValid()) return;
        expire();
        throw controller.signal.reason;
      },
    };
    const keeping = keep(held, controller);
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
    controller.abort(new CodedError('LeaseOver', `the work under the Lease ${about.lease} is done`));
    cancelTimer?.();
    signal.removeEventListener('abort', onStop);
    log.info({ ...about, transitions, reason: messageOf(controller.signal.reason) }, 'no longer leads');
    if ((await keeping) && !deposed) await release(held);
    if (failure !== undefined) throw failure.error;
    return deposed;
  }

  for (;;) {
    const held = await acquire();
    if (held === undefined || !(await serve(held))) return;
    await pause();
  }
}

function timesOf(options: LeaseOptions): { durationMs: number; renewDeadlineMs: number; retryPeriodMs: number } {
  const { durationMs = 15_000, renewDeadlineMs = 10_000, retryPeriodMs = 2000 } = options;
  if (options.identity === '') throw new CodedError('LeaseInvalid', 'a candidate for a Lease needs an identity');
  if (durationMs % 1000 !== 0 || durationMs <= 0) {
    throw new CodedError('LeaseInvalid', `durationMs must be whole seconds and more than 0, not ${durationMs}`);
  }
  if (renewDeadlineMs >= durationMs) {
    throw new CodedError('LeaseInvalid', `renewDeadlineMs (${renewDeadlineMs}) must be less than durationMs (${durationMs})`);
  }
  if (!(retryPeriodMs > 0) || retryPeriodMs * JITTER >= renewDeadlineMs) {
    throw new CodedError('LeaseInvalid', `retryPeriodMs (${retryPeriodMs}) must be well below renewDeadlineMs (${renewDeadlineMs})`);
  }
  return { durationMs, renewDeadlineMs, retryPeriodMs };
}
