import { createServer, type Server } from 'node:https';
import { constants } from 'node:crypto';
import type { Clock, Log, Random } from '@kubenode/api-machinery/ports';
import { messageOf } from '@kubenode/api-machinery/errors';
import { serverTimes } from '@kubenode/api-machinery/server-limits';
import type { EmbeddedCluster } from '../cluster.ts';
import { answer, type Listening } from './answer.ts';
import { Bodies, BODIES_BYTES } from './bodies.ts';
import { kubeconfigText } from './kubeconfig.ts';
import { listenOn, parseListen } from './listen.ts';
import { servingIdentity, type ServingIdentity } from './serving-cert.ts';
import { embeddedError } from '../errors.ts';

export interface ServeOptions {
  /**
   * Each is at the root of a port of its own, since clients of Kubernetes ignore the path of a server's address: the first at the port of `listen`, the others at the ports
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
  readonly limits?: Partial<ServeLimits>;
}

/** What one listener lets others take of this process. */
export interface ServeLimits {
  /** Further ones are closed at once. Each agent keeps one or two. */
  readonly connections: number;
  /** Bodies of all requests in flight together. */
  readonly bodiesBytes: number;
  /** For a request's head, from the connection's first byte or the last answer on. */
  readonly headMs: number;
  /** For a whole request with its body. */
  readonly requestMs: number;
}

const LIMITS: ServeLimits = { connections: 4096, bodiesBytes: BODIES_BYTES, headMs: 10_000, requestMs: 60_000 };

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

/** One listener, not listening yet. Requests without a cluster in their path are for `own`. */
function listenerOf(
  listening: Listening,
  identity: ServingIdentity,
  limits: ServeLimits,
  own: EmbeddedCluster | undefined,
  log: ServeOptions['log'],
): Server {
  const made = createServer(
    {
      cert: identity.certificate,
      key: identity.key,
      minVersion: 'TLSv1.2',
      // Client certificates are asked for and verified against the authority of the cluster that is addressed, which only
      // the request names. Without tickets a resumed session cannot lose its certificate.
      requestCert: true,
      rejectUnauthorized: false,
      secureOptions: constants.SSL_OP_NO_TICKET,
      keepAliveTimeout: 90_000,
      ...serverTimes(limits),
    },
    (message, out) => {
      answer(listening, own, message, out).catch((error: unknown) => {
        // A closed connection ends its request in many ways; only what went wrong on our side is worth a line.
        if (!out.destroyed) {
          log?.error({ error: messageOf(error), path: message.url?.split('?')[0] }, 'a request failed');
          out.destroy();
        }
      });
    },
  );
  made.maxConnections = limits.connections;
  return made;
}

async function closeAll(listeners: readonly Server[], inFlight: ReadonlySet<AbortController>): Promise<void> {
  for (const abort of inFlight) abort.abort(new Error('the server is closing'));
  await Promise.all(
    listeners.map(async (listener) => {
      const closed = new Promise<void>((resolve) => listener.close(() => resolve()));
      listener.closeAllConnections();
      await closed;
    }),
  );
}

/** HTTPS listeners for any number of clusters. Errors: BadListen, NotLoopback, PortInUse, CannotListen, StateDamaged. */
export async function serve(options: ServeOptions): Promise<ApiServer> {
  const { host, port: asked } = parseListen(options.listen);
  const { clock } = options;
  const identity: ServingIdentity = await servingIdentity(options.state === 'memory' ? undefined : options.state.dir, {
    now: clock.now(),
    random: options.random ?? Math.random,
  });
  const limits: ServeLimits = { ...LIMITS, ...options.limits };
  const shared: Listening = {
    clusters: new Map(options.clusters.map((cluster) => [cluster.name, cluster])),
    clock,
    bodies: new Bodies(limits.bodiesBytes),
    requestMs: limits.requestMs,
    inFlight: new Set(),
  };
  const owners: readonly (EmbeddedCluster | undefined)[] = options.clusters.length === 0 ? [undefined] : options.clusters;
  const listeners: Server[] = [];
  const ports: number[] = [];
  const close = () => closeAll(listeners, shared.inFlight);
  try {
    for (const [index, owner] of owners.entries()) {
      const listener = listenerOf(shared, identity, limits, owner, options.log);
      ports.push(await listenOn(listener, host, asked === 0 ? 0 : asked + index));
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
      throw embeddedError(
        'UnknownCluster',
        `no cluster ${JSON.stringify(name)} is served here; there are ${[...shared.clusters.keys()].join(', ')}`,
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
