/** A way to an API server on which a test can stop what passes: one write on its way there, or the answer to it on its way back. */
import { createServer, request as send, Agent, type Server } from 'node:https';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { makeAuthority, makeServerCertificate } from '@kubenode/embedded/pki';
import type { Connection } from '../../src/kube/connect.ts';

export interface Write {
  readonly method: string;
  readonly path: string;
  /** Of the JSON body; undefined where there is none. */
  readonly body: unknown;
  /** When it arrived, by performance.now(). */
  readonly at: number;
  /** Set once the API server has answered. */
  status?: number;
}

export interface PausedWrite {
  /** Resolves with the write that is stopped. */
  readonly reached: Promise<Write>;
  /** Lets it go on, and everything like it. */
  pass(): void;
}

export interface Gate {
  readonly server: string;
  /** PEM. */
  readonly authority: string;
  readonly writes: readonly Write[];
  /** Paths that were asked for, each once. */
  readonly read: ReadonlySet<string>;
  /** Stops the next write for which `is` is true, once: before it is forwarded, or after the API server answered. */
  pauseNext(where: 'request' | 'answer', is: (write: Write) => boolean): PausedWrite;
  /** No request gets through while `during` runs, and what was open is cut. */
  cut(during: () => Promise<void>): Promise<void>;
  close(): Promise<void>;
}

interface Pause {
  readonly where: 'request' | 'answer';
  readonly is: (write: Write) => boolean;
  readonly reach: (write: Write) => void;
  readonly passed: Promise<void>;
  taken: boolean;
}

const parsed = (text: string): unknown => {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
};

export async function openGate(connection: Connection): Promise<Gate> {
  const making = () => ({ now: Date.now(), random: Math.random });
  const authority = await makeAuthority('gate', making());
  const serving = await makeServerCertificate(authority, making());
  const upstream = new URL(connection.server);
  const agent = new Agent({ keepAlive: true, ca: connection.ca });
  const writes: Write[] = [];
  const read = new Set<string>();
  const pauses: Pause[] = [];
  let isCut = false;

  async function pauseAt(where: Pause['where'], write: Write): Promise<void> {
    const found = pauses.find((hold) => !hold.taken && hold.where === where && hold.is(write));
    if (found === undefined) return;
    found.taken = true;
    found.reach(write);
    await found.passed;
  }

  function forward(from: IncomingMessage, body: Buffer): Promise<IncomingMessage> {
    return new Promise((resolve, reject) => {
      const { host: _, connection: __, ...headers } = from.headers;
      const to = send({ host: upstream.hostname, port: upstream.port, path: from.url, method: from.method, headers, agent }, resolve);
      to.once('error', reject);
      // A read ends with its client; a write that is under way goes on without its sender.
      if (from.method === 'GET') from.once('close', () => to.destroy());
      to.end(body);
    });
  }

  async function answer(from: IncomingMessage, to: ServerResponse): Promise<void> {
    const body = await buffer(from);
    if (from.method === 'GET') {
      read.add((from.url ?? '').split('?')[0] ?? '');
      const found = await forward(from, body);
      to.writeHead(found.statusCode ?? 502, found.headers);
      to.once('close', () => found.destroy());
      found.once('error', () => to.destroy()).pipe(to);
      return;
    }
    const write: Write = {
      method: from.method ?? '',
      path: (from.url ?? '').split('?')[0] ?? '',
      body: parsed(body.toString()),
      at: performance.now(),
    };
    writes.push(write);
    await pauseAt('request', write);
    const found = await forward(from, body);
    const answer = await buffer(found);
    write.status = found.statusCode ?? 502;
    await pauseAt('answer', write);
    if (to.destroyed) return;
    to.writeHead(write.status, found.headers).end(answer);
  }

  const server: Server = createServer({ cert: serving.certificate, key: serving.key }, (from, to) => {
    to.once('error', () => undefined);
    if (isCut) from.socket.destroy();
    else answer(from, to).catch(() => to.destroy());
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(0, '127.0.0.1', resolve);
  });
  const { port } = server.address() as AddressInfo;
  return {
    server: `https://127.0.0.1:${port}${upstream.pathname === '/' ? '' : upstream.pathname}`,
    authority: authority.certificate,
    writes,
    read,
    pauseNext(where, is) {
      const reached = Promise.withResolvers<Write>();
      const passed = Promise.withResolvers<void>();
      pauses.push({ where, is, reach: reached.resolve, passed: passed.promise, taken: false });
      return { reached: reached.promise, pass: () => passed.resolve() };
    },
    async cut(during) {
      isCut = true;
      server.closeAllConnections();
      // The connections behind it belong to a server that may be started again.
      agent.destroy();
      try {
        await during();
      } finally {
        isCut = false;
      }
    },
    async close() {
      server.closeAllConnections();
      await new Promise<void>((resolve) => server.close(() => resolve()));
      agent.destroy();
    },
  };
}
