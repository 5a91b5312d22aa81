import { request as httpsRequest, Agent } from 'node:https';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import type { JsonObject } from '@kubenode/api-machinery/wire';
import { openCluster, type EmbeddedCluster } from '../cluster.ts';
import { makeRequestAndKey } from '../testing/csr.ts';
import { Api, pick, text } from '../testing/rig.ts';
import { systemClock } from '../testing/system-clock.ts';
import { configMap, MAPS } from '../testing/widgets.ts';
import { parseListen } from './listen.ts';
import { serve, type ApiServer } from './serve.ts';

let root: string;
let clusters: EmbeddedCluster[];
let servers: ApiServer[];

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'embedded-serve-'));
  clusters = [];
  servers = [];
});

afterEach(async () => {
  for (const server of servers) await server.close();
  for (const cluster of clusters) await cluster.close();
  rmSync(root, { recursive: true });
});

async function open(...names: string[]): Promise<void> {
  for (const name of names) clusters.push(await openCluster({ name, state: 'memory', clock: systemClock }));
}

async function listen(options: Partial<Parameters<typeof serve>[0]> = {}): Promise<ApiServer> {
  const server = await serve({ clusters, listen: '127.0.0.1:0', state: { dir: root }, clock: systemClock, ...options });
  servers.push(server);
  return server;
}

interface Sent {
  readonly status: number;
  readonly body: string;
  readonly reused: boolean;
}

interface Options {
  readonly method?: string;
  readonly headers?: Record<string, string>;
  readonly body?: string;
  readonly cert?: string;
  readonly key?: string;
  readonly agent?: Agent;
}

function send(server: ApiServer, path: string, { method = 'GET', headers = {}, body, ...tls }: Options = {}): Promise<Sent> {
  return new Promise((resolve, reject) => {
    const sent = httpsRequest(`${server.url}${path}`, { method, headers, ca: server.authority, ...tls }, (response) => {
      let text = '';
      response.setEncoding('utf8');
      response.on('data', (chunk: string) => (text += chunk));
      response.on('end', () => resolve({ status: response.statusCode ?? 0, body: text, reused: sent.reusedSocket }));
      response.on('error', reject);
    });
    sent.on('error', reject);
    sent.end(body);
  });
}

/** Waits for what comes over sockets: by a deadline, not by turns, which pass sooner than bytes on a busy machine. */
async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  const deadline = performance.now() + 10_000;
  while (!(await condition())) {
    if (performance.now() > deadline) throw new Error('not within 10 s');
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

const admin = (cluster: EmbeddedCluster | undefined) => ({ authorization: `Bearer ${cluster?.adminToken ?? ''}` });
const REVIEW = '/apis/authentication.k8s.io/v1/selfsubjectreviews';

describe('an address to listen on', () => {
  it.each([
    ['127.0.0.1:8443', { host: '127.0.0.1', port: 8443 }],
    ['localhost:0', { host: '127.0.0.1', port: 0 }],
    ['[::1]:1', { host: '::1', port: 1 }],
  ])('may be %s', (listen, expected) => {
    expect(parseListen(listen)).toEqual(expected);
  });

  it.each([
    ['0.0.0.0:8443', 'NotLoopback'],
    ['192.168.1.7:8443', 'NotLoopback'],
    ['[::]:8443', 'NotLoopback'],
    ['example.com:8443', 'NotLoopback'],
    ['8443', 'BadListen'],
    ['127.0.0.1', 'BadListen'],
    ['127.0.0.1:99999', 'BadListen'],
    [':8443', 'BadListen'],
  ])('may not be %s', (listen, code) => {
    expect(() => parseListen(listen)).toThrow(expect.objectContaining({ code }));
  });
});

describe('the server', () => {
  it('hosts many clusters under their names, each with its own objects and tokens', async () => {
    await open('hub', 'cell-a', 'cell-b');
    const server = await listen();
    const [hub, a] = clusters;
    const path = `/clusters/cell-a${MAPS}`;
    const made = await send(server, path, {
      method: 'POST',
      headers: { ...admin(a), 'content-type': 'application/json' },
      body: JSON.stringify(configMap('c')),
    });
    expect(made.status).toBe(201);
    expect((await send(server, `${path}/c`, { headers: admin(a) })).status).toBe(200);
    expect((await send(server, `/clusters/hub${MAPS}/c`, { headers: admin(hub) })).status).toBe(404);
    expect((await send(server, `${path}/c`, { headers: admin(hub) })).status).toBe(401);
    expect((await send(server, `${path}/c`)).status).toBe(401);
  });

  it('names its clusters, and reports that it is healthy', async () => {
    await open('hub');
    const server = await listen();
    expect(await send(server, '/clusters/nope/api')).toMatchObject({ status: 404, body: expect.stringContaining('NAME one of hub') });
    expect((await send(server, '/api')).status).toBe(401);
    expect(await send(server, '/readyz')).toMatchObject({ status: 200, body: 'ok' });
    expect((await send(server, '/clusters/hub/api', { method: 'HEAD', headers: admin(clusters[0]) })).status).toBe(405);
    expect((await send(server, '/clusters/hub/readyz', { headers: admin(clusters[0]) })).body).toBe('ok');
  });

  // As kube-apiserver 1.34.4 answers them; test/conformance cannot send them.
  it.each([
    ['HEAD', '/api/v1/nodes', 405, ''],
    ['OPTIONS', '/api/v1/nodes', 405, '"the server does not allow this method on the requested resource"'],
    ['HEAD', '/version', 405, ''],
    ['HEAD', '/healthz', 200, ''],
    ['OPTIONS', '/healthz', 200, 'ok'],
    ['OPTIONS', '/nope', 404, '404 page not found'],
  ])('answers %s %s with %i', async (method, path, status, body) => {
    await open('hub');
    const server = await listen();
    const answer = await send(server, path, { method, headers: admin(clusters[0]) });
    expect([answer.status, answer.body]).toEqual([status, expect.stringContaining(body)]);
    if (status !== 200) expect((await send(server, path, { method })).status).toBe(401);
  });

  it('keeps connections for the next request', async () => {
    await open('hub');
    const server = await listen();
    const agent = new Agent({ keepAlive: true, maxSockets: 1, ca: server.authority });
    const get = () => send(server, '/clusters/hub/api/v1/nodes', { headers: admin(clusters[0]), agent });
    expect([(await get()).reused, (await get()).reused]).toEqual([false, true]);
    agent.destroy();
  });

  it('streams a watch, and forgets it when the client goes', async () => {
    await open('hub');
    const server = await listen();
    const [hub] = clusters;
    const api = new Api((hub as EmbeddedCluster).asUser());
    const lines: string[] = [];
    await new Promise<void>((resolve, reject) => {
      const sent = httpsRequest(
        `${server.url}/clusters/hub${MAPS}?watch=true`,
        { ca: server.authority, headers: admin(hub) },
        (response) => {
          // The headers are there before any event.
          void api.create(MAPS, configMap('a'));
          response.setEncoding('utf8');
          response.on('data', (chunk: string) => {
            lines.push(...chunk.trim().split('\n'));
            if (lines.length >= 1) sent.destroy();
          });
          response.on('close', resolve);
        },
      );
      sent.on('error', reject);
      sent.end();
    });
    expect(JSON.parse(lines[0] ?? '')).toMatchObject({ type: 'ADDED', object: { metadata: { name: 'a' } } });
    await until(() => hub?.watches === 0);
    expect(hub?.watches).toBe(0);
  });

  it('refuses a body that is too large without reading it to the end', async () => {
    await open('hub');
    const server = await listen();
    const body = JSON.stringify(configMap('big', { a: 'x'.repeat(4 * 1024 * 1024) }));
    const answer = await send(server, `/clusters/hub${MAPS}`, { method: 'POST', headers: admin(clusters[0]), body }).catch(
      (error: Error) => error.message,
    );
    expect(typeof answer === 'string' ? answer : answer.status).toSatisfy(
      (it) => it === 413 || /EPIPE|ECONNRESET|hang up/.test(String(it)),
    );
  });

  it('takes a client certificate of the cluster that is addressed, and of no other', async () => {
    await open('hub', 'cell');
    const server = await listen();
    const [hub] = clusters;
    const api = new Api((hub as EmbeddedCluster).asUser());
    const { request, key } = await makeRequestAndKey([{ CN: ['kubenode:machine:web:m1'] }, { O: ['kubenode:machines'] }]);
    const requests = '/apis/certificates.k8s.io/v1/certificatesigningrequests';
    await api.create(requests, {
      apiVersion: 'certificates.k8s.io/v1',
      kind: 'CertificateSigningRequest',
      metadata: { name: 'm1' },
      spec: {
        request: Buffer.from(request).toString('base64'),
        signerName: 'kubernetes.io/kube-apiserver-client',
        usages: ['client auth'],
      },
    });
    await api.merge(`${requests}/m1/approval`, { status: { conditions: [{ type: 'Approved', status: 'True' }] } });
    let certificate = '';
    await until(async () => {
      certificate = text(pick((await api.get(`${requests}/m1`)).body, 'status.certificate'));
      return certificate !== '';
    });
    const cert = Buffer.from(certificate, 'base64').toString();
    const who = await send(server, `/clusters/hub${REVIEW}`, { method: 'POST', body: '{}', cert, key });
    expect(pick(JSON.parse(who.body) as JsonObject, 'status.userInfo')).toEqual({
      username: 'kubenode:machine:web:m1',
      groups: ['kubenode:machines', 'system:authenticated'],
    });
    expect((await send(server, `/clusters/cell${REVIEW}`, { method: 'POST', body: '{}', cert, key })).status).toBe(401);
  });

  it('writes a kubeconfig for each cluster', async () => {
    await open('hub', 'cell-a');
    const server = await listen();
    expect(parse(server.kubeconfig('cell-a'))).toMatchObject({
      'current-context': 'cell-a',
      clusters: [
        {
          name: 'cell-a',
          cluster: {
            server: server.urlOf('cell-a'),
            'certificate-authority-data': Buffer.from(server.authority).toString('base64'),
          },
        },
      ],
      users: [{ name: 'cell-a', user: { token: clusters[1]?.adminToken } }],
    });
    // A path would be lost to `kubectl get --raw`, which takes it from the root of the server.
    expect(new URL(server.urlOf('cell-a')).pathname).toBe('/');
    const own = { ...server, url: server.urlOf('cell-a') };
    expect((await send(own, '/version', { headers: admin(clusters[1]) })).body).toContain('gitVersion');
    expect((await send(own, MAPS, { headers: admin(clusters[0]) })).status).toBe(401);
    expect(() => server.kubeconfig('nope')).toThrow(expect.objectContaining({ code: 'UnknownCluster' }));
  });

  it('H2: has the same authority after a restart, and another in another folder', async () => {
    await open('hub');
    const first = await listen();
    const again = await listen();
    const elsewhere = await listen({ state: 'memory' });
    expect(again.authority).toBe(first.authority);
    expect(elsewhere.authority).not.toBe(first.authority);
    await expect(send({ ...again, authority: elsewhere.authority }, '/readyz')).rejects.toThrow(/certificate|signature/);
  });

  it('reports in one sentence that a port is taken, or that its certificates are damaged', async () => {
    await open('hub');
    const { port } = await listen();
    await expect(listen({ listen: `127.0.0.1:${port}` })).rejects.toMatchObject({
      code: 'PortInUse',
      message: `port ${port} of 127.0.0.1 is in use by another process`,
    });
    writeFileSync(join(root, 'pki', 'ca.crt'), 'damaged');
    await expect(listen()).rejects.toMatchObject({ code: 'StateDamaged', next: expect.stringContaining(join(root, 'pki')) });
  });

  it('ends its requests when it closes, and leaves the clusters open', async () => {
    await open('hub');
    const server = await listen();
    const watch = send(server, `/clusters/hub${MAPS}?watch=true`, { headers: admin(clusters[0]) });
    const ended = watch.catch((error: Error) => error);
    await until(() => clusters[0]?.watches === 1);
    await server.close();
    expect(await ended).toBeInstanceOf(Error);
    expect(clusters[0]?.watches).toBe(0);
    expect((await new Api((clusters[0] as EmbeddedCluster).asUser()).get('/api')).status).toBe(200);
    await expect(send(server, '/readyz')).rejects.toThrow('ECONNREFUSED');
  });
});
