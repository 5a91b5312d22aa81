import { CodedError } from '../../../api/errors.ts';
import { API_VERSION } from '../../../api/kind.ts';
import { keyOf, type ObjectKey, type Resource } from '../../../api/resource.ts';
import type { Json, KubeObject, Stored } from '../../../api/wire.ts';
import { ApiError } from '../../../kube/api-error.ts';
import { jsonPatch } from '@kubenode/embedded/testing';
import { isMet } from '../../../defender/guarded-patch.ts';
import type { Client, JsonPatchOperation } from '../../../kube/client.ts';
import type { Reflector, StoreEvent } from '../../../kube/reflector.ts';
import { mergePatch } from '../../../kube/testing/merge-patch.ts';

/** Died in the middle of a request: everything that the process had in memory is gone. */
export class Crash extends Error {}

/** What goes wrong with a write: `refuse` before it takes effect, `lose` its answer after, or `die` before or after. */
export type Fault = 'none' | 'dieBefore' | 'dieAfter' | 'loseAnswer' | 'refuse';

interface Change {
  plural: string;
  object: Stored<KubeObject>;
  old: Stored<KubeObject> | undefined;
  gone: boolean;
  at: number;
}

/** An API server without transport, whose readers may lag as far behind as a test wants. Synchronous inside, so that worlds are fast. */
export interface ModelApi {
  readonly version: number;
  /** Writes by the clients that have taken effect. */
  writes: number;
  create<T extends KubeObject>(resource: Resource<T>, object: T): Stored<T>;
  /** Changes an object as another client: agents, humans. Nothing happens when the result is equal. */
  edit<T extends KubeObject>(resource: Resource<T>, key: ObjectKey, change: (object: Stored<T>) => void): void;
  remove(resource: Resource, key: ObjectKey): void;
  find<T extends KubeObject>(resource: Resource<T>, key: ObjectKey): Stored<T> | undefined;
  list<T extends KubeObject>(resource: Resource<T>): Stored<T>[];
  client(fault: () => Fault, wrote: (resource: Resource, object: Stored<KubeObject> | 'unknown') => void): Client;
  reader(): ModelReader;
}

/** The stores of one process: one order of events, delivered when the test asks. */
export interface ModelReader {
  store<T extends KubeObject>(resource: Resource<T>): Reflector<T>;
  /** Lets at most `count` further events arrive. */
  deliver(count: number): void;
  readonly behind: number;
  relist(): void;
  /** Whether everything up to this version has arrived. */
  hasSeen(version: number): boolean;
}

/** Applies a configuration; for tests that need server-side apply. */
export type Applier = (
  live: Stored<KubeObject> | undefined,
  applied: KubeObject,
  options: { fieldManager: string; force: boolean },
) => KubeObject;

function refuse(status: number, reason: string, message: string): ApiError {
  return new ApiError(status, { reason, message });
}

/** What is stored under a resource was parsed as its kind when it was put there. */
function typed<T extends KubeObject>(object: Stored<KubeObject>): Stored<T> {
  return object as Stored<T>;
}

function unsupported(): never {
  throw new Error('the model has no such request');
}

export function modelApi(now: () => number, applier?: Applier): ModelApi {
  const kinds = new Map<string, Map<string, Stored<KubeObject>>>();
  const changes: Change[] = [];
  let version = 1000;
  let uids = 0;

  const kindOf = (plural: string): Map<string, Stored<KubeObject>> => {
    const found = kinds.get(plural) ?? new Map<string, Stored<KubeObject>>();
    kinds.set(plural, found);
    return found;
  };

  function save(resource: Resource, object: KubeObject): Stored<KubeObject> {
    const objects = kindOf(resource.plural);
    const key = keyOf(object.metadata);
    const old = objects.get(key);
    const next = structuredClone(object) as Stored<KubeObject> & { spec?: unknown };
    next.metadata.uid = old?.metadata.uid ?? `uid-${String(++uids).padStart(4, '0')}`;
    next.metadata.creationTimestamp = old?.metadata.creationTimestamp ?? `${new Date(now()).toISOString().slice(0, 19)}Z`;
    const oldSpec = (old as { spec?: unknown } | undefined)?.spec;
    const changed = old === undefined || JSON.stringify(oldSpec) !== JSON.stringify(next.spec);
    next.metadata.generation = (old?.metadata.generation ?? 0) + (changed ? 1 : 0);
    next.metadata.resourceVersion = old?.metadata.resourceVersion ?? '';
    if (old !== undefined && JSON.stringify(old) === JSON.stringify(next)) return old;
    next.metadata.resourceVersion = String(++version);
    if (next.metadata.deletionTimestamp !== undefined && (next.metadata.finalizers ?? []).length === 0) {
      objects.delete(key);
      changes.push({ plural: resource.plural, object: next, old, gone: true, at: now() });
      return next;
    }
    objects.set(key, next);
    changes.push({ plural: resource.plural, object: next, old, gone: false, at: now() });
    return next;
  }

  function remove(resource: Resource, key: ObjectKey): Stored<KubeObject> | undefined {
    const objects = kindOf(resource.plural);
    const old = objects.get(keyOf(key));
    if (old === undefined) return undefined;
    if ((old.metadata.finalizers ?? []).length > 0) {
      if (old.metadata.deletionTimestamp !== undefined) return old;
      return save(resource, { ...old, metadata: { ...old.metadata, deletionTimestamp: new Date(now()).toISOString() } });
    }
    objects.delete(keyOf(key));
    const object = { ...old, metadata: { ...old.metadata, resourceVersion: String(++version) } };
    changes.push({ plural: resource.plural, object, old, gone: true, at: now() });
    return object;
  }

  function patched(resource: Resource, key: ObjectKey, patch: object, subresource: string | undefined): Stored<KubeObject> {
    const current = kindOf(resource.plural).get(keyOf(key));
    if (current === undefined) throw refuse(404, 'NotFound', `${resource.plural} ${keyOf(key)}`);
    const { metadata, ...body } = patch as { metadata?: { resourceVersion?: string; uid?: string } };
    const { resourceVersion, uid, ...rest } = metadata ?? {};
    if (resourceVersion !== undefined && resourceVersion !== current.metadata.resourceVersion)
      throw refuse(409, 'Conflict', `${keyOf(key)} is newer`);
    if (uid !== undefined && uid !== current.metadata.uid) throw refuse(409, 'Conflict', `${keyOf(key)} has another uid`);
    const fields = Object.entries(body).filter(([field]) => (field === 'status') === (subresource === 'status'));
    const meta = subresource === undefined ? { metadata: rest } : {};
    return save(resource, resource.parse(mergePatch(current, { ...Object.fromEntries(fields), ...meta })));
  }

  function patchedJson(
    resource: Resource,
    key: ObjectKey,
    json: readonly JsonPatchOperation[],
    subresource: string | undefined,
  ): Stored<KubeObject> {
    const current = kindOf(resource.plural).get(keyOf(key));
    if (current === undefined) throw refuse(404, 'NotFound', `${resource.plural} ${keyOf(key)}`);
    if (!isMet(json, current)) throw refuse(422, 'Invalid', 'the server rejected our request due to an error in our request');
    const next = jsonPatch(structuredClone(current) as object as Json, json as object as Json) as object as KubeObject & {
      status?: unknown;
    };
    const { status: _, ...main } = next;
    const old = current as { status?: unknown };
    const kept = old.status === undefined ? {} : { status: old.status };
    return save(resource, resource.parse(subresource === 'status' ? { ...current, status: next.status } : { ...main, ...kept }));
  }

  function conditionedDelete(resource: Resource, key: ObjectKey, uid: string | undefined): Stored<KubeObject> {
    const current = kindOf(resource.plural).get(keyOf(key));
    if (current === undefined) throw refuse(404, 'NotFound', keyOf(key));
    if (uid !== undefined && uid !== current.metadata.uid) throw refuse(409, 'Conflict', `${keyOf(key)} has another uid`);
    return remove(resource, key) ?? current;
  }

  function applied(resource: Resource, object: KubeObject, options: { fieldManager: string; force?: boolean }): Stored<KubeObject> {
    if (applier === undefined) throw new Error('this model has no server-side apply');
    const live = kindOf(resource.plural).get(keyOf(object.metadata));
    if (object.metadata.uid !== undefined && object.metadata.uid !== live?.metadata.uid) throw refuse(409, 'Conflict', 'uid mismatch');
    return save(resource, applier(live, object, { fieldManager: options.fieldManager, force: options.force ?? false }));
  }

  async function find<T extends KubeObject>(resource: Resource<T>, key: ObjectKey): Promise<Stored<T> | undefined> {
    await Promise.resolve();
    return api.find(resource, key);
  }

  function client(fault: () => Fault, wrote: (resource: Resource, object: Stored<KubeObject> | 'unknown') => void): Client {
    async function write<T extends KubeObject>(resource: Resource<T>, act: () => Stored<KubeObject>): Promise<Stored<T>> {
      await Promise.resolve();
      const kind = fault();
      if (kind === 'dieBefore') throw new Crash('before the write');
      if (kind === 'refuse') throw refuse(429, 'TooManyRequests', 'later');
      const before = version;
      const object = act();
      if (version !== before) api.writes++;
      if (kind === 'dieAfter') throw new Crash('after the write');
      if (kind === 'loseAnswer') {
        wrote(resource, 'unknown');
        throw new CodedError('Unreachable', 'the answer was lost');
      }
      wrote(resource, object);
      return typed<T>(structuredClone(object));
    }
    return {
      find,
      async get(resource, key) {
        const found = await find(resource, key);
        if (found === undefined) throw refuse(404, 'NotFound', keyOf(key));
        return found;
      },
      create: (resource, object) =>
        write(resource, () => {
          if (kindOf(resource.plural).has(keyOf(object.metadata))) throw refuse(409, 'AlreadyExists', keyOf(object.metadata));
          return save(resource, object);
        }),
      patch: (resource, key, patch, options) =>
        write(resource, () =>
          'merge' in patch
            ? patched(resource, key, patch.merge, options?.subresource)
            : 'json' in patch
              ? patchedJson(resource, key, patch.json, options?.subresource)
              : unsupported(),
        ),
      apply: (resource, object, options) => write(resource, () => applied(resource, object, options)),
      async delete(resource, key, options) {
        await write(resource, () => conditionedDelete(resource, key, options?.uid));
      },
      list: unsupported,
      async listAll(resource, options = {}) {
        await Promise.resolve();
        const wanted = (options.labelSelector ?? '').split(',').filter((each) => each !== '');
        const items = api
          .list(resource)
          .filter(({ metadata }) => options.namespace === undefined || metadata.namespace === options.namespace)
          .filter(({ metadata }) => wanted.every((each) => metadata.labels?.[each.split('=')[0] ?? ''] === each.split('=')[1]));
        return { apiVersion: API_VERSION, kind: `${resource.kind}List`, items, metadata: { resourceVersion: String(version) } };
      },
      watch: unsupported,
      update: unsupported,
      post: unsupported,
      request: unsupported,
    };
  }

  function reader(): ModelReader {
    let at = changes.length;
    let seen = version;
    let lists = 0;
    // A stream that is not at its end received something when its last event happened: a server sends without delay.
    let receivedAt = now();
    const stores = new Map<string, { objects: Map<string, Stored<KubeObject>>; listeners: Set<(event: StoreEvent<KubeObject>) => void> }>();

    function notify(plural: string, event: StoreEvent<KubeObject>): void {
      for (const listener of stores.get(plural)?.listeners ?? []) listener(event);
    }

    function take(change: Change): void {
      const objects = stores.get(change.plural)?.objects;
      const known = objects?.get(keyOf(change.object.metadata));
      seen = Number(change.object.metadata.resourceVersion);
      if (objects === undefined) return;
      if (change.gone) {
        objects.delete(keyOf(change.object.metadata));
        if (known !== undefined) notify(change.plural, { type: 'deleted', object: change.object });
        return;
      }
      objects.set(keyOf(change.object.metadata), change.object);
      if (known === undefined) notify(change.plural, { type: 'added', object: change.object, initial: false });
      else notify(change.plural, { type: 'updated', object: change.object, old: known });
    }

    const model: ModelReader = {
      store<T extends KubeObject>(resource: Resource<T>): Reflector<T> {
        const own = stores.get(resource.plural) ?? { objects: new Map(kindOf(resource.plural)), listeners: new Set() };
        stores.set(resource.plural, own);
        const all = (): Stored<T>[] => [...own.objects.values()].map((object) => typed<T>(object));
        return {
          resource,
          synced: true,
          state: { phase: 'watching', resourceVersion: String(seen) },
          done: Promise.resolve(),
          get resourceVersion() {
            return String(seen);
          },
          get size() {
            return own.objects.size;
          },
          get(key) {
            const object = own.objects.get(keyOf(key));
            return object === undefined ? undefined : typed<T>(object);
          },
          list: all,
          inNamespace: (namespace) => all().filter((object) => object.metadata.namespace === namespace),
          byIndex: () => [],
          addIndex: () => undefined,
          ageMs: () => now() - receivedAt,
          whenSynced: () => Promise.resolve(),
          subscribe(listener) {
            const wide = listener as (event: StoreEvent<KubeObject>) => void;
            own.listeners.add(wide);
            return () => own.listeners.delete(wide);
          },
          covers: () => true,
          mark: () => lists,
          hasPassed: (_key, wanted, mark) => lists > mark || (wanted !== undefined && seen >= Number(wanted)),
          relist: () => model.relist(),
        };
      },
      deliver(count) {
        for (let left = count; left > 0 && at < changes.length; left--) {
          const change = changes[at++];
          if (change !== undefined) take(change);
        }
        receivedAt = at === changes.length ? now() : (changes[at - 1]?.at ?? receivedAt);
      },
      get behind() {
        return changes.length - at;
      },
      relist() {
        model.deliver(Infinity);
        lists++;
      },
      hasSeen: (wanted) => seen >= wanted,
    };
    return model;
  }

  const api: ModelApi = {
    get version() {
      return version;
    },
    writes: 0,
    create: (resource, object) => typed(save(resource, object)),
    edit(resource, key, change) {
      const found = api.find(resource, key);
      if (found === undefined) return;
      change(found);
      save(resource, found);
    },
    remove: (resource, key) => void remove(resource, key),
    find<T extends KubeObject>(resource: Resource<T>, key: ObjectKey) {
      const found = kindOf(resource.plural).get(keyOf(key));
      return found === undefined ? undefined : typed<T>(structuredClone(found));
    },
    list: <T extends KubeObject>(resource: Resource<T>) => [...kindOf(resource.plural).values()].map((object) => typed<T>(object)),
    client,
    reader,
  };
  return api;
}
