/** What must be true in every state and across every step, and what the cell must always be able to reach. */
import type { LedgerReservation } from '../../src/api/disruption-ledger.ts';
import type { Machine } from '../../src/api/machine.ts';
import { ANNOTATIONS } from '../../src/api/names.ts';
import { failedComponents, isRecorded } from '../../src/controllers/machine/order/components.ts';
import { DEGRADED, hasForeignCordon, isCordoned, ownerOf } from '../../src/controllers/machine/cordon/cordon.ts';
import { stateOf } from '../../src/defender/state.ts';
import { isRepaired, orderedWrongly, repairEnded, repairsBrokenIn, takenOver } from './repair-invariants.ts';
import { reporting } from './repairs.ts';
import { machineName, type RepairPlan, type Scenario, type World } from './world.ts';

const reservationsOf = (world: World) => stateOf(world.ledger.object ?? {}).reservations;
/** The ledger was deleted, and no term has begun in a new one: its reservations are not known. */
const isForgotten = (world: World): boolean => stateOf(world.ledger.object ?? {}).epoch === 0;
const uidOf = (world: World, index: number): string | undefined => world.machines[index]?.object?.metadata.uid;

/** What we do to a node: acting on it, keeping pods away from it, or having taken its instance. */
function isDisrupted(world: World, index: number): boolean {
  const node = world.nodes[index]?.object;
  const owner = node === undefined ? undefined : ownerOf(node);
  const cordoned = node !== undefined && isCordoned(node) && owner !== undefined && !hasForeignCordon(node) && !world.late.includes(owner);
  const machine = world.machines[index]?.object;
  return world.agents[index]?.state === 'acting' || cordoned || (machine !== undefined && world.instances[index] !== machine.metadata.uid);
}

/** UIDs of machines that are reserved or that we disrupt. What a human alone did is not counted: it may exceed any limit. */
function counted(world: World): Set<string> {
  const uids = new Set(reservationsOf(world).map((reservation) => reservation.machineUID));
  world.machines.forEach((slot, index) => {
    const uid = slot.object?.metadata.uid ?? machineName(index);
    if (isDisrupted(world, index)) uids.add(uid);
    if (world.cordonedByHuman[index] === true) uids.delete(uid);
    // A node that hangs is unavailable by itself.
    const site = world.sites[index];
    if (site !== undefined && !reporting(site).kubelet) uids.delete(uid);
  });
  return uids;
}

function tooMany(world: World): string[] {
  const uids = counted(world);
  return uids.size > world.limit ? [`invariant 2: ${[...uids].join(' and ')} are disrupted or reserved, the limit is ${world.limit}`] : [];
}

/**
 * Every rule that this state breaks. With humans who cordon, or delete a Node, a machine may be reserved while it is unavailable anyway (docs/protocols.md#d7) and become available
 * after: then only the reservations themselves are judged, by `brokenBetween`.
 */
export function brokenIn(world: World, humans: boolean): string[] {
  const reservations = reservationsOf(world);
  const uids = new Set(reservations.map((reservation) => reservation.machineUID));
  const broken: string[] = [...(humans ? [] : tooMany(world)), ...repairsBrokenIn(world)];
  const epochs = world.leaders.flatMap(({ epoch }) => epoch ?? []);
  if (new Set(epochs).size < epochs.length) broken.push('D1: two terms have one epoch');
  if (uids.size < reservations.length) broken.push('invariant 6: two reservations for one machine');
  world.machines.forEach((slot, index) => {
    if (world.agents[index]?.state === 'acting' && !isForgotten(world) && !uids.has(slot.object?.metadata.uid ?? ''))
      broken.push(`invariant 2: the agent of ${machineName(index)} acts without a reservation`);
    const node = world.nodes[index]?.object;
    if (world.cordonedByHuman[index] === true && node !== undefined && !isCordoned(node))
      broken.push(`invariant 6: the human's cordon of ${machineName(index)} was lifted`);
  });
  return broken;
}

/** Every rule that this step breaks. */
export function brokenBetween(before: World, after: World): string[] {
  const broken: string[] = [];
  for (let index = 0; index < before.machines.length; index++) {
    broken.push(...orders(before, after, index), ...instances(before, after, index), ...cordons(before, after, index));
    if (
      before.agents[index]?.state !== 'acting' &&
      after.agents[index]?.state === 'acting' &&
      after.agents[index]?.order?.kind !== 'Repair' &&
      before.agents[index]?.last === after.agents[index]?.last
    )
      broken.push(`invariant 5: ${machineName(index)} began one operation twice`);
  }
  broken.push(...evictions(before, after), ...wrongReservations(before, after), ...releases(before, after));
  return broken;
}

/** Between the read of the Node and the eviction nothing can stop it: a deposed leader may have one on its way, and no second. */
function evictions(before: World, after: World): string[] {
  return after.lateEvictions > before.lateEvictions && after.lateEvictions > 1 ? ['C4: a deposed leader goes on evicting'] : [];
}

/** A reservation of a machine that a human has made unavailable, by a cordon or by deleting its Node, adds nothing. */
function wrongReservations(before: World, after: World): string[] {
  const known = new Set(reservationsOf(before).map((reservation) => reservation.machineUID));
  const isOfHuman = (index: number): boolean => after.cordonedByHuman[index] === true || after.nodes[index]?.object === undefined;
  const adds = reservationsOf(after).some(
    (reservation) =>
      !known.has(reservation.machineUID) &&
      !isOfHuman(after.machines.findIndex((slot) => slot.object?.metadata.uid === reservation.machineUID)),
  );
  return adds ? tooMany(after) : [];
}

function orders(before: World, after: World, index: number): string[] {
  const old = before.machines[index]?.object;
  const now = after.machines[index]?.object;
  if (old === undefined || now === undefined || old.metadata.uid !== now.metadata.uid) return [];
  const order = now.spec.operation;
  if (order === undefined || order.kind === 'Cancelled' || order.id === old.spec.operation?.id) return [];
  const reservation = reservationsOf(before).find((each) => each.machineUID === now.metadata.uid);
  const broken: string[] = [];
  // What a leader had sent before the ledger that knew its reservation was deleted may arrive: then the machine has the reservation of what it bore before.
  const isLate = reservation !== undefined && order.epoch < before.reborn;
  if (!isForgotten(before) && !isLate && (reservation === undefined || (reservation.id !== order.id && reservation.kind !== 'Delete')))
    broken.push(`C3: ${machineName(index)} is given an order without a reservation`);
  broken.push(...orderedWrongly(before, reservation, order, machineName(index)));
  if (order.epoch < (old.spec.operation?.epoch ?? 0)) broken.push(`D3: the epoch on ${machineName(index)} falls`);
  return broken;
}

function instances(before: World, after: World, index: number): string[] {
  if (before.instances[index] === undefined || after.instances[index] !== undefined) return [];
  const uid = before.instances[index];
  const machine = before.machines[index]?.object;
  const reservation = reservationsOf(before).find((each) => each.machineUID === uid);
  if (isForgotten(before)) return [];
  const allowed = reservation?.kind === 'Delete' && machine?.metadata.uid === uid && machine.metadata.deletionTimestamp !== undefined;
  return allowed ? [] : [`C8: the instance of ${machineName(index)} is deleted without a Delete reservation`];
}

function cordons(before: World, after: World, index: number): string[] {
  const old = before.nodes[index]?.object;
  const now = after.nodes[index]?.object;
  const owner = now?.metadata.annotations?.[ANNOTATIONS.cordonOwner];
  if (owner === undefined || owner === DEGRADED || (old !== undefined && ownerOf(old) === owner)) return [];
  const reserved = reservationsOf(before).some((reservation) => reservation.machineUID === uidOf(before, index));
  return reserved || isForgotten(before) || after.late.includes(owner)
    ? []
    : [`C4: ${machineName(index)} is cordoned for ${owner}, which the ledger does not have`];
}

function releases(before: World, after: World): string[] {
  if (isForgotten(after)) return [];
  const left = new Set(reservationsOf(after).map((reservation) => reservation.id));
  return reservationsOf(before).flatMap((reservation) => {
    if (left.has(reservation.id)) return [];
    const machine = before.machines.find((slot) => slot.object?.metadata.uid === reservation.machineUID)?.object;
    const successor = reservationsOf(after).find((each) => each.machineUID === reservation.machineUID);
    if (
      machine === undefined ||
      (successor?.kind === 'Delete' && machine.metadata.deletionTimestamp !== undefined) ||
      hasEnded(before, machine, reservation) ||
      takenOver(machine, reservation, successor)
    )
      return [];
    return [`D5: reservation ${reservation.id} of ${reservation.machine} is freed though its effect is not known`];
  });
}

function hasEnded(world: World, machine: Machine, reservation: LedgerReservation): boolean {
  const { id } = reservation;
  const order = machine.spec.operation;
  if (order?.id !== id) return false;
  if (order.kind === 'Cancelled') return true;
  if (order.kind === 'Repair') return repairEnded(world, machine, reservation);
  const report = machine.status?.operation;
  return order.kind !== 'Delete' && report?.id === id && report.state === 'Done' && isRecorded(machine, order, () => true);
}

/** Nothing is left to do. Every state must be able to get here with no more faults and no human but the one who lifts a halt. */
export function isConverged(world: World, scenario?: Scenario): boolean {
  if (scenario?.repair !== undefined) return isRepairedAll(world, scenario.repair, !fallsIllAgain(scenario));
  if (world.halted || reservationsOf(world).some((reservation) => !waitsForTime(world, reservation))) return false;
  // A Degraded node counts in every limit until a human has seen to it; others may have to wait for that.
  const used = world.machines.filter((_, index) => needsHuman(world, index)).length;
  return world.machines.every(
    (_, index) => needsHuman(world, index) || isDone(world, index) || (used >= world.limit && waits(world, index)),
  );
}

/** A node that waits for a human counts in every limit; others may have to wait for that. */
function isRepairedAll(world: World, repair: RepairPlan, strictly: boolean): boolean {
  const used = world.nodes.filter(({ object }) => object !== undefined && ownerOf(object) === DEGRADED).length;
  const idle = world.leaders.every((leader) => leader.flights.length === 0 && leader.jobPasses.length === 0);
  if (!idle) return false;
  return world.machines.every((_, index) => isRepaired(world, index, repair, strictly) || (used >= world.limit && blocked(world, index)));
}

/**
 * What recovered may be ill again, with a ladder that is over: by itself, or since a leader that was deposed had sent for its power to be cut
 * before it recovered, which nothing can stop.
 */
function fallsIllAgain({ budget, repair }: Scenario): boolean {
  const stopped = repair?.ladder.includes('MigratePods') === true && (budget.takeover ?? 0) > 0 && (budget.clears ?? 0) > 0;
  return (budget.sickens ?? 0) + (budget.cuts ?? 0) + (budget.hangs ?? 0) > 0 || stopped;
}

/** It asks, and the limit is used up. */
const blocked = (world: World, index: number): boolean =>
  world.jobs[index]?.object?.status?.phase === 'Pending' && reservationsOf(world).length === 0 && ownerOn(world, index) === undefined;

const ownerOn = (world: World, index: number): string | undefined => {
  const node = world.nodes[index]?.object;
  return node === undefined ? undefined : ownerOf(node);
};

/** A dead node's reservation without an order goes when its time has passed, which this world may have no more of. */
function waitsForTime(world: World, reservation: LedgerReservation): boolean {
  const index = world.machines.findIndex((slot) => slot.object?.metadata.uid === reservation.machineUID);
  const dead = world.agents[index]?.state === 'dead' && reservation.kind !== 'Delete';
  return dead && world.budget.expiry === 0 && world.machines[index]?.object?.spec.operation?.id !== reservation.id;
}

function needsHuman(world: World, index: number): boolean {
  const machine = world.machines[index]?.object;
  if (machine === undefined) return false;
  if (machine.metadata.deletionTimestamp !== undefined) return false;
  const reservation = reservationsOf(world).find((each) => each.machineUID === machine.metadata.uid);
  if (world.agents[index]?.state === 'dead') return [undefined, DEGRADED, reservation?.id].includes(ownerOn(world, index));
  return ownerOn(world, index) === DEGRADED && failedComponents(machine).length > 0 && machine.spec.components?.[0]?.failed !== undefined;
}

function waits(world: World, index: number): boolean {
  const machine = world.machines[index]?.object;
  const asks = machine?.metadata.deletionTimestamp !== undefined || machine?.status?.components?.[0]?.state === 'Waiting';
  return asks && ownerOn(world, index) === undefined;
}

function isDone(world: World, index: number): boolean {
  const machine = world.machines[index]?.object;
  if (machine === undefined) return world.instances[index] === undefined && world.nodes[index]?.object === undefined;
  const found = machine.status?.components?.[0];
  const wanted = machine.spec.components?.[0];
  return (
    machine.metadata.deletionTimestamp === undefined &&
    world.agents[index]?.state === 'idle' &&
    ownerOn(world, index) === undefined &&
    found !== undefined &&
    found.state === 'Healthy' &&
    found.running === wanted?.revision
  );
}
