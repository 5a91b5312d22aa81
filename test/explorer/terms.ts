/** How a process begins to lead, and how its stores fall behind. */
import { API_VERSION } from '../../src/api/kind.ts';
import type { MachineComponentSet } from '../../src/api/machine-component-set.ts';
import type { KubeObject, Stored } from '../../src/api/wire.ts';
import { leftReservations } from '../../src/controllers/machine/reservation/left-reservations.ts';
import { stateOf, withState, type LedgerState } from '../../src/defender/state.ts';
import { rebuilt, takeLeadership } from '../../src/defender/protocol.ts';
import type { Mutation } from './mutants.ts';
import { BARE_LEDGER, SET_UID, withLeader, type Slot, type Leader, type Scenario, type World, type Successor } from './world.ts';
import { viewOf, markPassed } from './leader-view.ts';

export const DOWN: Leader = { epoch: undefined, flights: [], frozen: {}, marks: [], jobPasses: [], cycled: [] };

/** Terms: raising the epoch is one conditioned write, and a lost race changes nothing. */
export function terms(world: World, index: number, leader: Leader, scenario: Scenario, mutation: Mutation): Successor[] {
  const { ledger } = world;
  if (leader.epoch !== undefined) return ended(world, index, leader);
  if (ledger.object === undefined) {
    const made = { version: ledger.version + 1, object: BARE_LEDGER };
    return [{ label: `leader ${index} makes the ledger`, world: { ...world, ledger: made }, fault: false }];
  }
  const state = stateOf(ledger.object);
  if (state.epoch === 0) return again(world, index, leader, mutation);
  const led = world.leaders.some((other) => other.epoch === state.epoch);
  if (led && world.budget.takeover === 0) return [];
  const budget = led ? { ...world.budget, takeover: world.budget.takeover - 1 } : world.budget;
  return begins({ ...world, budget }, index, leader, takeLeadership(state), led, mutation);
}

/** Nothing wakes a leader whose ledger is gone but a read of it. */
function ended(world: World, index: number, leader: Leader): Successor[] {
  const seen = stateOf(viewOf(leader, world).ledger.object ?? {}).epoch;
  const now = stateOf(world.ledger.object ?? {}).epoch;
  if (seen > 0 || now === leader.epoch || leader.flights.length > 0 || leader.jobPasses.length > 0) return [];
  return [{ label: `leader ${index} finds the ledger gone`, world: withLeader(world, index, DOWN), fault: false }];
}

/** As `beginTerm` has it: the lists one after the other, machines first, and then the one write. */
function again(world: World, index: number, leader: Leader, mutation: Mutation): Successor[] {
  const { beginning } = leader;
  const led = world.leaders.some((other) => other.epoch !== undefined);
  if (beginning === undefined || beginning.version !== world.ledger.version) {
    if (led && world.budget.takeover === 0) return [];
    const budget = led ? { ...world.budget, takeover: world.budget.takeover - 1 } : world.budget;
    const begun = { ...DOWN, frozen: leader.frozen, beginning: { machines: world.machines, version: world.ledger.version } };
    return [{ label: `leader ${index} lists the machines`, world: withLeader({ ...world, budget }, index, begun), fault: led }];
  }
  const objects = <T extends KubeObject>(slots: readonly Slot<T>[]): Stored<T>[] =>
    slots.flatMap(({ object }) => (object === undefined ? [] : [object]));
  const machines = objects(beginning.machines);
  const traces = { machines, nodes: objects(world.nodes), sets: [SET], jobs: objects(world.jobs), since: SET.metadata.creationTimestamp };
  const borne = Math.max(0, ...machines.map(({ spec }) => spec.operation?.epoch ?? 0));
  const state = stateOf(world.ledger.object ?? {});
  const { hours: _, ...known } = rebuilt(state, mutation.forgetful === true ? [] : leftReservations(traces), borne, traces.since);
  const raised = takeLeadership(known, mutation.epochsComeAgain === true ? borne + 1 : world.given + 1);
  return begins({ ...world, reborn: raised.epoch }, index, leader, raised, false, mutation);
}

/** Entries of it that failed wait for its answer. */
const SET: Stored<MachineComponentSet> = {
  apiVersion: API_VERSION,
  kind: 'MachineComponentSet',
  metadata: { name: 'kubelet', uid: SET_UID, resourceVersion: '', creationTimestamp: '2026-11-19T00:00:00Z' },
  spec: { componentName: 'kubelet', version: '2.0.0' },
};

function begins(before: World, index: number, leader: Leader, raised: LedgerState, led: boolean, mutation: Mutation): Successor[] {
  const { ledger } = before;
  if (ledger.object === undefined) return [];
  const written = { version: ledger.version + 1, object: withState(ledger.object, raised) };
  const after = { ...before, given: Math.max(before.given, raised.epoch), ledger: written };
  const term: Leader = {
    ...DOWN,
    epoch: raised.epoch,
    frozen: mutation.coldTerm === true ? leader.frozen : mutation.coldJobs === true ? onlyJobs(leader.frozen) : {},
  };
  const moves: Successor[] = [{ label: `leader ${index} begins term ${raised.epoch}`, world: withLeader(after, index, term), fault: led }];
  if (before.budget.lostReply > 0) {
    const lost = { ...after, budget: { ...before.budget, lostReply: before.budget.lostReply - 1 } };
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
