/**
 * A fleet with one unit as plain data that is never mutated: plans, decisions and records are the real ones, hubs and cells a few
 * fields. It keeps its own account of what was held, proved and revoked, by which the promises are judged (promises.ts).
 */
import type { UnitStatus } from '../../../api/cluster.ts';
import type { Fleet } from '../../../api/fleet.ts';
import { API_VERSION } from '../../../api/kind.ts';
import type { Rollout } from '../../../api/rollout.ts';
import { carriedBy, plan, removingBy } from '../../plan.ts';
import { wantedOf } from '../../wanted.ts';
import { records } from '../../records.ts';
import { decide, type Decision } from '../decide.ts';
import type { LiveUnit, Step, World } from '../world.ts';

export const SOAK_SECONDS = 30;
export const SOAK_MS = SOAK_SECONDS * 1000;

type Of<T> = Readonly<Partial<Record<string, T>>>;
type StepOf<K extends Step['do']> = Extract<Step, { do: K }>;

export interface Live {
  unitDigest: string;
  /** Another with each write of its spec: generation and resourceVersion in one, so that what a cell reports refuses no write here. */
  version: number;
  evidence: boolean;
  halted: string | undefined;
  drifted: boolean;
  ceiling: { unitDigest: string; nodes: number } | undefined;
  rolloutID: string | undefined;
}

/** Of one cluster, as the model saw it. */
export interface Account {
  /** Held with evidence since. */
  since: { digest: string; at: number } | undefined;
  /** How long each digest was held with evidence before; what was revoked counts from the start. */
  heldMs: Of<number>;
  /** Digests that there was evidence for, by when there was any first. */
  verified: readonly string[];
  /** The cell has proved what is recorded, since it was recorded. */
  proved: boolean;
  /** Nothing of it is left there since, as a hub recorded. */
  goneAt?: number;
  /** It came new with this commit, which is not complete and soaked yet; `at`: of the first evidence for any content. */
  added?: { commit: string; at?: number };
}

export type Request =
  /** All that is recorded before the cell is touched, in one write. */
  | { do: 'Record'; steps: readonly Step[] }
  | { do: 'Read' | 'Confirm' | 'Write'; step: StepOf<'Apply'> }
  | { do: 'Check' | 'Patch'; step: StepOf<'Ceiling' | 'TryAgain'> }
  | { do: 'Applied'; steps: readonly StepOf<'Apply'>[] }
  | { do: 'Find' | 'ConfirmRemoval' | 'Delete' | 'Removed'; step: StepOf<'Remove'> };

/** What a hub has yet to do for one cluster, in order. Clusters go side by side. */
export interface Task {
  cluster: string;
  todo: readonly Request[];
  /** Version of the object when it was read. */
  read?: number | undefined;
  /** By the model's own account: what is written stood in the record after the object was read. */
  stood?: boolean;
}

/** A hub that has decided. */
export interface Hub {
  tasks: readonly Task[];
  /** As they were when it decided: a status is written over nothing else. */
  saw: readonly Rollout[];
  retried: ReadonlyMap<string, string | undefined>;
  /** Retries that humans had asked for by then, by digest. */
  asked: Of<string>;
  /** A later term has put its number on every Cluster. */
  fenced?: boolean;
}

/** Stores of the hub that stopped following: what they show still. */
export interface Late {
  rollouts?: { list: readonly Rollout[]; asked: Of<string> };
  records?: Of<UnitStatus>;
  /** Clusters that the Fleet declares. */
  members?: readonly string[];
  /** By cluster: its object in the store of that cell, or none. */
  cells: Of<{ live: Live | undefined }>;
}

export interface Head {
  /** Undefined: the commit has no such unit. */
  digest: string | undefined;
  special: Of<string>;
}

export interface FleetState {
  unit: string;
  maxClusters: number;
  now: number;
  stageOf: Of<string>;
  declared: readonly string[];
  away: readonly string[];
  /** What the last commit renders to. */
  head: Head | undefined;
  /** A status holds only what the decision reads again: the retry that was carried out. */
  rollouts: readonly Rollout[];
  recorded: Of<UnitStatus>;
  cells: Of<Live>;
  version: number;
  accounts: Of<Account>;
  revoked: readonly string[];
  /** `cluster digest`: it was wanted there with evidence as others went back from it, and was not revoked there since. */
  upheld: readonly string[];
  /** `cluster digest`: it halted there, as a hub recorded, and no human has asked for another try since. */
  stopped: readonly string[];
  retries: number;
  asked: Of<string>;
  leader: Hub | undefined;
  /** Whether each term puts its number on every Cluster before it decides; else only what stands behind that keeps hubs apart. */
  terms: boolean;
  /** Whether records have the commit with which the unit came; else its removal is never a going back. */
  additions: boolean;
  /** The term that leads has not done so yet. */
  unfenced: boolean;
  deposed: readonly Hub[];
  /** The next hub has no better stores. */
  late: Late;
}

/** What a test may replace in order to leave a rule out. */
export interface Seams {
  decide(world: World): Decision;
  records: Pick<
    typeof records,
    | 'begin'
    | 'applied'
    | 'verified'
    | 'soaksAgain'
    | 'revoked'
    | 'upheld'
    | 'reinstated'
    | 'retried'
    | 'halted'
    | 'lifted'
    | 'removed'
    | 'settled'
  >;
  /** A term puts its number on every Cluster before it decides, and a hub that meets a higher one writes nothing. */
  fences: boolean;
  /** The record is read again before a write. */
  confirms: boolean;
  /** A write is conditioned on the object that was read. */
  conditioned: boolean;
  /** A write is conditioned on that nothing is there, where nothing was. */
  conditionedOnNothing: boolean;
  /** A write makes nothing again that was read, and is gone. */
  conditionedOnUID: boolean;
  /** The record is read again before a ceiling or a retry is written. */
  checksBeforePatch: boolean;
  /** A ceiling or a retry is conditioned on the object that the decision saw. */
  conditionsPatch: boolean;
  /** The object is read again before its evidence is recorded. */
  readsEvidence: boolean;
  /** What writes into a cell is decided again on what the hub's API server has, and not on what stores show. */
  decidesAgain: boolean;
  /** Whether a rollout carries the unit of a cluster. */
  carried: typeof carriedBy;
}
export const REAL: Seams = {
  decide,
  records,
  fences: true,
  confirms: true,
  conditioned: true,
  conditionedOnNothing: true,
  conditionedOnUID: true,
  checksBeforePatch: true,
  conditionsPatch: true,
  readsEvidence: true,
  decidesAgain: true,
  carried: carriedBy,
};

export const NO_ACCOUNT: Account = { since: undefined, heldMs: {}, verified: [], proved: false };

export function emptyFleet(unit: string, maxClusters: number, terms = true): FleetState {
  return {
    unit,
    maxClusters,
    now: Date.UTC(2026, 0, 1),
    stageOf: {},
    declared: [],
    away: [],
    head: undefined,
    rollouts: [],
    recorded: {},
    cells: {},
    version: 0,
    accounts: {},
    revoked: [],
    upheld: [],
    stopped: [],
    retries: 0,
    asked: {},
    leader: undefined,
    terms,
    additions: false,
    unfenced: false,
    deposed: [],
    late: { cells: {} },
  };
}

/** Another term begins; the hub that led carries on late with what it has yet to do. */
export function deposedIn(state: FleetState, hub: Hub): FleetState {
  return { ...state, leader: undefined, unfenced: state.terms, deposed: [...state.deposed, hub] };
}

/**
 * The term that leads puts its number on every Cluster. It decides nothing before all bear it, so what happens between two of these writes may as well happen
 * before or after both. Of what deposed hubs have yet to do, only a request into a cell that is on the wire has an effect from then on.
 */
export function fencedIn(state: FleetState, { fences }: Pick<Seams, 'fences'>): FleetState {
  if (!state.unfenced) return state;
  const deposed = state.deposed.map((hub) => ({ ...hub, fenced: true, tasks: fences ? hub.tasks.flatMap(onTheWire) : hub.tasks }));
  return { ...state, unfenced: false, deposed };
}

function onTheWire(task: Task): Task[] {
  const [first] = task.todo;
  return first?.do === 'Write' || first?.do === 'Patch' || first?.do === 'Delete' ? [{ ...task, todo: [first] }] : [];
}

export const ownerIn = ({ rollouts }: FleetState): Rollout | undefined => rollouts.at(-1);

export function wantedOn(state: FleetState, cluster: string): string | undefined {
  return ownerIn(state)?.spec.units[0]?.clusters.find(({ name }) => name === cluster)?.digest;
}

export function joined(state: FleetState, cluster: string, stage: string): FleetState {
  return {
    ...state,
    stageOf: { ...state.stageOf, [cluster]: stage },
    declared: [...state.declared.filter((name) => name !== cluster), cluster].sort(),
  };
}

/** The last one stays: a fleet that declares nothing is refused. */
export function dropped(state: FleetState, cluster: string): FleetState {
  const declared = state.declared.filter((name) => name !== cluster);
  return declared.length === 0 ? state : { ...state, declared };
}

export function committed(state: FleetState, head: Head, carried = carriedBy): FleetState {
  const { declared, stageOf, unit, maxClusters, rollouts } = state;
  const fleet: Fleet = {
    apiVersion: API_VERSION,
    kind: 'Fleet',
    metadata: { name: 'main' },
    spec: {
      source: { path: '/x' },
      stages: ['test', 'prod'].map((name) => ({ name, clusterSelector: { stage: name }, soakSeconds: SOAK_SECONDS, maxClusters })),
    },
  };
  const labels = new Map(declared.map((name) => [name, { stage: stageOf[name] ?? '' }]));
  const rendered = new Map(declared.map((name) => [name, renderedTo(unit, head.special[name] ?? head.digest)]));
  const known = new Map(Object.entries(state.recorded).map(([name, record]) => [name, record === undefined ? [] : [record]]));
  const planned = plan({
    fleet,
    rendered,
    wanted: wantedOf('main', rollouts, known),
    carried: carried(rollouts),
    removing: removingBy('main', rollouts, known),
    labels,
  });
  const units = planned.units.filter((each) => each.unit === unit);
  if (units.length === 0) return { ...state, head };
  const sequence = rollouts.length + 1;
  const spec = { fleet: 'main', commit: `c${sequence}`, sequence, stages: planned.stages, units };
  const rollout: Rollout = { apiVersion: API_VERSION, kind: 'Rollout', metadata: { name: `main-${sequence}` }, spec };
  // What is wanted nowhere any more is a new try when it comes again.
  const wanted = new Set(units.flatMap((each) => each.clusters.flatMap(({ digest }) => digest ?? [])));
  const stopped = state.stopped.filter((each) => wanted.has(each.split(' ')[1] ?? ''));
  return { ...state, head, stopped, rollouts: [...rollouts, rollout] };
}

/** Beside a unit that no check reads, since a commit that renders nothing at all is refused. */
function renderedTo(unit: string, digest: string | undefined): Map<string, string> {
  return new Map([['DefenderPolicy/other', 'O'], ...(digest === undefined ? [] : [[unit, digest] as const])]);
}

/** The Cluster of one that has left is deleted on the hub, and with it all that was recorded of it. */
export function forgotten(state: FleetState, cluster: string): FleetState {
  const { [cluster]: gone, ...recorded } = state.recorded;
  if (gone === undefined || state.declared.includes(cluster)) return state;
  const { [cluster]: _account, ...accounts } = state.accounts;
  // A revocation that only that record had is lost.
  const revoked = state.revoked.filter((digest) => Object.values(recorded).some((record) => record?.revoked?.includes(digest)));
  const upheld = state.upheld.filter((each) => !each.startsWith(`${cluster} `));
  const stopped = state.stopped.filter((each) => !each.startsWith(`${cluster} `));
  return { ...state, recorded, accounts, revoked, upheld, stopped };
}

/** A user deletes the object in a cell. */
export function erased(state: FleetState, cluster: string): FleetState {
  const { [cluster]: gone, ...cells } = state.cells;
  return gone === undefined ? state : { ...state, cells };
}

/** A cell halts what it carries. */
export function halted(state: FleetState, cluster: string): FleetState {
  return withCell(state, cluster, { halted: 'MaxFailed', evidence: false });
}

export function steered(state: FleetState, name: string | undefined, spec: Partial<Rollout['spec']>): FleetState {
  const rollouts = state.rollouts.map((rollout) =>
    rollout.metadata.name === name ? { ...rollout, spec: { ...rollout.spec, ...spec } } : rollout,
  );
  return { ...state, rollouts };
}

/** A human asks for another try of what is wanted now, which lifts its revocation. */
export function retried(state: FleetState): FleetState {
  const retries = state.retries + 1;
  const retry = `retry-${retries}`;
  const digests = new Set((ownerIn(state)?.spec.units[0]?.clusters ?? []).flatMap(({ digest }) => digest ?? []));
  const after = steered(state, ownerIn(state)?.metadata.name, { retry });
  return {
    ...after,
    retries,
    asked: { ...state.asked, ...Object.fromEntries([...digests].map((digest) => [digest, retry])) },
    revoked: state.revoked.filter((digest) => !digests.has(digest)),
    stopped: state.stopped.filter((each) => !digests.has(each.split(' ')[1] ?? '')),
  };
}

/** What halted waits for a human: no retry of it is under way. */
export function waitsForHuman(state: FleetState): boolean {
  const owner = ownerIn(state);
  const wanted = new Set((owner?.spec.units[0]?.clusters ?? []).flatMap(({ digest }) => digest ?? []));
  const { retry } = owner?.spec ?? {};
  return Object.keys(state.stageOf).some((name) => {
    const [live, record] = [state.cells[name], state.recorded[name]];
    const isShown = live?.halted !== undefined && state.declared.includes(name) && live.unitDigest === wantedOn(state, name);
    // Of a cluster that left also what came with the commit that brought it there.
    const isRecorded = record?.halt !== undefined && (wanted.has(record.halt.digest) || !state.declared.includes(name));
    return (isShown || isRecorded) && (retry === undefined || record?.retried === retry || owner?.status?.retried === retry);
  });
}

export function withCell(state: FleetState, cluster: string, change: Partial<Live>): FleetState {
  const live = state.cells[cluster];
  return live === undefined ? state : { ...state, cells: { ...state.cells, [cluster]: { ...live, ...change } } };
}

/** Whether a cell could come to prove what it carries. */
export function canProve(state: FleetState, cluster: string): boolean {
  const live = state.cells[cluster];
  return (
    live !== undefined &&
    !live.evidence &&
    live.halted === undefined &&
    !(live.ceiling?.unitDigest === live.unitDigest && live.ceiling.nodes === 0)
  );
}

export function proved(state: FleetState, cluster: string): FleetState {
  if (!canProve(state, cluster)) return state;
  const record = state.recorded[cluster];
  const counts = record?.digest === state.cells[cluster]?.unitDigest && record?.begun === undefined;
  const account = state.accounts[cluster] ?? NO_ACCOUNT;
  const after = withCell(state, cluster, { evidence: true });
  return counts ? { ...after, accounts: { ...after.accounts, [cluster]: { ...account, proved: true } } } : after;
}

function liveUnit(state: FleetState, cluster: string): LiveUnit {
  if (state.away.includes(cluster)) return { state: 'Unknown' };
  const live = state.cells[cluster];
  if (live === undefined) return { state: 'Absent' };
  const { version, ...rest } = live;
  const drifted = live.drifted || live.unitDigest !== state.recorded[cluster]?.digest;
  const carrier = { uid: 'u', generation: version };
  return { state: 'Present', ...rest, drifted, resourceVersion: String(version), carrier, progress: undefined };
}

/** With the cells as the hub's stores show them. */
export function withStoresOfCells(state: FleetState): FleetState {
  const late = Object.entries(state.late.cells);
  if (late.length === 0) return state;
  const cells = { ...state.cells };
  for (const [name, store] of late) {
    if (store?.live === undefined) delete cells[name];
    else cells[name] = store.live;
  }
  return { ...state, cells };
}

/** With all as the hub's stores show it. */
export function withStores(state: FleetState): FleetState {
  const { rollouts, records: recorded, members } = state.late;
  const { list = state.rollouts, asked = state.asked } = rollouts ?? {};
  return { ...withStoresOfCells(state), rollouts: list, asked, recorded: recorded ?? state.recorded, declared: members ?? state.declared };
}

/** Whether a store of what is on the hub itself is late. */
export function isHubLate({ late: { rollouts, records: recorded, members } }: FleetState): boolean {
  return rollouts !== undefined || recorded !== undefined || members !== undefined;
}

/** What a hub observes now. */
export function worldOf(state: FleetState): World {
  const clusters = new Map(
    Object.keys(state.stageOf).map((name) => {
      const record = state.recorded[name];
      const units = new Map(record === undefined ? [] : [[state.unit, record]]);
      const blocked = state.away.includes(name) ? 'no answer' : undefined;
      return [name, { name, blocked, units, failing: () => undefined, live: () => liveUnit(state, name) }] as const;
    }),
  );
  return { now: state.now, fleet: 'main', members: new Set(state.declared), rollouts: state.rollouts, clusters };
}
