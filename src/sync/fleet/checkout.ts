import type { Cluster } from '../../api/cluster.ts';
import type { Fleet, ISOLATIONS } from '../../api/fleet.ts';
import type { Unit } from '../../api/unit.ts';
import type { CommitInfo, Fetched } from '../git/index.ts';

/** One commit, rendered, validated and split into units. */
export interface RenderedCommit {
  clusters: { name: string; object: Cluster; units: (Unit & { origins: (string | undefined)[] })[] }[];
  isolation: (typeof ISOLATIONS)[number];
  ms: number;
}

/** One fleet's source with what turns its commits into units. Every method throws a coded error and leaves what was accepted as it is. */
export interface Checkout {
  head(signal: AbortSignal): Promise<{ oid: string }>;
  fetch(lastAccepted: string | undefined, signal: AbortSignal): Promise<Fetched>;
  /**
   * Refuses unless the head, new or not, and every new commit is signed as the Fleet asks; nothing to do where it does not ask. `accepted`: the commit
   * that the head descends from, for what to do.
   */
  verify(fetched: { head: string; commits: CommitInfo[]; accepted?: string }, signal: AbortSignal): Promise<void>;
  render(commit: string, signal: AbortSignal): Promise<RenderedCommit>;
}

export interface Checkouts {
  /** The checkout for this spec; one that was opened for another spec is closed. */
  open(fleet: Fleet): Promise<Checkout>;
  close(fleet: string): Promise<void>;
  /** Calls back with a fleet's name when its source may have changed. Returns its cancellation. */
  onChange(call: (fleet: string) => void): () => void;
}
