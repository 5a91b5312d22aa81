/** Acts of a leader that are under way: the real guarded writes of src, one API call at a time. */
import { defenderErrorCodes } from '../../src/defender/errors.ts';
import { actOf } from '../../src/controllers/machine/steps.ts';
import type { Effect } from '../../src/controllers/machine/guards.ts';
import { freeVanished } from '../../src/controllers/machine/reservation/steps.ts';
import { mayAsk } from '../../src/controllers/machine/order/components.ts';
import { decide } from '../../src/controllers/machine/decide.ts';
import type { MachineView, Step } from '../../src/controllers/machine/view.ts';
import { reservationWrite } from '../../src/controllers/machine/reservation/pass.ts';
import { isCoded } from '../../src/api/errors.ts';
import type { KubeObject } from '../../src/api/wire.ts';
import type { GuardedWrite, Move } from '../../src/defender/guarded-write.ts';
import { reservationOfMachine, stateOf } from '../../src/defender/state.ts';
import type { Mutation } from './mutants.ts';
import { brokenByAct } from './repair-invariants.ts';
import {
  machineName,
  POOL,
  withLeader,
  type Flight,
  type Slot,
  type Leader,
  type Scenario,
  type World,
  type Successor,
  type Identities,
} from './world.ts';
import { jobsIn, factsOf, hasPower, isStale, viewOf, read, machineView, cellView } from './leader-view.ts';
import { DOWN } from './terms.ts';
import { carryOut } from './effects.ts';

/**
 * The same world without what can change nothing any more: flights whose write has lost already, since what they were to write has changed
 * after they read it, and terms whose leader has nothing under way and sees a later one. Leaving them out changes no outcome and spares many
 * states.
 */
export function settle(world: World): World {
  let changed = false;
  const leaders = world.leaders.map((leader) => {
    const flights = leader.flights.filter((flight) => !loses(flight, world));
    const seen = stateOf(viewOf(leader, world).ledger.object ?? {}).epoch;
    const jobPasses = leader.jobPasses.filter((pass) => pass.version === world.jobs[pass.index]?.version);
    const over = leader.epoch !== undefined && flights.length === 0 && jobPasses.length === 0 && seen > leader.epoch;
    if (flights.length === leader.flights.length && jobPasses.length === leader.jobPasses.length && !over) return leader;
    changed = true;
    return over ? DOWN : { ...leader, flights, jobPasses };
  });
  return changed ? { ...world, leaders } : world;
}

function loses(flight: Flight, world: World): boolean {
  const at = machineOf(flight);
  switch (flight.writes) {
    case 'machine':
      return isAnother(flight.machine, world.machines[at]);
    case 'node':
      return isAnother(flight.node, world.nodes[at]);
    case 'ledger':
      return flight.ledger !== undefined && flight.ledger.version !== world.ledger.version;
    case 'effect':
    case undefined:
      return false;
    default:
      return flight.writes satisfies never;
  }
}

/** Permanently: neither comes again. What else a write is conditioned on may be as it was once more. */
function isAnother(read: Slot<KubeObject> | undefined, now: Slot<KubeObject> | undefined): boolean {
  return read?.object !== undefined && (read.own !== now?.own || read.object.metadata.uid !== now?.object?.metadata.uid);
}

export const runs = (leader: Leader, key: Flight['key']): boolean => leader.flights.some((flight) => flight.key === key);

export function startable(world: World, leader: Leader, scenario: Scenario, mutation: Mutation): Flight[] {
  const flights: Flight[] = [];
  const cell = viewOf(leader, world);
  const epoch = leader.epoch ?? 0;
  const state = stateOf(cell.ledger.object ?? {});
  // A leader whose own store shows a later term begins nothing.
  if (state.epoch > epoch && mutation.epochIgnored !== true) return [];
  if (!runs(leader, 'cell')) {
    const machines = cell.machines.flatMap((slot) => (slot.object === undefined ? [] : [slot.object]));
    for (const reservation of state.reservations.filter((each) => machines.every((machine) => machine.metadata.uid !== each.machineUID)))
      flights.push({ key: 'cell', what: { vanished: reservation }, epoch, reads: 0 });
    const asks = machines.some(
      (machine) => mayAsk(machine, jobsIn(cell)) && reservationOfMachine(state, machine.metadata.uid) === undefined,
    );
    if (asks && (scenario.repair === undefined || grants(world, leader, scenario, mutation)))
      flights.push({ key: 'cell', what: 'reserve', epoch, reads: 0 });
  }
  for (let index = 0; index < world.machines.length; index++) {
    if (runs(leader, index)) continue;
    const view = machineView(world, leader, cell, index, scenario, mutation);
    if (view === undefined) continue;
    const step = stepOf(view, mutation, world.sites[index]?.keys);
    if (step === undefined) continue;
    flights.push({
      key: index,
      what: { step, time: world.time, halted: world.halted, limit: world.limit, isStale: isStale(world, index) },
      epoch,
      reads: 0,
    });
  }
  return flights;
}

/**
 * Whether a pass that began now and met no other writer would write. One that would not is left out: what changes its mind is a later ledger, which
 * makes it lose, or a later store, and then it may as well begin later.
 */
function grants(world: World, leader: Leader, scenario: Scenario, mutation: Mutation): boolean {
  try {
    const pass = reservationWrite(
      leader.epoch ?? 0,
      () => cellView(world, leader, scenario, undefined, mutation),
      () => '-',
    );
    return 'write' in pass.judge({ ledger: read(world.ledger) });
  } catch (error) {
    if (isCoded(error, defenderErrorCodes, 'Deposed')) return true;
    throw error;
  }
}

/** `spent`: for which operations the provider does nothing more. Steps are carried out one after the other, and that is what the next one waits for. */
function stepOf(view: MachineView, mutation: Mutation, spent: readonly string[] = []): Step | undefined {
  const steps = decide(view).steps.filter((step) => {
    if (step.do === 'RetirePower') return mutation.unretired !== true && !spent.includes(step.reservation.id);
    return step.do !== 'SyncNode' && step.do !== 'EnsureInstance' && step.do !== 'Finalize';
  });
  return mutation.step?.(view, steps[0]) ?? steps[0];
}

function actFor(
  world: World,
  leader: Leader,
  flight: Flight,
  scenario: Scenario,
  identities: Identities,
  mutation: Mutation,
): GuardedWrite<Effect> | undefined {
  const newID = identities(world);
  let act: GuardedWrite<Effect> | undefined;
  if (flight.what === 'reserve') {
    const before = mutation.gatherFirst === true ? flight.gathered : undefined;
    act = reservationWrite(flight.epoch, () => cellView(world, leader, scenario, before, mutation), newID);
  } else if ('vanished' in flight.what) act = freeVanished(flight.what.vanished, flight.epoch);
  else {
    const { step, isStale: stale } = flight.what;
    const name = machineName(Number(flight.key));
    act = actOf(step, {
      epoch: flight.epoch,
      machine: { namespace: POOL, name },
      node: name,
      // The newest jobs that the store has at that time: it is read while the act judges.
      facts: factsOf(
        flight.what,
        stale || (mutation.ignoresAgents === true && step.do === 'TakeOverForRepair'),
        viewOf(leader, world),
        hasPower(scenario),
      ),
      newID,
    });
  }
  if (act === undefined) return undefined;
  return mutation.act?.(act, flight) ?? act;
}

/** Which machine an act is about. */
function machineOf(flight: Flight): number {
  if (typeof flight.key === 'number') return flight.key;
  if (typeof flight.what === 'object' && 'vanished' in flight.what) return Number(flight.what.vanished.machine.split('/m')[1]);
  return 0;
}

export function advance(
  world: World,
  index: number,
  leader: Leader,
  flight: Flight,
  scenario: Scenario,
  identities: Identities,
  mutation: Mutation,
): Omit<Successor, 'fault'> {
  const others = leader.flights.filter((each) => each !== flight);
  const at = machineOf(flight);
  const act = actFor(world, leader, flight, scenario, identities, mutation);
  const ended: World = withLeader(world, index, { ...leader, flights: others });
  const name =
    `leader ${index} ${act?.name ?? ''} ${flight.key === 'cell' && typeof flight.what === 'string' ? '' : machineName(at)}`.trim();
  const target = act?.reads[flight.reads];
  if (act === undefined) return { label: `${name}: nothing`, world: ended };
  if (target !== undefined) {
    const reading: Flight = {
      ...flight,
      reads: flight.reads + 1,
      writes: act.writes,
      ...(flight.reads === 0 && mutation.gatherFirst === true ? { gathered: viewOf(leader, world) } : {}),
      ...(target === 'machine' ? { machine: world.machines[at] } : {}),
      ...(target === 'node' ? { node: world.nodes[at] } : {}),
      ...(target === 'ledger' ? { ledger: world.ledger } : {}),
    };
    return { label: `${name}: reads the ${target}`, world: withLeader(world, index, { ...leader, flights: [...others, reading] }) };
  }
  let move: Move<Effect>;
  try {
    move = act.judge({ machine: read(flight.machine), node: read(flight.node), ledger: read(flight.ledger) });
  } catch (error) {
    if (!isCoded(error, defenderErrorCodes, 'Deposed')) throw error;
    return { label: `${name}: deposed`, world: withLeader(world, index, DOWN) };
  }
  if ('stop' in move) return { label: `${name}: stops, ${move.stop}`, world: ended };
  const after = carryOut(ended, index, at, flight, move, scenario, mutation);
  const uid = world.machines[at]?.object?.metadata.uid;
  // The reservations of a lost ledger are not known.
  const { epoch: now, reservations } = stateOf(world.ledger.object ?? {});
  const evicts =
    'effect' in move && move.effect.do === 'Evict' && now > 0 && reservations.every((reservation) => reservation.machineUID !== uid);
  if (evicts) {
    const deposed = leader.epoch !== now;
    const broken = deposed ? {} : { broken: `C4: a pod of ${machineName(at)} is evicted without a reservation` };
    return { label: `${name}: evicts late`, world: { ...after, lateEvictions: after.lateEvictions + 1 }, ...broken };
  }
  const blindly = flight.what === 'reserve' && after.ledger !== ended.ledger && leader.marks.length > 0;
  const wrong = scenario.repair === undefined ? undefined : brokenByAct(ended, after, index, at, flight, act.name, move);
  return {
    label: `${name}: writes`,
    world: after,
    ...(wrong === undefined ? {} : { broken: wrong }),
    ...(blindly ? { broken: 'D4: a reservation is judged by stores older than a release' } : {}),
  };
}
