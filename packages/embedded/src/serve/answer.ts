/** What an HTTPS listener does with one request. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { TLSSocket } from 'node:tls';
import type { Clock } from '@kubenode/api-machinery/ports';
import type { ApiRequest, ApiResponse } from '@kubenode/api-machinery/transport';
import type { EmbeddedCluster } from '../cluster.ts';
import { refused } from '../handle.ts';
import type { User } from '../kinds/served.ts';
import { noSuchMethod, Refusal } from '../refusal.ts';
import type { Bodies } from './bodies.ts';
import { methodOf, requestHead, send } from './bridge.ts';
import { userOfCertificate } from './peer.ts';

/** What all requests of the listeners share. */
export interface Listening {
  readonly clusters: ReadonlyMap<string, EmbeddedCluster>;
  readonly clock: Clock;
  readonly bodies: Bodies;
  /** For a whole request with its body. */
  readonly requestMs: number;
  /** Requests that were not answered yet; aborting ends one. */
  readonly inFlight: Set<AbortController>;
}

const HEALTH = /^\/(healthz|livez|readyz)$/;
const PREFIX = /^\/clusters\/([^/]+)(\/.*)?$/;

function plain(out: ServerResponse, status: number, text: string): void {
  out.writeHead(status, { 'content-type': 'text/plain; charset=utf-8' }).end(text);
}

/** A body of at most this is read and dropped after a refusal, so that its connection can go on. */
const DROPPED_BYTES = 256 * 1024;

/** Answers a request without reading its body, and keeps nothing of it. */
async function refuse(message: IncomingMessage, out: ServerResponse, answer: ApiResponse): Promise<void> {
  const { 'content-length': length = '0', 'transfer-encoding': encoding } = message.headers;
  if (encoding === undefined && Number(length) <= DROPPED_BYTES) {
    message.resume();
    return await send(answer, out);
  }
  await send({ ...answer, headers: { ...answer.headers, connection: 'close' } }, out);
  message.socket.destroySoon();
}

async function certified({ clock }: Listening, cluster: EmbeddedCluster, message: IncomingMessage): Promise<User | undefined> {
  if (message.headers.authorization !== undefined || !(message.socket instanceof TLSSocket)) return undefined;
  const certificate = message.socket.getPeerX509Certificate();
  return certificate === undefined ? undefined : userOfCertificate(certificate, await cluster.clientAuthority(), clock.now());
}

/** HEAD and OPTIONS, which nothing but health takes, here as on the real server. */
async function unserved(
  listening: Listening,
  cluster: EmbeddedCluster,
  path: string,
  message: IncomingMessage,
  out: ServerResponse,
): Promise<void> {
  const head = requestHead(message, 'GET', path, new URLSearchParams(), AbortSignal.timeout(listening.requestMs));
  const admitted = cluster.admit(await certified(listening, cluster, message), head);
  if ('refused' in admitted) return await refuse(message, out, admitted.refused);
  if (HEALTH.test(path)) return plain(out, 200, 'ok');
  if (!/^\/(api|apis|openapi|version)(\/|$)/.test(path)) return plain(out, 404, '404 page not found\n');
  await refuse(message, out, refused(noSuchMethod()));
}

/** Reads the body of an admitted request, and answers it. */
async function answerWithBody(
  { bodies }: Listening,
  message: IncomingMessage,
  out: ServerResponse,
  head: ApiRequest,
  respond: (request: ApiRequest) => Promise<ApiResponse>,
): Promise<void> {
  let read;
  try {
    read = await bodies.read(message);
  } catch (error) {
    if (error instanceof Refusal) return await refuse(message, out, refused(error));
    throw error;
  }
  const { body, release } = read;
  try {
    await send(await respond(body === undefined ? head : { ...head, body }), out);
  } finally {
    release();
  }
}

/** Answers a request to the listener of the cluster `own`, or to the cluster that its path names. */
export async function answer(
  listening: Listening,
  own: EmbeddedCluster | undefined,
  message: IncomingMessage,
  out: ServerResponse,
): Promise<void> {
  const { clusters, inFlight } = listening;
  const target = new URL(message.url ?? '/', 'https://localhost');
  if (HEALTH.test(target.pathname)) return plain(out, 200, 'ok');
  const match = PREFIX.exec(target.pathname);
  const cluster = match === null ? own : clusters.get(decodeURIComponent(match[1] ?? ''));
  if (cluster === undefined)
    return plain(out, 404, `no such cluster: paths are /clusters/NAME, with NAME one of ${[...clusters.keys()].join(', ')}\n`);
  const path = match === null ? target.pathname : (match[2] ?? '/');
  if (message.method === 'HEAD' || message.method === 'OPTIONS') return await unserved(listening, cluster, path, message, out);
  const method = methodOf(message);
  if (method === undefined) return plain(out, 405, 'method not allowed\n');
  const abort = new AbortController();
  inFlight.add(abort);
  out.once('close', () => {
    inFlight.delete(abort);
    abort.abort(new Error('the connection was closed'));
  });
  const head = requestHead(message, method, path, target.searchParams, abort.signal);
  const admitted = cluster.admit(await certified(listening, cluster, message), head);
  if ('refused' in admitted) return await refuse(message, out, admitted.refused);
  const respond = (request: ApiRequest) => cluster.answer(admitted.user, request);
  if (method === 'GET') return await send(await respond(head), out);
  await answerWithBody(listening, message, out, head, respond);
}
