/** What Prometheus asks a controller: over TLS, with a token that the API server knows. */
import { createServer } from 'node:https';
import type { IncomingMessage } from 'node:http';
import { messageOf } from '../api/errors.ts';
import type { Log } from '../api/ports.ts';
import { serverTimes } from '../api/server-limits.ts';
import { listenAt, type ListeningServer } from './listen.ts';
import type { MayRead } from './metrics-access.ts';

export interface MetricsOptions {
  /** `host:port`, or `:port` for every address. */
  listen: string;
  /** PEM. */
  identity: { certificate: string; key: string };
  mayRead: MayRead;
  text: () => string;
  log: Log;
}

/** Strangers can make this process ask the API server: no more at once than this. */
const MAX_REVIEWS = 4;
const MAX_CONNECTIONS = 64;
const REVIEW_MS = 5000;

/**
 * `/metrics`, in the text format of Prometheus, for clients that may `get` that path by the RBAC of this process' API server; for none while that is not reached.
 *
 * Errors: `Usage` for an address that is none; `ListenFailed`.
 */
export async function serveMetrics({ listen, identity, mayRead, text, log }: MetricsOptions): Promise<ListeningServer> {
  let reviews = 0;

  async function answerTo(request: IncomingMessage): Promise<{ status: number; body: string; headers?: Record<string, string> }> {
    if (request.method !== 'GET') return { status: 405, body: 'only GET\n' };
    if ((request.url ?? '').split('?')[0] !== '/metrics') return { status: 404, body: 'there is /metrics\n' };
    const token = /^Bearer +([^\s]+)$/i.exec(request.headers.authorization ?? '')?.[1];
    const challenge = { 'www-authenticate': 'Bearer' };
    if (token === undefined) return { status: 401, body: 'a bearer token of a ServiceAccount is needed\n', headers: challenge };
    if (reviews >= MAX_REVIEWS) return { status: 429, body: 'too many ask at once\n', headers: { 'retry-after': '1' } };
    reviews++;
    try {
      const verdict = await mayRead(token, AbortSignal.timeout(REVIEW_MS));
      switch (verdict) {
        case 'Granted':
          return { status: 200, body: text(), headers: { 'content-type': 'text/plain; version=0.0.4; charset=utf-8' } };
        case 'Unauthenticated':
          return { status: 401, body: 'the API server does not know this token\n', headers: challenge };
        case 'Forbidden':
          return { status: 403, body: 'the ClusterRole kubenode-metrics-reader lets a ServiceAccount read /metrics\n' };
        default:
          return verdict satisfies never;
      }
    } catch (error) {
      log.warn({ error: messageOf(error) }, '/metrics is refused: the API server does not answer who may read it');
      return { status: 503, body: 'the API server does not answer who may read /metrics\n' };
    } finally {
      reviews--;
    }
  }

  const server = createServer(
    { cert: identity.certificate, key: identity.key, minVersion: 'TLSv1.2', ...serverTimes() },
    (request, response) => {
      void answerTo(request).then(({ status, body, headers = {} }) =>
        response.writeHead(status, { 'content-type': 'text/plain; charset=utf-8', ...headers }).end(body),
      );
    },
  );
  server.maxConnections = MAX_CONNECTIONS;
  return await listenAt(server, listen, '--metrics');
}
