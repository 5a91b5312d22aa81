import { isUnitOf } from '../../api/unit.ts';
import type { Cluster, UnitStatus } from '../../api/cluster.ts';
import type { Rollout } from '../../api/rollout.ts';
import { MachineSets, wantedReplicas, type MachineSet } from '../../api/machine-set.ts';
import type { MachineComponentSet } from '../../api/machine-component-set.ts';
import { API_VERSION } from '../../api/kind.ts';
import { ANNOTATIONS, LABELS, MANAGERS } from '../../api/names.ts';
import { plainTexts } from '../../api/plain-text.ts';
import type { KubeObject, Stored } from '../../api/wire.ts';
import { wouldChange } from '../../kube/apply.ts';
import { names } from '../../kube/ownership.ts';
import { isEmptied, isToEmpty, sameObject, stamped, type Stamp } from '../apply-unit.ts';
import type { StoredUnit } from '../bundles.ts';
import type { Away } from '../cell/away.ts';
import { isCell, type Cell, type CellContent } from '../cell/cell.ts';
import { evidenceOf, type Evidence } from '../evidence.ts';
import { extraFields, reportedFields } from '../extra-fields.ts';
import { hasUpdates } from '../field-records.ts';
import { ownersOf } from '../plan.ts';
import { replicasIn } from '../going.ts';
import { currentLane, REMOVAL } from '../records.ts';
import { isNumberOfSync, leavesReplicasOut } from '../replicas-owner.ts';
import { machinesHad } from './machines.ts';
import { asRehearsed, rehearsalOf, type Rehearsal } from './rehearsal.ts';
import type { ClusterView, LiveUnit, World } from './world.ts';

export interface ObserveInput {
  now: number;
  fleet: string;
  /** Clusters that the accepted commit declares, by the status of the Fleet. */
  members?: readonly string[] | undefined;
  /** Names of all Fleets that there are. */
  fleets?: readonly string[];
  /** Those in force. */
  rollouts: readonly Stored<Rollout>[];
  clusters: readonly Stored<Cluster>[];
  /** The connection, or why there is none. */
  cell(cluster: string): Cell | Away;
  /** Objects of a digest, if the cache has them in hand. */
  unit(digest: string): StoredUnit | undefined;
  /** Why they are not at hand, though they should be. */
  missing?(digest: string): string | undefined;
  /** Why the last try at (unit, cluster, digest) failed, while its next one is not due. */
  failing(unit: string, cluster: string): string | undefined;
  /** Why what is changed there again each time it was put back is not put back yet. */
  contested?(unit: string, cluster: string): string | undefined;
  /** Whether this hub may have given the cluster this content of the unit (`contentGiven`); absent: that is not asked. */
  known?(cluster: string, unit: string, digest: string): boolean;
  /** What is not watched there, and was found to be gone. */
  gone?(unit: string, cluster: string): boolean;
}

/** Gathers everything the decision needs. Sends no request: it reads stores. */
export function observe(input: ObserveInput): World {
  const clusters = new Map<string, ClusterView>();
  const rollouts = input.rollouts.toSorted((a, b) => a.spec.sequence - b.spec.sequence);
  const wantedSets = wantedMachineSets(rollouts);
  const named = unitsByCluster(rollouts);
  for (const cluster of input.clusters) {
    const { name } = cluster.metadata;
    const connection = input.cell(name);
    const cell = isCell(connection) ? connection : undefined;
    const units = new Map((cluster.status?.units ?? []).map((record) => [record.unit, record]));
    const lives = new Map<string, LiveUnit>();
    const live = (unit: string): LiveUnit => {
      const found =
        lives.get(unit) ??
        cell?.read((content) => plainTexts(liveUnit(content, unit, units.get(unit), wantedSets.get(name) ?? NO_SETS, input), LONGEST)) ??
        UNKNOWN;
      lives.set(unit, found);
      return found;
    };
    // All of it before anything is decided: one whose content cannot be read is away as a whole.
    for (const unit of named.get(name) ?? []) live(unit);
    const away = isCell(connection) ? connection.away() : connection;
    clusters.set(name, {
      name,
      createdAt: cluster.metadata.creationTimestamp,
      blocked: cluster.spec.paused === true ? 'the Cluster is paused' : away?.message,
      units,
      failing: (unit) => input.failing(unit, name),
      contested: (unit) => input.contested?.(unit, name),
      live: (unit) => (away === undefined ? live(unit) : UNKNOWN),
    });
  }
  const members = input.members === undefined ? undefined : new Set(input.members);
  const fleets = input.fleets === undefined ? undefined : new Set(input.fleets);
  return { now: input.now, fleet: input.fleet, fleets, members, rollouts, clusters };
}

const NO_SETS: ReadonlyMap<string, string> = new Map();
const UNKNOWN: LiveUnit = { state: 'Unknown' };
/** Of what a cell reports of one unit: it reaches records, messages and Events of the hub. */
const LONGEST = 4096;

function unitsByCluster(rollouts: readonly Rollout[]): Map<string, Set<string>> {
  const named = new Map<string, Set<string>>();
  for (const { spec } of rollouts) {
    for (const { unit, clusters } of spec.units) {
      for (const { name } of clusters) {
        const its = named.get(name) ?? new Set();
        named.set(name, its.add(unit));
      }
    }
  }
  return named;
}

function liveUnit(
  cell: CellContent,
  unit: string,
  record: UnitStatus | undefined,
  wantedSets: ReadonlyMap<string, string>,
  input: ObserveInput,
): LiveUnit {
  const [kind = '', ...rest] = unit.split('/');
  const store = cell.store(kind);
  const digest = record?.digest;
  // Not watched: that it was applied is all there is to know, and all that its kind promises.
  if (store === undefined) {
    if (input.gone?.(unit, cell.name) === true) return { state: 'Absent' };
    if (digest === undefined) return { state: 'Unknown' };
    return {
      state: 'Present',
      unitDigest: digest,
      drifted: false,
      evidence: true,
      halted: undefined,
      ceiling: undefined,
      progress: undefined,
    };
  }
  if (!store.synced) return { state: 'Unknown', syncs: true };
  const name = rest.at(-1) ?? '';
  const object = store.get(rest.length === 2 ? { namespace: rest[0], name } : { name });
  if (object === undefined || object.metadata.deletionTimestamp !== undefined) return { state: 'Absent' };
  const { unitDigest, ceiling, rolloutID } = (object as Partial<Stored<MachineComponentSet>>).spec ?? {};
  const wanted = digest === undefined ? undefined : input.unit(digest);
  // What was verified here, or is put back, need not be rehearsed.
  const lane = record === undefined ? 'Forward' : currentLane(record);
  const proven = lane === 'Restore' || (digest !== undefined && record?.evidence === digest);
  const rehearsal: Rehearsal = proven ? { state: 'None' } : rehearsalOf(object, cell.now());
  const due = proven || wanted === undefined ? wanted : asRehearsed(wanted, digest ?? '', object, cell.now());
  const found = unitDigest === undefined ? UNSEEN : judged(object, unitDigest, cell, [...wantedSets.keys()]);
  return {
    state: 'Present',
    unitDigest,
    ...(unitDigest !== digest &&
    ((unitDigest !== undefined && input.known?.(cell.name, unit, unitDigest) === false) || isWrittenLater(object, record))
      ? { unknown: true }
      : {}),
    ...(writtenAtOf(object) === undefined ? {} : { writtenAt: writtenAtOf(object) }),
    drifted:
      rehearsal.state === 'Over' ||
      (due !== undefined && (isMadeAgain(object, record) || isDrifted(object, due, { digest: digest ?? '', fleet: input.fleet, lane }))),
    ...(isMadeAgain(object, record) && (object.metadata.labels?.[LABELS.fleet] ?? input.fleet) === input.fleet ? { notOurs: true } : {}),
    ...found,
    // What is in Shadow is no evidence for what is to be enforced.
    ...(rehearsal.state === 'None' ? {} : { evidence: false, rehearsed: rehearsal.state === 'Over' }),
    ...(rehearsal.state === 'Running' ? { progress: rehearsal.why, againAt: after(input.now, rehearsal.leftMs) } : {}),
    ...(rehearsal.state === 'Failed' ? { halted: found.halted ?? rehearsal.why } : {}),
    ceiling,
    rolloutID,
    resourceVersion: object.metadata.resourceVersion,
    carrier: { uid: object.metadata.uid, generation: object.metadata.generation },
    ...machinesIn(object, numberGiven([digest, record?.begun, unitDigest], input)),
    ...emptyingOf(object),
    ...losesIn(object, record, wantedSets.get(unit), input),
    ...byHandIn(object, due),
    ...(wanted === undefined && digest !== undefined ? { lost: input.missing?.(digest) } : {}),
  };
}

/**
 * Whether this hub may have given a cluster some content of a unit: the record of that cluster has it, or an earlier Rollout names it there, whose late write may arrive.
 * What the newest Rollout of the unit wants there is recorded before it is applied: a cell that has it without such a record got it from a hub that knew more.
 */
export function contentGiven(
  rollouts: readonly Rollout[],
  clusters: readonly Cluster[],
  newest: ReadonlyMap<string, { rollout: Rollout }>,
): (cluster: string, unit: string, digest: string) => boolean {
  const given = new Set<string>();
  const add = (cluster: string, unit: string, digest: string | undefined): void =>
    void (digest === undefined || given.add(`${cluster} ${unit} ${digest}`));
  for (const rollout of rollouts)
    for (const { unit, clusters: wanted } of rollout.spec.units)
      if (newest.get(unit)?.rollout.metadata.name !== rollout.metadata.name) for (const { name, digest } of wanted) add(name, unit, digest);
  for (const { metadata, status } of clusters)
    for (const { unit, digest, begun, verified = [], revoked = [] } of status?.units ?? [])
      for (const each of [digest, begun, ...verified.map((entry) => entry.digest), ...revoked]) add(metadata.name, unit, each);
  return (cluster, unit, digest) => given.has(`${cluster} ${unit} ${digest}`);
}

/** `given`: as `LiveUnit` has it. */
function machinesIn(object: Stored<KubeObject>, given: number | undefined): Pick<Present, 'machines' | 'has' | 'given' | 'numbered'> {
  if (object.kind !== MachineSets.kind) return {};
  const set = object as Stored<MachineSet>;
  const machines = wantedReplicas(set);
  return { machines: Number.isInteger(machines) ? machines : Infinity, given, ...machinesHad(set, given) };
}

/**
 * The largest number of what the hub gave a cell of a MachineSet, wholly or in part: what only began may be there, since its answer can be lost. Undefined: one of them is
 * not at hand, or leaves the number out.
 */
function numberGiven(digests: readonly (string | undefined)[], input: ObserveInput): number | undefined {
  const numbers = digests.flatMap((digest) => {
    if (digest === undefined || digest === REMOVAL) return [];
    const unit = input.unit(digest);
    return (unit === undefined ? undefined : replicasIn(unit.objects)) ?? Infinity;
  });
  const most = Math.max(...numbers);
  return Number.isFinite(most) ? most : undefined;
}

function emptyingOf(object: Stored<KubeObject>): { emptying?: string } {
  if (object.kind !== MachineSets.kind) return {};
  const set = object as Stored<MachineSet>;
  if (!isToEmpty(set) || isEmptied(set)) return {};
  const { replicas = 0, deletingReplicas = 0 } = set.status ?? {};
  const kept = set.spec.paused === true && replicas > 0 ? '; `spec.paused` of the set keeps them: set it to false in its cell' : '';
  return { emptying: `its machines go first: ${replicas} are there, ${deletingReplicas} are being deleted${kept}` };
}

/**
 * The number that sync gave a set, where it lets machines go that the wanted content keeps (docs/protocols.md#e9): that content has a greater number, leaves it to others,
 * or cannot be rendered. Content that is not loaded yet is loaded for the next pass. In a set of another Fleet the number is not the hub's to take out.
 */
function losesIn(
  object: Stored<KubeObject>,
  record: UnitStatus | undefined,
  target: string | undefined,
  input: ObserveInput,
): { losesTo?: number } {
  if (object.kind !== MachineSets.kind || target === undefined) return {};
  const set = object as Stored<MachineSet>;
  const { replicas } = set.spec;
  if ((set.metadata.labels?.[LABELS.fleet] ?? record?.fleet) !== input.fleet || replicas === undefined || !isNumberOfSync(set)) return {};
  if ((set.status?.replicas ?? 0) <= replicas) return {};
  const wanted = input.unit(target);
  if (wanted === undefined) return input.missing?.(target) === undefined ? {} : { losesTo: replicas };
  const due = replicasIn(wanted.objects);
  return due === null || (due !== undefined && due > replicas) ? { losesTo: replicas } : {};
}

/** What people may set in a cell, and that keeps what Git gives from being carried out. */
function byHandIn(object: Stored<KubeObject>, due: StoredUnit | undefined): { byHand?: string } {
  const top = due?.objects.at(-1);
  const fields = top === undefined ? [] : reportedFields(object, top);
  if (fields.length === 0) return {};
  return {
    byHand: `${fields.map((field) => `\`${field}\``).join(', ')} is true in its cell and not in Git: it stays until it is set to false there`,
  };
}

type Present = Extract<LiveUnit, { state: 'Present' }>;

const after = (now: number, ms: number | undefined): number | undefined => (ms === undefined ? undefined : now + ms);

const UNSEEN: Evidence = { evidence: false, halted: undefined, progress: undefined };

const writtenAtOf = ({ metadata }: KubeObject): string | undefined => metadata.annotations?.[ANNOTATIONS.writtenAt];

/** Whether a hub that knew more has written it (docs/protocols.md#e17): one that was deposed has begun what it writes before its successor has. */
function isWrittenLater(object: Stored<KubeObject>, record: UnitStatus | undefined): boolean {
  const at = Date.parse(writtenAtOf(object) ?? '');
  return record !== undefined && !Number.isNaN(at) && !(at <= Date.parse(record.writtenAt ?? ''));
}

/** Whether a user deleted what was applied and made another of its name: it has another UID. */
function isMadeAgain({ kind, metadata }: Stored<KubeObject>, record: UnitStatus | undefined): boolean {
  const { namespace, name } = metadata;
  const object = { apiVersion: API_VERSION, kind, name, ...(namespace === undefined ? {} : { namespace }) };
  const applied = record?.inventory?.find((entry) => sameObject(entry, object))?.uid;
  return applied !== undefined && applied !== metadata.uid;
}

/** Whether what a store has of a unit's object differs from what was applied. */
export function isDrifted(live: Stored<KubeObject>, unit: StoredUnit, stamp: Stamp): boolean {
  const top = unit.objects.at(-1);
  if (top === undefined || top.apiVersion !== API_VERSION) return false;
  // An unknown answer (another manager took every field of ours) is a difference: applying again settles it.
  // The same content that was begun at another time is no difference.
  const path = ['metadata', 'annotations', ANNOTATIONS.writtenAt];
  const isSyncs = live.metadata.managedFields?.some((entry) => entry.manager === MANAGERS.sync && names(entry, path)) === true;
  const writtenAt = isSyncs ? writtenAtOf(live) : undefined;
  const desired = stamped(top, true, { ...stamp, writtenAt }, unit.origins.at(-1));
  const isWithUpdates = hasUpdates(live.metadata.managedFields ?? [], { givesReplicas: !leavesReplicasOut(desired) });
  return isWithUpdates || wouldChange(desired, live, { fieldManager: MANAGERS.sync }) !== false || extraFields(live, desired).length > 0;
}

/** Digests of MachineSets that the newest rollouts want, by cluster and unit. */
function wantedMachineSets(rollouts: readonly Rollout[]): Map<string, Map<string, string>> {
  const wanted = new Map<string, Map<string, string>>();
  for (const [unit, { clusters }] of ownersOf(rollouts)) {
    if (!isUnitOf(unit, MachineSets)) continue;
    for (const { name, digest } of clusters)
      if (digest !== undefined) wanted.set(name, (wanted.get(name) ?? new Map<string, string>()).set(unit, digest));
  }
  return wanted;
}

/** A set without members proves nothing while machines are on their way (invariant 7: absence is not health). */
function judged(object: Stored<KubeObject>, digest: string, cell: CellContent, machineSets: readonly string[]): Evidence {
  const evidence = evidenceOf(object, digest);
  const { status } = object as Partial<Stored<MachineComponentSet>>;
  if (object.kind !== 'MachineComponentSet' || !evidence.evidence || (status?.desired ?? 0) > 0) return evidence;
  const coming = machineSets.find((unit) => replicasOf(cell, unit) > 0);
  return coming === undefined ? evidence : { ...evidence, evidence: false, progress: `no machine yet; ${coming} is making them` };
}

function replicasOf(cell: CellContent, unit: string): number {
  const [, namespace = '', name = ''] = unit.split('/');
  const set = cell.store('MachineSet')?.get({ namespace, name }) as Stored<MachineSet> | undefined;
  // Not there yet: that it is wanted is all that is known.
  return set === undefined ? 1 : wantedReplicas(set);
}
