import { createHash } from 'node:crypto';
import { Agent } from 'undici';
import type { ApiRequest, ApiResponse } from '../api/transport.ts';
import { authorization, endpointOf, heed, isWatch, plainHeaders, targetOf } from './connect.ts';
import type { ClosableTransport, Connection, TransportOptions } from './connect.ts';

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
      // Watches over one HTTP/2 connection would share its stalls, and its death.
      allowH2: false,
      keepAliveTimeout: 30_000,
      connect: {
        rejectUnauthorized: true,
        keepAliveInitialDelay: 30_000,
        // A request that was given up leaves its connection behind, and the next one waits for it: a handshake that hangs must not
        // hold a leader's renewals for as long as its Lease.
        timeout: 5000,
        ...(ca === undefined ? {} : { ca }),
        ...(clientCert === undefined ? {} : { cert: clientCert }),
        ...(clientKey === undefined ? {} : { key: clientKey }),
        ...(tlsServerName === undefined ? {} : { servername: tlsServerName }),
      },
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

/** Over undici, through one Agent (connection pool) a TLS identity, shared by all transports that use it. */
export function httpTransport(connection: Connection, options: TransportOptions = {}): ClosableTransport {
  const endpoint = endpointOf(connection);
  const idleTimeoutMs = options.idleTimeoutMs ?? 60_000;
  const pool = takePool(connection);
  let closed: Promise<void> | undefined;

  async function send(request: ApiRequest): Promise<ApiResponse> {
    if (closed !== undefined) throw new Error('this transport is closed');
    const response = await pool.agent.request({
      origin: endpoint.origin,
      path: targetOf(endpoint, request),
      method: request.method,
      headers: { ...request.headers, ...(await authorization(connection)) },
      body: request.body ?? null,
      signal: request.signal ?? null,
      headersTimeout: idleTimeoutMs,
      bodyTimeout: isWatch(request) ? 0 : idleTimeoutMs,
    });
    heed(connection, response.statusCode);
    return { status: response.statusCode, headers: plainHeaders(response.headers), body: response.body };
  }
  return Object.assign(send, { close: () => (closed ??= pool.release()) });
}
