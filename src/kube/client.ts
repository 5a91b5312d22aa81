import type { ObjectKey, Resource } from '../api/resource.ts';
import type { ApiRequest } from '../api/transport.ts';
import type { JsonObject, KubeList, KubeObject, Stored, WatchEvent } from '../api/wire.ts';

export interface ListOptions {
  /** Absent: all namespaces. */
  namespace?: string;
  labelSelector?: string;
  fieldSelector?: string;
  limit?: number;
  continue?: string;
  resourceVersion?: string;
  resourceVersionMatch?: 'Exact' | 'NotOlderThan';
  /** Called with the length of each page before it is decoded; what it throws ends the request. */
  onReceived?: (characters: number) => void;
  signal?: AbortSignal;
}

export interface WatchOptions {
  namespace?: string;
  labelSelector?: string;
  fieldSelector?: string;
  resourceVersion?: string;
  timeoutSeconds?: number;
  /** Called when the server has accepted the watch, before the first event. */
  onOpen?: () => void;
  /** Called with the length of each event before it is decoded; what it throws ends the watch. */
  onReceived?: (characters: number) => void;
  signal?: AbortSignal;
}

export interface WriteOptions {
  fieldManager?: string;
  subresource?: string;
  dryRun?: boolean;
  signal?: AbortSignal;
}

export interface ApplyOptions extends WriteOptions {
  fieldManager: string;
  /** Take fields from other managers. Default false: a conflict is an ApiError with reason Conflict and one cause a field. */
  force?: boolean;
}

export interface DeleteOptions {
  uid?: string;
  resourceVersion?: string;
  propagationPolicy?: 'Background' | 'Foreground' | 'Orphan';
  gracePeriodSeconds?: number;
  dryRun?: boolean;
  signal?: AbortSignal;
}

export interface JsonPatchOperation {
  op: 'add' | 'remove' | 'replace' | 'test' | 'move' | 'copy';
  path: string;
  value?: unknown;
  from?: string;
}

/**
 * One API server. Every call is one request (`listAll` one a page); this client retries nothing.
 *
 * Errors: `ApiError` for every answer that is not 2xx; `CodedError` with code `Unreachable` when no answer was had
 * (a write may then have taken effect); `InvalidObject` when an answer is not of its kind. Field validation is Strict on writes.
 */
export interface Client {
  get<T extends KubeObject>(resource: Resource<T>, key: ObjectKey, options?: { signal?: AbortSignal }): Promise<Stored<T>>;
  /** As `get`; undefined when the server answers NotFound. */
  find<T extends KubeObject>(resource: Resource<T>, key: ObjectKey, options?: { signal?: AbortSignal }): Promise<Stored<T> | undefined>;
  list<T extends KubeObject>(resource: Resource<T>, options?: ListOptions): Promise<KubeList<Stored<T>>>;
  /** All pages of 500, from one snapshot. */
  listAll<T extends KubeObject>(resource: Resource<T>, options?: ListOptions): Promise<KubeList<Stored<T>>>;
  /** Ends when the server ends it; an ERROR event is thrown as ApiError. */
  watch<T extends KubeObject>(
    resource: Resource<T>,
    options?: WatchOptions,
  ): AsyncIterable<Exclude<WatchEvent<Stored<T>>, { type: 'ERROR' }>>;
  create<T extends KubeObject>(resource: Resource<T>, object: T, options?: WriteOptions): Promise<Stored<T>>;
  /** PUT. With `metadata.resourceVersion` set it is conditioned on it. */
  update<T extends KubeObject>(resource: Resource<T>, object: T, options?: WriteOptions): Promise<Stored<T>>;
  patch<T extends KubeObject>(
    resource: Resource<T>,
    key: ObjectKey,
    patch: { merge: JsonObject | object } | { json: JsonPatchOperation[] } | { strategic: JsonObject | object },
    options?: WriteOptions,
  ): Promise<Stored<T>>;
  /** Server-side apply. `object` contains exactly the fields this manager wants to own. */
  apply<T extends KubeObject>(resource: Resource<T>, object: KubeObject, options: ApplyOptions): Promise<Stored<T>>;
  delete<T extends KubeObject>(resource: Resource<T>, key: ObjectKey, options?: DeleteOptions): Promise<void>;
  /** POST to a subresource that has a shape of its own: eviction, token, approval. Returns the decoded body. */
  post(path: string, body: object, options?: { signal?: AbortSignal }): Promise<unknown>;
  /** Any request; returns decoded JSON. */
  request(request: ApiRequest): Promise<unknown>;
}
