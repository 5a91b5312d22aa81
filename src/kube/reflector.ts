import { CodedError, messageOf } from '../api/errors.ts';
import type { Clock, Log, Random } from '../api/ports.ts';
import { keyOf, type ObjectKey, type Resource } from '../api/resource.ts';
import { plainText } from '../api/plain-text.ts';
import { matchesLabels, selectorText } from '../api/selector.ts';
import type { KubeList, KubeObject, Stored, WatchEvent } from '../api/wire.ts';
import { askedMsOf, isExpired, isFromTheFuture } from './api-error.ts';
import { fullJitterMs } from './backoff.ts';
import type { Backoff } from './backoff.ts';
import type { Client } from './client.ts';
import { sleep, withDeadline } from './clock.ts';
import type { Metrics } from './metrics.ts';
import { createObjectStore } from './object-store.ts';
import type { Difference, IndexFunction } from './object-store.ts';
import { matchesFields } from './field-selector.ts';
import { jsonMemory } from './json-memory.ts';
import { compareVersions, hasReached } from './resource-version.ts';
import type { Store } from './store.ts';

export type { IndexFunction } from './object-store.ts';

export type ReflectorState =
  | { phase: 'empty' }
  | { phase: 'listing'; items: number }
  | { phase: 'listed'; resourceVersion: string }
  | { phase: 'watching'; resourceVersion: string }
  /** Between two attempts; the store goes on serving what it has. `code`: of the error, as `Unreachable` or Kubernetes' reason. */
  | { phase: 'waiting'; failures: number; code: string; error: string; retryInMs: number }
  | { phase: 'stopped' };

/**
 * What changed in the store, told after it changed. `initial` marks the first list. A new UID under one name is `deleted`, then `added`.
 * `deleted` carries the last state known: the event's own, or the store's where a relist found it gone.
 */
export type StoreEvent<T extends KubeObject> =
  | { type: 'added'; object: Stored<T>; initial: boolean }
  | { type: 'updated'; object: Stored<T>; old: Stored<T> }
  | { type: 'deleted'; object: Stored<T> }
  /** A list is complete; told after its differences, each time. */
  | { type: 'listed'; resourceVersion: string }
  | { type: 'bookmark'; resourceVersion: string };

export interface StoreOptions<T extends KubeObject> {
  /** Absent: all namespaces. */
  namespace?: string;
  /** Labels that must all be equal. */
  labels?: Record<string, string>;
  fieldSelector?: string;
  indexes?: Record<string, IndexFunction<T>>;
  /** Keeps of each object, as the server sent it, only what is needed. Runs once an object; must keep name, namespace, uid and resourceVersion. */
  project?: (object: Stored<T>) => Stored<T>;
  /** managedFields are dropped, save the entries of these managers (`applyIfChanged` needs its own), or all of few objects. */
  keepManagers?: string[] | 'all';
  /** Default 500. */
  pageSize?: number;
  /** More is neither listed nor taken from a watch: for a server that is not trusted with the memory of this process. Default: no bound. */
  most?: StoreBounds;
  /** The server ends a watch after once to twice this time. Default 300. */
  watchTimeoutSeconds?: number;
  /** A watch that brought nothing for this long is asked for again, after one small request. Default 130,000. */
  silenceMs?: number;
  /** Between attempts after a failure, with full jitter. Default 800 ms to 30 s. */
  backoff?: Backoff;
  /** Between two attempts, whatever the server asks for. Default: the longest that any server may ask for, and the backoff. */
  longestWaitMs?: number;
}

export interface StoreBounds {
  objects: number;
  /** Of the kept objects as JSON. */
  characters: number;
  /** Of one list. */
  pages: number;
  /** Shared with other stores of the same server. */
  room?: Room;
}

/** What several stores may take of memory together, in bytes as `jsonMemory` counts them. */
export interface Room {
  /** Of what they hold, and as much again of lists that are not complete. */
  readonly most: number;
  held: number;
  listed: number;
}

export function createRoom(most: number): Room {
  return { most, held: 0, listed: 0 };
}

export interface ReflectorOptions<T extends KubeObject> extends StoreOptions<T> {
  client: Client;
  resource: Resource<T>;
  clock: Clock;
  random: Random;
  log: Log;
  /** Where it is counted, and the controllers that watch it. */
  metrics?: Metrics;
  /** Ends it. */
  signal: AbortSignal;
}

export interface Reflector<T extends KubeObject> extends Store<T> {
  readonly state: ReflectorState;
  /** Where it is counted. */
  readonly metrics?: Metrics | undefined;
  /** Settles when the signal has ended it; never rejects. */
  readonly done: Promise<void>;
  /**
   * Ms since the server was last heard (list, event, bookmark, a watch opened again after silence); Infinity before the first list. What is old
   * must not be trusted.
   */
  quietMs(): number;
  /** Resolves when synced; rejects with the reason of `signal`, or of the reflector's own when it ends first. */
  whenSynced(signal?: AbortSignal): Promise<void>;
  /** Called synchronously and in order. Returns its cancellation. */
  subscribe(listener: (event: StoreEvent<T>) => void): () => void;
  /** Adds an index; the same name twice must be the same function. */
  addIndex(name: string, values: IndexFunction<T>): void;
  /** Whether an object like this belongs into this store; undefined where only the server can tell. */
  covers(object: KubeObject): boolean | undefined;
  /** Names this moment, for `hasPassed`. */
  mark(): number;
  /** True when the store has seen this resourceVersion or a later one, or when a list begun after the mark is complete. */
  hasPassed(key: ObjectKey, resourceVersion: string | undefined, mark: number): boolean;
  /**
   * Ends the watch and lists again from the server's newest state. A list under way is finished first, and another follows. `again`: objects of a
   * known version are looked at, too: what a watch tells while its kind is defined again may lack fields, and no later event makes up for it.
   */
  relist(options?: { again: boolean }): void;
}

const PAGE = 500;
/** For a page, and for the head of a watch: what takes longer hangs. */
const ANSWER_MS = 60_000;
/** A server ends its watches itself; one that it did not end this long after their time is dead. */
const GRACE_MS = 30_000;
/**
 * Bookmarks come each minute, but a real server sends none that is not newer than what the watch was opened with: on a kind where nothing happens
 * none may come for long, as if the stream had died. Silence for two of them is reason to ask; it proves nothing. Sooner than what is old is
 * no longer trusted: 150 s, where disruptions are decided.
 */
const SILENCE_MS = 130_000;
/** A watch that ends sooner is a failure: reopening at once would be a loop without rest. */
const SHORT_MS = 1000;
/** A watch that was open for this long shows that the server is well: the next failure is a first one. What a server sends before it fails again does not. */
const LASTING_MS = 10_000;
const BACKOFF: Backoff = { baseMs: 800, maxMs: 30_000 };
const BY_NAMESPACE = 'metadata.namespace';

/**
 * Keeps a store in step with the server: lists in pages, then watches from the list's resourceVersion. Starts at once.
 *
 * Guarantees: the store is swapped whole by a list and then changed event by event; every difference is told, also deletions that a
 * relist finds; a failed or partial list changes nothing; it goes on until its signal ends it, whatever the server does. What does not change
 * is not listed again: silence costs one object and a new watch.
 *
 * Caveat: while the server cannot be heard the store grows old and says so only through `quietMs`.
 */
export function startReflector<T extends KubeObject>(options: ReflectorOptions<T>): Reflector<T> {
  const { client, resource, clock, random, log, signal } = options;
  const { silenceMs = SILENCE_MS } = options;
  const about = { resource: resource.plural, namespace: options.namespace };
  if (options.labels !== undefined && Object.keys(options.labels).length === 0) {
    throw new CodedError(
      'EmptySelector',
      `a store of ${resource.plural} with an empty label selector would select every object; leave it out instead`,
    );
  }
  const selection = {
    ...(options.namespace === undefined ? {} : { namespace: options.namespace }),
    ...(options.labels === undefined ? {} : { labelSelector: selectorText(options.labels) }),
    ...(options.fieldSelector === undefined ? {} : { fieldSelector: options.fieldSelector }),
  };
  const store = createObjectStore<T>();
  store.addIndex(BY_NAMESPACE, (object) => [object.metadata.namespace ?? '']);
  for (const [name, values] of Object.entries(options.indexes ?? {})) store.addIndex(name, values);

  const counts = options.metrics === undefined ? undefined : countersOf(options.metrics, resource);
  const listeners = new Set<(event: StoreEvent<T>) => void>();
  const firstList = Promise.withResolvers<void>();
  firstList.promise.catch(() => undefined);

  let state: ReflectorState = { phase: 'empty' };
  let resourceVersion: string | undefined;
  let synced = false;
  let heardAt = -Infinity;
  /** Lists begun, and which of them is complete: a list shows every write that was answered before it was begun. */
  let listsBegun = 0;
  let listDone = 0;
  let mustList = true;
  let again = false;
  /** A list under way; it goes on from its token after a failed page. */
  let partial: { objects: Map<string, Stored<T>>; token: string | undefined; again: boolean; pages: number; weights: Weights } | undefined;
  const { most } = options;
  /** Of what the store holds. */
  const weights = createWeights((memory) => {
    if (most?.room !== undefined) most.room.held += memory;
  });
  /** A list whose pages expired faster than they were read is repeated in one piece. */
  let paged = true;
  /** A watch fell silent: it may have died, the server may have been restored from a backup, or there is nothing to tell. */
  let doubted = false;
  let stopWatch: ((reason: Error) => void) | undefined;
  /** The watch that just ended was open for long. */
  let lasted = false;

  function tell(event: StoreEvent<T>): void {
    for (const listener of listeners) {
      try {
        listener(event);
      } catch (error) {
        log.error({ ...about, error: messageOf(error) }, `a listener of the store failed on "${event.type}"`);
      }
    }
  }

  function tellAll(differences: Difference<T>[], initial: boolean): void {
    for (const difference of differences) tell(difference.type === 'added' ? { ...difference, initial } : difference);
  }

  function ingest(object: Stored<T>): Stored<T> {
    const projected = options.project === undefined ? object : options.project(object);
    if (options.keepManagers === 'all') return projected;
    const kept = projected.metadata.managedFields?.filter((entry) => options.keepManagers?.includes(entry.manager) === true) ?? [];
    if (kept.length === 0) delete projected.metadata.managedFields;
    else projected.metadata.managedFields = kept;
    return projected;
  }

  function listed(query: { limit?: number; continue?: string }): Promise<KubeList<Stored<T>>> {
    const late = (): Error => new CodedError('Stalled', `a page of the list of ${resource.plural} took longer than ${ANSWER_MS} ms`);
    return withDeadline(clock, ANSWER_MS, signal, late, (signal) => client.list(resource, { ...selection, signal, ...query }));
  }

  function endPartial(): void {
    partial?.weights.clear();
    partial = undefined;
  }

  /** A list that is too large is not gone on with, and nothing of it is kept. */
  function requireBounds({ objects, characters }: Weights, pages: number): void {
    if (most === undefined) return;
    if (objects > most.objects) refuse(`more than ${most.objects} objects of ${resource.plural}`);
    if (characters > most.characters) refuse(`more than ${most.characters} characters of ${resource.plural}`);
    if (pages >= most.pages) refuse(`more than ${most.pages} pages of ${resource.plural}`);
  }

  /** `taken`: what is held, or listed, by all who share the room. */
  function requireRoom(taken: (room: Room) => number): void {
    const room = most?.room;
    if (room !== undefined && taken(room) > room.most) {
      refuse(`${resource.plural} and other kinds that take more than ${room.most} bytes of memory`);
    }
  }

  function refuse(what: string): never {
    mustList = true;
    endPartial();
    throw new CodedError('StoreTooLarge', `the server has ${what}: none of it is believed`);
  }

  async function listPage(): Promise<void> {
    if (partial === undefined) {
      const listed = createWeights((memory) => {
        if (most?.room !== undefined) most.room.listed += memory;
      });
      partial = { objects: new Map(), token: undefined, again, pages: 0, weights: listed };
      mustList = false;
      again = false;
      doubted = false;
      listsBegun++;
    }
    const under = partial;
    state = { phase: 'listing', items: under.objects.size };
    const page = await listed({
      ...(paged ? { limit: options.pageSize ?? PAGE } : {}),
      ...(under.token === undefined ? {} : { continue: under.token }),
    });
    heardAt = clock.monotonic();
    under.pages++;
    for (const object of page.items.map(ingest)) {
      // What comes again under one name takes the place of what came before: what is held is what is counted.
      const key = keyOf(object.metadata);
      under.objects.set(key, object);
      if (most !== undefined) under.weights.set(key, weightOf(object));
    }
    under.token = page.metadata.continue;
    requireBounds(under.weights, under.token === undefined ? 0 : under.pages);
    requireRoom(({ listed }) => listed);
    if (under.token !== undefined) return;

    const differing = most === undefined ? undefined : heldAfter(under.objects, under.weights);
    partial = undefined;
    paged = true;
    const initial = !synced;
    const differences = store.replace([...under.objects.values()], under.again);
    if (differing !== undefined) weights.replace(differing);
    under.weights.clear();
    ({ resourceVersion } = page.metadata);
    listDone = listsBegun;
    synced = true;
    counts?.lists.add(counts.labels);
    state = { phase: 'listed', resourceVersion };
    tellAll(differences, initial);
    tell({ type: 'listed', resourceVersion });
    firstList.resolve();
  }

  /** What the store will hold: an object that it has in this version stays as it is there, however large the list says that it is. */
  function heldAfter(objects: ReadonlyMap<string, Stored<T>>, listed: Weights): Map<string, Weight> {
    const after = new Map<string, Weight>();
    const total = createWeights(() => undefined);
    for (const [key, { metadata }] of objects) {
      const known = store.get(metadata)?.metadata;
      const isSame = known?.uid === metadata.uid && known.resourceVersion === metadata.resourceVersion;
      const old = isSame ? weights.get(key) : undefined;
      const weight = larger(listed.get(key) ?? NOTHING, old ?? NOTHING);
      after.set(key, weight);
      total.set(key, weight);
    }
    requireBounds(total, 0);
    requireRoom(({ held }) => held - weights.memory + total.memory);
    return after;
  }

  /**
   * After silence, before the watch is opened where it was: what it missed comes then. But a server restored from a backup keeps a watch silent
   * until it has counted up to our version, and what it has by then is something else.
   */
  async function ask(): Promise<void> {
    const { items, metadata } = await listed({ limit: 1 });
    const count = metadata.continue === undefined ? items.length : 1 + (metadata.remainingItemCount ?? store.size - 1);
    if (!hasReached(metadata.resourceVersion, resourceVersion ?? '') || count !== store.size) mustList = true;
  }

  function take(event: Exclude<WatchEvent<Stored<T>>, { type: 'ERROR' }>): void {
    heardAt = clock.monotonic();
    const version = event.object.metadata.resourceVersion;
    if (event.type === 'BOOKMARK') {
      resourceVersion = version;
      tell({ type: 'bookmark', resourceVersion });
      return;
    }
    const known = store.get(event.object.metadata);
    const order = known?.metadata.uid === event.object.metadata.uid ? compareVersions(version, known.metadata.resourceVersion) : 1;
    if (order !== undefined && order < 0) {
      mustList = true;
      throw new CodedError(
        'Disordered',
        `${resource.kind} ${event.object.metadata.name}: ${version} came after ${known?.metadata.resourceVersion}`,
      );
    }
    const key = keyOf(event.object.metadata);
    if (event.type === 'DELETED') {
      resourceVersion = version;
      const differences = store.remove(ingest(event.object));
      // Another one of this name stays, and what it weighs.
      if (differences.length > 0) weights.set(key, undefined);
      tellAll(differences, false);
      return;
    }
    // Of an object that is known in this version the store keeps what it has.
    const object = order === 0 ? undefined : ingest(event.object);
    if (object !== undefined && most !== undefined) weigh(key, weightOf(object));
    resourceVersion = version;
    if (object !== undefined) tellAll(store.set(object), false);
  }

  /** Of an object that the store is about to take. */
  function weigh(key: string, weight: Weight): void {
    const before = weights.get(key);
    weights.set(key, weight);
    try {
      requireBounds(weights, 0);
      requireRoom(({ held }) => held);
    } catch (error) {
      weights.set(key, before);
      throw error;
    }
  }

  async function watch(): Promise<void> {
    const timeoutSeconds = Math.ceil((options.watchTimeoutSeconds ?? 300) * (1 + random()));
    const begunAt = clock.monotonic();
    const controller = new AbortController();
    const onAbort = (): void => controller.abort(signal.reason);
    let openedAt: number | undefined;
    let cancelTimer: (() => void) | undefined;

    const deadline = (): number => {
      if (openedAt === undefined) return begunAt + ANSWER_MS;
      return Math.min(begunAt + timeoutSeconds * 1000 + GRACE_MS, heardAt + silenceMs);
    };
    const guard = (): void => {
      const left = deadline() - clock.monotonic();
      if (left > 0) {
        cancelTimer = clock.setTimer(left, guard);
        return;
      }
      const late = new CodedError('Stalled', `the watch of ${resource.plural} was not answered within ${ANSWER_MS} ms`);
      controller.abort(openedAt === undefined ? late : SILENT);
    };
    const onOpen = (): void => {
      openedAt = clock.monotonic();
      if (doubted) heardAt = openedAt;
      doubted = false;
      cancelTimer?.();
      guard();
    };
    guard();
    signal.addEventListener('abort', onAbort, { once: true });
    stopWatch = (reason) => controller.abort(reason);
    try {
      state = { phase: 'watching', resourceVersion: resourceVersion ?? '' };
      const watched = { ...selection, timeoutSeconds, signal: controller.signal, onOpen };
      for await (const event of client.watch(resource, { ...watched, ...(resourceVersion === undefined ? {} : { resourceVersion }) })) {
        take(event);
      }
    } finally {
      stopWatch = undefined;
      lasted = openedAt !== undefined && clock.monotonic() - openedAt >= LASTING_MS;
      cancelTimer?.();
      signal.removeEventListener('abort', onAbort);
    }
    if (!mustList && clock.monotonic() - begunAt < SHORT_MS) {
      throw new CodedError('ShortWatch', `the watch of ${resource.plural} was ended after less than ${SHORT_MS} ms`);
    }
  }

  function judge(error: unknown): void {
    if (isExpired(error)) {
      if (partial?.token !== undefined) paged = false;
      endPartial();
      mustList = true;
    } else if (isFromTheFuture(error)) {
      mustList = true;
    }
  }

  async function run(): Promise<void> {
    let failures = 0;
    let expired = false;
    while (!signal.aborted) {
      lasted = false;
      try {
        if (mustList || partial !== undefined) await listPage();
        else {
          doubted ||= clock.monotonic() - heardAt >= silenceMs;
          if (doubted) await ask();
          if (!mustList) await watch();
        }
        if (lasted) [failures, expired] = [0, false];
      } catch (error) {
        if (signal.aborted) break;
        if (lasted) [failures, expired] = [0, false];
        if (error === RELIST) continue;
        if (error === SILENT) {
          doubted = true;
          log.debug({ ...about, quietMs: Math.round(clock.monotonic() - heardAt) }, `the watch of ${resource.plural} is silent`);
          continue;
        }
        judge(error);
        // Whoever says that our version is too old is well: one must not wait as for a server that was away.
        failures = isExpired(error) && !expired ? 1 : failures + 1;
        expired ||= isExpired(error);
        const waitMs = askedMsOf(error) + fullJitterMs(options.backoff ?? BACKOFF, failures, random);
        const retryInMs = Math.round(Math.min(waitMs, options.longestWaitMs ?? Infinity));
        const code = error instanceof CodedError ? error.code : 'Failed';
        counts?.failures.add(counts.labels);
        const message = plainText(messageOf(error));
        state = { phase: 'waiting', failures, code, error: message, retryInMs };
        log.warn({ ...about, failures, retryInMs, error: message }, `${resource.plural} cannot be ${mustList ? 'listed' : 'watched'}`);
        await sleep(clock, retryInMs, signal).catch(() => undefined);
      }
    }
    state = { phase: 'stopped' };
    for (const end of shown) end();
    firstList.reject(signal.reason);
  }

  const quietMs = (): number => clock.monotonic() - heardAt;
  const shown = counts?.show(() => ({ size: store.size, quietMs: quietMs() })) ?? [];
  const done = run();

  return {
    resource,
    metrics: options.metrics,
    done,
    get state() {
      return state.phase === 'watching' ? { ...state, resourceVersion: resourceVersion ?? '' } : state;
    },
    get synced() {
      return synced;
    },
    get resourceVersion() {
      return resourceVersion;
    },
    get size() {
      return store.size;
    },
    get: (key) => store.get(key),
    list: () => store.list(),
    inNamespace: (namespace) => store.byIndex(BY_NAMESPACE, namespace),
    byIndex: (index, value) => store.byIndex(index, value),
    addIndex: (name, values) => store.addIndex(name, values),
    quietMs,

    async whenSynced(waiting) {
      if (synced || waiting === undefined) return await firstList.promise;
      waiting.throwIfAborted();
      const aborted = Promise.withResolvers<never>();
      const onAbort = (): void => aborted.reject(waiting.reason);
      waiting.addEventListener('abort', onAbort, { once: true });
      try {
        await Promise.race([firstList.promise, aborted.promise]);
      } finally {
        waiting.removeEventListener('abort', onAbort);
      }
    },

    subscribe(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },

    covers(object) {
      if (options.namespace !== undefined && object.metadata.namespace !== options.namespace) return false;
      if (options.labels !== undefined && !matchesLabels(options.labels, object.metadata.labels)) return false;
      return options.fieldSelector === undefined ? true : matchesFields(options.fieldSelector, object);
    },

    mark: () => listsBegun,

    hasPassed(key, version, mark) {
      if (listDone > mark) return true;
      if (version === undefined) return false;
      return hasReached(resourceVersion, version) || hasReached(store.get(key)?.metadata.resourceVersion, version);
    },

    relist(how) {
      again ||= how?.again === true;
      mustList = true;
      stopWatch?.(RELIST);
    },
  };
}

interface Weight {
  /** As JSON. */
  characters: number;
  /** In bytes, at most. */
  memory: number;
}

const NOTHING: Weight = { characters: 0, memory: 0 };

function weightOf(object: KubeObject): Weight {
  const text = JSON.stringify(object);
  return { characters: text.length, memory: jsonMemory(text) };
}

function larger(one: Weight, other: Weight): Weight {
  return { characters: Math.max(one.characters, other.characters), memory: Math.max(one.memory, other.memory) };
}

interface Weights {
  readonly objects: number;
  readonly characters: number;
  readonly memory: number;
  get(key: string): Weight | undefined;
  set(key: string, weight: Weight | undefined): void;
  replace(all: ReadonlyMap<string, Weight>): void;
  clear(): void;
}

/** How much is held. `onChange`: by how much the memory of all changed. */
function createWeights(onChange: (memory: number) => void): Weights {
  const known = new Map<string, Weight>();
  let characters = 0;
  let memory = 0;
  function set(key: string, weight: Weight | undefined): void {
    const before = known.get(key) ?? NOTHING;
    const after = weight ?? NOTHING;
    if (weight === undefined) known.delete(key);
    else known.set(key, weight);
    characters += after.characters - before.characters;
    memory += after.memory - before.memory;
    onChange(after.memory - before.memory);
  }
  function clear(): void {
    onChange(-memory);
    known.clear();
    characters = 0;
    memory = 0;
  }
  return {
    get objects() {
      return known.size;
    },
    get characters() {
      return characters;
    },
    get memory() {
      return memory;
    },
    get: (key) => known.get(key),
    set,
    replace(all) {
      clear();
      for (const [key, weight] of all) set(key, weight);
    },
    clear,
  };
}

/** End a watch; no failures. */
const RELIST = new Error('the store was asked to list again');
const SILENT = new Error('the watch was silent for long');

function countersOf(metrics: Metrics, { group, plural }: Resource) {
  const labels = { resource: group === '' ? plural : `${plural}.${group}` };
  const lists = metrics.counter('kubenode_store_lists_total', 'Times that all objects of a watched kind were listed.');
  const failures = metrics.counter('kubenode_store_failures_total', 'Lists and watches that failed.');
  for (const counter of [lists, failures]) counter.add(labels, 0);
  return {
    labels,
    lists,
    failures,
    show: (read: () => { size: number; quietMs: number }) => [
      metrics.gauge('kubenode_store_objects', 'Objects of a watched kind that are held.', () => [[labels, read().size]]),
      metrics.gauge(
        'kubenode_store_quiet_seconds',
        'Time since the API server was last heard of a kind; what is old is not trusted.',
        () => {
          const { quietMs } = read();
          return Number.isFinite(quietMs) ? [[labels, quietMs / 1000]] : [];
        },
      ),
    ],
  };
}
