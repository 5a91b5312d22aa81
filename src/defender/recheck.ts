/**
 * Judges again what is reserved and not ordered: between the two a policy may have been lowered, a window may have closed, and a machine that
 * cost nothing when it was reserved, being unavailable, may have come back (docs/protocols.md#d7).
 */
import type { LedgerReservation } from '../api/disruption-ledger.ts';
import type { ScopeUsage } from './scope-usage.ts';
import { gatesOf } from './gates.ts';
import { ceilingOf } from './judge.ts';
import { limitsOf, type Limit, type LimitSources } from './limits.ts';
import { inOrder, type Subject, type Verdict } from './request.ts';

/** A reservation without an order, and what is known of its machine now. */
export interface Unordered {
  reservation: LedgerReservation;
  subject: Subject;
  /** What it took over may still run (docs/protocols.md#c9): it keeps its slots with any report about it. */
  keepsSlots: boolean;
}

/** Recovery is never taken back, nor is the deletion by which a repair replaces a machine: that has begun. */
export const isRevocable = (reservation: LedgerReservation): boolean =>
  reservation.class === 'Change' || (reservation.class === 'Repair' && reservation.kind !== 'Delete');

/**
 * By reservation ID, why it may not go on. Of reservations that only exceed a limit together as many as needed, in the order opposite to docs/protocols.md#d9: Change before
 * Repair, the youngest first. Takes what is revoked out of the usage, which must contain every reservation; one that keeps its slots only gets the answer to wait, and
 * another goes instead.
 */
export function revocations(
  unordered: readonly Unordered[],
  usage: ScopeUsage,
  sources: LimitSources,
  nowMs: number,
): Map<string, Verdict> {
  const limits = limitsOf(sources);
  const gates = gatesOf(sources, nowMs);
  const revoked = new Map<string, Verdict>();
  const revoke = ({ reservation, keepsSlots }: Unordered, verdict: Verdict): void => {
    revoked.set(reservation.id, verdict);
    if (!keepsSlots) usage.remove(reservation);
  };
  const revocable = unordered.filter(({ reservation }) => isRevocable(reservation));
  for (const each of revocable) {
    const closed = gates(each.subject, usage);
    if (closed !== undefined) revoke(each, closed);
  }
  for (const each of youngestFirst(revocable)) {
    const { reservation, subject } = each;
    if (revoked.has(reservation.id)) continue;
    for (const limit of limits.on(subject).limits) {
      const verdict = exceeded(limit, reservation, subject, usage, nowMs);
      if (verdict === undefined) continue;
      revoke(each, verdict);
      break;
    }
  }
  return revoked;
}

function youngestFirst(reservations: readonly Unordered[]): Unordered[] {
  const ordered = inOrder(
    reservations.map((each) => ({
      ...each,
      class: each.reservation.class,
      machine: each.reservation.machine,
      since: Date.parse(each.reservation.since),
    })),
  );
  return ordered.toReversed();
}

/** Whether more is taken than the limit has, and less would be without this reservation. */
function exceeded(limit: Limit, reservation: LedgerReservation, subject: Subject, usage: ScopeUsage, nowMs: number): Verdict | undefined {
  const { name, scope, classes, measure } = limit;
  const over = (used: number, of: number, holders: readonly string[], wouldPassWhen: string): Verdict | undefined =>
    used > of
      ? { allowed: false, limit: name, used, of, ...(holders.length === 0 ? {} : { holders: [...holders] }), wouldPassWhen }
      : undefined;
  if (measure.of === 'Unavailable') {
    const ceiling = ceilingOf(limit, usage);
    if ('refusal' in ceiling || usage.isUnavailableByItself(reservation.machineUID)) return undefined;
    const { max, total } = ceiling;
    const slots = usage.slots(scope);
    if (slots.used <= max) return undefined;
    return over(
      slots.used,
      max,
      slots.who().holders,
      `at most ${max} of the ${total} machines of ${scope} are unavailable or reserved, this one with them`,
    );
  }
  if (measure.of === 'Concurrent') {
    const reservations = usage.reservations(scope, classes);
    if (reservations.used <= measure.max) return undefined;
    return over(
      reservations.used,
      measure.max,
      reservations.who().holders,
      `at most ${measure.max} operations (${classes.join(', ')}) are under way in ${scope}`,
    );
  }
  if (measure.of === 'Starts') {
    if (reservation.counted?.scopes.includes(scope) !== true) return undefined;
    const used = usage.starts.within(measure.in, classes, scope);
    const span = measure.in === 'Hour' ? 'an hour' : 'a day';
    return over(used, measure.max, [], `at most ${measure.max} disruptions (${classes.join(', ')}) began in ${scope} within ${span}`);
  }
  // Its own disruption has begun with the cordon, and is none to keep a distance from.
  const last = subject.lastDisruptionMs;
  if (last === undefined || last >= Date.parse(reservation.since) || nowMs - last >= measure.ms) return undefined;
  const at = new Date(last + measure.ms).toISOString();
  return { allowed: false, limit: name, wouldPassWhen: `it is ${at}, ${measure.ms / 1000} s after the last disruption of this machine` };
}
