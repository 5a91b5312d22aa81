/** What strangers, and clients that mean no good, can take of the listener. */
import { connect, type TLSSocket } from 'node:tls';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openCluster, type EmbeddedCluster } from '../cluster.ts';
import { systemClock } from '../testing/system-clock.ts';
import { MAPS } from '../testing/widgets.ts';
import { serve, type ApiServer, type ServeLimits } from './serve.ts';

let cluster: EmbeddedCluster;
let server: ApiServer;
let sockets: Connection[];

beforeEach(async () => {
  cluster = await openCluster({ name: 'hub', state: 'memory', clock: systemClock });
  sockets = [];
});

afterEach(async () => {
  for (const { socket } of sockets) socket.destroy();
  await server.close();
  await cluster.close();
});

interface Connection {
  readonly socket: TLSSocket;
  /** All that it was sent. */
  readonly received: () => string;
  readonly closed: Promise<void>;
}

async function listen(limits: Partial<ServeLimits> = {}): Promise<void> {
  server = await serve({ clusters: [cluster], listen: '127.0.0.1:0', state: 'memory', clock: systemClock, limits });
}

async function open(): Promise<Connection> {
  let text = '';
  const socket = connect({ host: '127.0.0.1', port: server.port, ca: server.authority });
  socket.on('error', () => undefined);
  socket.setEncoding('utf8');
  socket.on('data', (chunk: string) => (text += chunk));
  const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()));
  const connection = { socket, received: () => text, closed };
  sockets.push(connection);
  await Promise.race([new Promise<void>((resolve) => socket.once('secureConnect', () => resolve())), closed]);
  return connection;
}

const post = (length: number, token?: string): string =>
  `POST /clusters/hub${MAPS} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: ${length}\r\n${token === undefined ? '' : `authorization: Bearer ${token}\r\n`}\r\n`;

const MEBIBYTE = 1024 * 1024;

async function until(what: string, condition: () => boolean): Promise<void> {
  const deadline = performance.now() + 10_000;
  while (!condition()) {
    if (performance.now() > deadline) throw new Error(`not within 10 s: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

describe('security 8: the listener', () => {
  it('refuses a stranger before anything of the body is there, and keeps nothing of it', async () => {
    await listen();
    const strangers = await Promise.all(Array.from({ length: 20 }, open));
    for (const { socket } of strangers) socket.write(post(3 * MEBIBYTE));
    await until('all are refused', () => strangers.every(({ received }) => received().startsWith('HTTP/1.1 401')));
    await Promise.all(strangers.map(({ closed }) => closed));
  });

  it('limits the bodies of all requests together, and asks who finds no room to come again', async () => {
    await listen({ bodiesBytes: 4 * MEBIBYTE });
    const first = await open();
    first.socket.write(post(3 * MEBIBYTE, cluster.adminToken) + 'x'.repeat(2 * MEBIBYTE));
    const second = await open();
    await until('there is no room', () => {
      second.socket.write(post(3 * MEBIBYTE, cluster.adminToken));
      return second.received() !== '' || second.socket.destroyed;
    });
    expect(second.received()).toMatch(/^HTTP\/1\.1 429[\s\S]*retry-after: 1/);
    // Who has the room gets an answer, and the room is free again.
    first.socket.write('x'.repeat(MEBIBYTE));
    await until('the first is answered', () => first.received().startsWith('HTTP/1.1 400'));
    const third = await open();
    third.socket.write(`${post(2, cluster.adminToken)}{}`);
    await until('the third is answered', () => third.received().startsWith('HTTP/1.1 4'));
    expect(third.received()).not.toMatch(/^HTTP\/1\.1 429/);
  });

  it('refuses a body whose declared length is too large', async () => {
    await listen();
    const { socket, received } = await open();
    socket.write(post(3 * MEBIBYTE + 1, cluster.adminToken));
    await until('it is refused', () => received().startsWith('HTTP/1.1 413'));
  });

  it('takes no more connections than its limit', async () => {
    await listen({ connections: 2 });
    const [first] = [await open(), await open()];
    const third = await open();
    await third.closed;
    first.socket.write('GET /readyz HTTP/1.1\r\nhost: x\r\n\r\n');
    await until('the first is served', () => first.received().startsWith('HTTP/1.1 200'));
  });

  it('does not wait for a head or a body that does not come', async () => {
    await listen({ headMs: 300, requestMs: 600 });
    const declared = await open();
    const halfHead = await open();
    halfHead.socket.write('GET /readyz HTTP/1.1\r\n');
    const halfBody = await open();
    halfBody.socket.write(`${post(100, cluster.adminToken)}{`);
    await Promise.all([declared.closed, halfHead.closed, halfBody.closed]);
    expect(halfHead.received()).toMatch(/^HTTP\/1\.1 408/);
  });
});
