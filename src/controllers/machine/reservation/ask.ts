/** What a machine asks of Defender, and what forbids it before any limit is checked. Pure. */
import type { LedgerReservation } from '../../../api/disruption-ledger.ts';
import type { Machine } from '../../../api/machine.ts';
import { matchesLabels } from '../../../api/selector.ts';
import { endOf } from '../../../api/machine/operation-end.ts';
import { frozenBy, frozenVerdict } from '../../../defender/freeze.ts';
import type { Request, Verdict } from '../../../defender/request.ts';
import { setScope } from '../../../defender/scopes.ts';
import { changeKey, mayBeOf, repairKey, retryUntil } from './backoff.ts';
import { drainNeeded, waitingComponents, type WaitingComponent } from '../order/components.ts';
import { isDrainTimeout } from '../drain/drain.ts';
import {
  baseScopes,
  drainTimeoutMs,
  hasFinalizer,
  heldBy,
  isDeleting,
  deletionEnds,
  isNeverAskedFor,
  isRetiring,
  operationTimeoutMs,
  poolOf,
  refused,
  requestBase,
  type AskFacts,
  type SetFacts,
} from '../facts.ts';
import { askRepair, type RepairAsk } from '../repair/repair.ts';
import { machineRequester, setRequester } from './requester.ts';

export { nameOf, type AskFacts, type SetFacts } from '../facts.ts';

export type Ask =
  | { state: 'Nothing' }
  | { state: 'Refused'; verdict: Verdict }
  | { state: 'Asks'; request: Omit<Request, 'since'>; components: WaitingComponent[] };

/** A reservation's `scopes` take 16, five of which are the machine's own. */
const MAX_SETS_A_ROW = 11;

const classOf = (component: Pick<WaitingComponent, 'kind'>): 'Restore' | 'Change' => (component.kind === 'Restore' ? 'Restore' : 'Change');

function refusalOf(component: WaitingComponent, machine: Machine, facts: AskFacts): Verdict | undefined {
  const set = facts.sets.get(component.setUID);
  if (component.kind === 'Forward' && set === undefined)
    return refused('MachineComponentSet', `a MachineComponentSet owns ${component.name} of this machine again`);
  // A set that stops blocks new content. It forbids neither the way back nor the repair of content that is there already.
  if (component.kind === 'Forward' && set?.stopped !== undefined)
    return refused(`MachineComponentSet/${set.name}`, `MachineComponentSet ${set.name} is no longer ${set.stopped.toLowerCase()}`);
  const freeze = frozenBy(facts.freezes, classOf(component), poolOf(machine));
  return freeze === undefined ? undefined : frozenVerdict(freeze);
}

/** Components that a hold, sets and freezes allow to begin now; where there are none, why. Applies also to reservations without an order (docs/protocols.md#d6). */
export function permitted(machine: Machine, facts: AskFacts): { components: WaitingComponent[]; refusal: Verdict | undefined } {
  const waiting = waitingComponents(machine);
  if (waiting.length === 0) return { components: [], refusal: undefined };
  const held = heldBy(machine);
  if (held !== undefined) return { components: [], refusal: held };
  const judged = waiting.map((component) => ({ component, refusal: refusalOf(component, machine, facts) }));
  return {
    components: judged.filter(({ refusal }) => refusal === undefined).map(({ component }) => component),
    refusal: judged.find(({ refusal }) => refusal !== undefined)?.refusal,
  };
}

/**
 * Entries that a reservation may carry out now: they are permitted, and are exactly those that it was granted for. An entry that has changed since asks again. A
 * reservation that names no entries covers none.
 */
export function orderable(reservation: LedgerReservation, machine: Machine, facts: AskFacts): WaitingComponent[] {
  return permitted(machine, facts).components.filter(
    (component) =>
      reservation.scopes.includes(setScope(component.setUID)) &&
      (reservation.components ?? []).some(
        (each) => each.name === component.name && each.revision === component.revision && each.class === classOf(component),
      ),
  );
}

/** After a drain that did not end and a failure that may pass, the next try waits until the last one's time is over. */
export function retryAt(machine: Machine): string | undefined {
  const order = machine.spec.operation;
  if (order === undefined) return undefined;
  // The rule of a repair decides about the machine after it.
  const passing = order.kind === 'Change' && endOf(machine)?.outcome === 'TransientFailure';
  const blocked = isDrainTimeout(order);
  return passing || blocked ? order.notAfter : undefined;
}

/** A drain that did not end keeps back only requests that drain for the same reason: neither those without a drain, nor the way back after the drain of a deletion. */
function triedLately(machine: Machine, request: { kind: 'Change' | 'Delete'; drains: boolean }, nowMs: number): Verdict | undefined {
  const order = machine.spec.operation;
  const isConcerned = order?.kind === 'Cancelled' ? request.drains && mayBeOf(order, request.kind) : order?.kind === request.kind;
  const waitUntil = isConcerned ? retryAt(machine) : undefined;
  if (waitUntil === undefined || nowMs > Date.parse(waitUntil)) return undefined;
  return refused('Machine/retry', `it is past ${waitUntil}, when the time of the last try is over`);
}

/** Every scope a machine counts in, also those of sets that have nothing to do here now. */
export function scopesOf(machine: Machine, sets: ReadonlyMap<string, SetFacts>): string[] {
  const written = new Set((machine.spec.components ?? []).map((entry) => entry.setUID));
  const selected = [...sets].filter(
    ([uid, set]) =>
      written.has(uid) ||
      ((set.pools?.includes(poolOf(machine)) ?? true) &&
        (set.selector === undefined || matchesLabels(set.selector, machine.metadata.labels))),
  );
  return [...baseScopes(machine), ...selected.map(([uid]) => setScope(uid))];
}

/** A machine asks for one thing at a time: a repair goes before a change, the way back to what is verified before both (docs/protocols.md#d9). */
export function askOf(machine: Machine, facts: AskFacts): Ask {
  if (machine.spec.paused === true || deletionEnds(machine) !== undefined) return { state: 'Nothing' };
  if (isDeleting(machine)) return askDeletion(machine, facts);
  const change = askChange(machine, facts);
  if (change.state === 'Asks' && change.request.class === 'Restore') return change;
  const repair = askRepairAgain(machine, facts);
  if (repair.state === 'Asks') return repair;
  // A machine that goes gets no new content any more, unless it may not go yet.
  const going: Ask = isRetiring(machine, facts) ? askDeletion(machine, facts) : { state: 'Nothing' };
  if (going.state === 'Asks' || (going.state === 'Refused' && change.state !== 'Asks')) return going;
  return change.state === 'Asks' || repair.state === 'Nothing' ? change : repair;
}

function askRepairAgain(machine: Machine, facts: AskFacts): RepairAsk {
  const ask = askRepair(machine, facts);
  if (ask.state !== 'Asks') return ask;
  const refusal = backedOff(machine, [repairKey(ask.request.action ?? '')], facts);
  return refusal === undefined ? ask : { state: 'Refused', verdict: refusal };
}

function backedOff(machine: Machine, keys: readonly string[], { nowMs }: AskFacts): Verdict | undefined {
  const until = retryUntil(machine, keys, nowMs);
  return until === undefined ? undefined : refused('Machine/retry', `it is past ${until}: the last try failed`);
}

/** What forbids that a machine goes, before any limit. Applies also to a reservation without an order, and to one that is taken over (docs/protocols.md#d11). */
export function deletionRefusal(machine: Machine, facts: Pick<AskFacts, 'freezes' | 'agentAnswers'>): Verdict | undefined {
  const held = heldBy(machine);
  // A node that never comes back would be reported as held for ever.
  if (held !== undefined && (machine.spec.hold === true || facts.agentAnswers)) return held;
  const freeze = frozenBy(facts.freezes, 'Change', poolOf(machine));
  return freeze === undefined ? undefined : frozenVerdict(freeze);
}

function askDeletion(machine: Machine, facts: AskFacts): Ask {
  if (!hasFinalizer(machine) || isNeverAskedFor(machine)) return { state: 'Nothing' };
  const refusal =
    deletionRefusal(machine, facts) ??
    (isDeleting(machine) ? undefined : triedLately(machine, { kind: 'Delete', drains: true }, facts.nowMs));
  if (refusal !== undefined) return { state: 'Refused', verdict: refusal };
  const request: Omit<Request, 'since'> = {
    ...requestBase(machine),
    ...deletion(machine),
    class: 'Change',
    scopes: baseScopes(machine),
  };
  return { state: 'Asks', request, components: [] };
}

/** Whether a way back would ask now: it goes before a deletion without an order (docs/protocols.md#d9). */
export function asksForRestore(machine: Machine, facts: AskFacts): boolean {
  const change = askChange(machine, facts);
  return change.state === 'Asks' && change.request.class === 'Restore';
}

function askChange(machine: Machine, facts: AskFacts): Ask {
  const { components, refusal } = permitted(machine, facts);
  const riding = ridesTogether(components);
  const [first] = riding;
  if (first === undefined) return refusal === undefined ? { state: 'Nothing' } : { state: 'Refused', verdict: refusal };
  if (!facts.agentAnswers) return { state: 'Refused', verdict: refused('Agent/heartbeat', "the agent's Lease is renewed again") };
  const tried = triedLately(machine, { kind: 'Change', drains: drainNeeded(riding) }, facts.nowMs);
  if (tried !== undefined) return { state: 'Refused', verdict: tried };
  const tooSoon = backedOff(machine, riding.map(changeKey), facts);
  if (tooSoon !== undefined) return { state: 'Refused', verdict: tooSoon };
  const request: Omit<Request, 'since'> = {
    ...requestBase(machine),
    kind: 'Change',
    class: classOf(first),
    components: riding.map((component) => ({ name: component.name, revision: component.revision, class: classOf(component) })),
    ...setRequester(first.setUID, facts.sets),
    scopes: [...baseScopes(machine), ...new Set(riding.map((component) => setScope(component.setUID)))],
    mustBeginWithinMs: (drainNeeded(riding) ? drainTimeoutMs(machine) : 0) + operationTimeoutMs(machine),
  };
  return { state: 'Asks', request, components: riding };
}

/** What a Delete reservation records of itself. */
export function deletion(machine: Machine): Pick<Request, 'kind' | 'requesterUID' | 'requester' | 'mustBeginWithinMs'> {
  return {
    kind: 'Delete',
    ...machineRequester(machine),
    mustBeginWithinMs: drainTimeoutMs(machine) + operationTimeoutMs(machine),
  };
}

/** One operation carries entries of several sets, as far as a reservation's scopes reach. The way back goes first, and alone. */
function ridesTogether(waiting: readonly WaitingComponent[]): WaitingComponent[] {
  const restores = waiting.filter((component) => component.kind === 'Restore');
  const components = restores.length > 0 ? restores : waiting;
  const sets = new Set([...new Set(components.map((component) => component.setUID))].slice(0, MAX_SETS_A_ROW));
  return components.filter((component) => sets.has(component.setUID));
}
