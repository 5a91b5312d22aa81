import { kubeError } from '../errors.ts';
import { Leases } from '../../api/builtin.ts';
import type { Lease } from '../../api/builtin.ts';
import { messageOf } from '../../api/errors.ts';
import type { Clock, Log, Random } from '../../api/ports.ts';
import type { Stored } from '../../api/wire.ts';
import { askedMsOf, hasReason } from '../api-error.ts';
import type { Client } from '../client.ts';
import { microTime, sleep, withDeadline } from '../clock.ts';

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

/** One process that has a Lease, or wants it. */
export interface Candidate {
  readonly options: LeaseOptions;
  readonly times: LeaseTimes;
  readonly key: { namespace: string; name: string };
  /** Fields of each log line. */
  readonly about: { lease: string; identity: string };
  /** The last record seen, and since when. */
  observed: { record: string; since: number } | undefined;
}

export interface LeaseTimes {
  durationMs: number;
  renewDeadlineMs: number;
  retryPeriodMs: number;
}

/** A moment by both clocks: the monotonic one may stand still while the machine sleeps, the wall clock may be set. */
interface Moment {
  monotonic: number;
  wall: number;
}

/** A Lease that this process has acquired. */
export interface AcquiredLease {
  lease: Stored<Lease>;
  /** As they were acquired; each renewal repeats them. */
  readonly transitions: number;
  readonly acquireTime: string;
  /** Before the request of the last successful write was sent: others began to wait no earlier. */
  renewedAt: Moment;
}

const JITTER = 1.2;

export function newCandidate(options: LeaseOptions): Candidate {
  const { namespace, name, identity } = options;
  return {
    options,
    times: timesOf(options),
    key: { namespace, name },
    about: { lease: `${namespace}/${name}`, identity },
    observed: undefined,
  };
}

function timesOf(options: LeaseOptions): LeaseTimes {
  const { durationMs = 15_000, renewDeadlineMs = 10_000, retryPeriodMs = 2000 } = options;
  if (options.identity === '') throw kubeError('LeaseInvalid', 'a candidate for a Lease needs an identity');
  if (durationMs % 1000 !== 0 || durationMs <= 0) {
    throw kubeError('LeaseInvalid', `durationMs must be whole seconds and more than 0, not ${durationMs}`);
  }
  if (renewDeadlineMs >= durationMs) {
    throw kubeError('LeaseInvalid', `renewDeadlineMs (${renewDeadlineMs}) must be less than durationMs (${durationMs})`);
  }
  if (!(retryPeriodMs > 0) || retryPeriodMs * JITTER >= renewDeadlineMs) {
    throw kubeError('LeaseInvalid', `retryPeriodMs (${retryPeriodMs}) must be well below renewDeadlineMs (${renewDeadlineMs})`);
  }
  return { durationMs, renewDeadlineMs, retryPeriodMs };
}

/** Ms since this Lease was last renewed. */
export function unrenewedMs({ options: { clock } }: Candidate, { renewedAt }: AcquiredLease): number {
  return Math.max(clock.monotonic() - renewedAt.monotonic, clock.now() - renewedAt.wall);
}

const momentOf = (clock: Clock): Moment => ({ monotonic: clock.monotonic(), wall: clock.now() });

function recordOf({ options, times }: Candidate, transitions: number, acquireTime: string): NonNullable<Lease['spec']> {
  return {
    holderIdentity: options.identity,
    leaseDurationSeconds: times.durationMs / 1000,
    acquireTime,
    renewTime: microTime(options.clock.now()),
    leaseTransitions: transitions,
  };
}

/** One request at a time that never hangs for longer than a few attempts take. */
function attempt<T>({ options, times, about }: Candidate, stop: AbortSignal, request: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const ms = 2 * times.retryPeriodMs;
  const late = (): Error => kubeError('Stalled', `the Lease ${about.lease} was not answered for in ${ms} ms`);
  return withDeadline(options.clock, ms, stop, late, request);
}

function find(candidate: Candidate, stop: AbortSignal): Promise<Stored<Lease> | undefined> {
  return attempt(candidate, stop, (signal) => candidate.options.client.find(Leases, candidate.key, { signal }));
}

function update(candidate: Candidate, stop: AbortSignal, lease: Stored<Lease>): Promise<Stored<Lease>> {
  return attempt(candidate, stop, (signal) => candidate.options.client.update(Leases, lease, { signal }));
}

/** Tries until the Lease is acquired; undefined: stopped. */
export async function acquire(candidate: Candidate): Promise<AcquiredLease | undefined> {
  const { options, times, about } = candidate;
  const { signal, log } = options;
  /** The last error that was logged: a server that is away for hours is not worth a line each time. */
  let logged: string | undefined;
  while (!signal.aborted) {
    let askedMs = 0;
    try {
      const acquired = await tryAcquire(candidate);
      if (acquired !== undefined) return acquired;
    } catch (error) {
      if (signal.aborted) return undefined;
      // Another process was faster, as usual in an election.
      const fields = { ...about, error: messageOf(error) };
      askedMs = askedMsOf(error);
      if (hasReason(error, 'Conflict', 'AlreadyExists')) log.debug(fields, 'the Lease was taken by another');
      else log[logged === fields.error ? 'debug' : 'warn'](fields, 'the Lease cannot be acquired');
      logged = fields.error;
    }
    await pause(candidate, Math.min(askedMs, times.durationMs));
  }
  return undefined;
}

/** With jitter, so that candidates do not all ask at once. Ends early when stopped. */
export function pause({ options: { clock, random, signal }, times }: Candidate, leastMs = 0): Promise<void> {
  return sleep(clock, leastMs + times.retryPeriodMs * (1 + random() * JITTER), signal).catch(() => undefined);
}

async function tryAcquire(candidate: Candidate): Promise<AcquiredLease | undefined> {
  const { options, times, key } = candidate;
  const { client, clock, signal, identity } = options;
  const current = await find(candidate, signal);
  const acquireTime = microTime(clock.now());
  if (current === undefined) {
    const renewedAt = momentOf(clock);
    const spec = recordOf(candidate, 0, acquireTime);
    const fresh = { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', metadata: key, spec };
    const lease = await attempt(candidate, signal, (signal) => client.create(Leases, fresh, { signal }));
    return { transitions: 0, acquireTime, renewedAt, lease };
  }
  const record = JSON.stringify(current.spec);
  if (candidate.observed?.record !== record) candidate.observed = { record, since: clock.monotonic() };
  const { holderIdentity = '', leaseDurationSeconds, leaseTransitions = 0 } = current.spec ?? {};
  const expired = clock.monotonic() - candidate.observed.since > (leaseDurationSeconds ?? times.durationMs / 1000) * 1000;
  // Our own name without a term: the answer to an acquisition was lost, or our last term ended early. No other process leads.
  if (holderIdentity !== '' && holderIdentity !== identity && !expired) return undefined;
  const renewedAt = momentOf(clock);
  const transitions = leaseTransitions + 1;
  const next = { ...current, spec: { ...current.spec, ...recordOf(candidate, transitions, acquireTime) } };
  return { transitions, acquireTime, renewedAt, lease: await update(candidate, signal, next) };
}

/** Asks the API server whether the Lease is still from this acquisition. */
export async function isOurs(candidate: Candidate, { transitions }: AcquiredLease, stop: AbortSignal): Promise<boolean> {
  const current = await find(candidate, stop);
  return current?.spec?.holderIdentity === candidate.options.identity && current.spec.leaseTransitions === transitions;
}

/** False: another process has it, or it is gone. */
export function renew(candidate: Candidate, acquired: AcquiredLease, stop: AbortSignal): Promise<boolean> {
  return writeOurs(candidate, acquired, stop, () => recordOf(candidate, acquired.transitions, acquired.acquireTime));
}

export async function release(candidate: Candidate, acquired: AcquiredLease): Promise<void> {
  const { options, about } = candidate;
  const { clock, log } = options;
  try {
    const spec = { holderIdentity: '', leaseDurationSeconds: 1, renewTime: microTime(clock.now()) };
    if (await writeOurs(candidate, acquired, new AbortController().signal, () => spec)) log.info(about, 'released the Lease');
  } catch (error) {
    // It runs out by itself.
    log.info({ ...about, error: messageOf(error) }, 'the Lease was not released');
  }
}

/**
 * Writes the Lease that we have. False: another process has it, or it is gone. A conflict alone proves neither: a write whose answer was
 * lost, or a stranger's annotation, also changes the version.
 */
async function writeOurs(
  candidate: Candidate,
  acquired: AcquiredLease,
  stop: AbortSignal,
  change: () => NonNullable<Lease['spec']>,
): Promise<boolean> {
  const { clock, identity } = candidate.options;
  const write = async (current: Stored<Lease>): Promise<void> => {
    const renewedAt = momentOf(clock);
    acquired.lease = await update(candidate, stop, { ...current, spec: { ...current.spec, ...change() } });
    acquired.renewedAt = renewedAt;
  };
  try {
    await write(acquired.lease);
    return true;
  } catch (error) {
    if (!hasReason(error, 'Conflict', 'NotFound')) throw error;
  }
  const current = await find(candidate, stop);
  if (current?.spec?.holderIdentity !== identity || current.spec.leaseTransitions !== acquired.transitions) return false;
  await write(current);
  return true;
}
