import type { Cluster } from '../api/cluster.ts';
import * as builtin from '../api/builtin.ts';
import { CodedError, messageOf } from '../api/errors.ts';
import { kindNamed } from '../api/kinds.ts';
import { API_VERSION } from '../api/kind.ts';
import { DefenderPolicies } from '../api/defenderpolicy.ts';
import { MachineComponentSets } from '../api/machinecomponentset.ts';
import { MachineSets } from '../api/machineset.ts';
import { NodeRemediers } from '../api/noderemedier.ts';
import { SYSTEM_NAMESPACE, MANAGERS } from '../api/names.ts';
import type { Clock, Log, Random } from '../api/ports.ts';
import { apiVersionOf, type Resource } from '../api/resource.ts';
import type { KubeObject, Stored } from '../api/wire.ts';
import { createCache, type Cache } from '../kube/cache.ts';
import type { Client } from '../kube/client.ts';
import type { Reflector } from '../kube/reflector.ts';
import { syncError } from './errors.ts';

/** The kinds whose units are watched in cells: those that have evidence of their own. */
const WATCHED: Resource[] = [MachineComponentSets, MachineSets, DefenderPolicies, NodeRemediers];

/** One cell as the hub reaches it. */
export interface Cell {
  name: string;
  client: Client;
  store(kind: string): Reflector<KubeObject> | undefined;
  resourceOf(object: { apiVersion: string; kind: string }): Promise<Resource>;
  /** Why nothing that it shows may be believed now; undefined when it is heard. */
  silent(): string | undefined;
  synced(): boolean;
}

export interface CellsOptions {
  hub: Client;
  /** Makes a client from the text of a kubeconfig. */
  connect: (kubeconfig: string) => Promise<{ client: Client; close: () => Promise<void> }>;
  clock: Clock;
  random: Random;
  log: Log;
  signal: AbortSignal;
  /** Something in this cell changed. */
  onChange: (cell: string) => void;
}

export interface Cells {
  /** The connection to a cluster; opened at first use, opened again when its kubeconfig changes. Throws a coded error that says why not. */
  of(cluster: Stored<Cluster>): Promise<Cell>;
  /** Closes connections of clusters that are not named. */
  keep(clusters: ReadonlySet<string>): Promise<void>;
  close: () => Promise<void>;
}

/** A cell that was not heard for this long says nothing that may open a gate. */
const SILENT_MS = 200_000;

interface Open {
  secretVersion: string;
  cell: Cell;
  stop: () => Promise<void>;
}

export function openCells(options: CellsOptions): Cells {
  const open = new Map<string, Open>();

  async function connect(cluster: Stored<Cluster>): Promise<Cell> {
    const { name } = cluster.metadata;
    const reference = cluster.spec.kubeconfigSecret ?? { name: `cluster-${name}` };
    const key = { namespace: reference.namespace ?? SYSTEM_NAMESPACE, name: reference.name };
    const secret = await options.hub.find(builtin.Secrets, key, { signal: options.signal });
    const encoded = secret?.data?.['kubeconfig'];
    if (secret === undefined || encoded === undefined) {
      throw syncError(
        'ClusterUnreachable',
        `cluster "${name}": Secret ${key.namespace}/${key.name} ${secret === undefined ? 'is absent' : 'has no key "kubeconfig"'}`,
        {
          next: `kubectl create secret generic ${key.name} -n ${key.namespace} --from-file=kubeconfig=FILE`,
        },
      );
    }
    const known = open.get(name);
    if (known?.secretVersion === secret.metadata.resourceVersion) return known.cell;
    await known?.stop();
    open.delete(name);
    const { client, close } = await options.connect(Buffer.from(encoded, 'base64').toString('utf8'));
    const stopped = new AbortController();
    const signal = AbortSignal.any([options.signal, stopped.signal]);
    const cell = openCell(name, client, { ...options, signal });
    open.set(name, {
      secretVersion: secret.metadata.resourceVersion,
      cell,
      stop: async () => {
        stopped.abort();
        await cell.done();
        await close();
      },
    });
    return cell;
  }

  return {
    async of(cluster) {
      try {
        return await connect(cluster);
      } catch (error) {
        if (error instanceof CodedError && error.code === 'ClusterUnreachable') throw error;
        throw syncError('ClusterUnreachable', `cluster "${cluster.metadata.name}": ${messageOf(error)}`, { cause: error });
      }
    },
    async keep(clusters) {
      for (const [name, { stop }] of open) {
        if (clusters.has(name)) continue;
        open.delete(name);
        await stop();
      }
    },
    async close() {
      await Promise.all([...open.values()].map(({ stop }) => stop()));
      open.clear();
    },
  };
}

function openCell(name: string, client: Client, options: CellsOptions): Cell & { done: () => Promise<void> } {
  const cache: Cache = createCache({ ...options, client });
  const stores = new Map<string, Reflector<KubeObject>>();
  for (const resource of WATCHED) {
    const store = cache.store(resource, { keepManagers: [MANAGERS.sync] });
    store.subscribe((event) => {
      if (event.type !== 'bookmark') options.onChange(name);
    });
    stores.set(resource.kind, store);
  }
  const resources = resourceFinder(client);
  return {
    name,
    client,
    done: () => cache.done(),
    store: (kind) => stores.get(kind),
    resourceOf: resources,
    synced: () => [...stores.values()].every((store) => store.synced),
    silent() {
      for (const { state, quietMs, resource } of cache.states()) {
        if (state.phase === 'waiting') return `${resource}: ${state.error}`;
        if (Number.isFinite(quietMs) && quietMs > SILENT_MS) return `${resource}: nothing heard for ${Math.round(quietMs / 1000)} s`;
      }
      return undefined;
    },
  };
}

const BUILTIN = new Map(
  Object.values(builtin).flatMap((each) =>
    typeof each === 'object' && each !== null && 'plural' in each ? [[`${apiVersionOf(each)}/${each.kind}`, each as Resource]] : [],
  ),
);

/** Looks a kind up: KubeNode's own and the common built-in ones are known, others are asked for once and remembered. */
export function resourceFinder(client: Client): (object: { apiVersion: string; kind: string }) => Promise<Resource> {
  const found = new Map<string, Resource>();
  return async ({ apiVersion, kind }) => {
    const id = `${apiVersion}/${kind}`;
    const known = apiVersion === API_VERSION ? kindNamed(kind) : (BUILTIN.get(id) ?? found.get(id));
    if (known !== undefined) return known;
    const slash = apiVersion.indexOf('/');
    const group = slash < 0 ? '' : apiVersion.slice(0, slash);
    const version = apiVersion.slice(slash + 1);
    const path = group === '' ? `/api/${version}` : `/apis/${group}/${version}`;
    const answer = await client.request({ method: 'GET', path }).catch(() => undefined);
    const listed = (answer as { resources?: { name: string; kind: string; namespaced: boolean }[] } | undefined)?.resources;
    const entry = listed?.find((each) => each.kind === kind && !each.name.includes('/'));
    if (entry === undefined)
      throw syncError('UnknownKind', `the cluster does not know kind "${kind}" of ${apiVersion}`, {
        next: 'install its CustomResourceDefinition first',
      });
    const resource: Resource = {
      group,
      version,
      kind,
      plural: entry.name,
      namespaced: entry.namespaced,
      parse(value) {
        if ((value as Partial<KubeObject> | null)?.kind !== kind) throw new CodedError('InvalidObject', `not a ${kind}`);
        return value as KubeObject;
      },
    };
    found.set(id, resource);
    return resource;
  };
}
