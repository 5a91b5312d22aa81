/**
 * Visits every state of a scenario once, breadth first, so that the first counterexample is a shortest one. Nothing is sampled and no
 * depth is cut: when it ends without a word about `limit`, that was all.
 */
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

export interface Exploration {
  states: number;
  transitions: number;
  /** False when `limit` ended it. */
  complete: boolean;
  converged: number;
  /** A broken rule with the steps that lead to it. */
  violation: { rule: string; trace: string[] } | undefined;
  /** A state from which nothing leads to convergence, with the steps that lead to it. Only looked for when complete. */
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
      .map((held, index) => (repair?.degraded === true && repair.ill[index] !== undefined ? degradedNode(held) : held)),
    ledger: { version: 1, object: ledgerObject(1) },
    leaders: Array.from({ length: scenario.leaders }, (_, index) => (index === 0 ? { ...DOWN, epoch: 1 } : DOWN)),
    agents: indexes.map(() => FRESH_AGENT),
    instances: objects.map((object) => object.metadata.uid),
    pods: indexes.map(() => (scenario.needs === 'Drain' ? (scenario.pods ?? 1) : repair === undefined ? 0 : (scenario.pods ?? 0))),
    held: indexes.map(() => false),
    halted: false,
    time: 0,
    limit: scenario.limit ?? 1,
    lateEvictions: 0,
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
  const quiet = moves.every((move) => move.fault);
  if (quiet) moves.push({ label: 'time passes', world: timePassed(world), fault: false });
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
    const reserved = stateOf(world.ledger.object ?? {}).rows.length > 0;
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

export function explore(scenario: Scenario, options: { mutation?: Mutation; limit?: number } = {}): Exploration {
  const mutation = options.mutation ?? {};
  const encoder = createEncoder();
  const numbers = new Map<string, number>();
  const parents: number[] = [];
  const labels: string[] = [];
  const goals: number[] = [];
  const from: number[] = [];
  const to: number[] = [];
  let transitions = 0;

  const identities = (world: World) => {
    let next = 0;
    return (): string => {
      while (encoder.mentions(world, `"r${next}"`)) next++;
      return `r${next++}`;
    };
  };
  const traceTo = (number: number): string[] => {
    const trace: string[] = [];
    for (let at = number; at > 0; at = parents[at] ?? 0) trace.unshift(labels[at] ?? '');
    return trace;
  };

  const start = initialWorld(scenario);
  numbers.set(encoder.key(start), 0);
  parents.push(0);
  labels.push('');
  let frontier: { number: number; world: World }[] = [{ number: 0, world: start }];
  const result = (rest: Partial<Exploration>): Exploration => ({
    states: numbers.size,
    transitions,
    complete: false,
    converged: goals.length,
    violation: undefined,
    trap: undefined,
    ...rest,
  });

  while (frontier.length > 0) {
    const next: typeof frontier = [];
    for (const { number, world } of frontier) {
      if (isConverged(world, scenario)) goals.push(number);
      const moves = movesOf(world, scenario, identities, mutation);
      for (const each of moves) {
        transitions++;
        const move =
          mutation.cas === undefined && mutation.epochIgnored !== true && mutation.jobsUnconditioned !== true
            ? { ...each, world: settle(each.world) }
            : each;
        const key = encoder.key(move.world);
        let reached = numbers.get(key);
        const isNew = reached === undefined;
        if (reached === undefined) {
          reached = numbers.size;
          numbers.set(key, reached);
          parents.push(number);
          labels.push(move.label);
          next.push({ number: reached, world: move.world });
        }
        if (!move.fault) {
          from.push(number);
          to.push(reached);
        }
        const broken = [
          ...(move.broken === undefined ? [] : [move.broken]),
          ...brokenBetween(world, move.world),
          ...(isNew ? brokenIn(move.world, (scenario.budget.cordonByHuman ?? 0) > 0) : []),
        ];
        const [rule] = broken;
        if (rule !== undefined) return result({ violation: { rule, trace: [...traceTo(number), move.label] } });
      }
      if (numbers.size > (options.limit ?? Infinity)) return result({});
    }
    frontier = next;
  }
  const lost = firstTrap(numbers.size, goals, from, to);
  if (lost === undefined) return result({ complete: true });
  const trace = traceTo(lost);
  return result({ complete: true, trap: { trace, world: replay(scenario, trace, mutation, identities) } });
}

/** The first state that no path without faults leads from to a converged one. */
function firstTrap(states: number, goals: readonly number[], from: readonly number[], to: readonly number[]): number | undefined {
  const offsets = new Int32Array(states + 1);
  for (const target of to) offsets[target + 1] = (offsets[target + 1] ?? 0) + 1;
  for (let index = 0; index < states; index++) offsets[index + 1] = (offsets[index + 1] ?? 0) + (offsets[index] ?? 0);
  const fill = offsets.slice();
  const sources = new Int32Array(to.length);
  to.forEach((target, edge) => {
    const at = fill[target] ?? 0;
    sources[at] = from[edge] ?? 0;
    fill[target] = at + 1;
  });
  const reached = new Uint8Array(states);
  const stack = [...goals];
  for (const goal of goals) reached[goal] = 1;
  for (let state = stack.pop(); state !== undefined; state = stack.pop())
    for (let at = offsets[state] ?? 0; at < (offsets[state + 1] ?? 0); at++) {
      const source = sources[at] ?? 0;
      if (reached[source] === 1) continue;
      reached[source] = 1;
      stack.push(source);
    }
  const lost = reached.indexOf(0);
  return lost < 0 ? undefined : lost;
}

function replay(scenario: Scenario, trace: readonly string[], mutation: Mutation, identities: (world: World) => () => string): World {
  let world = initialWorld(scenario);
  for (const label of trace) {
    const moves = movesOf(world, scenario, identities, mutation);
    world = settle(moves.find((move) => move.label === label)?.world ?? world);
  }
  return world;
}
