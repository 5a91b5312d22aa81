import type { Cluster } from '../api/cluster.ts';
import * as builtin from '../api/builtin.ts';
import { CodedError, isCoded, messageOf } from '../api/errors.ts';
import { kindNamed } from '../api/kinds.ts';
import { API_VERSION } from '../api/kind.ts';
import { DefenderPolicies } from '../api/defender-policy.ts';
import { MachineComponents } from '../api/machine-component.ts';
import { MachineComponentSets } from '../api/machine-component-set.ts';
import { MachineSets } from '../api/machine-set.ts';
import { NodeRemediers } from '../api/node-remedier.ts';
import { SYSTEM_NAMESPACE, MANAGERS } from '../api/names.ts';
import type { Clock, Log, Random } from '../api/ports.ts';
import { apiVersionOf, type Resource } from '../api/resource.ts';
import type { KubeObject, Stored } from '../api/wire.ts';
import { createCache, type Cache } from '../kube/cache.ts';
import type { Client } from '../kube/client.ts';
import { withDeadline } from '../kube/clock.ts';
import { createRoom, type Reflector, type StoreBounds } from '../kube/reflector.ts';
import type { ServerTime } from '../kube/server-time.ts';
import { isRecord } from '../kube/failure.ts';
import { troubleWithKinds, type KindTrouble } from '../kube/served.ts';
import { awayOf, createCellWall, plainAway, type Away } from './cell-wall.ts';
import { syncError } from './errors.ts';

export type { Away } from './cell-wall.ts';

/** The kinds whose units are watched in cells: those that have evidence of their own. */
export const WATCHED: readonly Resource[] = [MachineComponentSets, MachineSets, DefenderPolicies, NodeRemediers];
/** The kinds that a cell must have, in the version that this hub knows. */
const WRITTEN: Resource[] = [...WATCHED, MachineComponents];

/** Of each kind that is watched: what one cell has more counts as nothing that can be believed. */
const MOST: StoreBounds = { objects: 10_000, characters: 32 * 1024 ** 2, pages: 1000 };
/** Of all kinds of one cell together, in bytes of memory: JSON of few characters may become twenty times as much (docs/security.md). */
const ROOM = 128 * 1024 ** 2;
/** A cell is tried again at least this often, whatever it asked for (docs/protocols.md#e16). */
const LONGEST_WAIT_MS = 60_000;

/** One cell as the hub reaches it. What is in it is had through its wall alone. */
export interface Cell {
  name: string;
  /** Undefined when it answers, is the cluster that is meant, and has the kinds that this hub knows. */
  away(): Away | undefined;
  /** It failed before, and is tried again: that it is well is not known yet. */
  isOnTrial(): boolean;
  /** UID of its Namespace kube-system; undefined while it is not known. */
  uid(): string | undefined;
  synced(): boolean;
  /** Decides something from its content; undefined where it is away, or what it says makes that throw: then it is away. */
  read<T>(decide: (content: CellContent) => T): T | undefined;
  /** For what is written there. Requests that hang, or bring too much, make it away. */
  readonly content: CellContent;
}

/** What a cell has, and says. */
export interface CellContent {
  name: string;
  client: Client;
  store(kind: string): Reflector<KubeObject> | undefined;
  resourceOf(object: { apiVersion: string; kind: string }): Promise<Resource>;
  /** The time of its API server, ms: what its objects say of time is compared with nothing else (docs/protocols.md#h5). undefined while it is not known. */
  now(): number | undefined;
  /** Asks whether it still has these kinds, and is the cluster that is meant; throws why not. To be called before anything is written there. */
  requireWritable(): Promise<void>;
}

export function isCell(connection: Cell | Away | undefined): connection is Cell {
  return connection !== undefined && 'read' in connection;
}

/** Whether objects of this kind are watched in cells. */
export function isWatched(kind: string): boolean {
  return WATCHED.some((each) => each.kind === kind);
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

/** What a cell said opens no gate once nothing came from it for this long. */
const SILENT_MS = 200_000;
/** How long a probe may take, and the time from one to the next while the cell is away. */
const PROBE_MS = 5000;
/** As the schema of Clusters has it. */
const LONGEST_UID = 128;
/** Reason while a connection is being made: nothing is wrong yet. */
export const CONNECTING = 'Connecting';

interface OpenCell extends Cell {
  /** UID of the cluster that is meant; undefined: any. */
  expect(uid: string | undefined): void;
  /** Probes it in the background, `PROBE_MS` after the last probe at the earliest. */
  probeSoon(): void;
  /** Ends with the first probe, whether that was answered or not. */
  firstProbe: Promise<void>;
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
    await cell.firstProbe;
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
        if (cell.away() !== undefined) cell.probeSoon();
        return cell;
      } catch (error) {
        const next = isCoded(error) && error.next !== undefined ? `; next: ${error.next}` : '';
        return plainAway({ reason: isCoded(error) ? error.code : 'Unreachable', message: `${messageOf(error)}${next}` });
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
  const { clock, random, log } = options;
  const onChange = (): void => options.onChange(name);
  const wall = createCellWall(name, { clock, random, log, onFailure: onChange, onChange });
  const cache: Cache = createCache({ ...options, client: wall.metered(client) });
  const stores = new Map<string, Reflector<KubeObject>>();
  const most: StoreBounds = { ...MOST, room: createRoom(ROOM) };
  for (const resource of WATCHED) {
    const store = cache.store(resource, { keepManagers: [MANAGERS.sync], most, longestWaitMs: LONGEST_WAIT_MS });
    store.subscribe((event) => {
      if (event.type !== 'bookmark') wall.changed();
    });
    stores.set(resource.kind, store);
  }
  const guarded = wall.guarded(client);
  const resources = resourceFinder(guarded);
  let kinds: KindTrouble | undefined;
  let uid: string | undefined;
  let expected: string | undefined;
  /** Why it is not known which cluster this is. */
  let unidentified: Away = { reason: CONNECTING, message: 'it was not asked yet which cluster it is' };
  let probedAt = -Infinity;
  let probing: Promise<void> | undefined;
  let cancelProbe: (() => void) | undefined;

  /** Objects of another cluster say nothing of this one, and this one's content must not go there (docs/protocols.md#e15). */
  function replaced(): Away | undefined {
    if (uid === undefined || expected === undefined || uid === expected) return undefined;
    const message = `what is reached is another cluster: its Namespace kube-system has UID ${uid}, and not ${expected}; nothing is applied there, nor believed`;
    const next = `correct its kubeconfig; or, where the cluster was made again, see to the machines that the former one had, and commit \`cellUID: '${uid}'\` for it in fleet/`;
    return { reason: 'CellReplaced', message: `${message}; next: ${next}` };
  }

  function unreachable(): Away | undefined {
    for (const { state, quietMs, resource } of cache.states()) {
      if (state.phase === 'waiting') return plainAway({ reason: state.code, message: `${resource}: ${state.error}` });
      if (Number.isFinite(quietMs) && quietMs > SILENT_MS)
        return { reason: 'Unreachable', message: `${resource}: nothing was heard for more than ${SILENT_MS / 1000} s` };
    }
    return uid === undefined ? unidentified : undefined;
  }

  /** Asks which kinds it has, and which cluster it is. */
  async function ask(): Promise<void> {
    const { clock, signal } = options;
    const late = (): Error => new CodedError('Unreachable', `the cluster did not say within ${PROBE_MS / 1000} s which kinds it has`);
    const [found, system] = await withDeadline(clock, PROBE_MS, signal, late, (signal) =>
      Promise.all([
        troubleWithKinds(client, WRITTEN, { signal }),
        // Each cluster has one, and it lives as long as the cluster does.
        client.get(builtin.Namespaces, { name: 'kube-system' }, { signal }),
      ]),
    ).finally(() => (probedAt = clock.monotonic()));
    if (system.metadata.uid.length > LONGEST_UID)
      throw new CodedError('InvalidObject', `the UID of its Namespace kube-system is longer than ${LONGEST_UID} characters`);
    const changed = found?.message !== kinds?.message || system.metadata.uid !== uid;
    kinds = found;
    uid = system.metadata.uid;
    if (changed) options.onChange(name);
  }

  /** One at a time. */
  const probe = (): Promise<void> => (probing ??= ask().finally(() => (probing = undefined)));

  /** Never fails. While it is not known which cluster this is, it is repeated: nothing else leads to another probe. */
  async function probeInBackground(): Promise<void> {
    try {
      await probe();
    } catch (error) {
      if (options.signal.aborted || uid !== undefined) return;
      unidentified = awayOf(error);
      options.onChange(name);
      probeLater(PROBE_MS);
    }
  }

  function probeLater(ms: number): void {
    cancelProbe ??= options.clock.setTimer(ms, () => {
      cancelProbe = undefined;
      void probeInBackground();
    });
  }

  const content: CellContent = {
    name,
    client: guarded,
    store: (kind) => stores.get(kind),
    resourceOf: resources,
    now: () => time.estimate()?.ms,
    async requireWritable() {
      await probe();
      const trouble = replaced() ?? kinds;
      if (trouble !== undefined) throw new CodedError(trouble.reason, trouble.message);
    },
  };

  function away(): Away | undefined {
    const another = replaced() ?? wall.away();
    if (another !== undefined) return another;
    if (kinds === undefined) return unreachable();
    const next = kinds.reason === 'KindsAbsent' ? '; next: kubenode install --cell, there' : '; next: upgrade this hub';
    return plainAway({ ...kinds, message: `${kinds.message}${next}` });
  }

  return {
    name,
    content,
    firstProbe: probeInBackground(),
    async done() {
      cancelProbe?.();
      await cache.done();
    },
    read: (decide) => (away() === undefined ? wall.read(() => decide(content)) : undefined),
    isOnTrial: () => wall.isOnTrial(),
    synced: () => [...stores.values()].every((store) => store.synced),
    probeSoon() {
      const waitMs = probedAt + PROBE_MS - options.clock.monotonic();
      if (waitMs > 0) probeLater(waitMs);
      else void probeInBackground();
    },
    uid: () => uid,
    expect(meant) {
      expected = meant;
    },
    away,
  };
}

const BUILTIN = new Map(
  Object.values(builtin).flatMap((each) =>
    typeof each === 'object' && each !== null && 'plural' in each ? [[`${apiVersionOf(each)}/${each.kind}`, each as Resource]] : [],
  ),
);

/** It becomes a part of paths. */
const isPlural = (name: unknown): boolean => typeof name === 'string' && /^[a-z0-9]([-a-z0-9.]{0,250}[a-z0-9])?$/.test(name);

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
    const listed: unknown = isRecord(answer) ? answer['resources'] : undefined;
    const entry = Array.isArray(listed)
      ? listed.filter(isRecord).find((each) => each['kind'] === kind && isPlural(each['name']))
      : undefined;
    const plural = entry?.['name'];
    if (entry === undefined || typeof plural !== 'string')
      throw syncError('UnknownKind', `the cluster does not know kind "${kind}" of ${apiVersion}`, {
        next: 'install its CustomResourceDefinition first',
      });
    const resource: Resource = {
      group,
      version,
      kind,
      plural,
      namespaced: entry['namespaced'] === true,
      parse(value) {
        if ((value as Partial<KubeObject> | null)?.kind !== kind) throw new CodedError('InvalidObject', `not a ${kind}`);
        return value as KubeObject;
      },
    };
    found.set(id, resource);
    return resource;
  };
}
