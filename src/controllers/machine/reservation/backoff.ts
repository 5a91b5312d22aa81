/**
 * After each try without success a machine waits longer before it asks again (docs/protocols.md#c10). The operation itself carries the count, so that a leader
 * that takes over goes on from there. Pure.
 */
import type { LedgerReservation } from '../../../api/disruption-ledger.ts';
import type { Machine, Operation } from '../../../api/machine.ts';
import { operationState } from '../../../api/machine/operation-end.ts';
import { setScope } from '../../../defender/scopes.ts';
import type { WaitingComponent } from '../order/components.ts';

export type Retry = NonNullable<Operation['retry']>;

const BASE_MS = 30_000;
const MAX_MS = 3_600_000;
/** A repair is for a node that has failed: it is not kept waiting for as long. */
const MAX_REPAIR_MS = 600_000;
/** A try that ended longer ago than this does not count. */
const FORGET_MS = 6 * 3_600_000;
const MAX_TRIES = 32;
/** Of `of`. */
const MAX_KEYS = 64;

/** The server's clock may be set back. A time that was written before that counts only where it is at most this far in the future. */
const AHEAD_MS = 10_000;

export const changeKey = ({ name, revision }: Pick<WaitingComponent, 'name' | 'revision'>): string => `Change ${name}@${revision}`;
export const repairKey = (action: string): string => `Repair ${action}`;

const DELETE_KEY = 'Delete';

/** What a reservation asks for: entries of the sets in whose scopes it is, an action, or that the machine goes. */
function keysOf({ kind, action, scopes }: LedgerReservation, machine: Machine): string[] {
  switch (kind) {
    case 'Change':
      return (machine.spec.components ?? []).filter(({ setUID }) => scopes.includes(setScope(setUID))).map(changeKey);
    case 'Repair':
      return action === undefined ? [] : [repairKey(action)];
    case 'Delete':
      return [DELETE_KEY];
    default:
      return kind satisfies never;
  }
}

/** Whether the operation on the Machine is over, and neither changed anything nor failed permanently. */
function cameToNothing(machine: Machine): boolean {
  const found = operationState(machine);
  if (found.state === 'Cancelled') return true;
  return found.state === 'Ended' && ['Cancelled', 'Superseded', 'TransientFailure'].includes(found.outcome);
}

/** The last try for one of these, where it had no success lately. */
function lastTry(machine: Machine, keys: readonly string[], nowMs: number): Retry | undefined {
  const retry = machine.spec.operation?.retry;
  if (retry === undefined || !keys.some((key) => retry.of.includes(key)) || !cameToNothing(machine)) return undefined;
  const sinceMs = nowMs - Date.parse(retry.at);
  return sinceMs >= -AHEAD_MS && sinceMs < FORGET_MS ? retry : undefined;
}

/** A deletion has no count of its own: it waits for what stopped it, and hands on the count of what was tried before it. */
function carriedOver(machine: Machine, nowMs: number): Retry {
  const last = cameToNothing(machine) ? machine.spec.operation?.retry : undefined;
  if (last === undefined) return { of: [DELETE_KEY], tries: 1, at: new Date(nowMs).toISOString() };
  return { ...last, of: [DELETE_KEY, ...last.of.filter((key) => key !== DELETE_KEY)].slice(0, MAX_KEYS) };
}

/** Whether a reservation of this kind may have been given up by this operation; one that does not record of what it was may be of any. */
export function mayBeOf({ retry }: Operation, kind: 'Change' | 'Delete'): boolean {
  return retry === undefined || retry.of.includes(DELETE_KEY) === (kind === 'Delete');
}

/** What the operation that is written for this reservation now records of its tries; undefined where nothing is ever tried again. */
export function tryOf(reservation: LedgerReservation, machine: Machine, nowMs: number): { retry?: Retry } {
  const keys = keysOf(reservation, machine);
  if (keys.length === 0) return {};
  if (reservation.kind === 'Delete') return { retry: carriedOver(machine, nowMs) };
  const tries = Math.min(MAX_TRIES, 1 + (lastTry(machine, keys, nowMs)?.tries ?? 0));
  return { retry: { of: keys, tries, at: new Date(nowMs).toISOString() } };
}

/** When one of these may be asked for again; undefined: now. */
export function retryUntil(machine: Machine, keys: readonly string[], nowMs: number): string | undefined {
  const last = lastTry(machine, keys, nowMs);
  if (last === undefined) return undefined;
  const maxMs = keys.every((key) => key.startsWith('Repair ')) ? MAX_REPAIR_MS : MAX_MS;
  // A reservation that was given up before its order may ask again at once, one time: the limit that refused it will judge it again.
  const earlier = last.tries - (machine.spec.operation?.kind === 'Cancelled' ? 2 : 1);
  const untilMs = Date.parse(last.at) + (earlier < 0 ? 0 : Math.min(maxMs, BASE_MS * 2 ** earlier));
  return nowMs < untilMs ? new Date(untilMs).toISOString() : undefined;
}

/** Whether time alone may change what this machine may ask for. */
export const mayBackOff = (machine: Machine): boolean => machine.spec.operation?.retry !== undefined && cameToNothing(machine);
