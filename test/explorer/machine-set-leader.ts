/** What a process that leads a MachineSet may do next: the steps of `reconcileMachineSet`, one call at a time. */
import type { Machine } from '../../src/api/machine.ts';
import type { Stored } from '../../src/api/wire.ts';
import { decideMachineSet, wantedOf } from '../../src/controllers/machine-set/decide.ts';
import { statusOf } from '../../src/controllers/machine-set/report.ts';
import { NO_TERM } from '../../src/controllers/machine-set/obstacle.ts';
import { decideMarks, isEmpty } from '../../src/controllers/machine-set/retire.ts';
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
} from './machine-set-world.ts';

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
    moves.push({
      label: `${who}'s stores catch up`,
      world: withLeader(world, index, { frozen: undefined, awaitsStores: false }),
      fault: false,
    });
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
    const lost = withLeader(spent(world, 'lostReply'), index, { flight: undefined, frozen: undefined, awaitsStores: false, unsettled });
    moves.push({ label: `${who} waits for an answer in vain`, world: { ...lost, late: [...lost.late, call] }, fault: true });
  }
  return moves;
}

function begin(world: World, leader: Leader, scenario: Scenario): Flight | undefined {
  const { mutation = {} } = scenario;
  if (leader.awaitsStores) return undefined;
  const store = leader.frozen ?? { set: world.set, machines: world.machines };
  const view = viewOf(store, scenario);
  const creates = decideMachineSet(view).create.length;
  const wants = !isEmpty(decideMarks(view, leader.epoch, new Set(leader.unsettled.map(([index]) => `m${index}`))));
  if (creates === 0 && !wants) return undefined;
  const names = unseen(store).slice(0, creates);
  const most = world.set.replicas ?? mostEver(world, scenario);
  return { store, stage: firstStage(creates, names, mutation), creates, names, most, least: 0, byHand: 0, calls: [] };
}

/** Names that are noted, and whose machines the stores do not show. */
const unseen = ({ set, machines }: Store): number[] => set.making.filter((index) => machines[index]?.isThere !== true);

function firstStage(creates: number, names: readonly number[], mutation: Mutation): Flight['stage'] {
  if (creates === 0) return 'list';
  if (mutation.namesNotNoted !== true && names.length < creates) return 'names';
  return mutation.createsUnchecked === true ? 'create' : 'check';
}

/** While no number is given, what was there is made good. */
const mostEver = (world: World, { machines, scales }: Scenario): number =>
  Math.max(machines, ...scales.slice(0, world.scaled).map((each) => each ?? 0));

/** The status: what a set keeps while no number is given, and the names that are not observed yet; written on condition of the set as it was seen. */
function keepNumber(world: World, index: number, leader: Leader, scenario: Scenario): Step[] {
  const store = leader.frozen ?? { set: world.set, machines: world.machines };
  const view = viewOf(store, scenario);
  const { keptReplicas } = statusOf(view, undefined).status;
  const making = unseen(store);
  const isSame = keptReplicas === store.set.keptReplicas && making.length === store.set.making.length;
  if (isSame || store.set.version !== world.set.version) return [];
  const set = { ...world.set, version: world.set.version + 1, keptReplicas, making };
  const next = withLeader({ ...world, set }, index, leader.frozen === undefined ? {} : { awaitsStores: true });
  return [{ label: `leader ${index} writes the status`, world: next, fault: false }];
}

function nextCall(flight: Flight, epoch: number): Call | undefined {
  const { stage, names, most, store, least, byHand } = flight;
  if (stage === 'note') return { do: 'note', version: store.set.version, making: names, least, byHand };
  if (stage === 'create') return { do: 'create', index: names[0] ?? NAMELESS, most, least, byHand };
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
    case 'names': {
      const live = { set: flight.store.set, machines: world.machines };
      const creates = decideMachineSet(viewOf(live, scenario)).create.length;
      const pending = unseen(live);
      const fresh = Array.from({ length: Math.max(0, creates - pending.length) }, (_, at) => world.machines.length + at);
      const next: Flight = { ...flight, stage: 'note', creates, names: [...pending, ...fresh] };
      return { label: `${who} lists the machines and draws names`, world: on(creates === 0 ? undefined : next) };
    }
    case 'note': {
      const noted = noteNames(world, flight.store.set.version, flight.names);
      const isLost = noted === world;
      const next: Flight = { ...flight, stage: 'create' };
      const awaitsStores = leader.awaitsStores || (!isLost && leader.frozen !== undefined);
      const label = `${who} notes names for machines${isLost ? ' and loses' : ''}`;
      return { label, world: withLeader(noted, index, { flight: isLost ? undefined : next, awaitsStores }) };
    }
    case 'check': {
      const isCurrent =
        flight.store.set.generation === world.set.generation && flight.names.every((name) => world.set.making.includes(name));
      return { label: `${who} reads the set`, world: on(isCurrent ? { ...flight, stage: 'create' } : undefined) };
    }
    case 'create': {
      const creates = flight.creates - 1;
      const next = creates > 0 ? { ...flight, creates, names: flight.names.slice(1) } : afterCreates(flight, leader, scenario);
      const awaitsStores = leader.awaitsStores || leader.frozen !== undefined;
      const call = nextCall(flight, leader.epoch);
      const made = call === undefined ? world : arrive(world, call, mutation);
      const broken = call === undefined ? {} : brokenBy(world, made, call);
      return { label: `${who} makes a machine`, world: withLeader(made, index, { flight: next, awaitsStores }), ...broken };
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
      const awaitsStores = leader.awaitsStores || (!isLost && leader.frozen !== undefined);
      const what = call.epoch === UNMARKED ? 'takes back the mark of' : call.epoch === NO_TERM ? 'makes void the mark of' : 'marks';
      const label = `${who} ${what} m${call.index}${isLost ? ' and loses' : ''}`;
      const broken = isLost ? undefined : brokenBy(world, landed, call);
      return { label, world: withLeader(landed, index, { flight: next, unsettled, awaitsStores }), ...broken };
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

/** No name was noted for it. */
const NAMELESS = -1;

function noteNames(world: World, version: number, making: readonly number[]): World {
  if (world.set.version !== version) return world;
  const many = Math.max(0, ...making.map((name) => name + 1 - world.machines.length));
  const none: Kept = { version: 0, isThere: false, retire: UNMARKED, deleting: false, ready: false };
  const each = <T>(value: T): T[] => Array.from({ length: many }, () => value);
  return {
    ...world,
    set: { ...world.set, version: version + 1, making },
    machines: [...world.machines, ...each(none)],
    reservations: [...world.reservations, ...each('none' as const)],
    excuses: [...world.excuses, ...each({ least: 0, byHand: 0 })],
  };
}

/** The same world: there is one of that name. */
function makeOne(world: World, index: number): World {
  const kept = world.machines[index];
  if (kept?.isThere === true) return world;
  const made: Kept = { version: (kept?.version ?? 0) + 1, isThere: true, retire: UNMARKED, deleting: false, ready: false };
  const none = { least: 0, byHand: 0 };
  if (kept === undefined)
    return {
      ...world,
      machines: [...world.machines, made],
      reservations: [...world.reservations, 'none'],
      excuses: [...world.excuses, none],
    };
  const strays = world.strays + (kept.version > 0 ? 1 : 0);
  return { ...world, machines: replaced(world.machines, index, made), excuses: replaced(world.excuses, index, none), strays };
}

/** The rule that this call breaks when it is carried out. */
export function brokenBy(before: World, after: World, call: Call): { broken?: string } {
  if (call.do === 'note') return {};
  if (call.do === 'create') {
    const many = after.machines.filter(({ isThere }) => isThere).length;
    const isBroken = after !== before && many > call.most + after.strays;
    return isBroken ? { broken: `C8c: there are ${many} machines, at most ${call.most} were asked for` } : {};
  }
  if (call.over === true) return { broken: `C8a: m${call.index} is marked by a call that was overtaken` };
  const kept = before.machines[call.index];
  const isSpared = kept !== undefined && kept.retire < 1 && kept.markedFor === call.wanted;
  return call.epoch > 0 && isSpared ? { broken: `C8a: m${call.index} is marked again for ${call.wanted}, though it was spared` } : {};
}

export function nameOf(call: Call): string {
  if (call.do === 'note') return 'a note of names';
  if (call.do === 'create') return 'a machine';
  return `the ${call.epoch === UNMARKED ? 'unmarking' : 'mark'} of m${call.index}`;
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
  if (call.do === 'note') return noteNames(world, call.version, call.making);
  if (call.do === 'create') return makeOne(world, call.index);
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
