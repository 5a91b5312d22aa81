import { createHash } from 'node:crypto';
import { Agent, buildConnector } from 'undici';
import type { ApiRequest, ApiResponse } from '../api/transport.ts';
import { authorization, endpointOf, heed, hintsBounded, isWatch, plainHeaders, targetOf } from './connect.ts';
import type { ClosableTransport, Connection, TransportOptions } from './connect.ts';
import { unreached } from './unreached.ts';

/**
 * One connection pool a TLS identity. The clusters of one embedded server share it, as do the clients of one cluster; a new Agent a
 * request, as client-node makes, costs a TLS handshake each.
 */
const pools = new Map<string, { agent: Agent; users: number }>();

function takePool(connection: Connection): { agent: Agent; release: () => Promise<void> } {
  const { ca, clientCert, clientKey, tlsServerName } = connection;
  const identity = createHash('sha256')
    .update(JSON.stringify([ca, clientCert, clientKey, tlsServerName]))
    .digest('hex');
  const pool = pools.get(identity) ?? {
    users: 0,
    agent: new Agent({
      allowH2: false,
      keepAliveTimeout: 30_000,
      connect: abandonable(connection),
    }),
  };
  pools.set(identity, pool);
  pool.users++;
  return {
    agent: pool.agent,
    async release() {
      pool.users--;
      if (pool.users > 0) return;
      pools.delete(identity);
      await pool.agent.destroy();
    },
  };
}

/** Connections that are being made for the request that is being sent right now. */
let making: Set<Destroyable> | undefined;

/**
 * undici makes the connection that a request needs while the request is handed to it, and ignores signals before the connection is made.
 * An abort must still end it: a handshake that hangs would block a leader's renewals for as long as its Lease lasts.
 */
function abandonable({ ca, clientCert, clientKey, tlsServerName }: Connection): buildConnector.connector {
  const connect = buildConnector({
    // Watches over one HTTP/2 connection would share its stalls, and its death.
    allowH2: false,
    rejectUnauthorized: true,
    keepAliveInitialDelay: 30_000,
    timeout: 10_000,
    ...(ca === undefined ? {} : { ca }),
    ...(clientCert === undefined ? {} : { cert: clientCert }),
    ...(clientKey === undefined ? {} : { key: clientKey }),
    ...(tlsServerName === undefined ? {} : { servername: tlsServerName }),
  });
  return (options, callback) => {
    const mine = making;
    const socket: unknown = connect(options, (...result) => {
      if (isDestroyable(socket)) mine?.delete(socket);
      callback(...result);
    });
    if (isDestroyable(socket)) mine?.add(socket);
  };
}

interface Destroyable {
  destroy(error: Error): void;
}

function isDestroyable(socket: unknown): socket is Destroyable {
  return typeof socket === 'object' && socket !== null && 'destroy' in socket;
}

/** Over undici, through one Agent (connection pool) a TLS identity, shared by all transports that use it. */
export function httpTransport(connection: Connection, options: TransportOptions = {}): ClosableTransport {
  const endpoint = endpointOf(connection);
  const idleTimeoutMs = options.idleTimeoutMs ?? 60_000;
  const pool = takePool(connection);
  let closed: Promise<void> | undefined;

  async function send(request: ApiRequest): Promise<ApiResponse> {
    if (closed !== undefined) throw new Error('this transport is closed');
    const headers = { ...request.headers, ...(await authorization(connection)) };
    const made = (making = new Set<Destroyable>());
    const sent = pool.agent.request({
      origin: endpoint.origin,
      path: targetOf(endpoint, request),
      method: request.method,
      headers,
      body: request.body ?? null,
      signal: request.signal ?? null,
      onInfo: hintsBounded(request),
      headersTimeout: idleTimeoutMs,
      bodyTimeout: isWatch(request) ? 0 : idleTimeoutMs,
    });
    making = undefined;
    const onAbort = (): void => {
      for (const socket of made) socket.destroy(new Error('the request that wanted this connection was given up'));
    };
    request.signal?.addEventListener('abort', onAbort, { once: true });
    try {
      const { statusCode, headers, body } = await sent;
      heed(connection, statusCode);
      return { status: statusCode, headers: plainHeaders(headers), body };
    } catch (error) {
      throw request.signal?.aborted === true ? request.signal.reason : unreached(error, connection, endpoint);
    } finally {
      request.signal?.removeEventListener('abort', onAbort);
    }
  }
  return Object.assign(send, { close: () => (closed ??= pool.release()) });
}
