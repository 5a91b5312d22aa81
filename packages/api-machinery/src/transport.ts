/**
 * The one port between a client and an API server. HTTP, node:https and the in-process embedded server
 * implement it, so that everything above it is the same code on all of them.
 */
export interface ApiRequest {
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** Absolute path without query, e.g. `/apis/kubenode.io/v1alpha1/namespaces/web/machines/a`; segments are percent-encoded. */
  path: string;
  query?: Record<string, string>;
  /** Header names in lower case. */
  headers?: Record<string, string>;
  body?: string | Uint8Array;
  /** Aborting ends the request, and a watch stream with it; the call or the iteration rejects with the signal's reason. */
  signal?: AbortSignal;
}

export interface ApiResponse {
  status: number;
  /** Header names in lower case. */
  headers: Record<string, string>;
  /** Bytes as they arrive; a watch is newline-separated JSON. Must be consumed or returned. */
  body: AsyncIterable<Uint8Array>;
}

/**
 * Sends one request. Resolves for every HTTP status; rejects only when no response was had (connection refused, reset,
 * abort). After a rejection it is unknown whether a write took effect.
 */
export type Transport = (request: ApiRequest) => Promise<ApiResponse>;
