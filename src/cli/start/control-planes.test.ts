import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { parse, stringify } from 'yaml';
import { createAuthority } from '../../kube/testing/tls.ts';
import { inlineConnection } from '../remote.ts';
import { readControlPlanes } from './control-planes.ts';

const NAMES = ['hub', 'test', 'pre', 'prod'];
const servers = new Map<string, Server>();
let dir: string;
let ca: string;
const urls: Record<string, string> = {};

/** Servers that answer who comes with the token of an administrator. */
beforeAll(async () => {
  dir = mkdtempSync(join(tmpdir(), 'kubenode-planes-'));
  const authority = await createAuthority();
  ca = authority.ca;
  writeFileSync(join(dir, 'ca.crt'), ca);
  const { cert, key } = await authority.issue('127.0.0.1');
  for (const name of NAMES) {
    const server = createServer({ cert, key }, ({ headers }, response) => {
      const good = headers.authorization === 'Bearer admin';
      const list = {
        apiVersion: 'apiextensions.k8s.io/v1',
        kind: 'CustomResourceDefinitionList',
        metadata: { resourceVersion: '1' },
        items: [],
      };
      const status = { apiVersion: 'v1', kind: 'Status', status: 'Failure', code: 401, reason: 'Unauthorized', message: 'Unauthorized' };
      response.writeHead(good ? 200 : 401, { 'content-type': 'application/json' }).end(JSON.stringify(good ? list : status));
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    servers.set(name, server);
    urls[name] = `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
  }
});
afterAll(() => {
  for (const server of servers.values()) {
    server.close();
    server.closeAllConnections();
  }
  rmSync(dir, { recursive: true });
});

interface Part {
  server?: string;
  cluster?: object;
  user?: object;
}

let files = 0;
/** A kubeconfig as a person has it, with one context more than is wanted; `parts` is what differs. */
function kubeconfig(parts: Record<string, Part | undefined> = {}): string {
  const names = [...NAMES, 'other'].filter((name) => !(name in parts) || parts[name] !== undefined);
  const text = stringify({
    contexts: names.map((name) => ({ name, context: { cluster: `c-${name}`, user: `u-${name}` } })),
    clusters: names.map((name) => ({
      name: `c-${name}`,
      cluster: {
        server: parts[name]?.server ?? urls[name] ?? 'https://other',
        ...(parts[name]?.cluster ?? { 'certificate-authority': 'ca.crt' }),
      },
    })),
    users: names.map((name) => ({ name: `u-${name}`, user: parts[name]?.user ?? { token: 'admin' } })),
  });
  const path = join(dir, `kubeconfig-${(files += 1)}`);
  writeFileSync(path, text);
  return path;
}

it('takes the four contexts and nothing else, with all that the hub needs of them in one text', async () => {
  const found = await readControlPlanes(kubeconfig());
  expect(found.servers).toEqual(urls);
  const config = parse(found.kubeconfig) as { contexts: { name: string }[]; 'current-context': string };
  expect(config.contexts.map(({ name }) => name)).toEqual(NAMES);
  expect(inlineConnection(found.kubeconfig)).toEqual({ server: urls['hub'], ca, token: 'admin' });
});

it.each<[string, Record<string, Part | undefined>, RegExp]>([
  ['a missing context', { pre: undefined }, /pre: there is no context "pre" in/],
  ['a server without authority', { prod: { cluster: {} } }, /prod: its cluster has no certificate-authority-data/],
  ['a server that is not verified', { prod: { cluster: { 'insecure-skip-tls-verify': true } } }, /prod: .*insecure-skip-tls-verify is set/],
  ['a server that is not there', { test: { server: 'https://127.0.0.1:1' } }, /test: .*127\.0\.0\.1:1/],
  ['a user who is refused', { hub: { user: { token: 'nobody' } } }, /hub: .*Unauthorized/],
  ['a user whose credentials come from a file', { hub: { user: { tokenFile: 'ca.crt' } } }, /hub: its user has a program or a token file/],
])('refuses %s', async (_, parts, message) => {
  const error = await readControlPlanes(kubeconfig(parts)).then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  expect(error).toMatchObject({ code: 'ControlPlanesUnusable', message: expect.stringMatching(message) });
  // Nothing is reported about the others.
  expect(String(error).match(/\n/g)).toHaveLength(1);
});

it('refuses two cells on one server, and reports all problems at once', async () => {
  const path = kubeconfig({ hub: undefined, prod: { server: `${urls['test']}/` } });
  await expect(readControlPlanes(path)).rejects.toThrow(/hub: there is no context[^]*prod: it is https:.*, as is test/);
});

it('reports that there is no file', async () => {
  await expect(readControlPlanes(join(dir, 'none'))).rejects.toMatchObject({ code: 'KubeconfigAbsent' });
});
