import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer, type Server } from 'node:https';
import { constants } from 'node:crypto';
import { TLSSocket } from 'node:tls';
import type { Clock, Log, Random } from '../../api/ports.ts';
import { CodedError, messageOf } from '../../api/errors.ts';
import type { EmbeddedCluster } from '../cluster.ts';
import type { User } from '../kinds/served.ts';
import { apiRequest, methodOf, send } from './bridge.ts';
import { kubeconfigText } from './kubeconfig.ts';
import { userOfCertificate } from './peer.ts';
import { servingIdentity, type ServingIdentity } from './servingcert.ts';

export interface ServeOptions {
  /** Served under `/clusters/NAME`. They stay open when the listener closes. */
  readonly clusters: readonly EmbeddedCluster[];
  /** `127.0.0.1:PORT`, `[::1]:PORT` or `localhost:PORT`; port 0 takes a free one. */
  readonly listen: string;
  /** Where the listener's certificates live; `memory` makes them for this process only. */
  readonly state: 'memory' | { readonly dir: string };
  readonly clock: Clock;
  readonly random?: Random;
  readonly log?: Pick<Log, 'error'>;
}

export interface ApiServer {
  /** `https://127.0.0.1:PORT` */
  readonly url: string;
  readonly port: number;
  /** PEM of the certificate authority. */
  readonly authority: string;
  /** Text of a kubeconfig for the admin of a cluster. Throws CodedError UnknownCluster. */
  kubeconfig(cluster: string): string;
  /** Stops listening and ends every request. */
  close(): Promise<void>;
}

const LOOPBACK: Record<string, string> = { '127.0.0.1': '127.0.0.1', localhost: '127.0.0.1', '[::1]': '::1' };

/** Throws CodedError BadListen or NotLoopback. */
export function parseListen(listen: string): { host: string; port: number } {
  const match = /^(\[[^\]]+\]|[^:]+):(\d{1,5})$/.exec(listen);
  const port = Number(match?.[2]);
  if (match === null || port > 65_535) {
    throw new CodedError('BadListen', `cannot listen on ${JSON.stringify(listen)}: give an address and a port, such as 127.0.0.1:8443`);
  }
  const host = LOOPBACK[match[1] ?? ''];
  if (host === undefined) {
    throw new CodedError(
      'NotLoopback',
      `refusing to listen on ${JSON.stringify(match[1])}: the embedded API server has no authorization, so it listens on loopback only`,
      {
        next: 'use 127.0.0.1, localhost or [::1]',
      },
    );
  }
  return { host, port };
}

async function listening(server: Server, host: string, port: number): Promise<number> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) => {
      const inUse = error.code === 'EADDRINUSE';
      reject(
        new CodedError(
          inUse ? 'PortInUse' : 'CannotListen',
          inUse ? `port ${port} of ${host} is in use by another process` : `cannot listen on ${host}:${port}: ${messageOf(error)}`,
          {
            cause: error,
            ...(inUse ? { next: 'choose another port with --listen, or 0 for a free one' } : {}),
          },
        ),
      );
    });
    server.listen(port, host, resolve);
  });
  const address = server.address();
  return typeof address === 'object' && address !== null ? address.port : port;
}

const PREFIX = /^\/clusters\/([^/]+)(\/.*)?$/;

function plain(out: ServerResponse, status: number, text: string): void {
  out.writeHead(status, { 'content-type': 'text/plain; charset=utf-8' }).end(text);
}

/** One HTTPS listener for any number of clusters. Errors: BadListen, NotLoopback, PortInUse, CannotListen, StateDamaged. */
export async function serve(options: ServeOptions): Promise<ApiServer> {
  const { host, port: asked } = parseListen(options.listen);
  const { clock } = options;
  const identity: ServingIdentity = await servingIdentity(options.state === 'memory' ? undefined : options.state.dir, {
    now: clock.now(),
    random: options.random ?? Math.random,
  });
  const clusters = new Map(options.clusters.map((cluster) => [cluster.name, cluster]));
  const inFlight = new Set<AbortController>();

  async function certified(cluster: EmbeddedCluster, message: IncomingMessage): Promise<User | undefined> {
    if (message.headers.authorization !== undefined || !(message.socket instanceof TLSSocket)) return undefined;
    const certificate = message.socket.getPeerX509Certificate();
    return certificate === undefined ? undefined : userOfCertificate(certificate, await cluster.clientAuthority(), clock.now());
  }

  async function answer(message: IncomingMessage, out: ServerResponse): Promise<void> {
    const target = new URL(message.url ?? '/', 'https://localhost');
    if (/^\/(healthz|livez|readyz)$/.test(target.pathname)) return plain(out, 200, 'ok');
    const match = PREFIX.exec(target.pathname);
    const cluster = clusters.get(decodeURIComponent(match?.[1] ?? ''));
    if (cluster === undefined)
      return plain(out, 404, `no such cluster: paths are /clusters/NAME, with NAME one of ${[...clusters.keys()].join(', ')}\n`);
    const method = methodOf(message);
    if (method === undefined) return plain(out, 405, 'method not allowed\n');
    const abort = new AbortController();
    inFlight.add(abort);
    out.once('close', () => {
      inFlight.delete(abort);
      abort.abort(new Error('the connection was closed'));
    });
    const request = await apiRequest(message, method, match?.[2] ?? '/', target.searchParams, abort.signal);
    await send(await cluster.handleAs(await certified(cluster, message), request), out);
  }

  const server = createServer(
    {
      cert: identity.certificate,
      key: identity.key,
      minVersion: 'TLSv1.2',
      // Client certificates are asked for and verified against the authority of the cluster that is addressed, which only
      // the request tells. Without tickets a resumed session cannot lose its certificate.
      requestCert: true,
      rejectUnauthorized: false,
      secureOptions: constants.SSL_OP_NO_TICKET,
      keepAliveTimeout: 90_000,
    },
    (message, out) => {
      answer(message, out).catch((error: unknown) => {
        // A closed connection ends its request in many ways; only what went wrong on our side is worth a line.
        if (!out.destroyed) {
          options.log?.error({ error: messageOf(error), path: message.url?.split('?')[0] }, 'a request failed');
          out.destroy();
        }
      });
    },
  );
  const port = await listening(server, host, asked);
  const url = `https://${host === '::1' ? '[::1]' : host}:${port}`;
  return {
    url,
    port,
    authority: identity.authority,
    kubeconfig(name) {
      const cluster = clusters.get(name);
      if (cluster === undefined)
        throw new CodedError(
          'UnknownCluster',
          `no cluster ${JSON.stringify(name)} is served here; there are ${[...clusters.keys()].join(', ')}`,
        );
      return kubeconfigText({ cluster: name, server: `${url}/clusters/${name}`, authority: identity.authority, token: cluster.adminToken });
    },
    async close() {
      for (const abort of inFlight) abort.abort(new Error('the server is closing'));
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      server.closeAllConnections();
      await closed;
    },
  };
}
