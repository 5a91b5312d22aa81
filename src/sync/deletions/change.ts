/** What a commit changes where something may be deleted, and what is reported of what is held back. */
import type { Fleet } from '../../api/fleet.ts';
import type { Rollout } from '../../api/rollout.ts';
import type { CellMachines, ReplicasByDigest } from '../going.ts';

/** What becomes of one unit in one cluster. */
export interface Change {
  unit: string;
  cluster: string;
  /** undefined: it is deleted. */
  digest: string | undefined;
  from: string | undefined;
  /** How many would go. */
  machines: number;
  /** Of these, how many its cell has that the hub did not ask for, as far as it knows. They may be gone, or explained, when the cell reports again. */
  unrecorded: number;
  /** Of those that the hub asked for before: how many are not counted since its cell has not made them, where the commit takes them back at once. */
  unmade: number;
  /** What the Rollouts in force want, where that is not `from`: it was accepted, and waits since more machines are there than it was judged with. */
  late?: { wanted: string | undefined } | undefined;
}

export interface HeldBack {
  message: string;
  next: string;
  /** Clusters that it waits for, since it may pass without a commit or another limit: they are not reached, or other machines go there at the time. */
  waitsFor: readonly string[];
  /** Each set that is held back, as the message shows the first of them. */
  all: readonly string[];
}

export interface DeletionsInput {
  fleet: Fleet;
  stages: Rollout['spec']['stages'];
  /** All that differs, and all that does not, of units that the commit or the one before has. */
  changes: readonly Change[];
  replicas: ReplicasByDigest;
  /** By cluster: what a reached cell reports. A cluster that is not in it is not known. */
  machines: ReadonlyMap<string, CellMachines>;
  /** What the hub recorded that it gave a cluster of its units: digests, also of before, and of units that are being removed. */
  given?: (cluster: string) => readonly { unit: string; digests: readonly string[] }[];
}

export const isLoss = ({ from, digest, machines }: Change): boolean => (from !== undefined && digest === undefined) || machines > 0;
