import { CodedError, messageOf } from '../api/errors.ts';
import { apiVersionOf, keyOf, pathOf } from '../api/resource.ts';
import type { ObjectKey, Resource } from '../api/resource.ts';
import type { ApiRequest, ApiResponse, Transport } from '../api/transport.ts';
import type { KubeList, KubeObject, Stored, WatchEvent } from '../api/wire.ts';
import { ApiError, hasReason } from './api-error.ts';
import type { Client, ListOptions, WatchOptions, WriteOptions } from './client.ts';
import { failure, isRecord, statusOf, strings } from './failure.ts';
import { linesOf } from './lines.ts';

export interface ClientOptions {
  /** Of writes that name none. */
  fieldManager?: string;
  userAgent?: string;
}

/** Far above what etcd takes (1.5 MiB an object). */
const MAX_EVENT_BYTES = 16 * 1024 * 1024;
const PAGE = 500;

const PATCH_TYPES = {
  merge: 'application/merge-patch+json',
  json: 'application/json-patch+json',
  strategic: 'application/strategic-merge-patch+json',
  apply: 'application/apply-patch+yaml',
};

export function createClient(transport: Transport, options: ClientOptions = {}): Client {
  async function send(request: ApiRequest): Promise<ApiResponse> {
    const headers = {
      accept: 'application/json',
      'user-agent': options.userAgent ?? 'kubenode',
      ...(request.body === undefined ? {} : { 'content-type': 'application/json' }),
      ...request.headers,
    };
    const response = await answered(request, () => transport({ ...request, headers }));
    if (response.status >= 200 && response.status < 300) return response;
    throw failure(request, response, await textOf(request, response));
  }

  async function json(request: ApiRequest): Promise<unknown> {
    const response = await send(request);
    return decode(request, await textOf(request, response));
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
    const request: ApiRequest = {
      method: 'GET',
      path: pathOf(resource, listOptions.namespace),
      query: queryOf(listOptions, ['labelSelector', 'fieldSelector', 'limit', 'continue', 'resourceVersion', 'resourceVersionMatch']),
      ...signalOf(listOptions),
    };
    const body = await json(request);
    if (!isRecord(body) || !isRecord(body['metadata']) || typeof body['metadata']['resourceVersion'] !== 'string') {
      throw invalid(request, `not a list of ${resource.kind}: it has no metadata.resourceVersion`);
    }
    // Go writes an empty list as null where it was never made.
    const items: unknown = body['items'] ?? [];
    if (!Array.isArray(items)) throw invalid(request, `not a list of ${resource.kind}: its items are no list`);
    const token = body['metadata']['continue'];
    const remaining = body['metadata']['remainingItemCount'];
    return {
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
    for await (const lines of linesOf(bodyOf(request, response), MAX_EVENT_BYTES)) {
      for (const line of lines) yield watchEvent(resource, decode(request, line), request);
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

    async listAll(resource, listOptions) {
      const first = await list(resource, { limit: PAGE, ...listOptions });
      const pages = [first.items];
      let last = first;
      while (last.metadata.continue !== undefined) {
        // The token carries the resourceVersion; naming one again is an error.
        const { resourceVersion: _version, resourceVersionMatch: _match, ...rest } = listOptions ?? {};
        last = await list(resource, { limit: PAGE, ...rest, continue: last.metadata.continue });
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

async function textOf(request: ApiRequest, response: ApiResponse): Promise<string> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of bodyOf(request, response)) chunks.push(chunk);
  return new TextDecoder().decode(chunks.length === 1 ? chunks[0] : Buffer.concat(chunks));
}

function decode(request: ApiRequest, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw invalid(request, `no JSON: ${JSON.stringify(text.slice(0, 100))}`, cause);
  }
}

/** Gives what the server sent its type, or says which object is wrong. */
function storedObject<T extends KubeObject>(resource: Resource<T>, value: unknown, request: ApiRequest): Stored<T> {
  const metadata = isRecord(value) && isRecord(value['metadata']) ? value['metadata'] : {};
  try {
    const object = resource.parse(value);
    if (hasIdentity(object)) return object;
    throw new CodedError('InvalidObject', 'metadata.uid or metadata.resourceVersion is missing');
  } catch (cause) {
    const { namespace, name } = strings(metadata, ['namespace', 'name']);
    const key = keyOf({ namespace, name: name ?? '?' });
    throw new CodedError('InvalidObject', `${where(request)}: ${resource.kind} ${key}: ${messageOf(cause)}`, { cause });
  }
}

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
  if (type !== 'BOOKMARK') throw invalid(request, `a watch event of unknown type ${JSON.stringify(type)}`);
  const metadata = object['metadata'];
  if (!isRecord(metadata) || typeof metadata['resourceVersion'] !== 'string') throw invalid(request, 'a bookmark without resourceVersion');
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
