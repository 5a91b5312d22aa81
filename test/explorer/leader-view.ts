/** What a leader sees of the world: the views that its decisions are made of. */
import { isFinished } from '../../src/api/remedy-operation-job.ts';
import { ANNOTATIONS } from '../../src/api/names.ts';
import type { KubeObject, Stored } from '../../src/api/wire.ts';
import type { AskFacts, SetFacts } from '../../src/controllers/machine/facts.ts';
import { claimOf } from '../../src/controllers/machine/observe/claim.ts';
import { isDraining } from '../../src/controllers/machine/decide.ts';
import type { MachineView } from '../../src/controllers/machine/view.ts';
import type { PassView } from '../../src/controllers/machine/reservation/pass.ts';
import { cellOf, type CellParts } from '../../src/controllers/machine/testing/cell-of.ts';
import { reservationOfMachine, stateOf } from '../../src/defender/state.ts';
import type { Mutation } from './mutants.ts';
import { reporting } from './repairs.ts';
import { POOL, SET_UID, TIMES, FRESH_SITE, type Cell, type Slot, type Leader, type Mark, type Scenario, type World } from './world.ts';

/** The set allows every machine: what is explored is the cluster's limit. */
const sets = [false, true].map(
  (halted): ReadonlyMap<string, SetFacts> =>
    new Map([[SET_UID, { name: 'kubelet', stopped: halted ? 'Halted' : undefined, maxUnavailable: '100%' }]]),
);
const policiesOf = (limit: number) => [
  { metadata: { name: 'cell' }, spec: { limits: [{ name: 'cluster', scope: 'Cluster' as const, maxUnavailable: limit }] } },
];

/** Of the store: those that are not finished. */
export const jobsIn = (cell: Cell): AskFacts['jobsOf'] => {
  const open = cell.jobs.flatMap(({ object }) => (object === undefined || isFinished(object) ? [] : [object]));
  return (machineUID) => open.filter((job) => job.spec.machine.uid === machineUID);
};

export function factsOf(
  { time, halted, limit }: Pick<World, 'time' | 'halted' | 'limit'>,
  stale: boolean,
  cell: Cell,
  powers: boolean,
): AskFacts {
  return {
    nowMs: TIMES[time],
    sets: sets[halted ? 1 : 0] ?? new Map(),
    freezes: [],
    policies: policiesOf(limit),
    jobsOf: jobsIn(cell),
    canPowerCycle: () => powers,
    agentAnswers: !stale,
  };
}

export const hasPower = ({ repair }: Scenario): boolean => repair !== undefined && repair.powerless !== true;

/** Whether the Lease of this machine's agent is stale. */
export function isStale(world: World, index: number): boolean {
  const site = world.sites[index];
  return world.agents[index]?.state === 'dead' || (site !== undefined && !reporting(site).agent);
}

export const kubeletAnswers = (world: World, index: number): boolean => {
  const site = world.sites[index];
  return site === undefined || reporting(site).kubelet;
};

/** What a leader's stores show. */
export const viewOf = (leader: Leader, world: World): Cell => ({
  machines: leader.frozen.machines ?? world.machines,
  nodes: leader.frozen.nodes ?? world.nodes,
  ledger: leader.frozen.ledger ?? world.ledger,
  jobs: leader.frozen.jobs ?? world.jobs,
});

/** An object as a live read gives it. */
export function read<T extends KubeObject>(slot: Slot<T> | undefined): Stored<T> | undefined {
  if (slot?.object === undefined) return undefined;
  const { own, version, object } = slot;
  const metadata = { ...object.metadata, resourceVersion: String(version) };
  if (object.kind === 'Machine') metadata.generation = own ?? 0;
  if (object.kind === 'Node' && own !== undefined) metadata.annotations = { ...metadata.annotations, [ANNOTATIONS.nodeWrite]: String(own) };
  return { ...object, metadata };
}

export function machineView(
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
  const reservation = reservationOfMachine(stateOf(cell.ledger.object ?? {}), machine.metadata.uid);
  const ignored = mutation.ignoresAgents === true && reservation !== undefined && machine.spec.operation?.id === reservation.id;
  const stale = isStale(world, index) || ignored;
  const instance = world.instances[index] === machine.metadata.uid;
  const view: MachineView = {
    nowMs: TIMES[world.time],
    machine,
    reservation,
    claim: claimOf(machine, providerID, cell.nodes[index]?.object),
    providerID,
    instanceID: providerID ?? '',
    instance: instance
      ? { state: 'Present', instance: { providerID: providerID ?? '', state: site.power, addresses: [] } }
      : { state: 'Absent' },
    kubeletAnswers: kubeletAnswers(world, index),
    facts: factsOf(world, stale, cell, hasPower(scenario)),
    pods: undefined,
    uncounted: [],
    nodeDrift: false,
    notOnNode: [],
    revoked: undefined,
    hours: [],
    canStop: hasPower(scenario),
    powerCycled: reservation !== undefined && leader.cycled.includes(reservation.id),
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

export function cellView(
  world: World,
  leader: Leader,
  scenario: Scenario,
  at: Cell = viewOf(leader, world),
  mutation: Mutation = {},
): PassView {
  const passed = leader.marks.every((mark) => !mark.own || markPassed(mark, at));
  const parts: CellParts = {
    facts: factsOf(world, false, at, hasPower(scenario)),
    machines: at.machines.flatMap((slot) => (slot.object === undefined ? [] : [slot.object])),
    nodeNamed: (name) => at.nodes[Number(name.slice(1))]?.object,
    kubeletAnswers: (name) => kubeletAnswers(world, Number(name.slice(1))),
    agentAnswers: (machine) => !isStale(world, Number(machine.metadata.name.slice(1))),
    askingSince: () => 0,
    stale: passed ? undefined : 'a release is not seen',
  };
  return cellOf(mutation.cell?.(parts) ?? parts);
}

export function markPassed(mark: Mark, cell: Cell): boolean {
  const machine = cell.machines[mark.machine];
  const node = cell.nodes[mark.machine];
  const machinePassed =
    mark.machineVersion === undefined ? machine?.object?.metadata.uid !== mark.uid : (machine?.version ?? 0) >= mark.machineVersion;
  if (mark.nodeGoneUID !== undefined) return machinePassed && node?.object?.metadata.uid !== mark.nodeGoneUID;
  return machinePassed && (mark.nodeVersion === undefined || (node?.version ?? 0) >= mark.nodeVersion);
}
