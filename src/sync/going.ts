/** How many machines a commit would let go, for the budget of deletions (docs/protocols.md#e9). What is not known counts as the most that a set may have. */
import { isUnitOf } from '../api/unit.ts';
import type { Cluster } from '../api/cluster.ts';
import { CodedError } from '../api/errors.ts';
import { MachineSets } from '../api/machine-set.ts';
import type { KubeObject } from '../api/wire.ts';
import type { Bundles } from './bundles.ts';

/** By digest of a MachineSet's unit: its `replicas`; `null`: left out. What is not in it is not known. */
export type ReplicasByDigest = ReadonlyMap<string, number | null>;

/** As many machines as one set may have. */
export const MOST = 2000;

/** What one change of a unit in a cluster is counted by. */
export interface Counted {
  replicas: ReplicasByDigest;
  /** How many machines a set has whose number is not known, and of which no cell reports; up to `MOST`. */
  most?: number | undefined;
  /** Digests: what the cluster was given, wholly or in part; undefined: not known. */
  there?: readonly string[] | undefined;
  /** The set as its reached cell reports it. */
  cell?: CellSet | undefined;
  /** At once to what was proven there, from what never was (docs/protocols.md#e6): no more can go than its cell has at the time. */
  restores?: boolean | undefined;
}

/** `from`, `to`: digests; undefined: the commit before, or this one, has no such unit. */
export function machinesGoing(unit: string, from: string | undefined, to: string | undefined, by: Counted): number {
  if (!isUnitOf(unit, MachineSets) || from === to) return 0;
  const after = to === undefined ? 0 : by.replicas.get(to);
  // Left out: the set keeps what it has.
  if (after === null) return 0;
  return Math.max(0, machinesThere(from, by) - (after ?? 0));
}

/**
 * How many machines a set may have that a commit would change: as far as the hub asked its cell for them, or as many more as that cell is to have, since the hub
 * may know less than its cells (docs/protocols.md#e17). What no cell was ever asked to make, and no cell reports, cannot go.
 */
export function machinesThere(from: string | undefined, by: Counted): number {
  const { replicas, there, cell } = by;
  // What an earlier commit removes goes by that one.
  const reported = cell === undefined || cell.removing ? undefined : cell;
  const unknown = reported === undefined ? (by.most ?? MOST) : Math.max(reported.replicas, reported.wanted);
  const numberOf = (digest: string): number => replicas.get(digest) ?? Math.min(unknown, MOST);
  const made = there === undefined ? Infinity : Math.max(0, ...there.map(numberOf));
  const recorded = from === undefined ? 0 : Math.min(numberOf(from), made);
  if (reported === undefined) return recorded;
  // A number that the hub does not know explains nothing of what is there.
  const asked = (there ?? (from === undefined ? [] : [from])).map((digest) => replicas.get(digest) ?? 0);
  if (reported.wanted > Math.max(0, ...asked)) return Math.max(recorded, Math.min(reported.wanted, MOST));
  return by.restores === true ? Math.min(recorded, reported.replicas) : recorded;
}

/** Of the MachineSet of a unit: `null` where it leaves `replicas` out; undefined where it is not known. */
export function replicasIn(objects: readonly KubeObject[]): number | null | undefined {
  const set = objects.find((object) => object.kind === MachineSets.kind);
  return set === undefined ? undefined : (MachineSets.parse(set).spec.replicas ?? null);
}

/** One MachineSet as its cell reports it. */
export interface CellSet {
  /** Machines that are not being deleted. */
  replicas: number;
  /** How many of these there are to be. */
  wanted: number;
  /** Being deleted, beside `replicas`. */
  deleting: number;
  /** A commit that was accepted before deletes it. */
  removing: boolean;
}

export interface CellMachines {
  total: number;
  /** By unit; also those of others. */
  sets: ReadonlyMap<string, CellSet>;
}

/** What the hub recorded of the machines of cells that it reaches. Others are not in it. `isRemoving`: as `CellSet.removing`. */
export function machinesOf(
  clusters: readonly Cluster[],
  isRemoving: (cluster: string, unit: string) => boolean,
): ReadonlyMap<string, CellMachines> {
  return new Map(
    clusters.flatMap(({ metadata: { name }, status }): [string, CellMachines][] => {
      if (!isReached(status) || status?.machines?.sets === undefined) return [];
      const { total, sets } = status.machines;
      const entries = sets.map(({ set, deleting = 0, ...rest }): [string, CellSet] => {
        const unit = `${MachineSets.kind}/${set}`;
        return [unit, { ...rest, deleting, removing: isRemoving(name, unit) }];
      });
      return [[name, { total, sets: new Map(entries) }]];
    }),
  );
}

const isReached = (status: Cluster['status']): boolean =>
  status?.conditions?.some(({ type, status: is }) => type === 'Reachable' && is === 'True') === true;

/** Whether the hub reaches a cell that has more sets than are reported: what each of them has is not known. */
export const isUncounted = ({ status }: Cluster): boolean =>
  isReached(status) && status?.machines !== undefined && status.machines.sets === undefined;

/**
 * How many machines of a cell go already, or will by an earlier commit, beside those that this one lets go. `wanted`: by unit, what there is to be after
 * this commit, which may take some back; undefined: as the cell reports. `lost`: by unit, those that this commit lets go.
 */
export function goingIn(
  { sets }: CellMachines,
  wanted: ReadonlyMap<string, number | undefined>,
  lost: ReadonlyMap<string, number>,
): number {
  let going = 0;
  for (const [unit, { replicas, deleting, removing, ...cell }] of sets) {
    const after = wanted.get(unit) ?? (removing ? 0 : cell.wanted);
    going += Math.max(0, Math.max(0, replicas - after) + deleting - (lost.get(unit) ?? 0));
  }
  return going;
}

/** Of what the commit renders, and of what was wanted or there before it as far as it is kept, or its own commit renders it again (docs/protocols.md#e8). */
export async function replicasOf(
  rendered: readonly { units: readonly { digest: string; objects: readonly KubeObject[] }[] }[],
  before: readonly { unit: string; digest: string; commit: string | undefined }[],
  bundles: Pick<Bundles, 'get'>,
  renderAgain: (commit: string) => Promise<readonly { units: readonly { digest: string; objects: readonly KubeObject[] }[] }[]> = () =>
    Promise.resolve([]),
): Promise<ReplicasByDigest> {
  const found = new Map<string, number | null>();
  const note = (digest: string, objects: readonly KubeObject[]): void => {
    const replicas = replicasIn(objects);
    if (replicas !== undefined) found.set(digest, replicas);
  };
  for (const { units } of rendered) for (const { digest, objects } of units) note(digest, objects);
  const lost = new Map<string, string>();
  for (const { unit, digest, commit } of before) {
    if (!isUnitOf(unit, MachineSets) || found.has(digest)) continue;
    const bundle = await bundles.get(digest);
    if (bundle !== undefined) note(digest, bundle.objects);
    else if (commit !== undefined) lost.set(digest, commit);
  }
  for (const commit of new Set(lost.values())) {
    try {
      for (const { units } of await renderAgain(commit)) for (const { digest, objects } of units) note(digest, objects);
    } catch (error) {
      // What it cannot be rendered for may pass: then the commit is tried again (docs/protocols.md#e10).
      if (!(error instanceof CodedError) || !error.verdict) throw error;
    }
  }
  return found;
}
