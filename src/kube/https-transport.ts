import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { Agent, request as httpsRequest } from 'node:https';
import type { ApiRequest, ApiResponse } from '../api/transport.ts';
import { authorization, endpointOf, heed, hintsBounded, isWatch, plainHeaders, targetOf } from './connect.ts';
import type { ClosableTransport, Connection, TransportOptions } from './connect.ts';
import { unreached } from './unreached.ts';

export interface RetirableTransport extends ClosableTransport {
  /** No request more: each connection ends with the answer that it is at, a watch when the server ends it. */
  retire(): void;
}

/** Over node:https with keep-alive; for the agent, which must stay small. */
export function nodeHttpsTransport(connection: Connection, options: TransportOptions = {}): RetirableTransport {
  const endpoint = endpointOf(connection);
  const idleTimeoutMs = options.idleTimeoutMs ?? 60_000;
  const agent = new Agent({
    keepAlive: true,
    keepAliveMsecs: 30_000,
    // Explicit, so that NODE_TLS_REJECT_UNAUTHORIZED cannot switch verification off.
    rejectUnauthorized: true,
    ca: connection.ca,
    cert: connection.clientCert,
    key: connection.clientKey,
    servername: connection.tlsServerName,
  });
  let closed = false;

  async function attempt(request: ApiRequest): Promise<ApiResponse> {
    const credentials = await authorization(connection);
    // A signal that was aborted while the token was fetched calls no listener any more.
    request.signal?.throwIfAborted();
    const outgoing = httpsRequest({
      agent,
      host: endpoint.hostname.replace(/^\[|\]$/g, ''),
      port: endpoint.port === '' ? 443 : endpoint.port,
      path: targetOf(endpoint, request),
      method: request.method,
      headers: {
        ...request.headers,
        ...credentials,
        // Node frames the body of a DELETE only when it knows its length; without it the bytes would be taken for the next request.
        ...(request.body === undefined ? {} : { 'content-length': Buffer.byteLength(request.body) }),
      },
    });
    const onAbort = (): void => void outgoing.destroy(asError(request.signal?.reason));
    outgoing.once('close', () => request.signal?.removeEventListener('abort', onAbort));
    request.signal?.addEventListener('abort', onAbort, { once: true });
    outgoing.setTimeout(idleTimeoutMs, () => outgoing.destroy(new Error(`nothing came for ${idleTimeoutMs} ms`)));
    const count = hintsBounded(request);
    outgoing.on('information', () => {
      try {
        count();
      } catch (error) {
        outgoing.destroy(asError(error));
      }
    });
    outgoing.end(request.body);
    try {
      const [incoming] = (await once(outgoing, 'response')) as [IncomingMessage];
      // An error after the head reaches the reader through the body; without a listener on the request it would end the process.
      outgoing.on('error', (error) => incoming.destroy(error));
      incoming.on('error', () => undefined);
      if (isWatch(request)) outgoing.setTimeout(0);
      heed(connection, incoming.statusCode);
      return { status: incoming.statusCode ?? 0, headers: plainHeaders(incoming.headers), body: incoming };
    } catch (error) {
      if (request.signal?.aborted === true) throw request.signal.reason;
      // The server closed an idle connection just as it was taken up again: nothing was done, and a read may be repeated.
      if (outgoing.reusedSocket && request.method === 'GET') return await attempt(request);
      throw unreached(error, connection, endpoint);
    }
  }

  async function send(request: ApiRequest): Promise<ApiResponse> {
    if (closed) throw new Error('this transport is closed');
    return await attempt(request);
  }
  return Object.assign(send, {
    retire(): void {
      closed = true;
      // What Node asks before it keeps a connection that has become free.
      Object.assign(agent, { keepAlive: false });
      for (const socket of Object.values(agent.freeSockets).flat()) socket?.destroy();
    },
    close(): Promise<void> {
      closed = true;
      agent.destroy();
      return Promise.resolve();
    },
  });
}

function asError(reason: unknown): Error {
  return reason instanceof Error ? reason : new Error(String(reason));
}
