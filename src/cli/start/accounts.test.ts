import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { stringify } from 'yaml';
import { Namespaces, ServiceAccounts } from '../../api/builtin.ts';
import { SYSTEM_NAMESPACE } from '../../api/names.ts';
import { openCluster, type EmbeddedCluster } from '@kubenode/embedded';
import type { Client } from '../../kube/client.ts';
import { createClient } from '../../kube/http-client.ts';
import { loadKubeconfig } from '../../kube/kubeconfig.ts';
import { fakeClock, type FakeClock } from '../../kube/testing/clock.ts';
import { createAuthority } from '../../kube/testing/tls.ts';
import { inlineConnection } from '../remote.ts';
import { openAccounts } from './accounts.ts';

const NAMES = ['hub', 'prod'];
const { ca: CA } = await createAuthority();
let clock: FakeClock;
let clusters: EmbeddedCluster[];
let clients: Map<string, Client>;
let dir: string;
let ended: AbortController;
let puts: { cell: string; kubeconfig: string }[];
let warnings: string[];

beforeEach(async () => {
  // The hub's credentials are checked against the machine's clock.
  clock = fakeClock(Date.now());
  ended = new AbortController();
  clusters = [];
  clients = new Map();
  puts = [];
  warnings = [];
  dir = mkdtempSync(join(tmpdir(), 'kubenode-accounts-'));
  for (const name of NAMES) {
    const cluster = await openCluster({ name, state: 'memory', clock });
    clusters.push(cluster);
    const client = createClient(cluster.asUser());
    clients.set(name, client);
    await client.create(Namespaces, { apiVersion: 'v1', kind: 'Namespace', metadata: { name: SYSTEM_NAMESPACE } });
    for (const account of ['kubenode-hub', 'kubenode-cell', 'kubenode-sync'])
      await client.create(ServiceAccounts, {
        apiVersion: 'v1',
        kind: 'ServiceAccount',
        metadata: { name: account, namespace: SYSTEM_NAMESPACE },
      });
  }
});
afterEach(async () => {
  ended.abort(new Error('ended'));
  for (const cluster of clusters) await cluster.close();
  rmSync(dir, { recursive: true });
});

const KUBECONFIG = stringify({
  contexts: NAMES.map((name) => ({ name, context: { cluster: name, user: 'admin' } })),
  clusters: NAMES.map((name) => ({
    name,
    cluster: { server: `https://${name}:6443`, 'certificate-authority-data': Buffer.from(CA).toString('base64') },
  })),
  users: [{ name: 'admin', user: { token: 'of an administrator' } }],
});

const open = () =>
  openAccounts({
    clients,
    kubeconfig: KUBECONFIG,
    cells: ['prod'],
    dir: join(dir, 'accounts'),
    putCluster: (cell, kubeconfig) => Promise.resolve(void puts.push({ cell, kubeconfig })),
    clock,
    warn: (message) => void warnings.push(message),
    signal: ended.signal,
  });

const subjectOf = (token: string): unknown =>
  (JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString()) as { sub?: unknown }).sub;
const account = (name: string): string => `system:serviceaccount:${SYSTEM_NAMESPACE}:${name}`;
const tokenAt = (name: string): string => readFileSync(join(dir, 'accounts', `${name}.token`), 'utf8');

it('makes each process its ServiceAccount, and the hub another in its cells; nothing of the administrator is in it', async () => {
  const paths = await open();
  for (const [name, expected] of [
    ['hub', 'kubenode-hub'],
    ['prod', 'kubenode-cell'],
  ] as const) {
    const path = paths.get(name) ?? '';
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(statSync(join(dir, 'accounts', `${name}.token`)).mode & 0o777).toBe(0o600);
    const connection = await loadKubeconfig({ path, env: {}, clock });
    expect([connection.server, connection.ca]).toEqual([`https://${name}:6443`, CA]);
    if (typeof connection.token !== 'function') throw new Error('its token is not in a file');
    expect(subjectOf(await connection.token())).toBe(account(expected));
  }
  expect(puts.map(({ cell }) => cell)).toEqual(['prod']);
  const { server, token } = inlineConnection(puts[0]?.kubeconfig ?? '');
  expect([server, subjectOf(String(token))]).toEqual(['https://prod:6443', account('kubenode-sync')]);
});

it('renews every token at half of its life, until it ends', async () => {
  await open();
  const first = NAMES.map(tokenAt);
  await clock.advance(29 * 60_000);
  expect(NAMES.map(tokenAt)).toEqual(first);
  expect(puts).toHaveLength(1);
  await clock.advance(2 * 60_000);
  for (const [i, name] of NAMES.entries()) expect(tokenAt(name)).not.toBe(first[i]);
  expect(puts).toHaveLength(2);
  expect(puts[1]?.kubeconfig).not.toBe(puts[0]?.kubeconfig);
  ended.abort(new Error('ended'));
  await clock.advance(3 * 3_600_000);
  expect(puts).toHaveLength(2);
});

it('reports that a token was not renewed, and tries again', async () => {
  await open();
  const before = tokenAt('hub');
  const hub = clients.get('hub');
  await hub?.delete(ServiceAccounts, { namespace: SYSTEM_NAMESPACE, name: 'kubenode-hub' });
  await clock.advance(31 * 60_000);
  expect(warnings[0]).toMatch(/the token of ServiceAccount kubenode-hub was not renewed: .*not found; tried again/);
  expect(tokenAt('hub')).toBe(before);
  await hub?.create(ServiceAccounts, {
    apiVersion: 'v1',
    kind: 'ServiceAccount',
    metadata: { name: 'kubenode-hub', namespace: SYSTEM_NAMESPACE },
  });
  await clock.advance(10_000);
  expect(tokenAt('hub')).not.toBe(before);
});
