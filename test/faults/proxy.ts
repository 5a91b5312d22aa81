/** A proxy in front of an API server that breaks what passes through it, on command. HTTP/1.1 over TLS, as our transports speak it. */
import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { Agent, createServer as createTlsServer, request as httpsRequest } from 'node:https';
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import type { Connection } from '../../src/kube/connect.ts';
import { createAuthority } from '../../src/kube/testing/tls.ts';

export type Fault =
  /** The proxy answers itself, as a server or a balancer under load does; the server is not asked. */
  | { type: 'answer'; status: number; retryAfterSeconds?: number }
  /** The connection is reset; the server is not asked. */
  | { type: 'reset' }
  /** The server carries it out; the connection is reset instead of the answer. */
  | { type: 'swallow' }
  /** The server carries it out; the answer never comes, and nothing is closed. */
  | { type: 'mute' }
  /** The connection is reset at once, and the server gets the request later all the same. */
  | { type: 'belated'; ms: number }
  /** The server is asked later. */
  | { type: 'delay'; ms: number }
  /** After so many whole lines of the answer the next one is broken in its middle: by a reset, or by an end that seems regular. */
  | { type: 'cut'; lines: number; by: 'reset' | 'end' };

export interface Seen {
  /** By `performance.now()`. */
  at: number;
  method: string;
  /** With query. */
  path: string;
  fault: Fault['type'] | undefined;
  /** What the server answered; undefined while it has not, or was not asked. */
  status: number | undefined;
}

export type Match = (request: Seen) => boolean;

export const isWatch: Match = ({ method, path }) => method === 'GET' && path.includes('watch=true');
export const isList: Match = (request) => request.method === 'GET' && !isWatch(request) && /[?&]limit=/.test(request.path);
export const isWrite: Match = ({ method }) => method !== 'GET';

export interface FaultProxy {
  /** Reaches the server through the proxy. */
  readonly connection: Connection & { server: string };
  readonly seen: readonly Seen[];
  /** The next requests that match, `times` of them, fare so. Earlier orders come first. */
  next(match: Match, fault: Fault, times?: number): void;
  /** Orders that nothing has met yet are forgotten. */
  clear(): void;
  /** Resets every connection. */
  resetAll(): void;
  /** Every existing connection stops in both directions and stays open. */
  stallAll(): void;
  /** What happens to new connections: `hang` accepts them and never sends anything, not even in the TLS handshake. */
  accept(how: 'all' | 'none' | 'hang'): void;
  close(): Promise<void>;
}

interface Pair {
  client: Socket;
  inner: Socket | undefined;
}

export interface ProxyOptions {
  /** Exchanges the bearer token that the client gave for the one that the server is shown. */
  token?: (given: string) => string;
}

async function listen(server: Server): Promise<number> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return (server.address() as AddressInfo).port;
}

export async function startProxy(upstream: Connection & { server: string }, options: ProxyOptions = {}): Promise<FaultProxy> {
  const authority = await createAuthority();
  const target = new URL(upstream.server);
  const agent = new Agent({ keepAlive: true, ...(upstream.ca === undefined ? {} : { ca: upstream.ca }) });
  const seen: Seen[] = [];
  const orders: { match: Match; fault: Fault; left: number }[] = [];
  /** By the port that the inner connection comes from, which is how the HTTP side knows it. */
  const pairs = new Map<number, Pair>();
  let accepting: 'all' | 'none' | 'hang' = 'all';
  const hanging = new Set<Socket>();

  function orderFor(request: Seen): Fault | undefined {
    const order = orders.find(({ left, match }) => left > 0 && match(request));
    if (order === undefined) return undefined;
    order.left--;
    return order.fault;
  }

  function resetOf(message: IncomingMessage): void {
    pairs.get(message.socket.remotePort ?? 0)?.client.resetAndDestroy();
    message.socket.destroy();
  }

  /** Asks the server; resolves with the head of its answer. */
  async function ask(message: IncomingMessage, body: Buffer, request: Seen): Promise<IncomingMessage> {
    const headers = { ...message.headers, host: target.host };
    const given = /^Bearer (.*)$/.exec(message.headers.authorization ?? '')?.[1];
    if (given !== undefined && options.token !== undefined) headers.authorization = `Bearer ${options.token(given)}`;
    const outgoing = httpsRequest({ agent, host: target.hostname, port: target.port, method: request.method, path: request.path, headers });
    outgoing.end(body);
    const [answer] = (await once(outgoing, 'response')) as [IncomingMessage];
    outgoing.on('error', () => undefined);
    answer.on('error', () => undefined);
    request.status = answer.statusCode;
    return answer;
  }

  async function relay(message: IncomingMessage, answer: IncomingMessage, out: ServerResponse, fault: Fault | undefined): Promise<void> {
    out.once('close', () => answer.destroy());
    out.writeHead(answer.statusCode ?? 502, answer.headers);
    out.flushHeaders();
    let lines = fault?.type === 'cut' ? fault.lines : Infinity;
    for await (const chunk of answer as AsyncIterable<Buffer>) {
      let from = 0;
      for (let end = chunk.indexOf(10); lines > 0 && end >= 0; end = chunk.indexOf(10, from)) {
        lines--;
        from = end + 1;
      }
      if (lines > 0 || fault?.type !== 'cut') {
        out.write(chunk);
        continue;
      }
      if (chunk.length - from < 2) {
        out.write(chunk.subarray(0, from));
        continue;
      }
      const rest = chunk.subarray(from);
      const whole = rest.indexOf(10) < 0 ? rest.length : rest.indexOf(10);
      out.write(chunk.subarray(0, from + Math.ceil(whole / 2)));
      // So that what was whole arrives: a reset may overtake it.
      await delay(20);
      if (fault.by === 'end') out.end();
      else resetOf(message);
      answer.destroy();
      return;
    }
    if (answer.complete) out.end();
    else resetOf(message);
  }

  async function serve(message: IncomingMessage, out: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of message as AsyncIterable<Buffer>) chunks.push(chunk);
    const body = Buffer.concat(chunks);
    const request: Seen = {
      at: performance.now(),
      method: message.method ?? '',
      path: message.url ?? '',
      fault: undefined,
      status: undefined,
    };
    seen.push(request);
    const fault = orderFor(request);
    request.fault = fault?.type;
    if (fault?.type === 'answer') {
      const { status, retryAfterSeconds } = fault;
      if (retryAfterSeconds !== undefined) out.setHeader('retry-after', retryAfterSeconds);
      out.writeHead(status, { 'content-type': 'text/plain' });
      out.end('the proxy refuses');
      return;
    }
    if (fault?.type === 'reset' || fault?.type === 'belated') resetOf(message);
    if (fault?.type === 'reset') return;
    if (fault?.type === 'belated' || fault?.type === 'delay') await delay(fault.ms);
    const answer = await ask(message, body, request);
    if (fault?.type === 'swallow' || fault?.type === 'mute' || fault?.type === 'belated') {
      // A watch is carried out when it is open.
      if (isWatch(request)) answer.destroy();
      else for await (const _ of answer);
      if (fault.type === 'swallow') resetOf(message);
      return;
    }
    await relay(message, answer, out, fault);
  }

  const identity = await authority.issue('fault proxy');
  const inner = createTlsServer({ ...identity, keepAliveTimeout: 90_000 }, (message, out) => {
    // The server went away, or the client did.
    serve(message, out).catch(() => resetOf(message));
  });
  inner.on('tlsClientError', () => undefined);
  const innerPort = await listen(inner);

  const front = createServer({ noDelay: true }, (client) => {
    client.on('error', () => undefined);
    if (accepting === 'none') {
      client.resetAndDestroy();
      return;
    }
    if (accepting === 'hang') {
      hanging.add(client);
      client.once('close', () => hanging.delete(client));
      client.resume();
      return;
    }
    const pair: Pair = { client, inner: undefined };
    const socket = connect({ port: innerPort, host: '127.0.0.1', noDelay: true });
    pair.inner = socket;
    socket.on('error', () => undefined);
    socket.once('connect', () => {
      const port = socket.localPort ?? 0;
      pairs.set(port, pair);
      socket.once('close', () => {
        pairs.delete(port);
        client.destroy();
      });
    });
    client.once('close', () => socket.destroy());
    client.pipe(socket).pipe(client);
  });
  const port = await listen(front);

  return {
    connection: { ...upstream, server: `https://127.0.0.1:${port}${target.pathname.replace(/\/+$/, '')}`, ca: authority.ca },
    seen,
    next: (match, fault, times = 1) => void orders.push({ match, fault, left: times }),
    clear: () => void orders.splice(0),
    resetAll() {
      for (const { client } of pairs.values()) client.resetAndDestroy();
      for (const client of hanging) client.resetAndDestroy();
    },
    stallAll() {
      for (const { client, inner: other } of pairs.values()) {
        client.unpipe();
        other?.unpipe();
        client.pause();
        other?.pause();
      }
    },
    accept(how) {
      accepting = how;
    },
    async close() {
      front.close();
      for (const { client } of pairs.values()) client.destroy();
      for (const client of hanging) client.destroy();
      inner.closeAllConnections();
      await new Promise<void>((resolve) => inner.close(() => resolve()));
      agent.destroy();
    },
  };
}
