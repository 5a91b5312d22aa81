/** What a process that leads may do next. */
import { decide } from '../../src/controllers/machine/decide.ts';
import { jobMoves } from './jobs.ts';
import type { Mutation } from './mutants.ts';
import { machineName, replaced, withLeader, type Leader, type Scenario, type World, type Successor, type Identities } from './world.ts';
import { viewOf, machineView } from './leader-view.ts';
import { DOWN, staleness, terms } from './terms.ts';
import { runs, startable, advance } from './flights.ts';

/** Starts, continues and ends what one leader may do next. */
export function leaderMoves(world: World, index: number, scenario: Scenario, identities: Identities, mutation: Mutation): Successor[] {
  const maxFlights = scenario.flights;
  const leader = world.leaders[index];
  if (leader === undefined) return [];
  const moves: Successor[] = [...terms(world, index, leader, scenario, mutation), ...staleness(world, index, leader, scenario, mutation)];
  if (leader.epoch === undefined) return moves;
  if (world.budget.crash > 0)
    moves.push({
      label: `leader ${index} crashes`,
      world: withLeader({ ...world, budget: { ...world.budget, crash: world.budget.crash - 1 } }, index, DOWN),
      fault: true,
    });
  for (const flight of leader.flights) {
    const next = advance(world, index, leader, flight, scenario, identities, mutation);
    moves.push({ ...next, fault: false });
  }
  if (world.jobs.length > 0)
    for (const { label, leader: after, jobs } of jobMoves(world, leader, viewOf(leader, world), mutation))
      moves.push({ label: `leader ${index} ${label}`, world: { ...withLeader(world, index, after), jobs }, fault: false });
  if (leader.flights.length < maxFlights) {
    for (const flight of startable(world, leader, scenario, mutation)) {
      const begun = { ...leader, flights: [...leader.flights, flight] };
      moves.push({ ...advance(withLeader(world, index, begun), index, begun, flight, scenario, identities, mutation), fault: false });
    }
    moves.push(...finalizations(world, index, leader, scenario, mutation));
  }
  return moves;
}

/** Finalizer and Node of a machine whose instance is gone: each one conditioned write, made only after the provider's proof. */
function finalizations(world: World, index: number, leader: Leader, scenario: Scenario, mutation: Mutation): Successor[] {
  const cell = viewOf(leader, world);
  return world.machines.flatMap((slot, at): Successor[] => {
    const view = machineView(world, leader, cell, at, scenario, mutation);
    const finalize = view !== undefined && decide(view).steps.some((step) => step.do === 'Finalize');
    if (!finalize || runs(leader, at) || mutation.epochIgnored === true) return [];
    if (slot.object === undefined || slot.object.metadata.uid !== view.machine.metadata.uid) return [];
    const node = world.nodes[at];
    if (node?.object?.spec?.providerID === view.providerID && node !== undefined)
      return [
        {
          label: `leader ${index} deletes Node ${machineName(at)}`,
          world: { ...world, nodes: replaced(world.nodes, at, { version: node.version + 1, object: undefined }) },
          fault: false,
        },
      ];
    return [
      {
        label: `leader ${index} takes the finalizer off ${machineName(at)}`,
        world: { ...world, machines: replaced(world.machines, at, { version: slot.version + 1, object: undefined }) },
        fault: false,
      },
    ];
  });
}
