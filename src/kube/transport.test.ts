import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer, type AddressInfo } from 'node:net';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { Nodes } from '../api/builtin.ts';
import type { ApiRequest } from '../api/transport.ts';
import type { ClosableTransport, Connection, TransportOptions } from './connect.ts';
import { createClient } from './http-client.ts';
import { nodeHttpsTransport } from './https-transport.ts';
import { httpTransport } from './http-transport.ts';
import { rejection } from './testing/rejection.ts';
import { createAuthority, serveTls } from './testing/tls.ts';
import type { Authority, Identity, TlsServer } from './testing/tls.ts';
import { waitFor } from './testing/wait-for.ts';

let authority: Authority;
let identity: Identity;
beforeAll(async () => {
  authority = await createAuthority();
  identity = await authority.issue('server');
});

async function text(transport: ClosableTransport, request: Partial<ApiRequest> = {}): Promise<string> {
  const response = await transport({ method: 'GET', path: '/', ...request });
  const chunks: Uint8Array[] = [];
  for await (const chunk of response.body) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}

type Handle = (request: IncomingMessage, response: ServerResponse) => void;

describe.each([
  ['undici', httpTransport],
  ['node:https', nodeHttpsTransport],
] as const)('the transport over %s', (_name, create) => {
  let server: TlsServer;
  let handle: Handle;
  let sockets = 0;
  const transports: ClosableTransport[] = [];

  beforeAll(async () => {
    server = await serveTls(identity, (request, response) => handle(request, response), { clientCa: authority.ca });
    server.server.on('secureConnection', () => sockets++);
  });
  afterEach(async () => {
    await Promise.all(transports.splice(0).map((transport) => transport.close()));
    sockets = 0;
  });
  afterAll(() => server.close());

  function connect(connection: Partial<Connection> = {}, options?: TransportOptions): ClosableTransport {
    const transport = create({ server: server.url, ca: authority.ca, ...connection }, options);
    transports.push(transport);
    return transport;
  }

  test('a request that is aborted while the TLS handshake hangs ends at once, and its connection with it', async () => {
    let open = 0;
    const unresponsive = createServer((socket) => {
      open++;
      socket.on('error', () => undefined).once('close', () => open--);
      socket.resume();
    });
    await new Promise<void>((resolve) => unresponsive.listen(0, '127.0.0.1', resolve));
    const { port } = unresponsive.address() as AddressInfo;
    const transport = connect({ server: `https://127.0.0.1:${port}` });
    const aborted = new AbortController();
    const error = rejection(transport({ method: 'GET', path: '/', signal: aborted.signal }));
    await waitFor(() => open === 1);
    aborted.abort(new Error('given up'));
    expect(await error).toMatchObject({ message: 'given up' });
    await waitFor(() => open === 0);
    await new Promise((resolve) => unresponsive.close(resolve));
  });

  test('method, prefix, path, query, headers, token and body arrive; status, headers and body come back', async () => {
    handle = (request, response) => {
      const chunks: Buffer[] = [];
      request.on('data', (chunk: Buffer) => chunks.push(chunk));
      request.on('end', () => {
        const { authorization, 'x-test': test } = request.headers;
        response.writeHead(418, { 'Retry-After': '3' });
        response.end(JSON.stringify([request.method, request.url, authorization, test, Buffer.concat(chunks).toString()]));
      });
    };
    const transport = connect({ server: `${server.url}/clusters/blue/`, token: () => Promise.resolve('secret') });
    const response = await transport({
      method: 'PATCH',
      path: '/api/v1/nodes/a%2Fb',
      query: { fieldManager: 'x y', force: 'true' },
      headers: { 'x-test': '1' },
      body: '{"ü":1}',
    });
    expect(response.status).toBe(418);
    expect(response.headers['retry-after']).toBe('3');
    const chunks: Uint8Array[] = [];
    for await (const chunk of response.body) chunks.push(chunk);
    expect(JSON.parse(Buffer.concat(chunks).toString())).toEqual([
      'PATCH',
      '/clusters/blue/api/v1/nodes/a%2Fb?fieldManager=x+y&force=true',
      'Bearer secret',
      '1',
      '{"ü":1}',
    ]);
  });

  test('a DELETE may have a body, and the next request is another one', async () => {
    handle = (request, response) => {
      const chunks: Buffer[] = [];
      request.on('data', (chunk: Buffer) => chunks.push(chunk));
      request.on('end', () => response.end(`${request.method} ${Buffer.concat(chunks).toString()}`));
    };
    const transport = connect();
    for (let i = 0; i < 3; i++)
      expect(await text(transport, { method: 'DELETE', body: '{"kind":"DeleteOptions"}' })).toBe('DELETE {"kind":"DeleteOptions"}');
    expect(await text(transport, { method: 'POST', body: new TextEncoder().encode('ü') })).toBe('POST ü');
  });

  test('requests one after another share a connection', async () => {
    handle = (_request, response) => response.end('{}');
    const transport = connect();
    for (let i = 0; i < 20; i++) await text(transport);
    // undici takes a second one when a request comes in the very tick in which the first becomes free.
    expect(sockets).toBeLessThanOrEqual(2);
  });

  test('a watch of its own connection does not delay other requests', async () => {
    handle = (request, response) => (request.url?.includes('watch') ? void response.write('{"a":1}\n') : response.end('fine'));
    const transport = connect();
    const controller = new AbortController();
    const watch = await transport({ method: 'GET', path: '/', query: { watch: 'true' }, signal: controller.signal });
    const iterator = watch.body[Symbol.asyncIterator]();
    expect(Buffer.from((await iterator.next()).value as Uint8Array).toString()).toBe('{"a":1}\n');
    expect(await text(transport)).toBe('fine');
    controller.abort(new Error('enough'));
    await expect(iterator.next()).rejects.toThrow('enough');
  });

  test('a server whose certificate is of another authority, or for another name, is refused', async () => {
    handle = (_request, response) => response.end('{}');
    const other = await createAuthority();
    await expect(text(connect({ ca: other.ca }))).rejects.toThrow(
      `${server.url}: its certificate is not of the authority that the kubeconfig names (`,
    );
    await expect(text(connect({ tlsServerName: 'elsewhere.example' }))).rejects.toThrow(
      `${server.url}: its certificate is not for elsewhere.example`,
    );
    process.env['NODE_TLS_REJECT_UNAUTHORIZED'] = '0';
    try {
      await expect(text(connect({ ca: other.ca }))).rejects.toThrow(/certificate/);
    } finally {
      delete process.env['NODE_TLS_REJECT_UNAUTHORIZED'];
    }
  });

  test('a client certificate is presented', async () => {
    const client = await authority.issue('kubenode:machine:web:a');
    handle = (request, response) => {
      const { subject } = (request.socket as unknown as { getPeerCertificate(): { subject?: { CN: string } } }).getPeerCertificate();
      response.end(subject?.CN ?? 'anonymous');
    };
    expect(await text(connect({ clientCert: client.cert, clientKey: client.key }))).toBe('kubenode:machine:web:a');
    expect(await text(connect())).toBe('anonymous');
  });

  test('plain http, half a client certificate and nonsense are refused before anything is sent', () => {
    expect(() => create({ server: 'http://127.0.0.1:1', token: 't' })).toThrow('not reached over https');
    expect(() => create({ server: 'https://127.0.0.1:1', clientCert: 'x' })).toThrow('given together');
    expect(() => create({ server: 'nonsense' })).toThrow('"nonsense" is not a URL');
  });

  test('common network errors have a sentence with the address', async () => {
    const asked = (server: string): Promise<string> => {
      const transport = create({ server });
      transports.push(transport);
      return text(transport);
    };
    await expect(asked('https://127.0.0.1:1')).rejects.toThrow('https://127.0.0.1:1: nothing listens there (ECONNREFUSED)');
    await expect(asked('https://nowhere.invalid:6443')).rejects.toThrow('the name nowhere.invalid is not found (');
    await expect(asked(server.url)).rejects.toThrow('is not of an authority that this machine trusts, and the kubeconfig names none');
    const plain = createServer(
      (socket) =>
        void socket
          .on('error', () => undefined)
          .resume()
          .end('HTTP/1.1 400 Bad Request\r\n\r\n'),
    );
    await new Promise<void>((resolve) => plain.listen(0, '127.0.0.1', resolve));
    const { port } = plain.address() as AddressInfo;
    await expect(asked(`https://127.0.0.1:${port}`)).rejects.toThrow(`https://127.0.0.1:${port}: what listens there does not speak TLS (`);
    await new Promise((resolve) => plain.close(resolve));
  });

  test('a refused connection and a reset are rejections, Unreachable to the client', async () => {
    await expect(createClient(connect({ server: 'https://127.0.0.1:1' })).get(Nodes, { name: 'a' })).rejects.toMatchObject({
      code: 'Unreachable',
    });
    handle = (request) => request.socket.destroy();
    await expect(createClient(connect()).create(Nodes, { apiVersion: 'v1', kind: 'Node', metadata: { name: 'a' } })).rejects.toMatchObject({
      code: 'Unreachable',
    });
  });

  test('a body that breaks off is a rejection of its reader', async () => {
    handle = (request, response) => {
      response.writeHead(200, { 'content-length': '100' });
      response.write('half');
      setImmediate(() => request.socket.destroy());
    };
    await expect(text(connect())).rejects.toBeInstanceOf(Error);
  });

  test('an answer that never begins, and one that stops in the middle, are given up', async () => {
    handle = () => undefined;
    await expect(text(connect({}, { idleTimeoutMs: 50 }))).rejects.toBeInstanceOf(Error);
    handle = (_request, response) => void response.write('half');
    await expect(text(connect({}, { idleTimeoutMs: 50 }))).rejects.toBeInstanceOf(Error);
  });

  test('answers before the answer may be some, and not without end', async () => {
    let hints = 3;
    handle = (_request, response) => {
      const send = (): void => {
        if (response.destroyed) return;
        if (hints-- > 0) response.writeEarlyHints({ link: '</a>; rel=preload' }, send);
        else response.end('answer');
      };
      send();
    };
    const transport = connect();
    expect(await text(transport)).toBe('answer');
    hints = 1e6;
    await expect(createClient(transport).get(Nodes, { name: 'a' })).rejects.toMatchObject({ code: 'AnswerTooLarge' });
    expect(hints).toBeGreaterThan(1e5);
    hints = 0;
    expect(await text(transport)).toBe('answer');
  });

  test('a watch may send nothing', async () => {
    let later: ServerResponse | undefined;
    handle = (_request, response) => {
      later = response;
      response.flushHeaders();
    };
    const transport = connect({}, { idleTimeoutMs: 30 });
    const response = await transport({ method: 'GET', path: '/', query: { watch: 'true' } });
    // Its reader waits already: a body without a reader is not timed.
    const chunks: string[] = [];
    const read = (async () => {
      for await (const chunk of response.body) chunks.push(Buffer.from(chunk).toString());
    })();
    const begun = performance.now();
    await waitFor(() => performance.now() - begun > 300);
    later?.end('still here\n');
    await read;
    expect(chunks).toEqual(['still here\n']);
  });

  test('an abort ends a request with its own reason, before, during and after it is sent', async () => {
    let arrived = 0;
    handle = () => void arrived++;
    const aborted = AbortSignal.abort(new Error('before'));
    await expect(text(connect(), { signal: aborted })).rejects.toThrow('before');
    expect(arrived).toBe(0);
    const controller = new AbortController();
    const outcome = text(connect(), { signal: controller.signal }).catch((error: unknown) => error);
    await waitFor(() => arrived === 1);
    controller.abort(new Error('during'));
    expect(await outcome).toMatchObject({ message: 'during' });
  });

  test('a body without a reader that breaks does not affect other requests', async () => {
    handle = (request, response) => {
      response.write('some');
      setImmediate(() => request.socket.destroy());
    };
    const response = await connect()({ method: 'GET', path: '/', query: { watch: 'true' } });
    await waitFor(() => new Promise((resolve) => server.server.getConnections((_error, count) => resolve(count === 0))));
    expect(response.status).toBe(200);
    await expect(
      response.body[Symbol.asyncIterator]()
        .next()
        .then(() => response.body[Symbol.asyncIterator]().next()),
    ).rejects.toBeInstanceOf(Error);
  });

  test('leaving the body of a watch closes its connection', async () => {
    let closed = false;
    handle = (request, response) => {
      response.write('a\n');
      request.on('close', () => (closed = true));
    };
    const response = await connect()({ method: 'GET', path: '/', query: { watch: 'true' } });
    const iterator = response.body[Symbol.asyncIterator]();
    await iterator.next();
    await iterator.return?.();
    expect(await waitFor(() => closed)).toBe(true);
  });

  test('a server that closes idle connections costs no failed read', async () => {
    handle = (_request, response) => response.end('{}');
    const transport = connect();
    for (let i = 0; i < 5; i++) {
      await text(transport);
      server.server.closeIdleConnections();
    }
    expect(sockets).toBeGreaterThan(1);
  });

  test('after close no request is sent', async () => {
    const transport = connect();
    await transport.close();
    await transport.close();
    await expect(text(transport)).rejects.toThrow('closed');
  });
});

test('transports of one identity share their connections, until the last is closed', async () => {
  let sockets = 0;
  const server = await serveTls(identity, (_request, response) => response.end('{}'));
  server.server.on('secureConnection', () => sockets++);
  const one = httpTransport({ server: `${server.url}/clusters/one`, ca: authority.ca });
  const two = httpTransport({ server: `${server.url}/clusters/two`, ca: authority.ca });
  for (let i = 0; i < 10; i++) await text(i % 2 === 0 ? one : two);
  await one.close();
  for (let i = 0; i < 10; i++) await text(two);
  expect(sockets).toBeLessThanOrEqual(2);
  await two.close();
  await waitFor(() => new Promise((resolve) => server.server.getConnections((_error, count) => resolve(count === 0))));
  await server.close();
});

test('a transport over node:https that is retired sends nothing more, ends idle connections, and lets what is under way end', async () => {
  let answer: (() => void) | undefined;
  const open = new Set<unknown>();
  const server = await serveTls(identity, (request, response) => {
    if (request.url === '/slow') answer = () => void response.end('slow');
    else response.end('quick');
  });
  server.server.on('secureConnection', (socket) => void open.add(socket.once('close', () => open.delete(socket))));
  const transport = nodeHttpsTransport({ server: server.url, ca: authority.ca });
  const slow = text(transport, { path: '/slow' });
  await waitFor(() => answer !== undefined);
  expect(await text(transport)).toBe('quick');
  await waitFor(() => open.size === 2);
  transport.retire();
  await expect(text(transport)).rejects.toThrow('closed');
  await waitFor(() => open.size === 1);
  answer?.();
  expect(await slow).toBe('slow');
  await waitFor(() => open.size === 0);
  await server.close();
});
