/** What a process that leads a MachineSet may do next: the steps of `reconcileMachineSet`, one call at a time. */
import type { Machine } from '../../src/api/machine.ts';
import type { Stored } from '../../src/api/wire.ts';
import { decideMachineSet, wantedOf } from '../../src/controllers/machineset/decide.ts';
import { statusOf } from '../../src/controllers/machineset/report.ts';
import { NO_TERM } from '../../src/controllers/machineset/obstacle.ts';
import { decideMarks, isEmpty } from '../../src/controllers/machineset/retire.ts';
import {
  DOWN,
  indexOf,
  isAliveHere,
  NONE_TO_GO,
  replaced,
  UNMARKED,
  viewOf,
  type Call,
  type Flight,
  type Kept,
  type Leader,
  type Mutation,
  type Scenario,
  type Step,
  type Store,
  type World,
} from './machinesetworld.ts';

const withLeader = (world: World, index: number, change: Partial<Leader>): World => ({
  ...world,
  leaders: world.leaders.map((each, at) => (at === index ? { ...each, ...change } : each)),
});
const spent = (world: World, of: keyof World['budget']): World => ({
  ...world,
  budget: { ...world.budget, [of]: world.budget[of] - 1 },
});

export function leaderMoves(world: World, index: number, scenario: Scenario): Step[] {
  const leader = world.leaders[index];
  if (leader === undefined) return [];
  const who = `leader ${index}`;
  const moves: Step[] = [];
  const isLed = world.leaders.some(({ epoch }) => epoch === world.epoch);
  if (leader.epoch === 0) {
    if (isLed && world.budget.takeover === 0) return [];
    const epoch = world.epoch + 1;
    const led = withLeader({ ...(isLed ? spent(world, 'takeover') : world), epoch }, index, { ...DOWN, epoch });
    return [{ label: `${who} takes over`, world: led, fault: isLed }];
  }
  if (leader.epoch < world.epoch)
    moves.push({ label: `${who} learns that it is deposed`, world: withLeader(world, index, DOWN), fault: false });
  if (leader.frozen !== undefined)
    moves.push({ label: `${who}'s stores catch up`, world: withLeader(world, index, { frozen: undefined, holds: false }), fault: false });
  else if (world.budget.stale > 0) {
    const frozen: Store = { set: world.set, machines: world.machines };
    moves.push({ label: `${who}'s stores stop following`, world: withLeader(spent(world, 'stale'), index, { frozen }), fault: true });
  }
  const { flight } = leader;
  if (world.budget.crash > 0) {
    const gone = withLeader(spent(world, 'crash'), index, DOWN);
    moves.push({ label: `${who} dies`, world: gone, fault: true });
    const call = flight === undefined ? undefined : nextCall(flight, leader.epoch);
    if (call !== undefined)
      moves.push({ label: `${who} dies with a call under way`, world: { ...gone, late: [...gone.late, call] }, fault: true });
  }
  if (flight === undefined) {
    const begun = begin(world, leader, scenario);
    if (begun !== undefined) moves.push({ label: `${who} runs`, world: withLeader(world, index, { flight: begun }), fault: false });
    else moves.push(...keepNumber(world, index, leader, scenario));
    return moves;
  }
  moves.push({ ...advance(world, index, leader, flight, scenario), fault: false });
  const call = nextCall(flight, leader.epoch);
  if (call !== undefined && world.budget.lostReply > 0) {
    const isMark = call.do === 'mark' && call.epoch !== UNMARKED;
    const unsettled = isMark
      ? [...leader.unsettled.filter(([at]) => at !== call.index), [call.index, call.version] as const]
      : leader.unsettled;
    const lost = withLeader(spent(world, 'lostReply'), index, { flight: undefined, frozen: undefined, holds: false, unsettled });
    moves.push({ label: `${who} waits for an answer in vain`, world: { ...lost, late: [...lost.late, call] }, fault: true });
  }
  return moves;
}

function begin(world: World, leader: Leader, scenario: Scenario): Flight | undefined {
  const { mutation = {} } = scenario;
  if (leader.holds && mutation.runsOnOldStores !== true) return undefined;
  const store = leader.frozen ?? { set: world.set, machines: world.machines };
  const view = viewOf(store, scenario);
  const creates = decideMachineSet(view).create.length;
  const wants = !isEmpty(decideMarks(view, leader.epoch, new Set(leader.unsettled.map(([index]) => `m${index}`))));
  if (creates === 0 && !wants) return undefined;
  const stage = creates > 0 ? (mutation.createsUnchecked === true ? 'create' : 'check') : 'list';
  return { store, stage, creates, most: world.set.replicas ?? mostEver(world, scenario), least: 0, byHand: 0, calls: [] };
}

/** While nobody says how many, what was there is made good. */
const mostEver = (world: World, { machines, scales }: Scenario): number =>
  Math.max(machines, ...scales.slice(0, world.scaled).map((each) => each ?? 0));

/** What a set keeps while nobody says how many: a status written on condition of the set as it was seen. */
function keepNumber(world: World, index: number, leader: Leader, scenario: Scenario): Step[] {
  const store = leader.frozen ?? { set: world.set, machines: world.machines };
  const view = viewOf(store, scenario);
  const { keptReplicas } = statusOf(view, decideMachineSet(view), undefined).status;
  if (keptReplicas === store.set.keptReplicas || store.set.version !== world.set.version) return [];
  const set = { ...world.set, version: world.set.version + 1, keptReplicas };
  const next = withLeader({ ...world, set }, index, leader.frozen === undefined ? {} : { holds: true });
  return [{ label: `leader ${index} notes how many it keeps`, world: next, fault: false }];
}

function nextCall(flight: Flight, epoch: number): Call | undefined {
  const { stage, least, byHand } = flight;
  if (stage === 'create') return { do: 'create', least, byHand };
  const [call] = flight.calls;
  return stage === 'write' && epoch > 0 ? call : undefined;
}

/** After the machines were made: marks, if the stores show any that are to be written. */
function afterCreates(flight: Flight, { epoch, unsettled }: Leader, scenario: Scenario): Flight | undefined {
  const marks = decideMarks(viewOf(flight.store, scenario), epoch, new Set(unsettled.map(([index]) => `m${index}`)));
  return isEmpty(marks) ? undefined : { ...flight, stage: 'list' };
}

function advance(world: World, index: number, leader: Leader, flight: Flight, scenario: Scenario): Omit<Step, 'fault'> {
  const { mutation = {} } = scenario;
  const who = `leader ${index}`;
  const on = (next: Flight | undefined, change: Partial<Leader> = {}): World => withLeader(world, index, { flight: next, ...change });
  switch (flight.stage) {
    case 'check': {
      const isCurrent = flight.store.set.generation === world.set.generation;
      return { label: `${who} reads the set`, world: on(isCurrent ? { ...flight, stage: 'create' } : undefined) };
    }
    case 'create': {
      const creates = flight.creates - 1;
      const next = creates > 0 ? { ...flight, creates } : afterCreates(flight, leader, scenario);
      const holds = leader.holds || leader.frozen !== undefined;
      const made = makeOne(world, leader.epoch < world.epoch);
      const many = made.machines.filter(({ isThere }) => isThere).length;
      const isBroken = leader.epoch === world.epoch && many > flight.most + made.strays;
      return {
        label: `${who} makes a machine`,
        world: withLeader(made, index, { flight: next, holds }),
        ...(isBroken ? { broken: `C8a: there are ${many} machines, at most ${flight.most} were asked for` } : {}),
      };
    }
    case 'list': {
      const listed = mutation.victimsFromStore === true ? flight.store.machines : world.machines;
      const least = world.set.replicas ?? NONE_TO_GO;
      return { label: `${who} lists the machines`, world: on({ ...flight, stage: 'set', listed, least }) };
    }
    case 'set':
      return { label: `${who} reads the set and chooses`, world: chosen(world, index, leader, flight, scenario) };
    case 'write': {
      const [call, ...calls] = flight.calls;
      if (call?.do !== 'mark') return { label: `${who} has written all`, world: on(undefined) };
      const landed = arrive(world, call, mutation);
      const isLost = landed === world;
      const unsettled = isLost ? leader.unsettled : leader.unsettled.filter(([at]) => at !== call.index);
      // One that could not be taken back is perhaps gone: the others are, and nothing else is written.
      const rest = isLost ? (call.epoch < 1 ? calls.filter((each) => each.do === 'mark' && each.epoch < 1) : []) : calls;
      const next = rest.length === 0 ? undefined : { ...flight, calls: rest };
      const holds = leader.holds || (!isLost && leader.frozen !== undefined);
      const what = call.epoch === UNMARKED ? 'takes back the mark of' : call.epoch === NO_TERM ? 'makes void the mark of' : 'marks';
      const label = `${who} ${what} m${call.index}${isLost ? ' and loses' : ''}`;
      const broken = isLost ? undefined : overtakenBy(world, call);
      return { label, world: withLeader(landed, index, { flight: next, unsettled, holds }), ...broken };
    }
    default:
      return flight.stage satisfies never;
  }
}

function chosen(world: World, index: number, leader: Leader, flight: Flight, scenario: Scenario): World {
  const { mutation = {} } = scenario;
  const machines = flight.listed ?? [];
  const versions = new Map(machines.flatMap((each, at) => (each.isThere ? [[at, each.version] as const] : [])));
  const shown = new Set(flight.store.machines.flatMap(({ isThere }, at) => (isThere ? [at] : [])));
  const unsettled = leader.unsettled.filter(([at, version]) => !shown.has(at) || versions.get(at) === version);
  const isDeposed = mutation.epochIgnored !== true && machines.some(({ isThere, retire }) => isThere && retire > leader.epoch);
  if (isDeposed) return withLeader(world, index, DOWN);
  const set = mutation.victimsFromStore === true ? flight.store.set : world.set;
  const open = new Set(unsettled.map(([at]) => `m${at}`));
  const view = viewOf({ set, machines }, scenario);
  const { takeBack, settle, confirm, retire } = decideMarks(view, leader.epoch, open);
  const wanted = wantedOf(view);
  const { least, byHand } = flight;
  const call = (machine: Stored<Machine>, epoch: number): Call => ({
    do: 'mark',
    index: indexOf(machine),
    version: Number(machine.metadata.resourceVersion),
    epoch,
    wanted,
    least,
    byHand,
  });
  const first = [...takeBack.map((machine) => call(machine, UNMARKED)), ...settle.map((machine) => call(machine, NO_TERM))];
  // Nothing else is written before what was to be made void is.
  const others = settle.length > 0 ? [] : [...confirm, ...retire].map((machine) => call(machine, leader.epoch));
  const calls = [...first, ...others];
  const next: Flight | undefined = calls.length === 0 ? undefined : { ...flight, stage: 'write', calls };
  return withLeader(world, index, { flight: next, unsettled });
}

function makeOne(world: World, isStray: boolean): World {
  const made: Kept = { version: 1, isThere: true, retire: UNMARKED, deleting: false, ready: false };
  return {
    ...world,
    machines: [...world.machines, made],
    rows: [...world.rows, 'none'],
    excuses: [...world.excuses, { least: 0, byHand: 0 }],
    strays: world.strays + (isStray ? 1 : 0),
  };
}

/** The rule that this call breaks when it is carried out. */
export function overtakenBy(before: World, call: Call): { broken: string } | undefined {
  if (call.do !== 'mark') return undefined;
  if (call.over === true) return { broken: `C8a: m${call.index} is marked by a call that was overtaken` };
  const kept = before.machines[call.index];
  const isSpared = kept !== undefined && kept.retire < 1 && kept.markedFor === call.wanted;
  return call.epoch > 0 && isSpared
    ? { broken: `C8a: m${call.index} is marked again for ${call.wanted}, though it was spared` }
    : undefined;
}

/** Marks of this machine that are under way come too late from now on. */
export function overtaken(world: World, index: number): World {
  const over = (each: Call): Call => (each.do === 'mark' && each.index === index && each.epoch > 0 ? { ...each, over: true } : each);
  return {
    ...world,
    late: world.late.map(over),
    leaders: world.leaders.map((each) =>
      each.flight === undefined ? each : { ...each, flight: { ...each.flight, calls: each.flight.calls.map(over) } },
    ),
  };
}

function markedForAfter(kept: Kept, call: Extract<Call, { do: 'mark' }>): number | undefined {
  if (call.epoch > 0) return call.wanted;
  return call.epoch === UNMARKED && kept.retire !== NO_TERM ? undefined : kept.markedFor;
}

/** The same world: it is refused. */
export function arrive(world: World, call: Call, mutation: Mutation): World {
  if (call.do === 'create') return makeOne(world, true);
  const kept = world.machines[call.index];
  if (kept === undefined || !kept.isThere) return world;
  if (kept.version !== call.version && mutation.marksUnconditioned !== true) return world;
  const excuse = { least: call.least, byHand: call.byHand };
  // What goes already was decided before.
  const isNew = kept.retire < 1 && call.epoch > 0;
  const next = { ...kept, version: kept.version + 1, retire: call.epoch, markedFor: markedForAfter(kept, call) };
  return {
    ...(call.epoch < 1 ? overtaken(world, call.index) : world),
    machines: replaced(world.machines, call.index, next),
    excuses:
      call.epoch < 1
        ? replaced(world.excuses, call.index, { least: 0, byHand: 0 })
        : isNew
          ? replaced(world.excuses, call.index, excuse)
          : world.excuses,
  };
}

export const aliveIn = (world: World): number => world.machines.filter(isAliveHere).length;
