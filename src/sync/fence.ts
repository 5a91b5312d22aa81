/** The fence between two terms of the hub: each Cluster bears the number of the last term that began to decide (docs/protocols.md#e14). */
import { Clusters, type Cluster } from '../api/cluster.ts';
import type { Stored } from '../api/wire.ts';
import { hasReason } from '../kube/api-error.ts';
import type { Client } from '../kube/client.ts';
import { syncError } from './errors.ts';

export interface Fence {
  /** Number of this term; not known before `raise`. */
  readonly epoch: number;
  /**
   * Before anything is decided: when it resolves, every Cluster bears this term's number, also those that are shown and were made since. Sends no request
   * where all do. Errors: `Deposed`: another leads.
   */
  raise(shown: readonly Stored<Cluster>[]): Promise<void>;
  /** For a Cluster that was just read, and over which a conditioned write follows. Errors: `Deposed`: it bears the number of a later term. */
  require(cluster: Cluster): void;
}

export interface FenceOptions {
  client: Client;
  signal: AbortSignal;
  /** Asks the API server whether the Lease is still that of this term; absent where there is none. */
  isOurs?: (() => Promise<boolean>) | undefined;
}

const TRIES = 8;
/** Clusters that are written at the same time. */
const PARALLEL = 8;

/**
 * The number is above all that any Cluster bears, and never below the version of the list in which that was read. The Lease is read after that list: so a hub
 * that was deposed before does not take a number above its successor's.
 *
 * A Cluster that bears a higher number is of a later term, or of an API server that was restored: the next `raise` begins again, and finds out by the Lease.
 */
export function openFence({ client, signal, isOurs }: FenceOptions): Fence {
  let epoch = 0;
  let begun: Promise<void> | undefined;
  /** By UID. */
  let bearing = new Set<string>();

  async function begin(): Promise<void> {
    const { items, metadata } = await client.listAll(Clusters, { signal });
    const version = Number(metadata.resourceVersion);
    const highest = Math.max(0, ...items.map(({ status }) => status?.epoch ?? 0));
    if (isOurs !== undefined && !(await isOurs())) throw deposed('another process has the Lease of the hub');
    epoch = Math.max(highest + 1, Number.isSafeInteger(version) ? version : 0);
    bearing = new Set();
    await markAll(items);
  }

  async function markAll(clusters: readonly Stored<Cluster>[]): Promise<void> {
    const queue = [...clusters];
    const worker = async (): Promise<void> => {
      for (let next = queue.shift(); next !== undefined; next = queue.shift()) await mark(next);
    };
    await Promise.all(Array.from({ length: Math.min(PARALLEL, queue.length) }, worker));
  }

  async function mark(read: Stored<Cluster>): Promise<void> {
    const { name } = read.metadata;
    let live: Stored<Cluster> | undefined = read;
    for (let tries = 1; live !== undefined; tries += 1) {
      fence.require(live);
      const { uid, resourceVersion } = live.metadata;
      try {
        if (live.status?.epoch !== epoch) {
          const merge = { metadata: { uid, resourceVersion }, status: { epoch } };
          await client.patch(Clusters, { name }, { merge }, { subresource: 'status', signal });
        }
        bearing.add(uid);
        return;
      } catch (error) {
        // No one can write it, and the others must not wait for it.
        if (hasReason(error, 'Invalid', 'BadRequest', 'RequestEntityTooLarge')) return;
        if (!hasReason(error, 'Conflict', 'NotFound') || tries === TRIES) throw error;
        live = await client.find(Clusters, { name }, { signal });
      }
    }
  }

  const fence: Fence = {
    get epoch() {
      return epoch;
    },
    async raise(shown) {
      begun ??= begin();
      try {
        await begun;
        await markAll(shown.filter(({ metadata }) => !bearing.has(metadata.uid)));
      } catch (error) {
        begun = undefined;
        throw error;
      }
    },
    require({ metadata, status }) {
      if ((status?.epoch ?? 0) <= epoch) return;
      begun = undefined;
      throw deposed(`Cluster "${metadata.name}" bears epoch ${status?.epoch}, this term's is ${epoch}`);
    },
  };
  return fence;
}

const deposed = (why: string): Error => syncError('Deposed', `${why}: another term of the hub has begun, and this one writes nothing more`);
