import { CodedError, messageOf } from '../api/errors.ts';
import { apiVersionOf, keyOf, pathOf } from '../api/resource.ts';
import type { ObjectKey, Resource } from '../api/resource.ts';
import { plainText } from '../api/plain-text.ts';
import type { Clock } from '../api/ports.ts';
import type { ApiRequest, ApiResponse, Transport } from '../api/transport.ts';
import type { KubeList, KubeObject, Stored, WatchEvent } from '../api/wire.ts';
import { ApiError, hasReason } from './api-error.ts';
import type { Client, ListOptions, WatchOptions, WriteOptions } from './client.ts';
import { systemClock } from './clock.ts';
import { failure, isRecord, statusOf, strings } from './failure.ts';
import { jsonMemory } from './json-memory.ts';
import { linesOf } from './lines.ts';

export interface ClientOptions {
  /** Of writes that name none. */
  fieldManager?: string;
  userAgent?: string;
  /** Default: as much as a server of one's own may need. */
  limits?: Partial<AnswerLimits>;
  /** Of the deadline of requests. */
  clock?: Pick<Clock, 'setTimer'>;
}

/** How much of a server a client bears. Beyond it a request fails with a coded error, whatever the server goes on to send. */
export interface AnswerLimits {
  /** From the request to the last byte of its answer. Watches are exempt. */
  answerMs: number;
  /** Of a page of a list. */
  answerBytes: number;
  /** Of any other answer, and of one event of a watch. */
  objectBytes: number;
  /** Of what a page of a list becomes in memory, by `jsonMemory`; Infinity: it is not counted. */
  answerMemory: number;
  /** The same of any other answer, and of one event. */
  objectMemory: number;
  /** Of all answers that are under way at the same time. */
  underWayBytes: number;
  /** Of all pages of `listAll`. */
  listBytes: number;
  /** Pages of `listAll`. */
  pages: number;
}

const MIB = 1024 ** 2;

/** A server itself gives a request up after 60 s. An object is at most 1.5 MiB in etcd. */
const OWN_SERVER: AnswerLimits = {
  answerMs: 120_000,
  answerBytes: 256 * MIB,
  objectBytes: 256 * MIB,
  answerMemory: Infinity,
  objectMemory: Infinity,
  underWayBytes: Infinity,
  listBytes: 2048 * MIB,
  pages: 100_000,
};
/** The server of a cell, in the hub, which has many: it is not trusted with the memory of the hub, nor with its time (docs/security.md). */
export const CELL_LIMITS: AnswerLimits = {
  answerMs: 30_000,
  answerBytes: 64 * MIB,
  objectBytes: 4 * MIB,
  answerMemory: 128 * MIB,
  objectMemory: 32 * MIB,
  underWayBytes: 64 * MIB,
  listBytes: 64 * MIB,
  pages: 1000,
};
/** An agent reads its Machine and what that names. */
export const AGENT_LIMITS: AnswerLimits = {
  answerMs: 60_000,
  answerBytes: 16 * MIB,
  objectBytes: 16 * MIB,
  answerMemory: 128 * MIB,
  objectMemory: 128 * MIB,
  underWayBytes: 32 * MIB,
  listBytes: 16 * MIB,
  pages: 100,
};

/** Far above what etcd takes (1.5 MiB an object). */
const MAX_EVENT_BYTES = 16 * MIB;
/** Of an answer that is no success. */
const MAX_FAILURE_BYTES = 1024 ** 2;
const PAGE = 500;

const PATCH_TYPES = {
  merge: 'application/merge-patch+json',
  json: 'application/json-patch+json',
  strategic: 'application/strategic-merge-patch+json',
  apply: 'application/apply-patch+yaml',
};

export function createClient(transport: Transport, options: ClientOptions = {}): Client {
  const limits: AnswerLimits = { ...OWN_SERVER, ...options.limits };
  const clock = options.clock ?? systemClock();
  /** Of the answers that are being read. */
  let underWay = 0;

  async function send(request: ApiRequest): Promise<ApiResponse> {
    const headers = {
      accept: 'application/json',
      'user-agent': options.userAgent ?? 'kubenode',
      ...(request.body === undefined ? {} : { 'content-type': 'application/json' }),
      ...request.headers,
    };
    const response = await answered(request, () => transport({ ...request, headers }));
    if (response.status >= 200 && response.status < 300) return response;
    throw failure(request, response, await textOf(request, response, MAX_FAILURE_BYTES));
  }

  /** The signal is that of the request, or a deadline of the whole: bytes that drip keep nothing waiting. */
  async function inTime<T>(request: ApiRequest, work: (request: ApiRequest) => Promise<T>): Promise<T> {
    request.signal?.throwIfAborted();
    const controller = new AbortController();
    const onAbort = (): void => controller.abort(request.signal?.reason);
    request.signal?.addEventListener('abort', onAbort, { once: true });
    const late = (): Error =>
      new CodedError('RequestTimeout', `${where(request)}: the answer was not complete after ${limits.answerMs / 1000} s`);
    const cancel = clock.setTimer(limits.answerMs, () => controller.abort(late()));
    try {
      return await work({ ...request, signal: controller.signal });
    } finally {
      cancel();
      request.signal?.removeEventListener('abort', onAbort);
    }
  }

  async function text(request: ApiRequest, maxBytes: number): Promise<string> {
    return await inTime(request, async (bounded) => await textOf(bounded, await send(bounded), maxBytes));
  }

  /** Leaving the loop early ends the stream. */
  async function textOf(request: ApiRequest, response: ApiResponse, maxBytes: number): Promise<string> {
    const chunks: Uint8Array[] = [];
    let bytes = 0;
    try {
      for await (const chunk of bodyOf(request, response)) {
        bytes += chunk.length;
        underWay += chunk.length;
        if (bytes > maxBytes) throw tooLarge(request, `is longer than ${maxBytes} bytes`);
        if (underWay > limits.underWayBytes)
          throw tooLarge(request, `and others of this server that are under way are longer than ${limits.underWayBytes} bytes`);
        chunks.push(chunk);
      }
      return new TextDecoder().decode(chunks.length === 1 ? chunks[0] : Buffer.concat(chunks));
    } finally {
      underWay -= bytes;
    }
  }

  /** What is small as text may be large in memory: it is counted before it is made. */
  function decode(request: ApiRequest, text: string, maxMemory: number): unknown {
    if (Number.isFinite(maxMemory) && jsonMemory(text, maxMemory) > maxMemory)
      throw tooLarge(request, `has so many parts that it would take more than ${maxMemory} bytes of memory`);
    try {
      return JSON.parse(text);
    } catch (cause) {
      throw invalid(request, `no JSON: ${JSON.stringify(text.slice(0, 100))}`, cause);
    }
  }

  async function json(request: ApiRequest): Promise<unknown> {
    return decode(request, await text(request, limits.objectBytes), limits.objectMemory);
  }

  async function write<T extends KubeObject>(
    resource: Resource<T>,
    request: Omit<ApiRequest, 'query' | 'signal'>,
    writeOptions: WriteOptions & { force?: boolean } = {},
  ): Promise<Stored<T>> {
    const fieldManager = writeOptions.fieldManager ?? options.fieldManager;
    const full: ApiRequest = {
      ...request,
      query: {
        fieldValidation: 'Strict',
        ...(fieldManager === undefined ? {} : { fieldManager }),
        ...(writeOptions.dryRun === true ? { dryRun: 'All' } : {}),
        ...(writeOptions.force === true ? { force: 'true' } : {}),
      },
      ...signalOf(writeOptions),
    };
    return storedObject(resource, await json(full), full);
  }

  async function list<T extends KubeObject>(resource: Resource<T>, listOptions: ListOptions = {}): Promise<KubeList<Stored<T>>> {
    return (await page(resource, listOptions, limits.answerBytes)).list;
  }

  async function page<T extends KubeObject>(
    resource: Resource<T>,
    listOptions: ListOptions,
    maxBytes: number,
  ): Promise<{ list: KubeList<Stored<T>>; length: number }> {
    const request: ApiRequest = {
      method: 'GET',
      path: pathOf(resource, listOptions.namespace),
      query: queryOf(listOptions, ['labelSelector', 'fieldSelector', 'limit', 'continue', 'resourceVersion', 'resourceVersionMatch']),
      ...signalOf(listOptions),
    };
    const answer = await text(request, maxBytes);
    listOptions.onReceived?.(answer.length);
    const body = decode(request, answer, limits.answerMemory);
    if (!isRecord(body) || !isRecord(body['metadata']) || typeof body['metadata']['resourceVersion'] !== 'string') {
      throw invalid(request, `not a list of ${resource.kind}: it has no metadata.resourceVersion`);
    }
    // Go writes an empty list as null where it was never made.
    const items: unknown = body['items'] ?? [];
    if (!Array.isArray(items)) throw invalid(request, `not a list of ${resource.kind}: its items are no list`);
    const token = body['metadata']['continue'];
    if (body['metadata']['resourceVersion'].length > MAX_IDENTITY)
      throw invalid(request, `not a list of ${resource.kind}: its metadata.resourceVersion is longer than ${MAX_IDENTITY} characters`);
    if (typeof token === 'string' && token.length > MAX_TOKEN)
      throw invalid(request, `not a list of ${resource.kind}: its metadata.continue is longer than ${MAX_TOKEN} characters`);
    const remaining = body['metadata']['remainingItemCount'];
    const found = {
      apiVersion: apiVersionOf(resource),
      kind: `${resource.kind}List`,
      metadata: {
        resourceVersion: body['metadata']['resourceVersion'],
        ...(typeof token === 'string' && token !== '' ? { continue: token } : {}),
        ...(typeof remaining === 'number' ? { remainingItemCount: remaining } : {}),
      },
      items: items.map((item: unknown) => {
        // A real server leaves kind and apiVersion out of the items of built-in lists.
        if (isRecord(item)) {
          item['apiVersion'] ??= apiVersionOf(resource);
          item['kind'] ??= resource.kind;
        }
        return storedObject(resource, item, request);
      }),
    };
    return { list: found, length: answer.length };
  }

  async function* watch<T extends KubeObject>(
    resource: Resource<T>,
    watchOptions: WatchOptions = {},
  ): AsyncGenerator<Exclude<WatchEvent<Stored<T>>, { type: 'ERROR' }>, void> {
    const request: ApiRequest = {
      method: 'GET',
      path: pathOf(resource, watchOptions.namespace),
      query: {
        watch: 'true',
        allowWatchBookmarks: 'true',
        ...queryOf(watchOptions, ['labelSelector', 'fieldSelector', 'resourceVersion', 'timeoutSeconds']),
      },
      ...signalOf(watchOptions),
    };
    const response = await send(request);
    watchOptions.onOpen?.();
    for await (const lines of linesOf(bodyOf(request, response), Math.min(limits.objectBytes, MAX_EVENT_BYTES))) {
      for (const line of lines) {
        watchOptions.onReceived?.(line.length);
        yield watchEvent(resource, decode(request, line, limits.objectMemory), request);
      }
    }
  }

  async function get<T extends KubeObject>(
    resource: Resource<T>,
    key: ObjectKey,
    getOptions: { signal?: AbortSignal } = {},
  ): Promise<Stored<T>> {
    const request: ApiRequest = { method: 'GET', path: objectPath(resource, key), ...signalOf(getOptions) };
    return storedObject(resource, await json(request), request);
  }

  return {
    get,
    list,
    watch,
    request: json,

    async find(resource, key, findOptions) {
      try {
        return await get(resource, key, findOptions);
      } catch (error) {
        // Without a name it is the kind that the server does not have, which says nothing about the object.
        if (hasReason(error, 'NotFound') && error.details?.name !== undefined) return undefined;
        throw error;
      }
    },

    async listAll<T extends KubeObject>(resource: Resource<T>, listOptions?: ListOptions) {
      const request: ApiRequest = { method: 'GET', path: pathOf(resource, listOptions?.namespace) };
      let length = 0;
      const next = async (more: ListOptions): Promise<KubeList<Stored<T>>> => {
        const found = await page(resource, { limit: PAGE, ...more }, Math.min(limits.answerBytes, limits.listBytes - length));
        length += found.length;
        return found.list;
      };
      const first = await next(listOptions ?? {});
      const pages = [first.items];
      let last = first;
      while (last.metadata.continue !== undefined) {
        if (pages.length >= limits.pages) throw tooLarge(request, `has more than ${limits.pages} pages`);
        // The token carries the resourceVersion; naming one again is an error.
        const { resourceVersion: _version, resourceVersionMatch: _match, ...rest } = listOptions ?? {};
        last = await next({ ...rest, continue: last.metadata.continue });
        pages.push(last.items);
      }
      return { ...first, metadata: { resourceVersion: last.metadata.resourceVersion }, items: pages.flat() };
    },

    create: async (resource, object, writeOptions) =>
      await write(
        resource,
        {
          method: 'POST',
          path:
            writeOptions?.subresource === undefined
              ? pathOf(resource, namespaceOf(resource, object.metadata))
              : objectPath(resource, object.metadata, writeOptions.subresource),
          body: JSON.stringify(object),
        },
        writeOptions,
      ),

    update: async (resource, object, writeOptions) =>
      await write(
        resource,
        { method: 'PUT', path: objectPath(resource, object.metadata, writeOptions?.subresource), body: JSON.stringify(object) },
        writeOptions,
      ),

    async patch(resource, key, patch, writeOptions) {
      const [type, body] =
        'merge' in patch
          ? (['merge', patch.merge] as const)
          : 'json' in patch
            ? (['json', patch.json] as const)
            : (['strategic', patch.strategic] as const);
      return await write(
        resource,
        {
          method: 'PATCH',
          path: objectPath(resource, key, writeOptions?.subresource),
          headers: { 'content-type': PATCH_TYPES[type] },
          body: JSON.stringify(body),
        },
        writeOptions,
      );
    },

    apply: async (resource, object, applyOptions) =>
      await write(
        resource,
        {
          method: 'PATCH',
          path: objectPath(resource, object.metadata, applyOptions.subresource),
          headers: { 'content-type': PATCH_TYPES.apply },
          // JSON is YAML.
          body: JSON.stringify(object),
        },
        applyOptions,
      ),

    async delete(resource, key, deleteOptions = {}) {
      const { uid, resourceVersion, propagationPolicy, gracePeriodSeconds, dryRun } = deleteOptions;
      const preconditions = { ...(uid === undefined ? {} : { uid }), ...(resourceVersion === undefined ? {} : { resourceVersion }) };
      await json({
        method: 'DELETE',
        path: objectPath(resource, key),
        body: JSON.stringify({
          apiVersion: 'v1',
          kind: 'DeleteOptions',
          ...(Object.keys(preconditions).length === 0 ? {} : { preconditions }),
          ...(propagationPolicy === undefined ? {} : { propagationPolicy }),
          ...(gracePeriodSeconds === undefined ? {} : { gracePeriodSeconds }),
          ...(dryRun === true ? { dryRun: ['All'] } : {}),
        }),
        ...signalOf(deleteOptions),
      });
    },

    post: (path, body, postOptions = {}) => json({ method: 'POST', path, body: JSON.stringify(body), ...signalOf(postOptions) }),
  };
}

function where(request: ApiRequest): string {
  return `${request.method} ${request.path}`;
}

function invalid(request: ApiRequest, what: string, cause?: unknown): CodedError {
  return new CodedError('InvalidObject', `${where(request)}: the answer is ${what}`, { cause });
}

function tooLarge(request: ApiRequest, what: string): CodedError {
  return new CodedError('AnswerTooLarge', `${where(request)}: the answer ${what}`);
}

function namespaceOf(resource: Resource, key: { namespace?: string | undefined }): string | undefined {
  if (!resource.namespaced) return undefined;
  if (key.namespace !== undefined && key.namespace !== '') return key.namespace;
  throw new CodedError('NamespaceMissing', `a ${resource.kind} is named by namespace and name; the namespace is missing`);
}

function objectPath(resource: Resource, key: ObjectKey, subresource?: string): string {
  // An empty name would be the path of the whole collection.
  if (key.name === '') throw new CodedError('NameMissing', `a ${resource.kind} without a name was asked for`);
  return pathOf(resource, namespaceOf(resource, key), key.name, subresource);
}

function signalOf(options: { signal?: AbortSignal }): { signal?: AbortSignal } {
  return options.signal === undefined ? {} : { signal: options.signal };
}

function queryOf<Options extends object>(options: Options, names: (keyof Options & string)[]): Record<string, string> {
  return Object.fromEntries(names.flatMap((name) => (options[name] === undefined ? [] : [[name, String(options[name])]])));
}

function unreachable(request: ApiRequest, cause: unknown): unknown {
  if (request.signal?.aborted === true) return request.signal.reason;
  if (cause instanceof CodedError) return cause;
  return new CodedError('Unreachable', `${where(request)}: no answer from the API server: ${messageOf(cause)}`, { cause });
}

async function answered<T>(request: ApiRequest, answer: () => Promise<T>): Promise<T> {
  try {
    return await answer();
  } catch (error) {
    throw unreachable(request, error);
  }
}

async function* bodyOf(request: ApiRequest, response: ApiResponse): AsyncGenerator<Uint8Array, void> {
  try {
    yield* response.body;
  } catch (error) {
    throw unreachable(request, error);
  }
}

/** Gives what the server sent its type, or says which object is wrong. */
function storedObject<T extends KubeObject>(resource: Resource<T>, value: unknown, request: ApiRequest): Stored<T> {
  const metadata = isRecord(value) && isRecord(value['metadata']) ? value['metadata'] : {};
  try {
    const object = resource.parse(value);
    const bad = badMetadata(object.metadata);
    if (bad !== undefined) throw new CodedError('InvalidObject', `metadata.${bad}`);
    if (hasIdentity(object)) return object;
    throw new CodedError('InvalidObject', 'metadata.uid or metadata.resourceVersion is missing');
  } catch (cause) {
    const { namespace, name } = strings(metadata, ['namespace', 'name']);
    const key = keyOf({ namespace, name: name ?? '?' }).slice(0, MAX_IDENTITY);
    throw new CodedError('InvalidObject', `${where(request)}: ${resource.kind} ${key}: ${plainText(messageOf(cause))}`, { cause });
  }
}

/** Far above what Kubernetes takes (253, and 63 for a namespace). They are copied into keys, records and messages. */
const MAX_IDENTITY = 512;

/** What every reader of an object relies on, and no schema of a kind says. */
function badMetadata(metadata: object): string | undefined {
  for (const [field, value] of Object.entries(metadata) as [string, unknown][]) {
    if (value === null || value === undefined) continue;
    if (TEXTS.has(field)) {
      if (typeof value !== 'string') return `${field} is no text`;
      if (value.length > MAX_IDENTITY) return `${field} is longer than ${MAX_IDENTITY} characters`;
    } else if (MAPS.has(field)) {
      if (!isRecord(value)) return `${field} is no map`;
      if (Object.values(value).some((each) => typeof each !== 'string')) return `${field} has a value that is no text`;
    } else if (LISTS.has(field)) {
      if (!Array.isArray(value)) return `${field} is no list`;
      if (field !== 'finalizers' && !value.every(isRecord)) return `${field} has an entry that is no object`;
    }
  }
  return undefined;
}

const TEXTS = new Set(['name', 'namespace', 'uid', 'resourceVersion', 'creationTimestamp', 'deletionTimestamp']);
const MAPS = new Set(['labels', 'annotations']);
const LISTS = new Set(['managedFields', 'ownerReferences', 'finalizers']);

/** Of a watch event, in a message: those of Kubernetes have eight characters. */
const LONGEST_TYPE = 32;
/** Of the token of a next page, which goes into a URL. Those of Kubernetes hold a key. */
const MAX_TOKEN = 16_384;

function hasIdentity<T extends KubeObject>(object: T): object is Stored<T> {
  return typeof object.metadata.uid === 'string' && typeof object.metadata.resourceVersion === 'string';
}

function watchEvent<T extends KubeObject>(
  resource: Resource<T>,
  event: unknown,
  request: ApiRequest,
): Exclude<WatchEvent<Stored<T>>, { type: 'ERROR' }> {
  if (!isRecord(event) || !isRecord(event['object'])) throw invalid(request, 'no watch event');
  const { type, object } = event;
  if (type === 'ERROR') throw new ApiError(typeof object['code'] === 'number' ? object['code'] : 500, statusOf(object), request);
  if (type === 'ADDED' || type === 'MODIFIED' || type === 'DELETED') return { type, object: storedObject(resource, object, request) };
  if (type !== 'BOOKMARK')
    throw invalid(
      request,
      `a watch event of unknown type ${typeof type === 'string' ? JSON.stringify(plainText(type, LONGEST_TYPE)) : typeof type}`,
    );
  const metadata = object['metadata'];
  if (!isRecord(metadata) || typeof metadata['resourceVersion'] !== 'string') throw invalid(request, 'a bookmark without resourceVersion');
  if (metadata['resourceVersion'].length > MAX_IDENTITY)
    throw invalid(request, `a bookmark whose resourceVersion is longer than ${MAX_IDENTITY} characters`);
  const annotations = metadata['annotations'];
  return {
    type,
    object: {
      apiVersion: apiVersionOf(resource),
      kind: resource.kind,
      metadata: {
        resourceVersion: metadata['resourceVersion'],
        ...(isRecord(annotations) ? { annotations: annotations as Record<string, string> } : {}),
      },
    },
  };
}
