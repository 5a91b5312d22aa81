/** The world of the hub's rollouts: one unit, a few clusters in two stages, a hub that leads, one that was deposed, and everything that may happen to them. */
import { observeAndDecide, perform, report } from '../../src/sync/rollout/testing/hubs.ts';
import {
  canProve,
  committed,
  deposedIn,
  dropped,
  emptyFleet,
  erased,
  fencedIn,
  forgotten,
  halted,
  isHubLate,
  joined,
  proved,
  REAL,
  retried,
  steered,
  waitsForHuman,
  wantedOn,
  withCell,
  type FleetState,
  type Head,
  type Hub,
  type Late,
  type Request,
  type Seams,
} from '../../src/sync/rollout/testing/state.ts';
import { keyOf } from './rollout-key.ts';
import { aged, normal, WRONG_MS } from './rollout-time.ts';
import { search, type Limits, type Move, type Search } from './search.ts';

/** How often each may happen, at any moment. */
export interface RolloutBudget {
  /** A commit, to any of the heads of the plan. */
  commit: number;
  /** The hub that leads is deposed with all that it has yet to do; a crash is one that never wakes. */
  takeover: number;
  halt: number;
  away: number;
  pause: number;
  retry: number;
  /** The fleet no longer declares a cluster. */
  drop: number;
  /** The fleet declares the cluster that was not there at the start. */
  join: number;
  /** The fleet declares a cluster again that left it. */
  rejoin: number;
  /** A person deletes the Cluster of one that left, on the hub. */
  forget: number;
  /** A person deletes the object in a cell. */
  erase: number;
  /** A store of the hub that leads, or will lead, stops following. */
  lag: number;
  /** A person changes the object in a cell. */
  drift: number;
  /** The API server's clock is a year ahead or behind as something is recorded. */
  clock: number;
}

export type Store = 'rollouts' | 'records' | 'members' | 'cells';

export interface RolloutPlan {
  unit?: 'MachineComponentSet/runtime' | 'NodeRemedier/hung';
  maxClusters?: number;
  /** False: no term puts its number on the Clusters, so that what stands behind that is tried alone. */
  terms?: boolean;
  /** Records name the commit with which the unit came, so that its removal may take that back. */
  additions?: boolean;
  /** By name: those that begin with t are of the first stage. */
  clusters: readonly string[];
  /** Declared by `join`. */
  late?: string;
  /** All have the first of the heads, with evidence and soak; else nothing was ever there, and the first is committed. */
  settled?: boolean;
  /** The stores that may be late: of the hub's own objects, or of the cells. */
  stores?: readonly Store[];
  /** What commits may render to. */
  heads: readonly Head[];
  budget: Partial<RolloutBudget>;
}

export interface RolloutWorld {
  fleet: FleetState;
  budget: RolloutBudget;
}

const NONE: RolloutBudget = {
  commit: 0,
  takeover: 0,
  halt: 0,
  away: 0,
  pause: 0,
  retry: 0,
  drop: 0,
  join: 0,
  rejoin: 0,
  forget: 0,
  erase: 0,
  lag: 0,
  drift: 0,
  clock: 0,
};
const stageOf = (name: string): string => (name.startsWith('t') ? 'test' : 'prod');

function startOf(plan: RolloutPlan): RolloutWorld {
  const [first] = plan.heads;
  if (first === undefined) throw new Error('a plan needs a head');
  let fleet: FleetState = {
    ...emptyFleet(plan.unit ?? 'MachineComponentSet/runtime', plan.maxClusters ?? 1, plan.terms),
    additions: plan.additions === true,
  };
  for (const name of plan.clusters) fleet = joined(fleet, name, stageOf(name));
  fleet = committed(fleet, first);
  if (plan.settled === true) fleet = settled(fleet);
  return { fleet: normal(fleet), budget: { ...NONE, ...plan.budget } };
}

/** What comes of it when nothing goes wrong. */
export function settled(start: FleetState): FleetState {
  let state = start;
  for (let turn = 0; turn < 100; turn++) {
    const { hub, steps } = observeAndDecide(state, REAL);
    const after = steps.length === 0 ? report(state, hub) : state;
    if (steps.length === 0 && isThere(after)) return after;
    let doing = { state: after, hub };
    while (doing.hub.tasks[0] !== undefined) doing = perform(doing.state, doing.hub, doing.hub.tasks[0].cluster, REAL);
    state = normal(aged(Object.keys(doing.state.cells).reduce(proved, doing.state)));
  }
  throw new Error('the fleet does not settle');
}

/** Each cluster of the fleet has what is wanted there, with evidence. */
function isThere(state: FleetState): boolean {
  return state.declared.every((name) => {
    const [record, live, wanted] = [state.recorded[name], state.cells[name], wantedOn(state, name)];
    // Where nothing is wanted nothing is left, nor is there a record of what there was.
    if (wanted === undefined) return record === undefined && live === undefined;
    return record?.evidence === wanted && record.begun === undefined && live?.unitDigest === wanted;
  });
}

function isConverged({ fleet }: RolloutWorld, seams: Seams): boolean {
  const isPaused = fleet.rollouts.some(({ spec }) => spec.paused === true);
  const isLate = isHubLate(fleet) || Object.keys(fleet.late.cells).length > 0;
  if (fleet.leader !== undefined || fleet.away.length > 0 || isPaused || isLate || fleet.unfenced || !isThere(fleet)) return false;
  const { steps, over } = observeAndDecide(fleet, seams);
  return steps.length === 0 && over;
}

const nameOf = (request: Request | undefined): string => {
  if (request === undefined) return 'nothing';
  if ('step' in request) return `${request.do} for ${request.step.do}`;
  return `${request.do} of ${request.steps.map((step) => ('digest' in step ? `${step.do} ${step.digest}` : step.do)).join(', ')}`;
};

/** Whether it writes a time whose value matters and not only its order, or that others are compared with. */
function isTimed(request: Request | undefined): boolean {
  return request?.do === 'Applied' || (request?.do === 'Record' && request.steps.some((step) => step.do === 'RecordEvidence'));
}

function hubMoves({ fleet, budget }: RolloutWorld, seams: Seams): Move<RolloutWorld>[] {
  const moves: Move<RolloutWorld>[] = [];
  const add = (label: string, after: FleetState, fault: boolean, broken?: string, left = budget): void => {
    moves.push({ label, world: { fleet: after, budget: left }, fault, ...(broken === undefined ? {} : { broken }) });
  };
  const { leader } = fleet;
  if (fleet.unfenced) add('the next term puts its number on the Clusters', fencedIn(fleet, seams), false);
  else if (leader === undefined) {
    const { hub, broken } = observeAndDecide(fleet, seams);
    if (hub.tasks.length > 0 || broken !== undefined) add('leader decides', { ...fleet, leader: hub }, false, broken);
    else if (report(fleet, hub) !== fleet) add('leader reports', report(fleet, hub), false, broken);
  } else {
    for (const { cluster, todo } of leader.tasks) {
      const { state, hub, broken } = perform(fleet, leader, cluster, seams);
      const done = hub.tasks.length === 0 && report(state, hub) === state;
      add(`leader on ${cluster}: ${nameOf(todo[0])}`, { ...state, leader: done ? undefined : hub }, false, broken);
      for (const wrongMs of budget.clock > 0 && isTimed(todo[0]) ? [WRONG_MS, -WRONG_MS] : []) {
        const late = perform(fleet, leader, cluster, seams, wrongMs);
        const label = `leader on ${cluster}: ${nameOf(todo[0])}, by a clock a year ${wrongMs > 0 ? 'ahead' : 'behind'}`;
        add(label, { ...late.state, leader: late.hub }, true, late.broken, { ...budget, clock: budget.clock - 1 });
      }
    }
    if (leader.tasks.length === 0) add('leader reports', { ...report(fleet, leader), leader: undefined }, false);
    if (budget.takeover > 0) {
      add('the leader is deposed', deposedIn(fleet, leader), true, undefined, { ...budget, takeover: budget.takeover - 1 });
    }
  }
  fleet.deposed.forEach((late, index) => {
    const withHub = (after: FleetState, hub: Hub | undefined): FleetState => ({
      ...after,
      deposed: hub === undefined ? fleet.deposed.toSpliced(index, 1) : fleet.deposed.with(index, hub),
    });
    for (const { cluster, todo } of late.tasks) {
      const { state, hub, broken } = perform(fleet, late, cluster, seams);
      add(`deposed hub on ${cluster}: ${nameOf(todo[0])}`, withHub(state, hub), true, broken);
    }
    if (late.tasks.length === 0) add('deposed hub reports', withHub(report(fleet, late), undefined), true);
  });
  return moves;
}

function cellMoves({ fleet, budget }: RolloutWorld): Move<RolloutWorld>[] {
  const moves: Move<RolloutWorld>[] = [];
  for (const name of Object.keys(fleet.cells)) {
    const live = fleet.cells[name];
    if (canProve(fleet, name)) moves.push({ label: `${name} proves`, world: { fleet: proved(fleet, name), budget }, fault: false });
    // What a retry cannot lift, a human lifts in the cell.
    if (live?.halted !== undefined && !fleet.unit.startsWith('MachineComponentSet/'))
      moves.push({ label: `${name} accepts it`, world: { fleet: withCell(fleet, name, { halted: undefined }), budget }, fault: false });
    if (budget.halt > 0 && live?.halted === undefined) {
      moves.push({
        label: `${name} halts`,
        world: { fleet: halted(fleet, name), budget: { ...budget, halt: budget.halt - 1 } },
        fault: true,
      });
    }
    if (budget.drift > 0 && live?.drifted === false) {
      const version = fleet.version + 1;
      const drifted = withCell({ ...fleet, version }, name, { drifted: true, version });
      moves.push({ label: `${name} drifts`, world: { fleet: drifted, budget: { ...budget, drift: budget.drift - 1 } }, fault: true });
    }
    if (budget.erase > 0 && live !== undefined) {
      const left = { ...budget, erase: budget.erase - 1 };
      moves.push({ label: `a person deletes it on ${name}`, world: { fleet: erased(fleet, name), budget: left }, fault: true });
    }
  }
  const after = aged(fleet);
  if (after !== fleet) moves.push({ label: 'a soak passes', world: { fleet: after, budget }, fault: false });
  return moves;
}

function storeMoves({ fleet, budget }: RolloutWorld, { stores = [] }: RolloutPlan): Move<RolloutWorld>[] {
  const moves: Move<RolloutWorld>[] = [];
  const { late, rollouts, asked, recorded, declared } = fleet;
  const of = (what: string, isLate: boolean, after: Late, before: Late): void => {
    if (isLate) moves.push({ label: `${what} follows again`, world: { fleet: { ...fleet, late: after }, budget }, fault: false });
    else if (budget.lag > 0) {
      const left = { ...budget, lag: budget.lag - 1 };
      moves.push({ label: `${what} stops following`, world: { fleet: { ...fleet, late: before }, budget: left }, fault: true });
    }
  };
  const { rollouts: _rollouts, ...withRollouts } = late;
  const { records: _records, ...withRecords } = late;
  const { members: _members, ...withMembers } = late;
  if (stores.includes('rollouts'))
    of('the store of Rollouts', late.rollouts !== undefined, withRollouts, { ...late, rollouts: { list: rollouts, asked } });
  if (stores.includes('records')) of('the store of Clusters', late.records !== undefined, withRecords, { ...late, records: recorded });
  if (stores.includes('members')) of('the store of Fleets', late.members !== undefined, withMembers, { ...late, members: declared });
  for (const name of stores.includes('cells') ? Object.keys(fleet.stageOf) : []) {
    const { [name]: its, ...cells } = late.cells;
    const stopped = { ...late, cells: { ...cells, [name]: { live: fleet.cells[name] } } };
    of(`the store of ${name}`, its !== undefined, { ...late, cells }, stopped);
  }
  return moves;
}

function humanMoves({ fleet, budget }: RolloutWorld, plan: RolloutPlan, seams: Seams): Move<RolloutWorld>[] {
  const moves: Move<RolloutWorld>[] = [];
  const add = (label: string, after: FleetState, fault = false, left = budget): void => {
    if (after !== fleet) moves.push({ label, world: { fleet: after, budget: left }, fault });
  };
  for (const { metadata, spec } of fleet.rollouts) {
    const { name } = metadata;
    if (spec.paused === true) add(`a human resumes ${name}`, steered(fleet, name, { paused: false }));
    else if (budget.pause > 0)
      add(`a human pauses ${name}`, steered(fleet, name, { paused: true }), true, { ...budget, pause: budget.pause - 1 });
  }
  // What a deposed hub had sent makes it again where it was removed meanwhile: that is named, and left to a person (docs/protocols.md#e17).
  for (const name of (plan.budget.takeover ?? 0) > 0 ? Object.keys(fleet.cells) : []) {
    if (fleet.recorded[name] === undefined && wantedOn(fleet, name) === undefined)
      add(`a human deletes what nothing on the hub has in ${name}`, erased(fleet, name));
  }
  if (waitsForHuman(fleet)) add('a human retries what is halted', retried(fleet));
  else if (budget.retry > 0) add('a human retries', retried(fleet), true, { ...budget, retry: budget.retry - 1 });
  for (const name of fleet.away) add(`${name} is back`, { ...fleet, away: fleet.away.filter((each) => each !== name) });
  for (const name of Object.keys(fleet.stageOf)) {
    if (budget.away > 0 && !fleet.away.includes(name))
      add(`${name} is away`, { ...fleet, away: [...fleet.away, name].sort() }, true, { ...budget, away: budget.away - 1 });
    if (budget.drop > 0 && fleet.declared.length > 1 && fleet.declared.includes(name))
      add(`${name} leaves the fleet`, dropped(fleet, name), true, { ...budget, drop: budget.drop - 1 });
    const hasLeft = !fleet.declared.includes(name);
    if (budget.rejoin > 0 && hasLeft && fleet.head !== undefined) {
      const again = committed(joined(fleet, name, stageOf(name)), fleet.head, seams.carried);
      add(`${name} is declared again`, again, true, { ...budget, rejoin: budget.rejoin - 1 });
    }
    if (budget.forget > 0 && hasLeft)
      add(`the Cluster of ${name} is deleted`, forgotten(fleet, name), true, { ...budget, forget: budget.forget - 1 });
  }
  if (budget.join > 0 && plan.late !== undefined && fleet.head !== undefined)
    add(`${plan.late} joins`, committed(joined(fleet, plan.late, stageOf(plan.late)), fleet.head, seams.carried), true, {
      ...budget,
      join: 0,
    });
  if (budget.commit > 0) {
    for (const head of plan.heads) {
      const after = committed(fleet, head, seams.carried);
      const special = Object.entries(head.special).map(([name, digest]) => `, ${name}: ${digest}`);
      if (after.rollouts !== fleet.rollouts)
        add(`a commit of ${head.digest ?? 'nothing'}${special.join('')}`, after, true, { ...budget, commit: budget.commit - 1 });
    }
  }
  return moves;
}

export function exploreRollouts(plan: RolloutPlan, options: { seams?: Partial<Seams> } & Limits = {}): Search {
  const seams = { ...REAL, ...options.seams };
  return search(
    {
      start: startOf(plan),
      key: ({ fleet, budget }) => keyOf(fleet, Object.values(budget)),
      moves: (world) =>
        [...hubMoves(world, seams), ...cellMoves(world), ...storeMoves(world, plan), ...humanMoves(world, plan, seams)].map((move) => ({
          ...move,
          world: { ...move.world, fleet: normal(move.world.fleet) },
        })),
      broken: () => [],
      isConverged: (world) => isConverged(world, seams),
    },
    options,
  );
}
