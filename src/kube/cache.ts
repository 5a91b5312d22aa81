import { kubeError } from './errors.ts';
import { canonical } from '../api/digest.ts';
import type { Clock, Log, Random } from '../api/ports.ts';
import type { Resource } from '../api/resource.ts';
import type { KubeObject } from '../api/wire.ts';
import type { Client } from './client.ts';
import type { Metrics } from './metrics.ts';
import { startReflector } from './reflector.ts';
import type { Reflector, ReflectorState, StoreOptions } from './reflector.ts';

export interface CacheOptions {
  client: Client;
  clock: Clock;
  random: Random;
  log: Log;
  /** Where its stores are counted, and the controllers that watch them. */
  metrics?: Metrics;
  /** Ends every reflector. */
  signal: AbortSignal;
  /** Field managers whose managedFields every store keeps, where it names no others: those that `applyIfChanged` writes as. */
  keepManagers?: string[];
}

export interface StoreState {
  /** Plural and group: `machines.kubenode.io`, `nodes`. */
  resource: string;
  namespace: string | undefined;
  size: number;
  synced: boolean;
  ageMs: number;
  state: ReflectorState;
}

/** Owns the reflectors of one API server, so that controllers which watch one thing share one store. */
export interface Cache {
  /**
   * The store of a resource and selection; the first caller starts it. Indexes of later callers are added.
   * Errors: `StoreTaken` when a later caller wants other contents (project, keepManagers) of the same selection.
   */
  store<T extends KubeObject>(resource: Resource<T>, options?: StoreOptions<T>): Reflector<T>;
  /** Resolves when every store asked for so far is synced. */
  whenSynced(signal?: AbortSignal): Promise<void>;
  /** For health and metrics. */
  states(): StoreState[];
  /** Resolves when the signal has ended every reflector. */
  done(): Promise<void>;
}

interface Entry {
  resource: Resource;
  namespace: string | undefined;
  /** What decides the contents of the objects kept. */
  project: unknown;
  keepManagers: string;
  reflector: Reflector<KubeObject>;
}

export function createCache(options: CacheOptions): Cache {
  const entries = new Map<string, Entry>();
  const reflectors = (): Reflector<KubeObject>[] => [...entries.values()].map((entry) => entry.reflector);

  return {
    store<T extends KubeObject>(resource: Resource<T>, storeOptions: StoreOptions<T> = {}): Reflector<T> {
      const selection = JSON.stringify([
        resource.group,
        resource.version,
        resource.plural,
        storeOptions.namespace,
        storeOptions.fieldSelector,
        Object.entries(storeOptions.labels ?? {})
          .map((each) => each.join('='))
          .toSorted(),
      ]);
      const managers = storeOptions.keepManagers ?? options.keepManagers ?? [];
      const { namespace, project } = storeOptions;
      const keepManagers = managers === 'all' ? managers : canonical(managers.toSorted());
      const existing = entries.get(selection);
      if (existing === undefined) {
        const reflector = startReflector({ ...options, ...storeOptions, keepManagers: managers, resource });
        entries.set(selection, { resource, namespace, project, keepManagers, reflector });
        return reflector;
      }
      if (existing.project !== project || existing.keepManagers !== keepManagers) {
        throw kubeError('StoreTaken', `a store of ${resource.plural} with this selection exists and keeps other parts of its objects`);
      }
      // One resource and selection is one type: the key contains all that the type depends on.
      const reflector = existing.reflector as Reflector<T>;
      for (const [name, values] of Object.entries(storeOptions.indexes ?? {})) reflector.addIndex(name, values);
      return reflector;
    },

    async whenSynced(signal) {
      await Promise.all(reflectors().map((reflector) => reflector.whenSynced(signal)));
    },

    states: () =>
      [...entries.values()].map(({ resource, namespace, reflector }) => ({
        resource: resource.group === '' ? resource.plural : `${resource.plural}.${resource.group}`,
        namespace,
        size: reflector.size,
        synced: reflector.synced,
        ageMs: reflector.ageMs(),
        state: reflector.state,
      })),

    async done() {
      await Promise.all(reflectors().map((reflector) => reflector.done));
    },
  };
}
