import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer, type Server } from 'node:https';
import { constants } from 'node:crypto';
import { TLSSocket } from 'node:tls';
import type { Clock, Log, Random } from '@kubenode/api-machinery/ports';
import { CodedError, messageOf } from '@kubenode/api-machinery/errors';
import { serverTimes } from '@kubenode/api-machinery/server-limits';
import type { ApiResponse } from '@kubenode/api-machinery/transport';
import type { EmbeddedCluster } from '../cluster.ts';
import type { User } from '../kinds/served.ts';
import { refused } from '../handle.ts';
import { noSuchMethod, Refusal } from '../refusal.ts';
import { Bodies, BODIES_BYTES } from './bodies.ts';
import { methodOf, requestHead, send } from './bridge.ts';
import { kubeconfigText } from './kubeconfig.ts';
import { userOfCertificate } from './peer.ts';
import { servingIdentity, type ServingIdentity } from './serving-cert.ts';

export interface ServeOptions {
  /**
   * Each is at the root of a port of its own, since clients of Kubernetes take the path of a server's address for nothing: the first at that of `listen`, the others at those
   * that follow it. All of them are also under `/clusters/NAME` of the first port. They stay open when the listeners close.
   */
  readonly clusters: readonly EmbeddedCluster[];
  /** `127.0.0.1:PORT`, `[::1]:PORT` or `localhost:PORT`; port 0 takes free ones. */
  readonly listen: string;
  /** Where the listener's certificates live; `memory` makes them for this process only. */
  readonly state: 'memory' | { readonly dir: string };
  readonly clock: Clock;
  readonly random?: Random;
  readonly log?: Pick<Log, 'error'>;
  readonly limits?: Partial<Limits>;
}

/** What one listener lets others take of this process. */
export interface Limits {
  /** Further ones are closed at once. Each agent keeps one or two. */
  readonly connections: number;
  /** Bodies of all requests in flight together. */
  readonly bodiesBytes: number;
  /** For a request's head, from the connection's first byte or the last answer on. */
  readonly headMs: number;
  /** For a whole request with its body. */
  readonly requestMs: number;
}

const LIMITS: Limits = { connections: 4096, bodiesBytes: BODIES_BYTES, headMs: 10_000, requestMs: 60_000 };

export interface ApiServer {
  /** `https://127.0.0.1:PORT`, of the first cluster. */
  readonly url: string;
  readonly port: number;
  /** PEM of the certificate authority. */
  readonly authority: string;
  /** Where a cluster is served, without a path. Throws CodedError UnknownCluster. */
  urlOf(cluster: string): string;
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
      `refusing to listen on ${JSON.stringify(match[1])}: the embedded API server is for trying things and not hardened for networks, so it listens on loopback only`,
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

const HEALTH = /^\/(healthz|livez|readyz)$/;
const PREFIX = /^\/clusters\/([^/]+)(\/.*)?$/;

function plain(out: ServerResponse, status: number, text: string): void {
  out.writeHead(status, { 'content-type': 'text/plain; charset=utf-8' }).end(text);
}

/** A body of at most this is read and dropped after a refusal, so that its connection can go on. */
const DROPPED_BYTES = 256 * 1024;

/** Answers a request whose body nobody reads: nothing of it is kept. */
async function refuse(message: IncomingMessage, out: ServerResponse, answer: ApiResponse): Promise<void> {
  const { 'content-length': length = '0', 'transfer-encoding': encoding } = message.headers;
  if (encoding === undefined && Number(length) <= DROPPED_BYTES) {
    message.resume();
    return await send(answer, out);
  }
  await send({ ...answer, headers: { ...answer.headers, connection: 'close' } }, out);
  message.socket.destroySoon();
}

/** HTTPS listeners for any number of clusters. Errors: BadListen, NotLoopback, PortInUse, CannotListen, StateDamaged. */
export async function serve(options: ServeOptions): Promise<ApiServer> {
  const { host, port: asked } = parseListen(options.listen);
  const { clock } = options;
  const identity: ServingIdentity = await servingIdentity(options.state === 'memory' ? undefined : options.state.dir, {
    now: clock.now(),
    random: options.random ?? Math.random,
  });
  const clusters = new Map(options.clusters.map((cluster) => [cluster.name, cluster]));
  const inFlight = new Set<AbortController>();
  const limits: Limits = { ...LIMITS, ...options.limits };
  const bodies = new Bodies(limits.bodiesBytes);

  async function certified(cluster: EmbeddedCluster, message: IncomingMessage): Promise<User | undefined> {
    if (message.headers.authorization !== undefined || !(message.socket instanceof TLSSocket)) return undefined;
    const certificate = message.socket.getPeerX509Certificate();
    return certificate === undefined ? undefined : userOfCertificate(certificate, await cluster.clientAuthority(), clock.now());
  }

  async function answer(own: EmbeddedCluster | undefined, message: IncomingMessage, out: ServerResponse): Promise<void> {
    const target = new URL(message.url ?? '/', 'https://localhost');
    if (HEALTH.test(target.pathname)) return plain(out, 200, 'ok');
    const match = PREFIX.exec(target.pathname);
    const cluster = match === null ? own : clusters.get(decodeURIComponent(match[1] ?? ''));
    if (cluster === undefined)
      return plain(out, 404, `no such cluster: paths are /clusters/NAME, with NAME one of ${[...clusters.keys()].join(', ')}\n`);
    const path = match === null ? target.pathname : (match[2] ?? '/');
    if (message.method === 'HEAD' || message.method === 'OPTIONS') return await unserved(cluster, path, message, out);
    const method = methodOf(message);
    if (method === undefined) return plain(out, 405, 'method not allowed\n');
    const abort = new AbortController();
    inFlight.add(abort);
    out.once('close', () => {
      inFlight.delete(abort);
      abort.abort(new Error('the connection was closed'));
    });
    const head = requestHead(message, method, path, target.searchParams, abort.signal);
    const admitted = cluster.admit(await certified(cluster, message), head);
    if ('refused' in admitted) return await refuse(message, out, admitted.refused);
    if (method === 'GET') return await send(await cluster.answer(admitted.user, head), out);
    let read;
    try {
      read = await bodies.read(message);
    } catch (error) {
      if (error instanceof Refusal) return await refuse(message, out, refused(error));
      throw error;
    }
    const { body, release } = read;
    try {
      await send(await cluster.answer(admitted.user, body === undefined ? head : { ...head, body }), out);
    } finally {
      release();
    }
  }

  /** HEAD and OPTIONS, which nothing but health takes, here as on the real server. */
  async function unserved(cluster: EmbeddedCluster, path: string, message: IncomingMessage, out: ServerResponse): Promise<void> {
    const head = requestHead(message, 'GET', path, new URLSearchParams(), AbortSignal.timeout(limits.requestMs));
    const admitted = cluster.admit(await certified(cluster, message), head);
    if ('refused' in admitted) return await refuse(message, out, admitted.refused);
    if (HEALTH.test(path)) return plain(out, 200, 'ok');
    if (!/^\/(api|apis|openapi|version)(\/|$)/.test(path)) return plain(out, 404, '404 page not found\n');
    await refuse(message, out, refused(noSuchMethod()));
  }

  const listenerOf = (own: EmbeddedCluster | undefined): Server => {
    const made = createServer(
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
        ...serverTimes(limits),
      },
      (message, out) => {
        answer(own, message, out).catch((error: unknown) => {
          // A closed connection ends its request in many ways; only what went wrong on our side is worth a line.
          if (!out.destroyed) {
            options.log?.error({ error: messageOf(error), path: message.url?.split('?')[0] }, 'a request failed');
            out.destroy();
          }
        });
      },
    );
    made.maxConnections = limits.connections;
    return made;
  };
  const owners: readonly (EmbeddedCluster | undefined)[] = options.clusters.length === 0 ? [undefined] : options.clusters;
  const listeners: Server[] = [];
  const ports: number[] = [];
  const close = async (): Promise<void> => {
    for (const abort of inFlight) abort.abort(new Error('the server is closing'));
    await Promise.all(
      listeners.map(async (listener) => {
        const closed = new Promise<void>((resolve) => listener.close(() => resolve()));
        listener.closeAllConnections();
        await closed;
      }),
    );
  };
  try {
    for (const [index, owner] of owners.entries()) {
      const listener = listenerOf(owner);
      ports.push(await listening(listener, host, asked === 0 ? 0 : asked + index));
      listeners.push(listener);
    }
  } catch (error) {
    await close();
    throw error;
  }
  const [port = asked] = ports;
  const urlAt = (at: number): string => `https://${host === '::1' ? '[::1]' : host}:${at}`;
  const served = (name: string): { cluster: EmbeddedCluster; url: string } => {
    const index = options.clusters.findIndex((cluster) => cluster.name === name);
    const cluster = options.clusters[index];
    if (cluster === undefined)
      throw new CodedError(
        'UnknownCluster',
        `no cluster ${JSON.stringify(name)} is served here; there are ${[...clusters.keys()].join(', ')}`,
      );
    return { cluster, url: urlAt(ports[index] ?? port) };
  };
  return {
    url: urlAt(port),
    port,
    authority: identity.authority,
    urlOf: (name) => served(name).url,
    kubeconfig(name) {
      const { cluster, url } = served(name);
      return kubeconfigText({ cluster: name, server: url, authority: identity.authority, token: cluster.adminToken });
    },
    close,
  };
}
