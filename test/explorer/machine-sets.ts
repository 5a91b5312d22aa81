/** One MachineSet in which everything may happen that may, and what is promised of it (docs/protocols.md#c8a). */
import { askOf, deletionRefusal } from '../../src/controllers/machine/reservation/ask.ts';
import { isRetiring, type AskFacts } from '../../src/controllers/machine/facts.ts';
import { aliveIn, arrive, brokenBy, leaderMoves, nameOf, overtaken } from './machine-set-leader.ts';
import {
  DOWN,
  isAliveHere,
  keyOf,
  machineOf,
  NONE_TO_GO,
  NOTHING,
  replaced,
  UNMARKED,
  type Call,
  type Excuse,
  type Kept,
  type Scenario,
  type Step,
  type World,
} from './machine-set-world.ts';
import type { Space } from './search.ts';

const FREEZE = [{ metadata: { name: 'night' }, spec: {} }];

function start({ machines, replicas, budget }: Scenario): World {
  const kept: Kept = { version: 1, isThere: true, retire: UNMARKED, deleting: false, ready: true };
  return {
    set: { version: 1, generation: 1, replicas: replicas ?? machines, keptReplicas: undefined, making: [] },
    machines: Array.from({ length: machines }, () => kept),
    epoch: 1,
    leaders: [{ ...DOWN, epoch: 1 }, DOWN],
    late: [],
    reservations: Array.from({ length: machines }, () => 'none'),
    excuses: Array.from({ length: machines }, () => ({ least: 0, byHand: 0 })),
    deletions: [],
    frozen: false,
    strays: 0,
    scaled: 0,
    budget: { ...NOTHING, ...budget },
  };
}

const factsOf = ({ epoch, frozen }: World, { freezeIgnored }: { freezeIgnored?: boolean } = {}): AskFacts => ({
  nowMs: Date.UTC(2026, 10, 20, 12),
  sets: new Map(),
  freezes: frozen && freezeIgnored !== true ? FREEZE : [],
  policies: [],
  jobsOf: () => [],
  canPowerCycle: () => false,
  agentAnswers: true,
  epoch,
});

/** The machine controller of this term, as far as a machine goes: what it asks and what it gives up is decided by its own code. */
function machineMoves(world: World, { mutation = {} }: Scenario): Step[] {
  const facts = factsOf(world, mutation);
  return world.machines.flatMap((kept, index): Step[] => {
    if (!kept.isThere) return [];
    const name = `m${index}`;
    const machine = machineOf(kept, index);
    const reservation = world.reservations[index];
    const at = (next: World['reservations'][number]): World => ({ ...world, reservations: replaced(world.reservations, index, next) });
    const step = (label: string, next: World, begins = false): Step => ({
      label: `${name} ${label}`,
      world: next,
      fault: false,
      ...(begins && world.frozen ? { broken: `invariant 5: ${name} ${label} under a Freeze` } : {}),
    });
    const retiring = isRetiring(machine, mutation.epochIgnored === true ? { epoch: kept.retire } : facts);
    const wanted = kept.deleting || retiring;
    const asked = askOf(machine, mutation.epochIgnored === true ? { ...facts, epoch: kept.retire } : facts);
    const refused = deletionRefusal(machine, facts) !== undefined;
    if (reservation === 'none')
      return asked.state === 'Asks' && asked.request.kind === 'Delete' ? [step('is granted its deletion', at('granted'), true)] : [];
    if (kept.deleting && reservation === 'drained')
      return [step('is gone', { ...at('none'), machines: replaced(world.machines, index, { ...kept, isThere: false }) })];
    if (!wanted || refused) return [step('stays: its reservation is given up', at('none'))];
    if (reservation === 'granted') {
      // What is being deleted already is drained as far as it can be in time.
      const drained = step('is drained', at('drained'), true);
      if (kept.deleting) return [drained];
      if (kept.undrained !== true) return [drained, ...timeoutMoves(world, index, kept)];
      return [step('is not drained in time: its reservation is given up', at('none'))];
    }
    if (world.deletions.some((each) => each.index === index && each.version === kept.version)) return [];
    const deletions = [...world.deletions, { index, version: kept.version }];
    return [step('is to be deleted', { ...world, deletions }, true)];
  });
}

/** A budget of pods turns out never to let them go. */
function timeoutMoves(world: World, index: number, kept: Kept): Step[] {
  if (world.budget.timeout === 0) return [];
  const machines = replaced(world.machines, index, { ...kept, version: kept.version + 1, undrained: true });
  const budget = { ...world.budget, timeout: world.budget.timeout - 1 };
  const next = { ...world, machines, budget, reservations: replaced(world.reservations, index, 'none' as const) };
  return [{ label: `m${index} is not drained in time, and never will be`, world: next, fault: true }];
}

/** Deletions that were sent arrive, be it late. */
function deletionMoves(world: World, { mutation = {} }: Scenario): Step[] {
  return world.deletions.map(({ index, version }, position) => {
    const deletions = world.deletions.filter((_, at) => at !== position);
    const kept = world.machines[index];
    const lands = isAliveHere(kept) && (kept?.version === version || mutation.deletionsUnconditioned === true);
    if (kept === undefined || !lands)
      return { label: `the deletion of m${index} is refused`, world: { ...world, deletions }, fault: false };
    const next = { ...world, deletions, machines: replaced(world.machines, index, { ...kept, version: kept.version + 1, deleting: true }) };
    const { least, byHand } = world.excuses[index] ?? { least: 0, byHand: 0 };
    const left = aliveIn(next) + byHand;
    const broken =
      kept.retire < 1
        ? `C8a: m${index} is deleted though its mark was taken back`
        : left < least
          ? `C8a: ${left} machines are left, at least ${least} were asked for`
          : undefined;
    return { label: `m${index} is deleted`, world: next, fault: false, ...(broken === undefined ? {} : { broken }) };
  });
}

/** The account of everything that was decided and is not done, after something that people did. */
function excused(world: World, change: (excuse: Excuse) => Excuse, most?: number): World {
  const of = (call: Call): Call =>
    call.do === 'create' ? { ...call, ...change(call), most: Math.max(call.most, most ?? 0) } : { ...call, ...change(call) };
  return {
    ...world,
    excuses: world.excuses.map((each, index) => (world.machines[index]?.retire === UNMARKED ? each : change(each))),
    late: world.late.map(of),
    leaders: world.leaders.map((leader) => {
      const { flight } = leader;
      if (flight === undefined) return leader;
      const changed = { ...flight, ...change(flight), calls: flight.calls.map(of), most: Math.max(flight.most, most ?? 0) };
      return { ...leader, flight: changed };
    }),
  };
}

function peopleMoves(world: World, { scales }: Scenario): Step[] {
  const moves: Step[] = [];
  if (world.scaled < scales.length) {
    const replicas = scales[world.scaled];
    const set = { ...world.set, version: world.set.version + 1, generation: world.set.generation + 1, replicas };
    const least = replicas ?? NONE_TO_GO;
    const next = excused(world, (each) => ({ ...each, least: Math.min(each.least, least) }), replicas);
    moves.push({ label: `replicas: ${replicas ?? 'left out'}`, world: { ...next, set, scaled: world.scaled + 1 }, fault: true });
  }
  if (world.frozen) moves.push({ label: 'the Freeze ends', world: { ...world, frozen: false }, fault: false });
  else if (world.budget.freeze > 0)
    moves.push({
      label: 'a Freeze begins',
      world: { ...world, frozen: true, budget: { ...world.budget, freeze: world.budget.freeze - 1 } },
      fault: true,
    });
  world.machines.forEach((kept, index) => {
    if (!isAliveHere(kept)) return;
    const machine = (change: Partial<Kept>): World => ({
      ...world,
      machines: replaced(world.machines, index, { ...kept, version: kept.version + 1, ...change }),
    });
    if (world.budget.spare > 0 && kept.retire > 0) {
      const spared = overtaken(machine({ retire: UNMARKED }), index);
      const excuses = replaced(world.excuses, index, { least: 0, byHand: 0 });
      const budget = { ...world.budget, spare: world.budget.spare - 1 };
      moves.push({ label: `a person takes back the mark of m${index}`, world: { ...spared, excuses, budget }, fault: true });
    }
    if (world.budget.hold > 0 && kept.held !== true) {
      const budget = { ...world.budget, hold: world.budget.hold - 1 };
      moves.push({ label: `a person puts a hold on m${index}`, world: { ...machine({ held: true }), budget }, fault: true });
    }
  });
  if (world.budget.humanDelete > 0)
    world.machines.forEach((kept, index) => {
      if (!isAliveHere(kept)) return;
      const next = excused(world, (each) => ({ ...each, byHand: each.byHand + 1 }));
      const machines = replaced(world.machines, index, { ...kept, version: kept.version + 1, deleting: true });
      const budget = { ...world.budget, humanDelete: world.budget.humanDelete - 1 };
      moves.push({ label: `a person deletes m${index}`, world: { ...next, machines, budget }, fault: true });
    });
  return moves;
}

function lateMoves(world: World, { mutation = {} }: Scenario): Step[] {
  return world.late.flatMap((call, position): Step[] => {
    const late = world.late.filter((_, at) => at !== position);
    const rest = { ...world, late };
    const landed = arrive(rest, call, mutation);
    const what = nameOf(call);
    return [
      { label: `${what} arrives late`, world: landed, fault: false, ...(landed === rest ? {} : brokenBy(rest, landed, call)) },
      { label: `${what} is lost`, world: rest, fault: false },
    ];
  });
}

function isConverged(world: World): boolean {
  const many = world.machines.filter(({ isThere }) => isThere).length;
  return (
    world.late.length + world.deletions.length === 0 &&
    !world.frozen &&
    world.reservations.every((reservation) => reservation === 'none') &&
    world.machines.every(({ isThere, retire, deleting }) => !isThere || (retire === UNMARKED && !deleting)) &&
    (world.set.replicas === undefined ? many > 0 : many === world.set.replicas) &&
    world.leaders.every(
      ({ flight, frozen, epoch }) => flight === undefined && frozen === undefined && (epoch === 0 || epoch === world.epoch),
    )
  );
}

export function machineSetSpace(scenario: Scenario): Space<World> {
  return {
    start: start(scenario),
    key: keyOf,
    moves: (world) => [
      ...world.leaders.flatMap((_, index) => leaderMoves(world, index, scenario)),
      ...machineMoves(world, scenario),
      ...deletionMoves(world, scenario),
      ...lateMoves(world, scenario),
      ...peopleMoves(world, scenario),
    ],
    broken: () => [],
    isConverged,
  };
}
