/** One cell: its content behind its wall, and why it may be away. */
import { MANAGERS } from '../../api/names.ts';
import type { Clock, Log, Random } from '../../api/ports.ts';
import type { Resource } from '../../api/resource.ts';
import type { KubeObject } from '../../api/wire.ts';
import { createCache, type Cache } from '../../kube/cache.ts';
import type { Client } from '../../kube/client.ts';
import { createRoom, type Reflector, type StoreBounds } from '../../kube/reflector.ts';
import type { ServerTime } from '../../kube/server-time.ts';
import { STORE_STALE_MS } from '../../kube/stale-store.ts';
import { CellAway, plainAway, type Away } from './away.ts';
import { resourceFinder, WATCHED } from './kinds.ts';
import { CellProbe } from './probe.ts';
import { createCellWall, type CellWall } from './wall.ts';

/** Of each kind that is watched: what one cell has more counts as nothing that can be believed. */
const MOST: StoreBounds = { objects: 10_000, characters: 32 * 1024 ** 2, pages: 1000 };
/** Of all kinds of one cell together, in bytes of memory: JSON of few characters may become twenty times as much (docs/security.md). */
const ROOM = 128 * 1024 ** 2;
/** A cell is tried again at least this often, also where it asked for a longer time (docs/protocols.md#e16). */
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
  /** Decides something from its content; undefined where it is away, or where its content makes that throw: then it is away. */
  read<T>(decide: (content: CellContent) => T): T | undefined;
  /** For what is written there. Requests that hang, or bring too much, make it away. */
  readonly content: CellContent;
}

/** What a cell has, and reports. */
export interface CellContent {
  name: string;
  client: Client;
  store(kind: string): Reflector<KubeObject> | undefined;
  resourceOf(object: { apiVersion: string; kind: string }): Promise<Resource>;
  /** The time of its API server, ms: times in its objects are compared with nothing else (docs/protocols.md#h5). undefined while it is not known. */
  now(): number | undefined;
  /** Asks whether it still has these kinds, and is the cluster that is meant; throws why not. To be called before anything is written there. */
  requireWritable(): Promise<void>;
}

export function isCell(connection: Cell | Away | undefined): connection is Cell {
  return connection !== undefined && 'read' in connection;
}

export interface CellOptions {
  name: string;
  client: Client;
  /** Of the server that the client reaches. */
  time: Pick<ServerTime, 'estimate'>;
  clock: Clock;
  random: Random;
  log: Log;
  signal: AbortSignal;
  /** Something in this cell changed. */
  onChange: (cell: string) => void;
}

export class OpenCell implements Cell {
  readonly name: string;
  readonly content: CellContent;
  /** Ends with the first probe, whether that was answered or not. */
  readonly firstProbe: Promise<void>;
  readonly #wall: CellWall;
  readonly #cache: Cache;
  readonly #stores: ReadonlyMap<string, Reflector<KubeObject>>;
  readonly #probe: CellProbe;
  /** UID of the cluster that is meant; undefined: any. */
  #expected: string | undefined;

  constructor(options: CellOptions) {
    const { name, client, time, random, log, clock } = options;
    const onChange = (): void => options.onChange(name);
    this.name = name;
    this.#wall = createCellWall(name, { clock, random, log, onFailure: onChange, onChange });
    this.#cache = createCache({ ...options, client: this.#wall.metered(client) });
    this.#stores = openStores(this.#cache, () => this.#wall.changed());
    this.#probe = new CellProbe({ ...options, onChange });
    const guarded = this.#wall.guarded(client);
    this.content = {
      name,
      client: guarded,
      store: (kind) => this.#stores.get(kind),
      resourceOf: resourceFinder(guarded),
      now: () => time.estimate()?.ms,
      requireWritable: () => this.#requireWritable(),
    };
    this.firstProbe = this.#probe.runInBackground();
  }

  away(): Away | undefined {
    const another = this.#replaced() ?? this.#wall.away();
    if (another !== undefined) return another;
    const { kinds } = this.#probe;
    if (kinds === undefined) return this.#unreachable();
    const next = kinds.reason === 'KindsAbsent' ? '; next: kubenode install --cell, there' : '; next: upgrade this hub';
    return plainAway({ ...kinds, message: `${kinds.message}${next}` });
  }

  isOnTrial(): boolean {
    return this.#wall.isOnTrial();
  }

  uid(): string | undefined {
    return this.#probe.uid;
  }

  synced(): boolean {
    return [...this.#stores.values()].every((store) => store.synced);
  }

  read<T>(decide: (content: CellContent) => T): T | undefined {
    return this.away() === undefined ? this.#wall.read(() => decide(this.content)) : undefined;
  }

  /** UID of the cluster that is meant; undefined: any. */
  expect(uid: string | undefined): void {
    this.#expected = uid;
  }

  /** Probes it in the background, a while after the last probe at the earliest. */
  probeSoon(): void {
    this.#probe.runSoon();
  }

  async done(): Promise<void> {
    this.#probe.stop();
    await this.#cache.done();
  }

  async #requireWritable(): Promise<void> {
    await this.#probe.run();
    const trouble = this.#replaced() ?? this.#probe.kinds;
    if (trouble !== undefined) throw new CellAway(trouble);
  }

  /** Objects of another cluster prove nothing about this one, and this one's content must not go there (docs/protocols.md#e15). */
  #replaced(): Away | undefined {
    const { uid } = this.#probe;
    const expected = this.#expected;
    if (uid === undefined || expected === undefined || uid === expected) return undefined;
    const message = `what is reached is another cluster: its Namespace kube-system has UID ${uid}, and not ${expected}; nothing is applied there, nor believed`;
    const next = `correct its kubeconfig; or, where the cluster was made again, see to the machines that the former one had, and commit \`cellUID: '${uid}'\` for it in fleet/`;
    return { reason: 'CellReplaced', message: `${message}; next: ${next}` };
  }

  #unreachable(): Away | undefined {
    for (const { state, ageMs, resource } of this.#cache.states()) {
      if (state.phase === 'waiting') return plainAway({ reason: state.code, message: `${resource}: ${state.error}` });
      if (Number.isFinite(ageMs) && ageMs > STORE_STALE_MS)
        return { reason: 'Unreachable', message: `${resource}: the server sent nothing for more than ${STORE_STALE_MS / 1000} s` };
    }
    return this.#probe.uid === undefined ? this.#probe.unidentified : undefined;
  }
}

/** By kind. They share the memory that one cell may use. */
function openStores(cache: Cache, onChange: () => void): Map<string, Reflector<KubeObject>> {
  const most: StoreBounds = { ...MOST, room: createRoom(ROOM) };
  return new Map(
    WATCHED.map((resource) => {
      const store = cache.store(resource, {
        keepManagers: [MANAGERS.sync],
        most,
        longestWaitMs: LONGEST_WAIT_MS,
        relistAfterCut: true,
      });
      store.subscribe((event) => {
        if (event.type !== 'bookmark') onChange();
      });
      return [resource.kind, store];
    }),
  );
}
