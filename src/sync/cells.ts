import type { Cluster } from '../api/cluster.ts';
import * as builtin from '../api/builtin.ts';
import { CodedError, isCoded, messageOf } from '../api/errors.ts';
import { kindNamed } from '../api/kinds.ts';
import { API_VERSION } from '../api/kind.ts';
import { DefenderPolicies } from '../api/defenderpolicy.ts';
import { MachineComponents } from '../api/machinecomponent.ts';
import { MachineComponentSets } from '../api/machinecomponentset.ts';
import { MachineSets } from '../api/machineset.ts';
import { NodeRemediers } from '../api/noderemedier.ts';
import { SYSTEM_NAMESPACE, MANAGERS } from '../api/names.ts';
import type { Clock, Log, Random } from '../api/ports.ts';
import { apiVersionOf, type Resource } from '../api/resource.ts';
import type { KubeObject, Stored } from '../api/wire.ts';
import { createCache, type Cache } from '../kube/cache.ts';
import type { Client } from '../kube/client.ts';
import { withDeadline } from '../kube/clock.ts';
import type { Reflector } from '../kube/reflector.ts';
import type { ServerTime } from '../kube/servertime.ts';
import { troubleWithKinds, type KindTrouble } from '../kube/served.ts';
import { syncError } from './errors.ts';

/** The kinds whose units are watched in cells: those that have evidence of their own. */
export const WATCHED: readonly Resource[] = [MachineComponentSets, MachineSets, DefenderPolicies, NodeRemediers];
/** The kinds that a cell must have, in the version that this hub knows. */
const WRITTEN: Resource[] = [...WATCHED, MachineComponents];

/** Why nothing is done in a cell, nor believed of it. */
export interface Away {
  /** Of the condition and Event: `Unreachable`, `KindsNewer`, `CredentialsExpired` … */
  reason: string;
  message: string;
}

/** One cell as the hub reaches it. */
export interface Cell {
  name: string;
  client: Client;
  store(kind: string): Reflector<KubeObject> | undefined;
  resourceOf(object: { apiVersion: string; kind: string }): Promise<Resource>;
  /** Undefined when it is heard, and has the kinds that this hub knows. */
  away(): Away | undefined;
  /** The time of its API server, ms: what its objects say of time is compared with nothing else (docs/protocols.md#h5). undefined while it is not known. */
  now(): number | undefined;
  /** UID of its Namespace kube-system; undefined while it is not known. */
  uid(): string | undefined;
  /** Asks whether it still has them, and is the cluster that is meant; throws why not. To be asked before anything is written there. */
  requireKinds(): Promise<void>;
  synced(): boolean;
}

export function isCell(connection: Cell | Away | undefined): connection is Cell {
  return connection !== undefined && 'client' in connection;
}

/** Makes a client from the text of a kubeconfig, with the time of the server that it reaches. */
export type ConnectCell = (
  kubeconfig: string,
) => Promise<{ client: Client; time: Pick<ServerTime, 'estimate'>; close: () => Promise<void> }>;

export interface CellsOptions {
  hub: Client;
  connect: ConnectCell;
  clock: Clock;
  random: Random;
  log: Log;
  signal: AbortSignal;
  /** Something in this cell changed. */
  onChange: (cell: string) => void;
}

export interface Cells {
  /** The connection to a cluster, or why there is none; opened at first use, opened again when its kubeconfig changes. */
  of(cluster: Stored<Cluster>): Promise<Cell | Away>;
  /** Closes connections of clusters that are not named. */
  keep(clusters: ReadonlySet<string>): Promise<void>;
  close: () => Promise<void>;
}

/** A cell that was not heard for this long says nothing that may open a gate. */
const SILENT_MS = 200_000;
/** How long a cell may take to say which kinds it has; while it is away it is asked again after this. */
const LOOK_MS = 5000;
/** Reason while a connection is being made: nothing is wrong yet. */
export const CONNECTING = 'Connecting';

interface OpenCell extends Cell {
  /** UID of the cluster that is meant; undefined: whichever is reached. */
  expect(uid: string | undefined): void;
  /** Asks for its kinds, or soon, where it just did; nobody waits for it. */
  lookAgain(): void;
  /** Ends when it was asked for the first time, with an answer or without. */
  firstLook: Promise<void>;
  done(): Promise<void>;
}

interface Open {
  secretVersion: string;
  cell: OpenCell;
  stop: () => Promise<void>;
}

export function openCells(options: CellsOptions): Cells {
  const open = new Map<string, Open>();
  /** Two fleets may ask for one cluster at once. */
  const opening = new Map<string, Promise<OpenCell>>();

  async function connect(cluster: Stored<Cluster>): Promise<OpenCell> {
    const { name } = cluster.metadata;
    const reference = cluster.spec.kubeconfigSecret ?? { name: `cluster-${name}` };
    const key = { namespace: reference.namespace ?? SYSTEM_NAMESPACE, name: reference.name };
    const from = `Secret ${key.namespace}/${key.name}`;
    const put = `kubectl create secret generic ${key.name} -n ${key.namespace} --from-file=kubeconfig=FILE`;
    const secret = await options.hub.find(builtin.Secrets, key, { signal: options.signal });
    const encoded = secret?.data?.['kubeconfig'];
    if (secret === undefined || encoded === undefined)
      throw new CodedError('KubeconfigAbsent', `${from} ${secret === undefined ? 'is absent' : 'has no key "kubeconfig"'}`, { next: put });
    const known = open.get(name);
    if (known?.secretVersion === secret.metadata.resourceVersion) return known.cell;
    await known?.stop();
    open.delete(name);
    const { client, time, close } = await options.connect(Buffer.from(encoded, 'base64').toString('utf8')).catch((error: unknown) => {
      const next = `${put} --dry-run=client -o yaml | kubectl apply -f -`;
      throw new CodedError(isCoded(error) ? error.code : 'Unreachable', `${from}: ${messageOf(error)}`, { cause: error, next });
    });
    const stopped = new AbortController();
    const signal = AbortSignal.any([options.signal, stopped.signal]);
    const cell = openCell(name, client, time, { ...options, signal });
    // A hub that starts has nothing to say of cells before that; one that hangs costs the others this once, and no more than the deadline.
    await cell.firstLook;
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
        const { name } = cluster.metadata;
        const connecting = opening.get(name) ?? connect(cluster).finally(() => opening.delete(name));
        opening.set(name, connecting);
        const cell = await connecting;
        cell.expect(cluster.spec.cellUID ?? cluster.status?.cellUID);
        // Others must not be slower for one that hangs.
        if (cell.away() !== undefined) cell.lookAgain();
        return cell;
      } catch (error) {
        const next = isCoded(error) && error.next !== undefined ? `; next: ${error.next}` : '';
        return { reason: isCoded(error) ? error.code : 'Unreachable', message: `${messageOf(error)}${next}` };
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

function openCell(name: string, client: Client, time: Pick<ServerTime, 'estimate'>, options: CellsOptions): OpenCell {
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
  let kinds: KindTrouble | undefined;
  let lookedAt = -Infinity;
  let looking: Promise<void> | undefined;
  let endLater: (() => void) | undefined;
  let uid: string | undefined;
  let expected: string | undefined;
  /** Why the last look failed. */
  let unseen: Away | undefined;

  /** Objects of another cluster say nothing of this one, and this one's content must not go there (docs/protocols.md#e15). */
  function replaced(): Away | undefined {
    if (uid === undefined || expected === undefined || uid === expected) return undefined;
    const message = `what is reached is another cluster: its Namespace kube-system has UID ${uid}, and not ${expected}; nothing is applied there, nor believed`;
    const next = `correct its kubeconfig; or, where the cluster was made again, see to the machines that the former one had, and commit \`cellUID: '${uid}'\` for it in fleet/`;
    return { reason: 'CellReplaced', message: `${message}; next: ${next}` };
  }

  function heard(): Away | undefined {
    for (const { state, quietMs, resource } of cache.states()) {
      if (state.phase === 'waiting') return { reason: state.code, message: `${resource}: ${state.error}` };
      if (Number.isFinite(quietMs) && quietMs > SILENT_MS)
        return { reason: 'Unreachable', message: `${resource}: nothing was heard for more than ${SILENT_MS / 1000} s` };
    }
    if (uid === undefined) return unseen ?? { reason: CONNECTING, message: 'it was not asked yet which cluster it is' };
    return undefined;
  }

  async function ask(): Promise<void> {
    const { clock, signal } = options;
    const late = (): Error => new CodedError('Unreachable', `the cluster did not say within ${LOOK_MS / 1000} s which kinds it has`);
    const [found, system] = await withDeadline(clock, LOOK_MS, signal, late, (signal) =>
      Promise.all([
        troubleWithKinds(client, WRITTEN, { signal }),
        // Each cluster has one, and it lives as long as the cluster does.
        client.get(builtin.Namespaces, { name: 'kube-system' }, { signal }),
      ]),
    ).finally(() => (lookedAt = clock.monotonic()));
    const changed = found?.message !== kinds?.message || system.metadata.uid !== uid;
    kinds = found;
    uid = system.metadata.uid;
    unseen = undefined;
    if (changed) options.onChange(name);
  }

  /** Not twice at once. */
  const look = (): Promise<void> => (looking ??= ask().finally(() => (looking = undefined)));

  /** Until it is known which cluster this is, nothing else leads to another look. */
  async function lookUntilKnown(): Promise<void> {
    try {
      await look();
    } catch (error) {
      if (options.signal.aborted || uid !== undefined) return;
      unseen = { reason: isCoded(error) ? error.code : 'Unreachable', message: messageOf(error) };
      options.onChange(name);
      lookLater(LOOK_MS);
    }
  }

  function lookLater(ms: number): void {
    endLater ??= options.clock.setTimer(ms, () => {
      endLater = undefined;
      void lookUntilKnown();
    });
  }
  const firstLook = lookUntilKnown();

  return {
    name,
    client,
    firstLook,
    async done() {
      endLater?.();
      await cache.done();
    },
    store: (kind) => stores.get(kind),
    resourceOf: resources,
    synced: () => [...stores.values()].every((store) => store.synced),
    now: () => time.estimate()?.ms,
    lookAgain() {
      const waitMs = lookedAt + LOOK_MS - options.clock.monotonic();
      if (waitMs <= 0) {
        void lookUntilKnown();
        return;
      }
      // Nothing else need lead to another look before a minute is over.
      lookLater(waitMs);
    },
    uid: () => uid,
    expect(meant) {
      expected = meant;
    },
    away() {
      const another = replaced();
      if (another !== undefined) return another;
      if (kinds === undefined) return heard();
      const next = kinds.reason === 'KindsAbsent' ? '; next: kubenode install --cell, there' : '; next: upgrade this hub';
      return { ...kinds, message: `${kinds.message}${next}` };
    },
    async requireKinds() {
      await look();
      const trouble = replaced() ?? kinds;
      if (trouble !== undefined) throw new CodedError(trouble.reason, trouble.message);
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
