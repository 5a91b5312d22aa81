/**
 * What must never be in a world of repairs, judged without the code under test: by the content of the API and by what the leader that acted had seen of it.
 * What no leader could have seen is no violation.
 */
import type { Node } from '../../../api/builtin.ts';
import type { LedgerReservation } from '../../../api/disruption-ledger.ts';
import type { Machine } from '../../../api/machine.ts';
import { ANNOTATIONS } from '../../../api/names.ts';
import type { Stored } from '../../../api/wire.ts';
import type { Effect } from '../guards.ts';
import { NAMES, type Decided, type Leader, type Objects, type Site } from './repair-leader.ts';

const reservationsOf = ({ ledger }: Objects): readonly LedgerReservation[] => ledger.status?.reservations ?? [];
const ownerOf = (node: Node | undefined): string | undefined => node?.metadata.annotations?.[ANNOTATIONS.cordonOwner];
const isReady = (node: Node | undefined): boolean => node?.status?.conditions?.find(({ type }) => type === 'Ready')?.status === 'True';
const isOurs = (node: Node | undefined): boolean => node?.spec?.unschedulable === true && ownerOf(node) !== undefined;
const isForeign = (node: Node): boolean => ownerOf(node) === undefined || node.metadata.annotations?.[ANNOTATIONS.cordonKept] === 'true';
const uidOf = (truth: Objects, index: number): string | undefined => truth.machines[index]?.metadata.uid;

function reportOf({ spec, status }: Machine): { outcome?: string | undefined } | undefined {
  const { operation } = spec;
  const own = operation?.action === 'MigratePods' || operation?.action === 'PowerCycle' || operation?.action === 'Replace';
  const report = own ? status?.repair : status?.operation;
  return report !== undefined && report.id === operation?.id && report.state === 'Done' ? report : undefined;
}

/**
 * Whether one reservation may replace another (docs/protocols.md#c9): a stale agent has the order of this reservation, or of what this reservation took over and nothing
 * came of, and has not reported how it ended. What may go on there is named by the next reservation as well.
 */
function isHeldUp(reservation: LedgerReservation, next: LedgerReservation, machine: Machine, agentStale: boolean, nowMs: number): boolean {
  const { operation } = machine.spec;
  if (operation === undefined || operation.kind === 'Cancelled' || reportOf(machine) !== undefined) return false;
  const isAgents = [reservation.id, reservation.succeeds].includes(operation.id);
  return agentStale && nowMs > Date.parse(reservation.notAfter) && isAgents && next.kind === 'Repair' && next.succeeds === operation.id;
}

/** As the machines of the world have it. */
const DRAIN_MS = 100_000;

export interface RepairJudge {
  /** A reservation was released, by what these stores must show before anything is reserved by them. */
  released(isPassed: (stores: Objects) => boolean): void;
  /** The ledger was deleted, and made again. */
  forgot(before: Objects, after: Objects): void;
  /** A write of the ledger took effect. */
  wroteLedger(before: Objects, after: Objects, by: Leader, decided: Decided): void;
  wroteMachine(index: number, before: Stored<Machine>, after: Stored<Machine>, decided: Decided, truth: Objects): void;
  wroteNode(index: number, before: Stored<Node>, after: Stored<Node>, seen: Machine | undefined, truth: Objects): void;
  /** An effect that changed the site; `seen`: the Node as it was read for it. */
  did(index: number, effect: Effect, site: Site, seen: Node | undefined, by: Leader, truth: Objects): void;
  /** An agent began an operation. */
  began(operationID: string): void;
  /** Everything that was ever wrong, and what is wrong now. */
  broken(truth: Objects, acting: readonly (string | undefined)[]): string[];
}

export function judgeRepairs(sites: readonly Site[]): RepairJudge {
  const violations: string[] = [];
  const orders = new Map<string, number>();
  const begun = new Map<string, number>();
  const cycled = new Set<string>();
  /** By machine, the limit under which it was last reserved; infinite where it was counted already, and so cost nothing (docs/protocols.md#d7). */
  /** Reservations that were lost with their ledger, before anything bore a trace of them. */
  const forgotten = new Set<string>();
  const allowances = new Map<number, number>();
  const releases: ((stores: Objects) => boolean)[] = [];
  const wrong = (violation: string): void => void violations.push(violation);

  /** Who a leader had to count: reserved, or not there as far as its stores showed. */
  function countedBy(
    { stores, hung }: Pick<Decided, 'stores' | 'hung'>,
    reservations: readonly LedgerReservation[],
    leaving: readonly string[] = [],
  ): Set<number> {
    return new Set(
      NAMES.keys().filter((index) => {
        const node = stores.nodes[index];
        const isReserved = reservations.some(
          (reservation) => reservation.machineUID === uidOf(stores, index) && !leaving.includes(reservation.id),
        );
        const isCordoned = node?.spec?.unschedulable === true && (isForeign(node) || !leaving.includes(ownerOf(node) ?? ''));
        return isReserved || isCordoned || !isReady(node) || hung[index] === true;
      }),
    );
  }

  return {
    released: (isPassed) => void releases.push(isPassed),

    forgot(before, after) {
      const left = new Set(reservationsOf(after).map((reservation) => reservation.id));
      for (const reservation of reservationsOf(before)) {
        const index = NAMES.indexOf(reservation.machine.split('/')[1] ?? '');
        const machine = after.machines[index];
        const order = machine?.spec.operation;
        const isOpen = machine !== undefined && order?.kind !== 'Cancelled' && reportOf(machine) === undefined;
        if (left.has(reservation.id)) continue;
        forgotten.add(reservation.id);
        if (order?.id === reservation.id && isOpen)
          wrong(`D1: ${reservation.machine} is ordered ${reservation.id}, and its reservation is forgotten`);
        // A machine has one reservation: that of its open order, where this reservation has taken it over.
        const isCovered =
          reservation.succeeds !== undefined && left.has(reservation.succeeds) && order?.id === reservation.succeeds && isOpen;
        if (ownerOf(after.nodes[index]) === reservation.id && !isCovered)
          wrong(`D1: ${reservation.machine} is cordoned for ${reservation.id}, and its reservation is forgotten`);
      }
    },

    wroteLedger(before, after, by, decided) {
      if (before.ledger.status?.epoch !== by.epoch)
        wrong(`D2: the ledger of epoch ${before.ledger.status?.epoch} is written in epoch ${by.epoch}`);
      const old = new Set(reservationsOf(before).map((reservation) => reservation.machineUID));
      const added = reservationsOf(after).filter((reservation) => !old.has(reservation.machineUID));
      const counted = countedBy({ stores: by.stores, hung: sites.map((site) => site.hung) }, reservationsOf(before));
      if (added.length > 0 && releases.some((isPassed) => !isPassed(by.stores)))
        wrong('D4: a reservation is judged by stores older than a release');
      for (const reservation of added) {
        const index = NAMES.indexOf(reservation.machine.split('/')[1] ?? '');
        allowances.set(index, counted.has(index) ? Infinity : by.stores.rules.limit);
        if (!counted.has(index) && counted.size >= by.stores.rules.limit)
          wrong(`invariant 2: ${reservation.machine} is reserved beside ${counted.size}, the limit is ${by.stores.rules.limit}`);
        counted.add(index);
        if (by.stores.rules.frozen) wrong(`D11: ${reservation.machine} is reserved while repairs are frozen`);
      }
      for (const reservation of reservationsOf(before)) {
        const next = reservationsOf(after).find((each) => each.machineUID === reservation.machineUID);
        const index = NAMES.indexOf(reservation.machine.split('/')[1] ?? '');
        const machine = after.machines[index];
        if (next?.id === reservation.id || machine === undefined) continue;
        const { operation } = machine.spec;
        const job = after.jobs.find((each) => each.metadata.uid === reservation.requesterUID);
        const isOver = job === undefined || ['Succeeded', 'Failed', 'Cancelled'].includes(job.status?.phase ?? '');
        const isReported = operation?.id === reservation.id && reportOf(machine) !== undefined;
        const isCancelled = operation?.id === reservation.id && operation.kind === 'Cancelled';
        if (next === undefined && !isCancelled && !(isReported && isOver))
          wrong(`D5: the reservation ${reservation.id} of ${reservation.machine} goes before its end`);
        if (next === undefined && ownerOf(after.nodes[index]) === reservation.id)
          wrong(`C4: the reservation ${reservation.id} goes, its cordon of ${reservation.machine} stays`);
        if (next !== undefined && !isHeldUp(reservation, next, machine, decided.agentStale[index] === true, decided.nowMs))
          wrong(`C9: the reservation ${reservation.id} is taken over, though no stale agent blocks it`);
        if (next !== undefined && decided.stores.rules.frozen)
          wrong(`D11: the reservation ${reservation.id} is taken over while repairs are frozen`);
      }
    },

    wroteMachine(index, before, after, decided, truth) {
      const [old, now] = [before.spec.operation, after.spec.operation];
      const repair = after.status?.repair;
      if (repair?.state === 'Running' && before.status?.repair?.id !== repair.id && cycled.has(repair.id))
        wrong(`invariant 5: ${repair.id} is noted as begun after it was done`);
      const noted = before.status?.repair;
      const isAgain = repair !== undefined && noted !== repair && noted?.id === repair.id;
      if (isAgain && (noted.startedAt !== repair.startedAt || noted.state === 'Done'))
        wrong(`invariant 5: ${repair.id} is begun or ended twice`);
      const name = NAMES[index] ?? '';
      if (now !== undefined && now.id === old?.id && now.kind !== old.kind)
        wrong(`D6: ${name} is ordered ${now.id} after it was cancelled, or the other way round`);
      const isOpen = old !== undefined && now?.id !== old.id && old.kind !== 'Cancelled' && reportOf(before) === undefined;
      if (isOpen && now?.kind === 'Cancelled') wrong(`D5: ${now.id} of ${name} is given up, and ${old.id} before it may go on`);
      if (now === undefined || now.id === old?.id || now.kind === 'Cancelled') return;
      const reservation = reservationsOf(truth).find((each) => each.id === now.id);
      const mustDrain =
        now.action === 'Reboot' && decided.hung[index] !== true && decided.nowMs < Date.parse(reservation?.since ?? '') + DRAIN_MS;
      if (mustDrain && (decided.pods[index] ?? 0) > 0) wrong(`C3: ${name} is ordered ${now.action} with pods on it`);
      const of = reservation?.requesterUID ?? `none, by order ${now.id}`;
      orders.set(of, (orders.get(of) ?? 0) + 1);
      if (reservation === undefined) wrong(`invariant 2: ${name} is ordered ${now.id} without a reservation`);
      const job = truth.jobs.find((each) => each.metadata.uid === reservation?.requesterUID);
      if (reservation !== undefined && (job?.status?.operationID !== now.id || job.status.before === undefined))
        wrong(`F3: ${name} is ordered a repair whose job has not noted it`);
      // By what its leader saw: one of too many, and the only one that could still be taken back.
      const { rules, machines, nodes } = decided.stores;
      const reservations = reservationsOf(decided.stores);
      const cancelled = machines.flatMap(({ spec }) => (spec.operation?.kind === 'Cancelled' ? [spec.operation.id] : []));
      const counted = countedBy(decided, reservations, cancelled);
      const node = nodes[index];
      const isOthers = node?.spec?.unschedulable === true && (isForeign(node) || ownerOf(node) !== now.id);
      const isUnhealthy = !isReady(node) || decided.hung[index] === true || isOthers;
      // What took over an order that may go on cannot be taken back.
      const isHeld = ({ succeeds }: LedgerReservation): boolean =>
        machines.some((each) => {
          const order = each.spec.operation;
          return order !== undefined && order.id === succeeds && order.kind !== 'Cancelled' && reportOf(each) === undefined;
        });
      const unordered = reservations.filter((each) => machines.every(({ spec }) => spec.operation?.id !== each.id) && !isHeld(each));
      if (rules.frozen) wrong(`D7: ${name} is ordered while repairs are frozen`);
      if (!decided.stale && counted.size > rules.limit && !isUnhealthy && unordered.every((each) => each.id === now.id))
        wrong(`D7: ${name} is ordered beside ${counted.size - 1}, the limit is ${rules.limit} by now`);
      const isFree = old === undefined || old.kind === 'Cancelled' || reportOf(before) !== undefined;
      if (!isFree && Date.parse(old.notAfter) > Date.parse(reservation?.since ?? ''))
        wrong(`invariant 6: ${name} is ordered ${now.id} while ${old.id} runs`);
    },

    wroteNode(index, before, after, seen, truth) {
      const name = NAMES[index] ?? '';
      const owner = ownerOf(after);
      const reservation = reservationsOf(truth).find((each) => each.machineUID === uidOf(truth, index));
      if (owner !== undefined && owner !== 'Degraded' && owner !== ownerOf(before) && owner !== reservation?.id && !forgotten.has(owner))
        wrong(`C4: ${name} is cordoned for ${owner}, for which the ledger has no reservation`);
      if (before.spec?.unschedulable !== true || after.spec?.unschedulable === true) return;
      const due = seen?.status?.conditions?.some(({ type, status }) => type === 'RepairNeeded' && status === 'True') === true;
      const order = seen?.spec.operation;
      const report = seen === undefined ? undefined : reportOf(seen);
      const drained = ['Reboot', 'MigratePods', 'PowerCycle'].includes(order?.action ?? '');
      if (due && report !== undefined && order?.kind === 'Repair' && (drained || report.outcome !== 'Succeeded'))
        wrong(`C4: ${name} was drained or not repaired, is not healed, and loses its cordon`);
      const wasDegraded = ownerOf(before) === 'Degraded' || before.metadata.annotations?.[ANNOTATIONS.cordonDegraded] === 'true';
      if (due && wasDegraded) wrong(`C4: ${name} is not healed, and loses the cordon that shows it`);
      const live = truth.machines[index];
      if (reservation === undefined || live === undefined || ownerOf(before) !== reservation.id) return;
      const { operation } = live.spec;
      const isOver = operation?.id === reservation.id && (operation.kind === 'Cancelled' || reportOf(live) !== undefined);
      if (!isOver) wrong(`C4: ${name} loses the cordon of ${reservation.id}, which goes on`);
      const job = truth.jobs.find((each) => each.metadata.uid === reservation.requesterUID);
      if (job?.status?.phase === 'Running' && operation?.kind === 'Repair') wrong(`C3: ${name} is given back before its repair is proven`);
    },

    did(index, effect, site, seen, by, truth) {
      const name = NAMES[index] ?? '';
      const repair = truth.machines[index]?.status?.repair;
      const reservation = reservationsOf(truth).find((each) => each.machineUID === uidOf(truth, index));
      if ('operationID' in effect && effect.do !== 'RetirePower') {
        if (repair?.id !== effect.operationID || repair.state === 'Done')
          wrong(`fencing: ${effect.do} of ${name} for an operation that is over`);
        if (effect.do === 'PowerCycle' && cycled.has(effect.operationID))
          wrong(`invariant 5: ${name} is cycled twice for ${effect.operationID}`);
        if (effect.do === 'PowerCycle') cycled.add(effect.operationID);
      }
      if (effect.do === 'ForceDelete' && site.power !== 'Stopped')
        wrong(`fencing: pods of ${name} are taken by force from a node that is on`);
      if (effect.do === 'Evict' || effect.do === 'ForceDelete') {
        if (effect.do === 'Evict' && !isOurs(seen)) wrong(`C4: a pod of ${name} is evicted though the Node was not cordoned by us`);
        // What a leader that is deposed by now had sent before nothing can stop.
        if (reservation === undefined && by.epoch === truth.ledger.status?.epoch)
          wrong(`C4: a pod of ${name} is taken away without a reservation`);
      }
    },

    began: (operationID) => void begun.set(operationID, (begun.get(operationID) ?? 0) + 1),

    broken(truth, acting) {
      const reservations = reservationsOf(truth);
      const disrupted = NAMES.keys().filter(
        (index) =>
          reservations.some((reservation) => reservation.machineUID === uidOf(truth, index)) ||
          // Of a forgotten one nothing but its cordon can still arrive.
          (isOurs(truth.nodes[index]) && !forgotten.has(ownerOf(truth.nodes[index]) ?? '')) ||
          acting[index] !== undefined,
      );
      const all = [...disrupted].filter((index) => allowances.get(index) !== Infinity);
      const allowed = Math.max(0, ...all.map((index) => allowances.get(index) ?? 0));
      const names = all.map((index) => NAMES[index]).join(' and ');
      const twice = [...orders].filter(([, times]) => times > 1).map(([uid]) => `invariant 5: job ${uid} was ordered twice`);
      const again = [...begun].filter(([, times]) => times > 1).map(([id]) => `invariant 5: operation ${id} was begun twice`);
      return [
        ...violations,
        ...(all.length > allowed ? [`invariant 2: ${names} are disrupted or reserved, the limit is ${allowed}`] : []),
        ...twice,
        ...again,
        ...(new Set(reservations.map((reservation) => reservation.machineUID)).size < reservations.length
          ? ['invariant 6: two reservations for one machine']
          : []),
      ];
    },
  };
}
