import { kubeError } from './errors.ts';
import { messageOf } from '../api/errors.ts';
import type { ApiRequest, Transport } from '../api/transport.ts';

export interface TokenSource {
  (): Promise<string>;
  /** Called when the server did not take a token (401): what is cached is not to be given again unseen. */
  refused?: () => void;
}

/** How to reach one API server, and as which user. Everything is text in memory: PEM, never a path. TLS is always verified. */
export interface Connection {
  /** `https://host:port`, with an optional path prefix that is put before every request path. */
  server: string;
  /** PEM of the authorities to trust; absent: the authorities of Node. */
  ca?: string;
  /** Bearer token; a function is asked before every request and does its own caching. */
  token?: string | TokenSource;
  /** PEM; both or neither. */
  clientCert?: string;
  clientKey?: string;
  /** Name to verify the server certificate against, where it differs from the host of `server`. */
  tlsServerName?: string;
}

export interface TransportOptions {
  /** Longest wait for the head of an answer and between its pieces; watches are exempt after their head. Default 60,000. */
  idleTimeoutMs?: number;
}

export interface ClosableTransport extends Transport {
  /** Later requests are rejected; the connections end with the last transport that shares them, and requests under way on them reject. */
  close(): Promise<void>;
}

/** Errors: `ConnectionInvalid`. */
export function endpointOf(connection: Connection): URL {
  const { server, clientCert, clientKey } = connection;
  let url: URL;
  try {
    url = new URL(server);
  } catch (cause) {
    throw kubeError('ConnectionInvalid', `"${server}" is not a URL of an API server: ${messageOf(cause)}`, { cause });
  }
  if (url.protocol !== 'https:') {
    throw kubeError('ConnectionInvalid', `"${server}" is not reached over https; credentials are sent over verified TLS only`);
  }
  if ((clientCert === undefined) !== (clientKey === undefined)) {
    throw kubeError('ConnectionInvalid', `for ${server} a client certificate and its key must be given together`);
  }
  return url;
}

/** Path and query as they go on the wire. */
export function targetOf(endpoint: URL, request: ApiRequest): string {
  const prefix = endpoint.pathname.replace(/\/+$/, '');
  const query = new URLSearchParams(request.query).toString();
  return `${prefix}${request.path}${query === '' ? '' : `?${query}`}`;
}

export async function authorization(connection: Connection): Promise<{ authorization?: string }> {
  const token = typeof connection.token === 'function' ? await connection.token() : connection.token;
  return token === undefined ? {} : { authorization: `Bearer ${token}` };
}

/** Lets the source of a token know that the server refused it. */
export function heed(connection: Connection, status: number | undefined): void {
  if (status === 401 && typeof connection.token === 'function') connection.token.refused?.();
}

/** A watch may bring nothing for as long as nothing changes. */
export function isWatch(request: ApiRequest): boolean {
  const watch = request.query?.['watch'];
  return watch === 'true' || watch === '1';
}

export function plainHeaders(headers: Record<string, string | string[] | undefined>): Record<string, string> {
  const plain: Record<string, string> = {};
  for (const [name, value] of Object.entries(headers)) {
    if (value !== undefined) plain[name] = Array.isArray(value) ? value.join(', ') : value;
  }
  return plain;
}

/** Answers before the answer (100 to 199): a server may send some. They count for no limit of an answer, so there may be few. */
const MOST_HINTS = 16;

/** Counts them for one request. Errors: `AnswerTooLarge`. */
export function hintsBounded(request: ApiRequest): () => void {
  let hints = 0;
  return () => {
    hints++;
    if (hints > MOST_HINTS)
      throw kubeError('AnswerTooLarge', `${request.method} ${request.path}: the server sent more than ${MOST_HINTS} answers of 100 to 199`);
  };
}
