/** The world of machine and job control: leaders, agents, nodes, the ledger, and everything that may happen to them. */
import { API_VERSION } from '../../src/api/kind.ts';
import type { Machine } from '../../src/api/machine.ts';
import type { Stored } from '../../src/api/wire.ts';
import { stateOf } from '../../src/defender/state.ts';
import { createEncoder } from './encode.ts';
import { brokenBetween, brokenIn, isConverged } from './invariants.ts';
import { settle } from './flights.ts';
import { leaderMoves } from './leader.ts';
import { DOWN } from './terms.ts';
import type { Mutation } from './mutants.ts';
import { natureMoves, newEntry, oldEntry, statusOf } from './nature.ts';
import { search, type Limits, type Search } from './search.ts';
import { bootName, degradedNode, jobOf, repairNeeded, timePassed } from './repairs.ts';
import {
  FRESH_AGENT,
  FRESH_SITE,
  ledgerObject,
  machineObject,
  nodeObject,
  NO_EVENTS,
  type RepairPlan,
  type Scenario,
  type World,
  type Successor,
} from './world.ts';

export interface Exploration extends Omit<Search, 'trap'> {
  trap: { trace: string[]; world: World } | undefined;
}

export function initialWorld(scenario: Scenario): World {
  const indexes = Array.from({ length: scenario.machines }, (_, index) => index);
  const verified = scenario.verified !== false;
  const objects = indexes.map((index) =>
    machineObject(index, 1, statusOf(index, 1, verified), [index < (scenario.changed ?? scenario.machines) ? newEntry() : oldEntry()]),
  );
  const { repair } = scenario;
  const world: World = {
    machines: objects.map((object, index) => ({
      version: 1,
      object: repair === undefined ? object : machineUnderRepair(object, index, repair),
    })),
    nodes: indexes
      .map((index) => ({ version: 1, object: nodeObject(index, 1) }))
      .map((slot, index) => (repair?.degraded === true && repair.ill[index] !== undefined ? degradedNode(slot) : slot)),
    ledger: { version: 1, object: ledgerObject(1) },
    leaders: Array.from({ length: scenario.leaders }, (_, index) => (index === 0 ? { ...DOWN, epoch: 1 } : DOWN)),
    agents: indexes.map(() => FRESH_AGENT),
    instances: objects.map((object) => object.metadata.uid),
    pods: indexes.map(() => (scenario.needs === 'Drain' ? (scenario.pods ?? 1) : repair === undefined ? 0 : (scenario.pods ?? 0))),
    cordonedByHuman: indexes.map(() => false),
    halted: false,
    time: 0,
    limit: scenario.limit ?? 1,
    lateEvictions: 0,
    given: 1,
    reborn: 0,
    late: [],
    frozenTogether: scenario.frozenTogether === true,
    budget: { ...NO_EVENTS, ...scenario.budget },
    jobs:
      repair === undefined
        ? []
        : indexes.map((index) => ({ version: 1, object: isDue(index, repair) ? jobOf(index, `j${index}`, 0, repair) : undefined })),
    sites: repair === undefined ? [] : indexes.map((index) => ({ ...FRESH_SITE, health: repair.ill[index] ?? 'well' })),
    withdrawn: false,
  };
  return scenario.acting === true ? underWay(world, scenario) : world;
}

const isDue = (index: number, { ill }: RepairPlan): boolean => (ill[index] ?? 'well') !== 'well';

/** Of a MachineSet and a provider, with the boot it is in, and a rule that is due. */
function machineUnderRepair(machine: Stored<Machine>, index: number, plan: RepairPlan): Stored<Machine> {
  const owner = { apiVersion: API_VERSION, kind: 'MachineSet', name: 'set', uid: 'machineset', controller: true };
  const agent = { version: '1', apiLevel: 1, bootID: bootName(FRESH_SITE.boot), os: 'linux', arch: 'amd64' };
  return {
    ...machine,
    metadata: { ...machine.metadata, ...(plan.replaceable === true ? { ownerReferences: [owner] } : {}) },
    status: { ...machine.status, agent, conditions: repairNeeded(isDue(index, plan)) },
  };
}

/** Everything that may happen next. Time passes where nothing else is left that is not a fault, and, as often as there is a budget for it, early. */
function movesOf(world: World, scenario: Scenario, identities: (world: World) => () => string, mutation: Mutation): Successor[] {
  const moves = [
    ...world.leaders.flatMap((_, index) => leaderMoves(world, index, scenario, identities, mutation)),
    ...natureMoves(world, scenario, () => identities(world)()),
  ];
  if (scenario.repair === undefined) return moves;
  const onlyFaults = moves.every((move) => move.fault);
  if (onlyFaults) moves.push({ label: 'time passes', world: timePassed(world), fault: false });
  else if (world.budget.expiry > 0) {
    const budget = { ...world.budget, expiry: world.budget.expiry - 1 };
    moves.push({ label: 'time passes early', world: timePassed({ ...world, budget }), fault: true });
  }
  return moves;
}

/** Follows steps without a fault until every machine has announced and the first agent acts. */
function underWay(start: World, scenario: Scenario): World {
  let world = start;
  for (;;) {
    const reserved = stateOf(world.ledger.object ?? {}).reservations.length > 0;
    const moves = [...natureMoves(world, scenario), ...leaderMoves(world, 0, scenario, () => () => 'r0', {})].filter(
      (move) => !move.fault && !(reserved && move.label.includes('reserve')),
    );
    const next =
      moves.find((move) => move.label.endsWith('announces')) ??
      (world.agents[0]?.state === 'acting' ? undefined : moves.find((move) => /^(agent|leader)/.test(move.label)));
    if (next === undefined) return world;
    world = next.world;
  }
}

export function explore(scenario: Scenario, options: { mutation?: Mutation } & Limits = {}): Exploration {
  const mutation = options.mutation ?? {};
  const encoder = createEncoder();
  const identities = (world: World) => {
    let next = 0;
    return (): string => {
      while (encoder.mentions(world, `"r${next}"`)) next++;
      return `r${next++}`;
    };
  };
  const settles = mutation.cas === undefined && mutation.epochIgnored !== true && mutation.jobsUnconditioned !== true;
  const moves = (world: World): Successor[] => {
    const all = movesOf(world, scenario, identities, mutation);
    return settles ? all.map((move) => ({ ...move, world: settle(move.world) })) : all;
  };
  const found = search(
    {
      start: initialWorld(scenario),
      key: (world) => encoder.key(world),
      moves,
      broken: (before, after, isNew) => [
        ...brokenBetween(before, after),
        ...(isNew ? brokenIn(after, (scenario.budget.cordonByHuman ?? 0) + (scenario.budget.reregister ?? 0) > 0) : []),
      ],
      isConverged: (world) => isConverged(world, scenario),
    },
    options,
  );
  const { trap } = found;
  return trap === undefined ? { ...found, trap } : { ...found, trap: { ...trap, world: replay(scenario, trap.trace, moves) } };
}

function replay(scenario: Scenario, trace: readonly string[], moves: (world: World) => Successor[]): World {
  let world = initialWorld(scenario);
  for (const label of trace) world = moves(world).find((move) => move.label === label)?.world ?? world;
  return world;
}
