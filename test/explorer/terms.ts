/** How a process begins to lead, and how its stores fall behind. */
import { stateOf, withState } from '../../src/defender/state.ts';
import { takeLeadership } from '../../src/defender/protocol.ts';
import type { Mutation } from './mutants.ts';
import { withLeader, type Leader, type Scenario, type World, type Successor } from './world.ts';
import { viewOf, markPassed } from './sight.ts';

export const DOWN: Leader = { epoch: undefined, flights: [], frozen: {}, marks: [], looks: [], cycled: [] };

/** Terms: raising the epoch is one conditioned write, and a lost race changes nothing. */
export function terms(world: World, index: number, leader: Leader, scenario: Scenario, mutation: Mutation): Successor[] {
  const { ledger } = world;
  if (leader.epoch !== undefined || ledger.object === undefined) return [];
  const state = stateOf(ledger.object);
  const led = world.leaders.some((other) => other.epoch === state.epoch);
  if (led && world.budget.takeover === 0) return [];
  const raised = takeLeadership(state);
  const budget = led ? { ...world.budget, takeover: world.budget.takeover - 1 } : world.budget;
  const after = { ...world, budget, ledger: { version: ledger.version + 1, object: withState(ledger.object, raised) } };
  const term: Leader = {
    ...DOWN,
    epoch: raised.epoch,
    frozen: mutation.coldTerm === true ? leader.frozen : mutation.coldJobs === true ? onlyJobs(leader.frozen) : {},
  };
  const moves: Successor[] = [{ label: `leader ${index} begins term ${raised.epoch}`, world: withLeader(after, index, term), fault: led }];
  if (world.budget.lostReply > 0) {
    const lost = { ...after, budget: { ...budget, lostReply: budget.lostReply - 1 } };
    moves.push({
      label: `leader ${index} raises the epoch to ${raised.epoch}, the answer is lost`,
      world: withLeader(lost, index, DOWN),
      fault: true,
    });
  }
  return moves;
}

const onlyJobs = ({ jobs }: Leader['frozen']): Leader['frozen'] => (jobs === undefined ? {} : { jobs });

/** A store that stops following, and follows again later. */
export function staleness(world: World, index: number, leader: Leader, scenario: Scenario, mutation: Mutation): Successor[] {
  if (leader.epoch === undefined && mutation.coldTerm !== true && mutation.coldJobs !== true) return [];
  const moves: Successor[] = [];
  const groups = world.frozenTogether
    ? [['machines', 'nodes', 'ledger', 'jobs'] as const]
    : scenario.repair === undefined
      ? [['machines'] as const, ['nodes'] as const, ['ledger'] as const]
      : mutation.coldJobs === true
        ? [['jobs'] as const]
        : [['machines'] as const, ['nodes'] as const, ['ledger'] as const, ['jobs'] as const];
  for (const group of groups) {
    const stores = `leader ${index}'s ${group.join(', ')}`;
    if (leader.frozen[group[0]] !== undefined) {
      const frozen = Object.fromEntries(Object.entries(leader.frozen).filter(([kind]) => !(group as readonly string[]).includes(kind)));
      const caughtUp = settled({ ...leader, frozen }, world);
      moves.push({ label: `${stores} catch up`, world: withLeader(world, index, caughtUp), fault: false });
    } else if (world.budget.freeze > 0) {
      const frozen = { ...leader.frozen, ...Object.fromEntries(group.map((kind) => [kind, world[kind]])) };
      const budget = { ...world.budget, freeze: world.budget.freeze - 1 };
      moves.push({ label: `${stores} stop following`, world: withLeader({ ...world, budget }, index, { ...leader, frozen }), fault: true });
    }
  }
  return moves;
}

/** Without the marks that the stores have passed. */
export function settled(leader: Leader, world: World): Leader {
  const marks = leader.marks.filter((mark) => !markPassed(mark, viewOf(leader, world)));
  return marks.length === leader.marks.length ? leader : { ...leader, marks };
}
