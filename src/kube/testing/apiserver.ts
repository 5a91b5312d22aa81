import type { Resource } from '../../api/resource.ts';
import type { ApiRequest, ApiResponse, Transport } from '../../api/transport.ts';
import type { KubeObject, Stored } from '../../api/wire.ts';

/** A JSON answer, for interceptors. */
export declare function jsonResponse(status: number, body: object, headers?: Record<string, string>): ApiResponse;
/** A Kubernetes failure. */
export declare function statusResponse(status: number, reason: string, message?: string, headers?: Record<string, string>): ApiResponse;

/** Looks at a request before the server does; undefined lets it through. Throwing is a connection that failed. */
export type Interceptor = (request: ApiRequest) => ApiResponse | undefined | Promise<ApiResponse | undefined>;

/**
 * A small API server in memory that can be made to misbehave. It has resourceVersions, paged lists, watches and plain writes; no
 * validation, admission, defaulting or ownership of fields: those are the embedded and the real server's.
 */
export interface FakeApiServer {
  readonly transport: Transport;
  /** Every request that arrived, oldest first. */
  readonly requests: ApiRequest[];
  /** Creates or replaces, as another client would. */
  put<T extends KubeObject>(resource: Resource<T>, object: T): Stored<T>;
  remove(resource: Resource, key: { namespace?: string; name: string }): void;
  objects<T extends KubeObject>(resource: Resource<T>): Stored<T>[];
  /** Sends a bookmark to every watch. */
  bookmark(): void;
  /** Forgets history: older resourceVersions and continue tokens answer 410. */
  compact(): void;
  intercept(interceptor: Interceptor): () => void;
  /** What happens to open watches: a clean end, a reset, or raw bytes put in their stream. */
  watches: { readonly open: number; end(): void; reset(): void; inject(bytes: string | Uint8Array): void; stall(): void; resume(): void };
}

export declare function fakeApiServer(): FakeApiServer;
