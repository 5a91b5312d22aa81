import { kubeErrorCodes } from './errors.ts';
import { isCoded } from '../api/errors.ts';
import type { Clock } from '../api/ports.ts';
import { keyOf } from '../api/resource.ts';
import type { ObjectKey, Resource } from '../api/resource.ts';
import type { KubeObject, Stored } from '../api/wire.ts';
import { ApiError } from './api-error.ts';
import type { Client } from './client.ts';
import type { Reflector, StoreEvent } from './reflector.ts';

/** A store, and the keys of the work that depends on one of its objects. */
export interface Dependence {
  readonly store: Reflector<KubeObject>;
  keys(object: Stored<KubeObject>, old?: Stored<KubeObject>): string[];
}

export interface OwnWritesOptions {
  clock: Clock;
  dependences: readonly Dependence[];
  /** How long a store may lag behind a write before it lists again. Default 5,000. */
  lagMs?: number | undefined;
  /** Every write that this key depended on has been seen. */
  onReady: (key: string) => void;
}

/**
 * Which of this process' writes its stores do not show yet (KEP-5647). Work that depends on them must wait: from a store that lacks
 * its own last write a controller would decide the same thing again.
 *
 * Guarantees: a blocked key is freed by the write's own event, by any later one, by a bookmark, or by a list, which is asked for when
 * the others do not come; so it is not blocked forever while the server can be reached. A write whose fate is unknown (no answer,
 * or a 5xx) counts as done at an unknown version: only a list begun after it settles what it did. That list too is asked for after
 * the lag and not at once, so that a server that fails under load is not made to list for every failure.
 */
export interface OwnWrites {
  /** A client whose writes block `key` and every key that the written object leads to. */
  clientFor(client: Client, key: string): Client;
  /** Whether the stores show every write that `key` depends on. */
  isCurrent(key: string): boolean;
  stop(): void;
}

/** What ends the wait: a version, the end of an object, or, where the fate of the write is unknown, only a list. */
type Proof = { version: string } | { deletedUID: string } | 'list';

interface Pending {
  object: ObjectKey;
  proof: Proof;
  /** Lists begun after it show the write. */
  mark: number;
  since: number;
  dependents: Set<string>;
}

/** The pending writes of one store. */
interface Tracked {
  store: Reflector<KubeObject>;
  /** In the order of the answers, which is about the order of the versions. */
  pending: Set<Pending>;
  byObject: Map<string, Set<Pending>>;
}

const LAG_MS = 5000;

/** Which writes are pending, and which keys wait for them. */
interface OwnWritesState {
  readonly options: OwnWritesOptions;
  readonly lagMs: number;
  readonly tracked: readonly Tracked[];
  /** How many pending writes each key waits for. */
  readonly waits: Map<string, number>;
  cancelTimer: (() => void) | undefined;
}

export function createOwnWrites(options: OwnWritesOptions): OwnWrites {
  const stores = new Set(options.dependences.map((dependence) => dependence.store));
  const state: OwnWritesState = {
    options,
    lagMs: options.lagMs ?? LAG_MS,
    tracked: [...stores].map((store) => ({ store, pending: new Set(), byObject: new Map() })),
    waits: new Map(),
    cancelTimer: undefined,
  };
  const unsubscribe = state.tracked.map((entry) => entry.store.subscribe((event) => observe(state, entry, event)));
  return {
    isCurrent: (key) => !state.waits.has(key),
    stop() {
      disarm(state);
      for (const cancel of unsubscribe) cancel();
    },
    clientFor: (client, writer) => trackingClient(state, client, writer),
  };
}

function hasPassed({ store }: Tracked, { object, proof, mark }: Pending): boolean {
  if (proof === 'list') return store.hasPassed(object, undefined, mark);
  if ('version' in proof) return store.hasPassed(object, proof.version, mark);
  const known = store.get(object);
  return known?.metadata.uid !== proof.deletedUID || known.metadata.deletionTimestamp !== undefined;
}

function block(state: OwnWritesState, entry: Tracked, pending: Pending): void {
  if (hasPassed(entry, pending)) return;
  const id = keyOf(pending.object);
  entry.pending.add(pending);
  entry.byObject.set(id, (entry.byObject.get(id) ?? new Set()).add(pending));
  for (const key of pending.dependents) state.waits.set(key, (state.waits.get(key) ?? 0) + 1);
  arm(state);
}

function free(state: OwnWritesState, entry: Tracked, pending: Pending): void {
  const { waits } = state;
  const id = keyOf(pending.object);
  const sameObject = entry.byObject.get(id);
  sameObject?.delete(pending);
  if (sameObject?.size === 0) entry.byObject.delete(id);
  entry.pending.delete(pending);
  if (state.tracked.every(({ pending }) => pending.size === 0)) disarm(state);
  for (const key of pending.dependents) {
    const left = (waits.get(key) ?? 1) - 1;
    if (left > 0) {
      waits.set(key, left);
    } else {
      waits.delete(key);
      state.options.onReady(key);
    }
  }
}

/**
 * An event frees the writes of its own object and, as versions only grow, those at the front of the line. Only a list or a
 * bookmark checks all of them: thousands of events must not each check thousands of writes.
 */
function observe(state: OwnWritesState, entry: Tracked, event: StoreEvent<KubeObject>): void {
  const all = event.type === 'listed' || event.type === 'bookmark';
  const own = all ? undefined : entry.byObject.get(keyOf(event.object.metadata));
  for (const pending of own ?? []) if (hasPassed(entry, pending)) free(state, entry, pending);
  for (const pending of entry.pending) {
    if (hasPassed(entry, pending)) free(state, entry, pending);
    else if (!all) return;
  }
}

function disarm(state: OwnWritesState): void {
  state.cancelTimer?.();
  state.cancelTimer = undefined;
}

/** Lists again where the write that waits longest, the first of its store, has waited too long. */
function arm(state: OwnWritesState): void {
  if (state.cancelTimer !== undefined) return;
  const { options, tracked, lagMs } = state;
  const firsts = tracked.flatMap((entry) => [...entry.pending.values().take(1)]);
  if (firsts.length === 0) return;
  const next = Math.min(...firsts.map((pending) => pending.since)) + lagMs;
  state.cancelTimer = options.clock.setTimer(next - options.clock.monotonic(), () => {
    state.cancelTimer = undefined;
    for (const entry of tracked) relistLagging(state, entry);
    arm(state);
  });
}

function relistLagging({ options: { clock }, lagMs }: OwnWritesState, { store, pending }: Tracked): void {
  const [first] = pending;
  if (first === undefined || first.since + lagMs > clock.monotonic()) return;
  for (const waiting of pending) waiting.since = clock.monotonic();
  store.relist();
}

/** What a write was asked to change; the answer has more. */
interface Target {
  resource: Resource;
  key: ObjectKey;
  object?: KubeObject | undefined;
  dryRun: boolean | undefined;
}

/** The stores that will show a write to this object: also one that it is about to leave. */
function storesOf({ tracked }: OwnWritesState, resource: Resource, key: ObjectKey, object: KubeObject | undefined): Tracked[] {
  return tracked.filter(
    ({ store }) =>
      store.resource.group === resource.group &&
      store.resource.plural === resource.plural &&
      (store.get(key) !== undefined || (object !== undefined && store.covers(object) === true)),
  );
}

function dependentsOf(
  { options }: OwnWritesState,
  { store }: Tracked,
  writer: string,
  object: Stored<KubeObject> | undefined,
): Set<string> {
  const dependents = new Set([writer]);
  if (object === undefined) return dependents;
  for (const dependence of options.dependences) {
    if (dependence.store !== store) continue;
    for (const key of dependence.keys(object, store.get(object.metadata))) dependents.add(key);
  }
  return dependents;
}

function remember(
  state: OwnWritesState,
  writer: string,
  entry: Tracked,
  object: ObjectKey,
  proof: Proof,
  stored: Stored<KubeObject> | undefined,
): void {
  const dependents = dependentsOf(state, entry, writer, stored);
  block(state, entry, { object, proof, mark: entry.store.mark(), since: state.options.clock.monotonic(), dependents });
}

/** Remembers a write that failed, unless it is certain that nothing was written. */
function rememberUnanswered(state: OwnWritesState, writer: string, target: Target, error: unknown): void {
  if (target.dryRun === true || wroteNothing(error)) return;
  for (const entry of storesOf(state, target.resource, target.key, target.object)) {
    remember(state, writer, entry, target.key, 'list', entry.store.get(target.key));
  }
}

async function tracking<T extends KubeObject>(
  state: OwnWritesState,
  writer: string,
  target: Target,
  write: () => Promise<Stored<T>>,
): Promise<Stored<T>> {
  try {
    const stored = await write();
    if (target.dryRun !== true) {
      for (const entry of storesOf(state, target.resource, stored.metadata, stored)) {
        remember(state, writer, entry, stored.metadata, { version: stored.metadata.resourceVersion }, stored);
      }
    }
    return stored;
  } catch (error) {
    rememberUnanswered(state, writer, target, error);
    throw error;
  }
}

async function trackingDelete(
  state: OwnWritesState,
  writer: string,
  target: Target,
  uid: string | undefined,
  write: () => Promise<void>,
): Promise<void> {
  const { resource, key } = target;
  try {
    await write();
  } catch (error) {
    rememberUnanswered(state, writer, target, error);
    throw error;
  }
  if (target.dryRun === true) return;
  for (const entry of storesOf(state, resource, key, undefined)) {
    const known = entry.store.get(key);
    if (known !== undefined) remember(state, writer, entry, key, { deletedUID: uid ?? known.metadata.uid }, known);
  }
}

function trackingClient(state: OwnWritesState, client: Client, writer: string): Client {
  return {
    ...client,
    create: (resource, object, write) =>
      tracking(state, writer, { resource, key: object.metadata, object, dryRun: write?.dryRun }, () =>
        client.create(resource, object, write),
      ),
    update: (resource, object, write) =>
      tracking(state, writer, { resource, key: object.metadata, object, dryRun: write?.dryRun }, () =>
        client.update(resource, object, write),
      ),
    apply: (resource, object, write) =>
      tracking(state, writer, { resource, key: object.metadata, object, dryRun: write.dryRun }, () =>
        client.apply(resource, object, write),
      ),
    patch: (resource, key, patch, write) =>
      tracking(state, writer, { resource, key, dryRun: write?.dryRun }, () => client.patch(resource, key, patch, write)),
    delete: (resource, key, write) =>
      trackingDelete(state, writer, { resource, key, dryRun: write?.dryRun }, write?.uid, () => client.delete(resource, key, write)),
  };
}

/** The server refused the write, or was never asked: nothing was written. */
export function wroteNothing(error: unknown): boolean {
  return error instanceof ApiError ? error.status < 500 : isCoded(error, kubeErrorCodes, 'NameMissing', 'NamespaceMissing');
}
