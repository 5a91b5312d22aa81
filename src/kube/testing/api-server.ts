import { keyOf, pathOf } from '../../api/resource.ts';
import type { ObjectKey, Resource } from '../../api/resource.ts';
import type { ApiRequest, ApiResponse, Transport } from '../../api/transport.ts';
import { jsonPatch } from '@kubenode/embedded/testing';
import type { Json, KubeObject, Stored } from '../../api/wire.ts';
import { mergePatch } from './merge-patch.ts';
import { createPipe } from './pipe.ts';
import type { Pipe } from './pipe.ts';

/** Reads a request before the server does; undefined lets it through. Throwing is a connection that failed. */
export type Interceptor = (request: ApiRequest) => ApiResponse | undefined | Promise<ApiResponse | undefined>;

/**
 * A small API server in memory that can be made to misbehave. It has resourceVersions, paged lists, watches with simple selectors, and
 * plain writes (apply is a merge); no validation, admission, defaulting or ownership of fields: those are the embedded and real servers'.
 */
export interface FakeApiServer {
  readonly transport: Transport;
  /** Every request that arrived, oldest first. */
  readonly requests: ApiRequest[];
  /** Creates or replaces, as another client would. */
  put<T extends KubeObject>(resource: Resource<T>, object: T): Stored<T>;
  remove(resource: Resource, key: ObjectKey): void;
  objects<T extends KubeObject>(resource: Resource<T>): Stored<T>[];
  /** Sends a bookmark to every watch. */
  bookmark(): void;
  /** Forgets history: older resourceVersions and continue tokens answer 410. */
  compact(): void;
  /** Serves everything from now on as a server that was restored from a backup would: the counter goes back to `version`. */
  rewind(version: number): void;
  /** Interceptors are asked in order of registration. Returns the cancellation. */
  intercept(interceptor: Interceptor): () => void;
  /** What happens to the streams of open watches. */
  readonly watches: {
    readonly open: number;
    /** A clean end, as at the server's timeout. */
    end(): void;
    /** The connection breaks. */
    reset(): void;
    /** Raw bytes appear in every stream. */
    inject(bytes: string | Uint8Array): void;
    /** No event arrives any more, and no connection is closed; `resume` delivers what was kept back. */
    stall(): void;
    resume(): void;
  };
}

interface StoredEvent {
  version: number;
  type: 'ADDED' | 'MODIFIED' | 'DELETED';
  plural: string;
  object: Stored<KubeObject>;
  old: Stored<KubeObject> | undefined;
}

interface OpenWatch {
  plural: string;
  apiVersion: string;
  kind: string;
  selects: (object: KubeObject) => boolean;
  pipe: Pipe;
}

/** A JSON answer, for interceptors. */
export function jsonResponse(status: number, body: object, headers: Record<string, string> = {}): ApiResponse {
  return { status, headers, body: single(JSON.stringify(body)) };
}

/** A Kubernetes failure. */
export function statusResponse(status: number, reason: string, message = reason, headers: Record<string, string> = {}): ApiResponse {
  return jsonResponse(status, failure(status, reason, message), headers);
}

async function* single(text: string): AsyncGenerator<Uint8Array, void> {
  yield await Promise.resolve(Buffer.from(text));
}

function failure(status: number, reason: string, message: string, details: object = {}): object {
  return { apiVersion: 'v1', kind: 'Status', metadata: {}, status: 'Failure', reason, message, code: status, details };
}

/** Thrown inside and answered as a Status. */
class Refusal extends Error {
  readonly response: ApiResponse;
  constructor(status: number, reason: string, message: string, details: object = {}) {
    super(message);
    this.response = jsonResponse(status, failure(status, reason, message, details));
  }
}

interface Target {
  plural: string;
  collection: string;
  namespace: string | undefined;
  name: string | undefined;
}

/** `/api/v1/…` and `/apis/GROUP/VERSION/…`. */
function targetOf(path: string): Target & { group: string } {
  const parts = path.split('/').slice(1).map(decodeURIComponent);
  const group = parts[0] === 'api' ? '' : (parts[1] ?? '');
  const rest = parts.slice(parts[0] === 'api' ? 2 : 3);
  const namespace = rest[0] === 'namespaces' && rest.length > 2 ? rest[1] : undefined;
  const [plural = '', name] = namespace === undefined ? rest : rest.slice(2);
  return { group, plural, collection: `${group}/${plural}`, namespace, name };
}

function selection(target: Target, query: Record<string, string>): (object: KubeObject) => boolean {
  const labels = (query['labelSelector'] ?? '')
    .split(',')
    .filter(Boolean)
    .map((term) => term.split('='));
  const fields = (query['fieldSelector'] ?? '')
    .split(',')
    .filter(Boolean)
    .map((term) => term.split('='));
  return (object) =>
    (target.namespace === undefined || object.metadata.namespace === target.namespace) &&
    labels.every(([name, value]) => object.metadata.labels?.[name ?? ''] === value) &&
    fields.every(([field, value]) => field !== 'metadata.name' || object.metadata.name === value);
}

function bodyOf(request: ApiRequest): KubeObject {
  return JSON.parse(typeof request.body === 'string' ? request.body : Buffer.from(request.body ?? '{}').toString()) as KubeObject;
}

function conditioned(current: KubeObject, wanted: string | undefined): void {
  if (wanted !== undefined && wanted !== current.metadata.resourceVersion) {
    throw new Refusal(409, 'Conflict', 'the object has been modified; please apply your changes to the latest version');
  }
}

const nameOf = (resource: Resource): string => targetOf(pathOf(resource)).collection;

export function fakeApiServer(): FakeApiServer {
  let version = 100;
  let oldest = 100;
  let uids = 0;
  const collections = new Map<string, Map<string, Stored<KubeObject>>>();
  let history: StoredEvent[] = [];
  const watches = new Set<OpenWatch>();
  const requests: ApiRequest[] = [];
  const interceptors = new Set<Interceptor>();
  /** Pages still to come, by token: the snapshot of the first page. */
  const snapshots = new Map<string, { objects: Stored<KubeObject>[]; version: number }>();

  const collectionOf = (name: string): Map<string, Stored<KubeObject>> => {
    const found = collections.get(name) ?? new Map<string, Stored<KubeObject>>();
    collections.set(name, found);
    return found;
  };

  function lineFor(watch: OpenWatch, event: StoredEvent): string | undefined {
    if (watch.plural !== event.plural) return undefined;
    const was = event.old !== undefined && watch.selects(event.old);
    const is = event.type !== 'DELETED' && watch.selects(event.object);
    if (!was && !is) return undefined;
    const type = was && is ? 'MODIFIED' : is ? 'ADDED' : 'DELETED';
    return `${JSON.stringify({ type, object: event.object })}\n`;
  }

  function record(event: Omit<StoredEvent, 'version'>): void {
    const stored = { ...event, version };
    history.push(stored);
    for (const watch of watches) {
      const line = lineFor(watch, stored);
      if (line !== undefined) watch.pipe.write(line);
    }
  }

  function save(collection: string, object: KubeObject): Stored<KubeObject> {
    const objects = collectionOf(collection);
    const key = keyOf(object.metadata);
    const old = objects.get(key);
    const { managedFields: _dropped, ...metadata } = object.metadata;
    const next: Stored<KubeObject> = {
      ...object,
      metadata: {
        ...metadata,
        uid: old?.metadata.uid ?? `uid-${++uids}`,
        creationTimestamp: old?.metadata.creationTimestamp ?? metadata.creationTimestamp ?? '2026-11-20T00:00:00Z',
        resourceVersion: old?.metadata.resourceVersion ?? '',
      },
    };
    const isOther = JSON.stringify((old as { spec?: unknown } | undefined)?.spec) !== JSON.stringify((next as { spec?: unknown }).spec);
    // Of objects that have one.
    if (isOther && metadata.generation !== undefined && old?.metadata.generation === metadata.generation)
      next.metadata.generation = metadata.generation + 1;
    // A write that changes nothing is no write, as in etcd3's store.
    if (old !== undefined && JSON.stringify(old) === JSON.stringify(next)) return old;
    next.metadata.resourceVersion = String(++version);
    objects.set(key, next);
    record({ type: old === undefined ? 'ADDED' : 'MODIFIED', plural: collection, object: next, old });
    return next;
  }

  function erase(collection: string, key: string): void {
    const objects = collectionOf(collection);
    const old = objects.get(key);
    if (old === undefined) return;
    objects.delete(key);
    const object = { ...old, metadata: { ...old.metadata, resourceVersion: String(++version) } };
    record({ type: 'DELETED', plural: collection, object, old });
  }

  function find(target: Target): Stored<KubeObject> {
    const found = collectionOf(target.collection).get(keyOf({ namespace: target.namespace, name: target.name ?? '' }));
    if (found !== undefined) return found;
    throw new Refusal(404, 'NotFound', `${target.plural} "${target.name}" not found`, { name: target.name, kind: target.plural });
  }

  function list(target: Target, query: Record<string, string>): ApiResponse {
    const token = query['continue'];
    const selected = [...collectionOf(target.collection).values()].filter(selection(target, query));
    const snapshot = token === undefined ? { objects: selected, version } : snapshots.get(token);
    if (snapshot === undefined) throw new Refusal(410, 'Expired', 'The provided continue parameter is too old');
    const limit = Number(query['limit'] ?? 0) || Infinity;
    const items = snapshot.objects.slice(0, limit);
    const rest = { objects: snapshot.objects.slice(limit), version: snapshot.version };
    const next = `token-${snapshots.size}-${version}`;
    if (rest.objects.length > 0) snapshots.set(next, rest);
    return jsonResponse(200, {
      apiVersion: 'v1',
      kind: 'List',
      metadata: { resourceVersion: String(snapshot.version), ...(rest.objects.length > 0 ? { continue: next } : {}) },
      items,
    });
  }

  function open(target: Target, request: ApiRequest): ApiResponse {
    const query = request.query ?? {};
    const selects = selection(target, query);
    const pipe = createPipe(request.signal, () => watches.delete(watch));
    const watch: OpenWatch = { plural: target.collection, apiVersion: 'v1', kind: target.plural, selects, pipe };
    const from = query['resourceVersion'] ?? '0';
    if (from === '0') {
      for (const object of collectionOf(target.collection).values()) {
        if (selects(object)) pipe.write(`${JSON.stringify({ type: 'ADDED', object })}\n`);
      }
    } else if (Number(from) < oldest) {
      pipe.write(
        `${JSON.stringify({ type: 'ERROR', object: failure(410, 'Expired', `too old resource version: ${from} (${oldest})`) })}\n`,
      );
      pipe.end();
    } else if (Number(from) > version) {
      throw new Refusal(504, 'Timeout', 'Too large resource version', { causes: [{ reason: 'ResourceVersionTooLarge' }] });
    } else {
      for (const event of history) {
        const line = event.version > Number(from) ? lineFor(watch, event) : undefined;
        if (line !== undefined) pipe.write(line);
      }
    }
    if (!pipe.ended) watches.add(watch);
    return { status: 200, headers: {}, body: pipe.read() };
  }

  function create(target: Target, object: KubeObject): ApiResponse {
    const name = object.metadata.name ?? `${object.metadata.generateName}${(++uids).toString(36).padStart(5, '0')}`;
    const metadata = { ...object.metadata, name, ...(target.namespace === undefined ? {} : { namespace: target.namespace }) };
    if (collectionOf(target.collection).has(keyOf(metadata))) {
      throw new Refusal(409, 'AlreadyExists', `${target.plural} "${name}" already exists`);
    }
    return jsonResponse(201, save(target.collection, { ...object, metadata }));
  }

  function patchJson(target: Target, request: ApiRequest): ApiResponse {
    const current = find(target);
    let next: Json;
    try {
      next = jsonPatch(current as object as Json, bodyOf(request) as object as Json);
    } catch {
      throw new Refusal(422, 'Invalid', 'the server rejected our request due to an error in our request');
    }
    return jsonResponse(200, save(target.collection, next as object as KubeObject));
  }

  function patch(target: Target, request: ApiRequest): ApiResponse {
    if (request.headers?.['content-type'] === 'application/json-patch+json') return patchJson(target, request);
    const body = bodyOf(request);
    const objects = collectionOf(target.collection);
    const key = keyOf({ namespace: target.namespace, name: target.name ?? '' });
    const applied = request.headers?.['content-type'] === 'application/apply-patch+yaml';
    const { uid } = body.metadata ?? {};
    if (applied && uid !== undefined && uid !== objects.get(key)?.metadata.uid) throw new Refusal(409, 'Conflict', 'uid mismatch');
    if (applied && !objects.has(key)) return jsonResponse(201, save(target.collection, body));
    const current = find(target);
    conditioned(current, body.metadata?.resourceVersion);
    return jsonResponse(200, save(target.collection, mergePatch(current, body) as KubeObject));
  }

  function serve(request: ApiRequest): ApiResponse {
    const target = targetOf(request.path);
    const query = request.query ?? {};
    if (request.method === 'GET' && query['watch'] !== undefined) return open(target, request);
    if (request.method === 'GET') return target.name === undefined ? list(target, query) : jsonResponse(200, find(target));
    if (request.method === 'POST') return create(target, bodyOf(request));
    if (request.method === 'PATCH') return patch(target, request);
    const current = find(target);
    if (request.method === 'PUT') {
      conditioned(current, bodyOf(request).metadata.resourceVersion);
      return jsonResponse(200, save(target.collection, bodyOf(request)));
    }
    const { preconditions = {} } = bodyOf(request) as { preconditions?: { uid?: string; resourceVersion?: string } };
    if (preconditions.uid !== undefined && preconditions.uid !== current.metadata.uid) throw new Refusal(409, 'Conflict', 'uid mismatch');
    conditioned(current, preconditions.resourceVersion);
    erase(target.collection, keyOf(current.metadata));
    return jsonResponse(200, { ...failure(200, '', ''), status: 'Success' });
  }

  async function transport(request: ApiRequest): Promise<ApiResponse> {
    request.signal?.throwIfAborted();
    requests.push(request);
    await Promise.resolve();
    for (const interceptor of interceptors) {
      const answer = await interceptor(request);
      if (answer !== undefined) return answer;
    }
    request.signal?.throwIfAborted();
    try {
      return serve(request);
    } catch (error) {
      if (error instanceof Refusal) return error.response;
      throw error;
    }
  }

  const each = (act: (pipe: Pipe) => void): void => [...watches].forEach((watch) => act(watch.pipe));
  return {
    transport,
    requests,
    // The objects came from a caller who gave them this type.
    put: <T extends KubeObject>(resource: Resource<T>, object: T) =>
      structuredClone(save(nameOf(resource), structuredClone(object))) as Stored<T>,
    objects: <T extends KubeObject>(resource: Resource<T>) => structuredClone([...collectionOf(nameOf(resource)).values()]) as Stored<T>[],
    remove: (resource, key) => erase(nameOf(resource), keyOf(key)),
    bookmark() {
      for (const { pipe, apiVersion, kind } of watches) {
        pipe.write(
          `${JSON.stringify({ type: 'BOOKMARK', object: { apiVersion, kind, metadata: { resourceVersion: String(version) } } })}\n`,
        );
      }
    },
    compact() {
      version++;
      oldest = version;
      history = [];
      snapshots.clear();
    },
    rewind(to) {
      version = to;
      oldest = to;
      history = [];
      snapshots.clear();
    },
    intercept(interceptor) {
      interceptors.add(interceptor);
      return () => interceptors.delete(interceptor);
    },
    watches: {
      get open() {
        return watches.size;
      },
      end: () => each((pipe) => pipe.end()),
      reset: () => each((pipe) => pipe.fail(new Error('read ECONNRESET'))),
      inject: (bytes) => each((pipe) => pipe.write(bytes)),
      stall: () => each((pipe) => pipe.stall()),
      resume: () => each((pipe) => pipe.resume()),
    },
  };
}
