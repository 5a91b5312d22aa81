import { once } from 'node:events';
import { createServer } from 'node:http';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, expect, test, vi } from 'vitest';
import { createAuthority, serveTls } from '../../kube/testing/tls.ts';
import { leadsInside, lookupOutside, nodeNetwork, redirected } from './network.ts';
import type { Download } from './network.ts';

const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

async function serve(handle: (request: IncomingMessage, response: ServerResponse) => void): Promise<string> {
  const server: Server = createServer(handle).listen(0, '127.0.0.1');
  await once(server, 'listening');
  closing.push(async () => {
    server.closeAllConnections();
    server.close();
    await once(server, 'close');
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

async function text({ body }: Download): Promise<string> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of body) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}

const { signal } = new AbortController();

test('bytes are had from where they are asked for', async () => {
  const url = await serve((request, response) => {
    const from = Number(/bytes=(\d+)-/.exec(request.headers.range ?? '')?.[1] ?? 0);
    response.writeHead(from === 0 ? 200 : 206, from === 0 ? {} : { 'content-range': `bytes ${from}-9/10` }).end('0123456789'.slice(from));
  });
  const network = nodeNetwork();
  const whole = await network.download(`${url}/x`, 0, signal);
  expect([whole.status, whole.from, await text(whole)]).toEqual([200, 0, '0123456789']);
  const rest = await network.download(`${url}/x`, 4, signal);
  expect([rest.status, rest.from, await text(rest)]).toEqual([206, 4, '456789']);
});

test('redirects are followed, but never to where an artifact may not come from', async () => {
  const url = await serve((request, response) => {
    const location = { '/a': '/b', '/away': 'http://example.com/x', '/loop': '/loop' }[request.url ?? ''];
    response.writeHead(location === undefined ? 200 : 302, location === undefined ? {} : { location }).end('here');
  });
  const network = nodeNetwork();
  expect(await text(await network.download(`${url}/a`, 0, signal))).toBe('here');
  await expect(network.download(`${url}/away`, 0, signal)).rejects.toMatchObject({ code: 'UrlRefused' });
  await expect(network.download(`${url}/loop`, 0, signal)).rejects.toMatchObject({ code: 'UrlRefused' });
});

test.each([
  ['https://a/x', 'https://b/y', true],
  ['https://a/x', '/y', true],
  ['http://127.0.0.1:1/x', '/y', false],
  ['http://127.0.0.1:1/x', 'https://localhost/y', false],
  ['http://127.0.0.1:1/x', 'https://b/y', false],
  ['https://a/x', 'https://10.1.2.3/y', true],
])('from %s to %s is followed', (from, location, outside) => {
  expect(redirected(new URL(from), location, outside).href).toBe(new URL(location, from).href);
});

test.each([
  ['https://a/x', 'http://127.0.0.1:10250/y', true, 'https only'],
  ['https://localhost/x', 'http://127.0.0.1/y', false, 'https only'],
  ['https://a/x', 'http://b/y', true, 'https'],
  ['https://a/x', 'https://127.0.0.1/y', true, 'this node'],
  ['https://a/x', 'https://localhost./y', true, 'this node'],
  ['https://a/x', 'https://0x7f.1/y', true, 'this node'],
  ['https://a/x', 'https://[::1]/y', true, 'this node'],
  ['https://a/x', 'https://[::ffff:127.0.0.1]/y', true, 'this node'],
  ['https://a/x', 'https://169.254.169.254/latest/meta-data', true, 'metadata'],
  ['https://a/x', 'https://[fd00:ec2::254]/latest', true, 'metadata'],
  ['https://a/x', 'https://metadata.google.internal/', true, 'metadata'],
  ['https://a/x', '//[fe80::1]/y', true, 'this node'],
  ['https://a/x', 'https://[', true, 'no URL'],
  ['https://a/x', 'file:///etc/passwd', true, 'refused'],
])('security 7: from %s to %s is refused', (from, location, outside, message) => {
  expect(() => redirected(new URL(from), location, outside)).toThrow(
    expect.objectContaining({ code: 'UrlRefused', message: expect.stringContaining(message) }),
  );
});

test.each(['mirror.example', '10.0.0.1', '192.168.1.1', '8.8.8.8', '2001:db8::1', 'fd12::1', '::ffff:10.0.0.1'])(
  '%s is elsewhere',
  (host) => {
    expect(leadsInside(host)).toBe(false);
  },
);

test('security 7: a name that leads to this node is refused where a redirect names it', async () => {
  // One that asks for an address of its own is resolved in the same way.
  const answer = (hostname: string, all: boolean): Promise<unknown> =>
    new Promise((resolve) => lookupOutside(hostname, { all }, (error, address) => resolve(error ?? address)));
  for (const all of [true, false]) expect(await answer('localhost', all)).toMatchObject({ code: 'UrlRefused' });
  expect(await answer('127.0.0.1', false)).toMatchObject({ code: 'UrlRefused' });
  expect(await answer('192.0.2.1', false)).toBe('192.0.2.1');
  expect(await answer('192.0.2.1', true)).toEqual([{ address: '192.0.2.1', family: 4 }]);
});

test('security 7: what comes from elsewhere follows no redirect to this node, by its address or by a name', async () => {
  // What a name service answers is its own: here that this name leads to this node.
  const dns = process.getBuiltinModule('node:dns');
  const lookup = vi
    .spyOn(dns, 'lookup')
    .mockImplementation(((_name: string, _options: object, callback: (...args: unknown[]) => void) =>
      callback(null, [{ address: '127.0.0.1', family: 4 }])) as typeof dns.lookup);
  closing.push(() => Promise.resolve(lookup.mockRestore()));
  const authority = await createAuthority();
  const met: string[] = [];
  const server = await serveTls(await authority.issue('mirror', { names: ['mirror.example'] }), (request, response) => {
    const path = request.url ?? '';
    met.push(path);
    const to = { '/address': `${server.url}/secret`, '/name': `${elsewhere}/secret`, '/plain': 'http://127.0.0.1:1/secret' }[path];
    response.writeHead(to === undefined ? 200 : 302, to === undefined ? {} : { location: to }).end('a secret');
  });
  closing.push(() => server.close());
  const elsewhere = `https://mirror.example:${new URL(server.url).port}`;
  const network = nodeNetwork({ authority: { ca: authority.ca, origin: elsewhere } });
  for (const path of ['/address', '/name', '/plain'])
    await expect(network.download(`${elsewhere}${path}`, 0, signal)).rejects.toMatchObject({ code: 'UrlRefused' });
  expect(met).toEqual(['/address', '/name', '/plain']);
});

test.each(['http://example.com/x', 'ftp://127.0.0.1/x', 'file:///etc/passwd', 'nothing'])('%s is refused', async (url) => {
  await expect(nodeNetwork().download(url, 0, signal)).rejects.toMatchObject({ code: 'UrlRefused' });
});

test('the cell’s authority vouches for its own mirror and for no other server', async () => {
  const authority = await createAuthority();
  const server = await serveTls(await authority.issue('mirror'), (_request, response) => void response.end('trusted'));
  closing.push(() => server.close());
  const ours = nodeNetwork({ authority: { ca: authority.ca, origin: server.url } });
  expect(await text(await ours.download(`${server.url}/x`, 0, signal))).toBe('trusted');
  await expect(
    nodeNetwork({ authority: { ca: authority.ca, origin: 'https://other' } }).download(`${server.url}/x`, 0, signal),
  ).rejects.toMatchObject({
    code: expect.stringMatching(/CERT|SIGNATURE/),
  });
});

test('a server that stops responding is not waited for', async () => {
  const url = await serve((_request, response) => void response.writeHead(200).write('begun'));
  const download = await nodeNetwork({ idleTimeoutMs: 50 }).download(`${url}/x`, 0, signal);
  await expect(text(download)).rejects.toThrow(/50 ms|aborted/);
});

test('the status counts, not the body that comes with it', async () => {
  const url = await serve((request, response) => void response.writeHead(request.url === '/healthz' ? 204 : 503).end());
  expect(await nodeNetwork().status(`${url}/healthz`, signal)).toBe(204);
  expect(await nodeNetwork().status(`${url}/else`, signal)).toBe(503);
  await expect(nodeNetwork().status('http://127.0.0.1:1/', signal)).rejects.toThrow(/ECONNREFUSED/);
});
