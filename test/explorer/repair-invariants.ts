/** Invariants 2, 5 and 6 for repairs: what one act, one step or one state breaks, and where nothing is left to do. */
import { needsDrain } from '../../src/api/disruption.ts';
import type { LedgerReservation } from '../../src/api/disruption-ledger.ts';
import type { Machine, Operation } from '../../src/api/machine.ts';
import { ACTION_TRAITS } from '../../src/api/node-remedier/values.ts';
import { isFinished, type RemedyOperationJob } from '../../src/api/remedy-operation-job.ts';
import { endOf } from '../../src/api/machine/operation-end.ts';
import { DEGRADED, isCordoned, ownerOf, wasDegraded } from '../../src/controllers/machine/cordon/cordon.ts';
import type { Effect } from '../../src/controllers/machine/guards.ts';
import { isRepairNeeded } from '../../src/controllers/machine/facts.ts';
import type { Move } from '../../src/defender/guarded-write.ts';
import { stateOf } from '../../src/defender/state.ts';
import { reporting, needsRepair, rungsLeft } from './repairs.ts';
import { machineName, TIMES, type Flight, type RepairPlan, type World } from './world.ts';

const reservationsOf = (world: World): readonly LedgerReservation[] => stateOf(world.ledger.object ?? {}).reservations;

/** The job of a reservation, as the server has it. */
export const jobOf = (world: World, requesterUID: string): RemedyOperationJob | undefined =>
  world.jobs.find((slot) => slot.object?.metadata.uid === requesterUID)?.object;

const drains = ({ action }: Operation): boolean =>
  action === 'PowerCycle' || Object.entries(ACTION_TRAITS).some(([name, { disruption }]) => name === action && needsDrain(disruption));

/** By one act of a leader, judged by what that act itself had read where nothing could have fenced it better. */
export function brokenByAct(
  before: World,
  after: World,
  leader: number,
  at: number,
  flight: Flight,
  act: string,
  move: Exclude<Move<Effect>, { stop: string }>,
): string | undefined {
  const name = machineName(at);
  const led = before.leaders[leader]?.epoch === stateOf(before.ledger.object ?? {}).epoch;
  if ('effect' in move) {
    const touched = after.sites[at] !== before.sites[at] || after.pods !== before.pods || after.machines !== before.machines;
    const reserved = reservationsOf(before).some((reservation) => reservation.machineUID === before.machines[at]?.object?.metadata.uid);
    if (move.effect.do === 'ForceDelete' && after.pods !== before.pods && before.sites[at]?.power !== 'Stopped')
      return `fencing: pods of ${name} are taken by force from a node that is on`;
    const { power, boot } = before.sites[at] ?? {};
    const isPower = after.sites[at]?.power !== power || after.sites[at]?.boot !== boot;
    const repair = before.machines[at]?.object?.status?.repair;
    if (isPower && 'operationID' in move.effect && (repair?.id !== move.effect.operationID || repair.state === 'Done'))
      return `fencing: ${move.effect.do} of ${name} for an operation that is over`;
    // What a leader that is deposed by now had sent before nothing can stop.
    if (touched && led && !reserved) return `invariant 2: ${move.effect.do} of ${name} without a reservation`;
    return undefined;
  }
  if (act === 'take-over-for-repair' && after.ledger !== before.ledger) {
    const stale = typeof flight.what === 'object' && 'isStale' in flight.what && flight.what.isStale;
    if (!stale) return `C9: a reservation of ${name} is taken over though its agent reported`;
  }
  if (move.write === 'node' && after.nodes[at] !== before.nodes[at]) return uncordoned(before, after, at, flight);
  return undefined;
}

/** Where an act makes a node schedulable. */
function uncordoned(before: World, after: World, at: number, flight: Flight): string | undefined {
  const name = machineName(at);
  const old = before.nodes[at]?.object;
  const now = after.nodes[at]?.object;
  if (old === undefined || now === undefined || !isCordoned(old) || isCordoned(now)) return undefined;
  const reservation = reservationsOf(before).find((each) => each.machineUID === before.machines[at]?.object?.metadata.uid);
  const live = before.machines[at]?.object;
  const phase = reservation === undefined ? undefined : jobOf(before, reservation.requesterUID)?.status?.phase;
  if (
    reservation?.kind === 'Repair' &&
    ownerOf(old) === reservation.id &&
    live?.spec.operation?.kind === 'Repair' &&
    (phase === 'Running' || phase === 'Verifying')
  )
    return `C3: ${name} is given back before its repair is proven`;
  const seen = flight.machine?.object;
  if (seen === undefined || !isRepairNeeded(seen)) return undefined;
  if (wasDegraded(old)) return `C4: ${name} is not healed, and loses the cordon that Degraded had`;
  const order = seen.spec.operation;
  const report = endOf(seen);
  const unhealed = order?.kind === 'Repair' && report !== undefined && (drains(order) || report.outcome !== 'Succeeded');
  return unhealed ? `C4: ${name} was drained or not repaired, is not healed, and loses its cordon` : undefined;
}

/** An order of kind Repair is for a job that was granted this very reservation, is not over, and knows what the node was like before. */
export function orderedWrongly(before: World, reservation: LedgerReservation | undefined, order: Operation, name: string): string[] {
  if (order.kind !== 'Repair' || reservation === undefined) return [];
  const job = jobOf(before, reservation.requesterUID);
  const { operationID, before: was } = job?.status ?? {};
  // Removed by a human just now, which no store has shown yet.
  if (job === undefined)
    return before.jobs.some((slot) => slot.object === undefined) ? [] : [`F3: ${name} is ordered a repair for a job that is gone`];
  if (isFinished(job)) return [`F3: ${name} is ordered a repair for a job that is over`];
  if (operationID !== order.id) return [`F3: ${name} is ordered a repair for a job that was not granted ${order.id}`];
  return was === undefined ? [`F4: ${name} is ordered a repair whose success could not be proven`] : [];
}

/** Whether what came of a Repair is known and recorded on its job. */
export function repairEnded(world: World, machine: Machine, reservation: LedgerReservation): boolean {
  const job = jobOf(world, reservation.requesterUID);
  return endOf(machine)?.report.id === reservation.id && (job === undefined || isFinished(job));
}

/** docs/protocols.md#c9: the agent's order can no longer begin. Whether it is stale is judged where the act is. */
export function takenOver(machine: Machine, reservation: LedgerReservation, successor: LedgerReservation | undefined): boolean {
  return successor?.kind === 'Repair' && TIMES[0] > Date.parse(reservation.notAfter) && machine.spec.operation?.id === reservation.id;
}

export function repairsBrokenIn(world: World): string[] {
  return world.sites.flatMap(({ acts }, index) =>
    new Set(acts).size < acts.length ? [`invariant 5: ${machineName(index)} is restarted or booted twice for one operation`] : [],
  );
}

/** Nothing is left to do for this machine but by a human. `strictly`: what is ill now was never well since its last repair. */
export function isRepaired(world: World, index: number, plan: RepairPlan, strictly: boolean): boolean {
  const machine = world.machines[index]?.object;
  const node = world.nodes[index]?.object;
  const site = world.sites[index];
  const agent = world.agents[index];
  if (machine === undefined) return node === undefined && world.instances[index] === undefined;
  if (machine.metadata.deletionTimestamp !== undefined || site === undefined || node === undefined || agent === undefined) return false;
  const needed = needsRepair(world, index);
  const reports = reporting(site).agent;
  const job = world.jobs[index]?.object;
  const open = job !== undefined && !isFinished(job);
  // Nothing can be ordered of a node that does not report and cannot be reached.
  const waits =
    open &&
    job.status?.phase === 'Pending' &&
    !reports &&
    plan.powerless === true &&
    job.spec.action !== 'MigratePods' &&
    job.spec.action !== 'Replace';
  if (open && !waits) return false;
  if (isRepairNeeded(machine) !== needed) return false;
  if (reports && (agent.state !== 'idle' || agent.report !== undefined)) return false;
  if (reservationsOf(world).some((reservation) => reservation.machineUID === machine.metadata.uid)) return false;
  const owner = ownerOf(node);
  if (!needed) {
    const found = machine.status?.components?.[0];
    const done = !reports || (found?.state === 'Healthy' && found.running === machine.spec.components?.[0]?.revision);
    return owner === undefined && isCordoned(node) === (world.cordonedByHuman[index] === true) && done;
  }
  if (!waits && rungsLeft(world, index, plan) > 0) return false;
  const order = machine.spec.operation;
  const report = endOf(machine);
  const stays = order?.kind === 'Repair' && report !== undefined && (drains(order) || report.outcome !== 'Succeeded');
  return stays && strictly ? owner === DEGRADED : owner === undefined || owner === DEGRADED;
}
