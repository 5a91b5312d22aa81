import { keyOf, parseKey, type ObjectKey } from '../../api/resource.ts';
import type { KubeObject, Stored } from '../../api/wire.ts';
import type { Client } from '../../kube/client.ts';
import type { Reflector } from '../../kube/reflector.ts';
import { compareVersions } from '../../kube/resource-version.ts';

/**
 * What this process knows and its store does not show yet: answers to its own writes and live reads, until the store has passed them.
 * `kube/writes.ts` keeps a key back until its writes are seen. With the overlay one run can decide again before that.
 */
export interface Overlay<T extends KubeObject> {
  /** An answer of the server. */
  put(object: Stored<T>): void;
  /** The store is known to be old: read before deciding again. */
  doubt(key: ObjectKey): void;
  /** Reads everything that is in doubt. Throws what the client throws; the doubt then stays. */
  settle(client: Client, signal: AbortSignal): Promise<void>;
  /** `objects` of the store with what is known better. */
  over(objects: readonly Stored<T>[]): Stored<T>[];
  get(key: ObjectKey): Stored<T> | undefined;
}

export type SeenObject<T extends KubeObject> = Pick<Reflector<T>, 'resource' | 'get' | 'mark' | 'hasPassed'>;

interface Known<T extends KubeObject> {
  object: Stored<T> | undefined;
  /** What the store showed when the server answered that there is none. */
  goneUID?: string | undefined;
  mark: number;
}

export function createOverlay<T extends KubeObject>(store: SeenObject<T>): Overlay<T> {
  const known = new Map<string, Known<T>>();
  const doubted = new Set<string>();

  /** undefined: the store is at least as new. */
  function better(key: string): Known<T> | undefined {
    const found = known.get(key);
    if (found === undefined) return undefined;
    const stored = store.get(parseKey(key));
    const hasCaughtUp =
      found.object === undefined ? stored?.metadata.uid !== found.goneUID || stored === undefined : isOlder(found.object, stored);
    if (hasCaughtUp || store.hasPassed(parseKey(key), found.object?.metadata.resourceVersion, found.mark)) {
      known.delete(key);
      return undefined;
    }
    return found;
  }

  return {
    put(object) {
      known.set(keyOf(object.metadata), { object, mark: store.mark() });
    },
    doubt(key) {
      doubted.add(keyOf(key));
    },
    async settle(client, signal) {
      for (const key of doubted) {
        // Before the read: a doubt that comes up during it concerns something newer.
        doubted.delete(key);
        const mark = store.mark();
        try {
          const object = await client.find(store.resource, parseKey(key), { signal });
          known.set(key, { object, mark, goneUID: store.get(parseKey(key))?.metadata.uid });
        } catch (error) {
          doubted.add(key);
          throw error;
        }
      }
    },
    over(objects) {
      if (known.size === 0) return [...objects];
      const result = new Map(objects.map((object) => [keyOf(object.metadata), object]));
      for (const key of known.keys()) {
        const found = better(key);
        if (found === undefined) continue;
        if (found.object === undefined) result.delete(key);
        else result.set(key, found.object);
      }
      return [...result.values()];
    },
    get(key) {
      const found = better(keyOf(key));
      return found === undefined ? store.get(key) : found.object;
    },
  };
}

function isOlder(mine: Stored<KubeObject>, stored: Stored<KubeObject> | undefined): boolean {
  if (stored === undefined) return false;
  const order = compareVersions(mine.metadata.resourceVersion, stored.metadata.resourceVersion);
  return order !== undefined && order <= 0;
}
