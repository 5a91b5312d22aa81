/**
 * The cell's reservation pass: every machine that asks, judged at once, granted in one write of the ledger. Pure but for `gather`, which reads
 * the stores after the ledger was read: a reservation that the ledger lacks at that time was released before, and its marks show whether these stores
 * have what it left behind (docs/protocols.md#d4).
 */
import type { Node } from '../../../api/builtin.ts';
import type { LedgerReservation } from '../../../api/disruption-ledger.ts';
import type { Machine } from '../../../api/machine.ts';
import type { Stored } from '../../../api/wire.ts';
import { scopeUsage, type ScopeUsage } from '../../../defender/scope-usage.ts';
import { frozenBy, frozenVerdict } from '../../../defender/freeze.ts';
import { gatesOf } from '../../../defender/gates.ts';
import type { GuardedWrite } from '../../../defender/guarded-write.ts';
import { judge } from '../../../defender/judge.ts';
import { limitsOf, poolOf } from '../../../defender/limits.ts';
import { ledgerGone, requireEpoch, reserve } from '../../../defender/protocol.ts';
import { isRevocable, revocations, type Unordered } from '../../../defender/recheck.ts';
import { reservationFor, type Request, type Subject, type Verdict } from '../../../defender/request.ts';
import type { AvailabilityIndex } from '../../../defender/availability-index.ts';
import { stateOf, withState, type LedgerState } from '../../../defender/state.ts';
import { mayBackOff } from './backoff.ts';
import { askOf, retryAt, type AskFacts } from './ask.ts';
import { claimOf } from '../observe/claim.ts';
import { DEGRADED, ownerOf } from '../cordon/cordon.ts';
import { withTopology } from '../observe/counted.ts';
import { refused } from '../facts.ts';
import { isSucceeding } from '../repair/repair.ts';

/** One observation of the stores. */
export interface PassView {
  facts: Omit<AskFacts, 'agentAnswers'>;
  /** Every machine that may ask for something, and perhaps others. */
  asking(): readonly Stored<Machine>[];
  /** The machine of a reservation; undefined where there is none of its UID. */
  machineOf(reservation: LedgerReservation): Stored<Machine> | undefined;
  /** All machines, as limits see them now. */
  availabilityIndex(): AvailabilityIndex;
  nodeNamed(name: string): Stored<Node> | undefined;
  agentAnswers(machine: Machine): boolean;
  /** Since when this machine has been asking, as far as this leader knows, ms. */
  askingSince(machineUID: string): number;
  /** Why nothing may be judged from these stores; undefined when they are current. */
  stale: string | undefined;
}

export interface PassResult {
  reservations: LedgerReservation[];
  /** By machine UID, for every machine that asks and has no reservation. */
  verdicts: Map<string, Verdict>;
  /** By reservation ID: reservations without an order that would not be granted any more, and why; undefined: not judged, since the stores are stale. */
  revoked: () => ReadonlyMap<string, Verdict> | undefined;
}

/** A reservation without an order: nothing has begun that could not be stopped. */
export const isUnordered = (reservation: LedgerReservation, machine: Machine | undefined): boolean =>
  machine !== undefined && machine.metadata.uid === reservation.machineUID && machine.spec.operation?.id !== reservation.id;

/** Labels of a machine and of its Node, the machine's own first. */
const labelsOf = (machine: Machine, node: Node | undefined): Record<string, string> => ({
  ...node?.metadata.labels,
  ...machine.spec.labels,
  ...machine.metadata.labels,
});

type Asked = { request: Omit<Request, 'since'> } | { refused: Verdict } | undefined;

/** What a machine asked for when it was last observed, and all that this follows from. Objects of stores are never changed, only replaced. */
const asked = new WeakMap<Machine, { from: readonly unknown[]; as: Asked }>();

function askedBy(machine: Stored<Machine>, view: PassView): Asked {
  const node = view.nodeNamed(machine.metadata.name);
  const agentAnswers = view.agentAnswers(machine);
  // With jobs, and where time decides, it is decided again: that is few of the thousands that may wait for a rollout.
  const isKept = view.facts.jobsOf(machine.metadata.uid).length === 0 && retryAt(machine) === undefined && !mayBackOff(machine);
  const from = [node, agentAnswers, view.facts.epoch, view.facts.sets, view.facts.freezes];
  const known = isKept ? asked.get(machine) : undefined;
  if (known?.from.every((each, at) => each === from[at]) === true) return known.as;
  const as = askedNow(machine, node, { ...view.facts, agentAnswers });
  if (isKept) asked.set(machine, { from, as });
  return as;
}

function askedNow(machine: Stored<Machine>, node: Stored<Node> | undefined, facts: AskFacts): Asked {
  const ask = askOf(machine, facts);
  if (ask.state === 'Refused') return { refused: ask.verdict };
  if (ask.state !== 'Asks') return undefined;
  const stray = strayOn(machine, node);
  if (stray !== undefined)
    return { refused: refused('Machine/cordon', `the cordon of operation ${stray}, for which the ledger has no reservation, is lifted`) };
  const labels = { ...labelsOf(machine, node), ...ask.request.labels };
  return { request: { ...ask.request, labels, scopes: [...withTopology(ask.request.scopes, machine, node)] } };
}

/**
 * The owner of a cordon on the Node of a machine without a reservation: the cordon arrived late, and is about to be lifted. A machine that is unavailable takes no
 * further slot. Without this cordon it would be available, and would take one.
 */
function strayOn(machine: Stored<Machine>, node: Stored<Node> | undefined): string | undefined {
  const claim = claimOf(machine, machine.status?.providerID, node);
  const owner = claim.state === 'Claimed' ? ownerOf(claim.node) : undefined;
  return owner === DEGRADED ? undefined : owner;
}

/** The requests, and the verdicts on machines that may not ask. No limit is counted yet. */
function requestsOf(view: PassView, state: LedgerState): { requests: Request[]; refused: Map<string, Verdict> } {
  const requests: Request[] = [];
  const refused = new Map<string, Verdict>();
  const reserved = new Set(state.reservations.map((reservation) => reservation.machineUID));
  for (const machine of view.asking()) {
    const { uid } = machine.metadata;
    if (reserved.has(uid)) continue;
    const found = askedBy(machine, view);
    if (found === undefined) continue;
    if ('refused' in found) refused.set(uid, found.refused);
    else requests.push({ ...found.request, since: view.askingSince(uid) });
  }
  return { requests, refused };
}

/** The reservations that have no order, each with its machine as it is now. */
function unorderedOf(view: PassView, state: LedgerState): Unordered[] {
  return state.reservations.flatMap((reservation) => {
    const machine = view.machineOf(reservation);
    return machine !== undefined && isUnordered(reservation, machine)
      ? [
          {
            reservation,
            subject: subjectOf(reservation, machine, view.nodeNamed(machine.metadata.name)),
            keepsSlots: isSucceeding(reservation, machine),
          },
        ]
      : [];
  });
}

/** The reservations that were cancelled and are not freed yet. */
const cancelledOf = (view: PassView, state: LedgerState): LedgerReservation[] =>
  state.reservations.filter((reservation) => {
    const operation = view.machineOf(reservation)?.spec.operation;
    return operation?.kind === 'Cancelled' && operation.id === reservation.id;
  });

function subjectOf(reservation: LedgerReservation, machine: Stored<Machine>, node: Stored<Node> | undefined): Subject {
  const last = Date.parse(machine.status?.lastDisruption ?? '');
  return {
    machineUID: reservation.machineUID,
    machine: reservation.machine,
    kind: reservation.kind,
    class: reservation.class,
    ...(reservation.action === undefined ? {} : { action: reservation.action }),
    labels: labelsOf(machine, node),
    lastDisruptionMs: Number.isNaN(last) ? undefined : last,
    scopes: withTopology(reservation.scopes, machine, node),
  };
}

const NONE: ReadonlyMap<string, Verdict> = new Map();

/** Everything in the stores and the ledger, judged once. */
export function decidePass(view: PassView, state: LedgerState, newID: () => string): PassResult {
  const { nowMs } = view.facts;
  const { requests, refused: verdicts } = requestsOf(view, state);
  const unordered = unorderedOf(view, state);
  const sources = view.facts;
  if (view.stale !== undefined) {
    for (const request of requests)
      verdicts.set(request.machineUID, {
        allowed: false,
        requester: request.requester,
        limit: 'Defender/inputs',
        wouldPassWhen: `what Defender sees is current: ${view.stale}`,
      });
    return { reservations: [], verdicts, revoked: () => undefined };
  }
  if (requests.length === 0 && unordered.length === 0) return { reservations: [], verdicts, revoked: () => NONE };

  const availabilityIndex = view.availabilityIndex();
  const waiting = new Set(unordered.map(({ reservation }) => reservation.machineUID));
  const ordered = new Set(state.reservations.map((reservation) => reservation.machineUID).filter((uid) => !waiting.has(uid)));
  const usage = (): ScopeUsage =>
    scopeUsage(availabilityIndex, state.reservations, { nowMs, ordered, ...(state.hours === undefined ? {} : { hours: state.hours }) });

  const revoked = (): ReadonlyMap<string, Verdict> => {
    if (unordered.length === 0) return NONE;
    const left = usage();
    // A cancelled reservation will be freed: no other one has to be cancelled instead.
    for (const reservation of cancelledOf(view, state)) left.remove(reservation);
    return revocations(unordered, left, sources, nowMs);
  };
  // A revoked reservation still counts in its scopes, until the writes of the machine controller free it.
  const judgement =
    requests.length === 0 ? undefined : judge(requests, usage(), sources, { reservations: state.reservations.length, nowMs });
  for (const { machineUID, requester } of requests) {
    const verdict = judgement?.verdicts.get(machineUID);
    if (verdict !== undefined) verdicts.set(machineUID, { ...verdict, requester });
  }
  return { reservations: (judgement?.granted ?? []).map((request) => reservationFor(request, newID(), nowMs)), verdicts, revoked };
}

/**
 * Why a reservation without an order may not go on, by clock and labels at this moment: that may change between two passes. undefined for every other
 * reservation.
 */
export function closedNow(
  reservation: LedgerReservation,
  machine: Stored<Machine>,
  node: Stored<Node> | undefined,
  view: Pick<PassView, 'facts'>,
): Verdict | undefined {
  if (!isUnordered(reservation, machine) || !isRevocable(reservation)) return undefined;
  const freeze = frozenBy(view.facts.freezes, reservation.class, poolOf(reservation.machine));
  if (freeze !== undefined) return frozenVerdict(freeze);
  return gatesOf(view.facts, view.facts.nowMs)(subjectOf(reservation, machine, node), undefined);
}

/** L; writes L. A release or a reservation that comes between makes it lose. `onJudged` gets the result of every judgement. */
export function reservationWrite(
  epoch: number,
  gather: () => PassView,
  newID: () => string,
  onJudged: (result: PassResult) => void = () => undefined,
): GuardedWrite {
  return {
    name: 'reserve',
    machine: { name: '' },
    node: '',
    reads: ['ledger'],
    writes: 'ledger',
    judge(seen) {
      if (seen.ledger === undefined) throw ledgerGone();
      const state = stateOf(seen.ledger);
      requireEpoch(state, epoch);
      const view = gather();
      const result = decidePass(view, state, newID);
      onJudged(result);
      if (result.reservations.length === 0) return { stop: 'nothing is granted' };
      const { rated } = limitsOf(view.facts);
      return {
        write: 'ledger',
        object: withState(seen.ledger, reserve(state, epoch, result.reservations, { nowMs: view.facts.nowMs, rated })),
      };
    },
  };
}
