/** What a process that leads does: the real decisions and guarded writes of src, one API call at a time. */
import type { Machine } from '../../src/api/machine.ts';
import { isFinished } from '../../src/api/remedyoperationjob.ts';
import type { KubeObject, Stored } from '../../src/api/wire.ts';
import { actOf } from '../../src/controllers/machine/act.ts';
import type { Effect } from '../../src/controllers/machine/guards.ts';
import { freeVanished } from '../../src/controllers/machine/ledgeracts.ts';
import type { AskFacts, SetFacts } from '../../src/controllers/machine/facts.ts';
import { claimOf } from '../../src/controllers/machine/claim.ts';
import { mayAsk } from '../../src/controllers/machine/components.ts';
import { decide, isDraining } from '../../src/controllers/machine/decide.ts';
import type { MachineView, Step } from '../../src/controllers/machine/view.ts';
import { reservation, type CellView } from '../../src/controllers/machine/pass.ts';
import { cellOf, type CellParts } from '../../src/controllers/machine/testing/cellof.ts';
import { isCoded } from '../../src/api/errors.ts';
import type { ReleaseMark } from '../../src/defender/evidence.ts';
import type { GuardedWrite, Move } from '../../src/defender/guardedwrite.ts';
import { rowOfMachine, stateOf, withState } from '../../src/defender/state.ts';
import { takeLeadership } from '../../src/defender/protocol.ts';
import { jobMoves } from './jobs.ts';
import type { Mutation } from './mutants.ts';
import { brokenByAct } from './repairinvariants.ts';
import { cyclePower, hears, withSite } from './repairs.ts';
import {
  machineName,
  POOL,
  SET_UID,
  TIMES,
  FRESH_AGENT,
  FRESH_SITE,
  replaced,
  type Agent,
  type Cell,
  type Flight,
  type Held,
  type Leader,
  type Mark,
  type RepairPlan,
  type Scenario,
  type World,
} from './world.ts';

export interface Successor {
  label: string;
  world: World;
  /** Something that went wrong or that a human did: nothing that the cell needs in order to converge. */
  fault: boolean;
  /** A rule that this very step breaks. */
  broken?: string;
}

type Identities = (world: World) => () => string;

/** The set allows every machine: what is explored is the cluster's limit. */
const sets = [false, true].map(
  (halted): ReadonlyMap<string, SetFacts> =>
    new Map([[SET_UID, { name: 'kubelet', stopped: halted ? 'Halted' : undefined, maxUnavailable: '100%' }]]),
);
const policiesOf = (limit: number) => [
  { metadata: { name: 'cell' }, spec: { limits: [{ name: 'cluster', scope: 'Cluster' as const, maxUnavailable: limit }] } },
];

/** Of the store: those that are not finished. */
const jobsIn = (cell: Cell): AskFacts['jobsOf'] => {
  const open = cell.jobs.flatMap(({ object }) => (object === undefined || isFinished(object) ? [] : [object]));
  return (machineUID) => open.filter((job) => job.spec.machine.uid === machineUID);
};

function factsOf(nowMs: number, halted: boolean, silent: boolean, cell: Cell, powers: boolean): AskFacts {
  return {
    nowMs,
    sets: sets[halted ? 1 : 0] ?? new Map(),
    freezes: [],
    jobsOf: jobsIn(cell),
    canPowerCycle: () => powers,
    agentAnswers: !silent,
  };
}

const hasPower = ({ repair }: Scenario): boolean => repair !== undefined && repair.powerless !== true;

/** Whether the Lease of this machine's agent is stale. */
function isSilent(world: World, index: number): boolean {
  const site = world.sites[index];
  return world.agents[index]?.state === 'dead' || (site !== undefined && !hears(site).agent);
}

const kubeletAnswers = (world: World, index: number): boolean => {
  const site = world.sites[index];
  return site === undefined || hears(site).kubelet;
};

/** What a leader's stores show. */
const viewOf = (leader: Leader, world: World): Cell => ({
  machines: leader.frozen.machines ?? world.machines,
  nodes: leader.frozen.nodes ?? world.nodes,
  ledger: leader.frozen.ledger ?? world.ledger,
  jobs: leader.frozen.jobs ?? world.jobs,
});

const withLeader = (world: World, index: number, leader: Leader): World => ({ ...world, leaders: replaced(world.leaders, index, leader) });

export const DOWN: Leader = { epoch: undefined, flights: [], frozen: {}, marks: [], looks: [], cycled: [] };

/** An object as a live read gives it. */
function read<T extends KubeObject>(held: Held<T> | undefined): Stored<T> | undefined {
  if (held?.object === undefined) return undefined;
  return { ...held.object, metadata: { ...held.object.metadata, resourceVersion: String(held.version) } };
}

function machineView(
  world: World,
  leader: Leader,
  cell: Cell,
  index: number,
  scenario: Scenario,
  mutation: Mutation,
): MachineView | undefined {
  const machine = cell.machines[index]?.object;
  if (machine === undefined) return undefined;
  const providerID = machine.status?.providerID;
  const site = world.sites[index] ?? FRESH_SITE;
  const row = rowOfMachine(stateOf(cell.ledger.object ?? {}), machine.metadata.uid);
  const deaf = mutation.deaf === true && row !== undefined && machine.spec.operation?.id === row.id;
  const silent = isSilent(world, index) || deaf;
  const instance = world.instances[index] === machine.metadata.uid;
  const view: MachineView = {
    nowMs: TIMES[world.time],
    machine,
    row,
    claim: claimOf(machine, providerID, cell.nodes[index]?.object),
    providerID,
    instanceID: providerID ?? '',
    instance: instance
      ? { state: 'Present', instance: { providerID: providerID ?? '', state: site.power, addresses: [] } }
      : { state: 'Absent' },
    kubeletAnswers: kubeletAnswers(world, index),
    facts: factsOf(TIMES[world.time], world.halted, silent, cell, hasPower(scenario)),
    pods: undefined,
    nodeDrift: false,
    revoked: undefined,
    canStop: hasPower(scenario),
    powerCycled: row !== undefined && leader.cycled.includes(row.id),
  };
  const count = world.pods[index] ?? 0;
  const pods = Array.from({ length: count }, (_, at) => ({
    namespace: POOL,
    name: `p${at}`,
    uid: `p${at}`,
    terminating: at < site.terminating,
  }));
  return isDraining(view) ? { ...view, pods } : view;
}

function cellView(world: World, leader: Leader, scenario: Scenario, at: Cell = viewOf(leader, world), mutation: Mutation = {}): CellView {
  const passed = leader.marks.every((mark) => !mark.own || markPassed(mark, at));
  const parts: CellParts = {
    facts: factsOf(TIMES[world.time], world.halted, false, at, hasPower(scenario)),
    machines: at.machines.flatMap((held) => (held.object === undefined ? [] : [held.object])),
    nodeNamed: (name) => at.nodes[Number(name.slice(1))]?.object,
    kubeletAnswers: (name) => kubeletAnswers(world, Number(name.slice(1))),
    agentAnswers: (machine) => !isSilent(world, Number(machine.metadata.name.slice(1))),
    policies: policiesOf(world.limit),
    askingSince: () => 0,
    stale: passed ? undefined : 'a release is not seen',
  };
  return cellOf(mutation.cell?.(parts) ?? parts);
}

function markPassed(mark: Mark, cell: Cell): boolean {
  const machine = cell.machines[mark.machine];
  const node = cell.nodes[mark.machine];
  const machinePassed =
    mark.machineVersion === undefined ? machine?.object?.metadata.uid !== mark.uid : (machine?.version ?? 0) >= mark.machineVersion;
  if (mark.nodeGoneUID !== undefined) return machinePassed && node?.object?.metadata.uid !== mark.nodeGoneUID;
  return machinePassed && (mark.nodeVersion === undefined || (node?.version ?? 0) >= mark.nodeVersion);
}

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
    const looks = leader.looks.filter((look) => look.version === world.jobs[look.index]?.version);
    const over = leader.epoch !== undefined && flights.length === 0 && looks.length === 0 && seen > leader.epoch;
    if (flights.length === leader.flights.length && looks.length === leader.looks.length && !over) return leader;
    changed = true;
    return over ? DOWN : { ...leader, flights, looks };
  });
  return changed ? { ...world, leaders } : world;
}

function loses(flight: Flight, world: World): boolean {
  const at = machineOf(flight);
  switch (flight.writes) {
    case 'machine':
      return flight.machine !== undefined && flight.machine.version !== world.machines[at]?.version;
    case 'node':
      return flight.node !== undefined && flight.node.version !== world.nodes[at]?.version;
    case 'ledger':
      return flight.ledger !== undefined && flight.ledger.version !== world.ledger.version;
    default:
      return false;
  }
}

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

/** Terms: raising the epoch is one conditioned write, and a lost race changes nothing. */
function terms(world: World, index: number, leader: Leader, scenario: Scenario, mutation: Mutation): Successor[] {
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
function staleness(world: World, index: number, leader: Leader, scenario: Scenario, mutation: Mutation): Successor[] {
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
function settled(leader: Leader, world: World): Leader {
  const marks = leader.marks.filter((mark) => !markPassed(mark, viewOf(leader, world)));
  return marks.length === leader.marks.length ? leader : { ...leader, marks };
}

const runs = (leader: Leader, key: Flight['key']): boolean => leader.flights.some((flight) => flight.key === key);

function startable(world: World, leader: Leader, scenario: Scenario, mutation: Mutation): Flight[] {
  const flights: Flight[] = [];
  const cell = viewOf(leader, world);
  const epoch = leader.epoch ?? 0;
  const state = stateOf(cell.ledger.object ?? {});
  // A leader whose own store shows a later term begins nothing.
  if (state.epoch > epoch && mutation.epochIgnored !== true) return [];
  if (!runs(leader, 'cell')) {
    const machines = cell.machines.flatMap((held) => (held.object === undefined ? [] : [held.object]));
    for (const row of state.rows.filter((each) => machines.every((machine) => machine.metadata.uid !== each.machineUID)))
      flights.push({ key: 'cell', what: { vanished: row }, epoch, reads: 0 });
    const asks = machines.some((machine) => mayAsk(machine, jobsIn(cell)) && rowOfMachine(state, machine.metadata.uid) === undefined);
    if (asks && (scenario.repair === undefined || grants(world, leader, scenario, mutation)))
      flights.push({ key: 'cell', what: 'reserve', epoch, reads: 0 });
  }
  for (let index = 0; index < world.machines.length; index++) {
    if (runs(leader, index)) continue;
    const view = machineView(world, leader, cell, index, scenario, mutation);
    if (view === undefined) continue;
    const step = stepOf(view, mutation);
    if (step === undefined) continue;
    flights.push({
      key: index,
      what: { step, nowMs: view.nowMs, halted: world.halted, silent: isSilent(world, index) },
      epoch,
      reads: 0,
    });
  }
  return flights;
}

/**
 * Whether a pass that began now and met nobody would write. One that would not is left out: what changes its mind is a later ledger, which
 * makes it lose, or a later store, and then it may as well begin later.
 */
function grants(world: World, leader: Leader, scenario: Scenario, mutation: Mutation): boolean {
  try {
    const pass = reservation(
      leader.epoch ?? 0,
      () => cellView(world, leader, scenario, undefined, mutation),
      () => '-',
    );
    return 'write' in pass.judge({ ledger: read(world.ledger) });
  } catch (error) {
    if (isCoded(error, 'Deposed')) return true;
    throw error;
  }
}

function stepOf(view: MachineView, mutation: Mutation): Step | undefined {
  const steps = decide(view).steps.filter((step) => step.do !== 'SyncNode' && step.do !== 'EnsureInstance' && step.do !== 'Finalize');
  return mutation.step?.(view, steps[0]) ?? steps[0];
}

/** Finalizer and Node of a machine whose instance is gone: each one conditioned write, made only after the provider's proof. */
function finalizations(world: World, index: number, leader: Leader, scenario: Scenario, mutation: Mutation): Successor[] {
  const cell = viewOf(leader, world);
  return world.machines.flatMap((held, at): Successor[] => {
    const view = machineView(world, leader, cell, at, scenario, mutation);
    const finalize = view !== undefined && decide(view).steps.some((step) => step.do === 'Finalize');
    if (!finalize || runs(leader, at) || mutation.epochIgnored === true) return [];
    if (held.object === undefined || held.object.metadata.uid !== view.machine.metadata.uid) return [];
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
        world: { ...world, machines: replaced(world.machines, at, { version: held.version + 1, object: undefined }) },
        fault: false,
      },
    ];
  });
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
    act = reservation(flight.epoch, () => cellView(world, leader, scenario, before, mutation), newID);
  } else if ('vanished' in flight.what) act = freeVanished(flight.what.vanished, flight.epoch);
  else {
    const { step, nowMs, halted, silent } = flight.what;
    const name = machineName(Number(flight.key));
    act = actOf(step, {
      epoch: flight.epoch,
      machine: { namespace: POOL, name },
      node: name,
      // Of the jobs the newest that the store has by then: it is asked while the act judges.
      facts: factsOf(
        nowMs,
        halted,
        silent || (mutation.deaf === true && step.do === 'TakeOverForRepair'),
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

function advance(
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
    if (!isCoded(error, 'Deposed')) throw error;
    return { label: `${name}: deposed`, world: withLeader(world, index, DOWN) };
  }
  if ('stop' in move) return { label: `${name}: stops, ${move.stop}`, world: ended };
  const after = carryOut(ended, index, at, flight, move, scenario, mutation);
  const uid = world.machines[at]?.object?.metadata.uid;
  const evicts =
    'effect' in move && move.effect.do === 'Evict' && stateOf(world.ledger.object ?? {}).rows.every((row) => row.machineUID !== uid);
  if (evicts) {
    const deposed = leader.epoch !== stateOf(world.ledger.object ?? {}).epoch;
    const broken = deposed ? {} : { broken: `C4: a pod of ${machineName(at)} is evicted without a row` };
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

function carryOut(
  world: World,
  index: number,
  at: number,
  flight: Flight,
  move: Exclude<Move<Effect>, { stop: string }>,
  scenario: Scenario,
  mutation: Mutation,
): World {
  if ('effect' in move) {
    if (scenario.repair !== undefined && move.effect.do !== 'DeleteInstance')
      return repairEffect(world, index, at, move.effect, scenario.repair, mutation);
    if (move.effect.do === 'Evict') return { ...world, pods: replaced(world.pods, at, Math.max(0, (world.pods[at] ?? 0) - 1)) };
    if (move.effect.do !== 'DeleteInstance') return world;
    const { providerID } = move.effect;
    if (`p://${world.instances[at] ?? ''}` !== providerID) return world;
    const agent: Agent = { ...FRESH_AGENT, state: 'dead' };
    return { ...world, instances: replaced(world.instances, at, undefined), agents: replaced(world.agents, at, agent) };
  }
  const bare = { ...move.object, metadata: { ...move.object.metadata, resourceVersion: '' } };
  if (move.write === 'ledger') {
    const { releases } = move;
    const mark = (leader: Leader, by: number): Leader =>
      releases === undefined ? leader : settled({ ...leader, marks: [...leader.marks, markFrom(releases, at, by === index)] }, world);
    const marked = { ...world, leaders: world.leaders.map(mark) };
    // The CRD's rule.
    if ((move.object.status?.epoch ?? 0) < (world.ledger.object?.status?.epoch ?? 0)) return marked;
    if (flight.ledger?.version !== world.ledger.version && mutation.cas !== 'ledger') return marked;
    return { ...marked, ledger: { version: world.ledger.version + 1, object: bare as Stored<typeof move.object> } };
  }
  if (move.write === 'node') {
    const held = world.nodes[at];
    if (held?.object === undefined || held.object.metadata.uid !== move.object.metadata.uid) return world;
    if (flight.node?.version !== held.version && mutation.cas !== 'node') return world;
    const object = { ...(bare as Stored<typeof move.object>), ...(held.object.status === undefined ? {} : { status: held.object.status }) };
    return { ...world, nodes: replaced(world.nodes, at, { version: held.version + 1, object }) };
  }
  const held = world.machines[at];
  if (held?.object === undefined || held.object.metadata.uid !== move.object.metadata.uid) return world;
  if (flight.machine?.version !== held.version && mutation.cas !== 'machine') return world;
  if (move.status === true) {
    const written: Stored<Machine> = { ...held.object, ...(move.object.status === undefined ? {} : { status: move.object.status }) };
    return { ...world, machines: replaced(world.machines, at, { version: held.version + 1, object: written }) };
  }
  const before = held.object.spec.operation?.epoch ?? 0;
  if ((move.object.spec.operation?.epoch ?? -1) < before) return world;
  const { status: _, ...main } = bare as Stored<Machine>;
  const object: Stored<Machine> = { ...main, ...(held.object.status === undefined ? {} : { status: held.object.status }) };
  return { ...world, machines: replaced(world.machines, at, { version: held.version + 1, object }) };
}

/** As src/controllers/machine/effects.ts does it. */
function repairEffect(world: World, index: number, at: number, effect: Effect, plan: RepairPlan, mutation: Mutation): World {
  const site = world.sites[at];
  const leader = world.leaders[index];
  if (site === undefined || leader === undefined) return world;
  const count = world.pods[at] ?? 0;
  switch (effect.do) {
    case 'Evict':
      if (effect.pod.terminating || count === 0) return world;
      return kubeletAnswers(world, at)
        ? { ...world, pods: replaced(world.pods, at, count - 1) }
        : withSite(world, at, { terminating: site.terminating + 1 });
    case 'StopInstance':
      return withSite(world, at, { power: 'Stopped' });
    case 'PowerCycle': {
      const id = mutation.keyless === true ? `${effect.operationID}#${site.keys.length}` : effect.operationID;
      const cycled = cyclePower(world, at, id, plan);
      const told = withLeader(cycled, index, { ...leader, cycled: [effect.operationID] });
      return mutation.keyless === true ? withSite(told, at, { acts: [...site.acts, effect.operationID] }) : told;
    }
    case 'ForceDelete': {
      if (site.power !== 'Stopped' && mutation.oldProof !== true) return world;
      const left = count - effect.pods.length;
      return withSite({ ...world, pods: replaced(world.pods, at, Math.max(0, left)) }, at, { terminating: 0 });
    }
    case 'DeleteMachine': {
      const held = world.machines[at];
      if (held?.object === undefined || String(held.version) !== effect.machine.metadata.resourceVersion) return world;
      const object = { ...held.object, metadata: { ...held.object.metadata, deletionTimestamp: '2026-11-20T00:00:00Z' } };
      return { ...world, machines: replaced(world.machines, at, { version: held.version + 1, object }) };
    }
    default:
      return world;
  }
}

function markFrom(releases: ReleaseMark, machine: number, own: boolean): Mark {
  const { node } = releases;
  return {
    machine,
    uid: releases.machine.uid,
    machineVersion: versionOf(releases.machine.resourceVersion),
    nodeVersion: node !== undefined && 'resourceVersion' in node ? versionOf(node.resourceVersion) : undefined,
    nodeGoneUID: node !== undefined && 'goneUID' in node ? node.goneUID : undefined,
    own,
  };
}

const versionOf = (resourceVersion: string | undefined): number | undefined =>
  resourceVersion === undefined ? undefined : Number(resourceVersion);
