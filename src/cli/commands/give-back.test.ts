import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { CustomResourceDefinitions, Namespaces } from '../../api/builtin.ts';
import { API_VERSION } from '../../api/kind.ts';
import { Machines, type Machine } from '../../api/machine.ts';
import { openCluster, serve, type ApiServer, type EmbeddedCluster } from '@kubenode/embedded';
import type { Client } from '../../kube/client.ts';
import { systemClock } from '../../kube/clock.ts';
import { createClient } from '../../kube/http-client.ts';
import { beginGivingBack, requireGivingBack } from './give-back.ts';

const ENTRY = fileURLToPath(new URL('../../../bin/kubenode.js', import.meta.url));
let dir: string;
let cluster: EmbeddedCluster;
let server: ApiServer;
let client: Client;

beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), 'kubenode-give-back-'));
  const clock = systemClock({ ref: true });
  cluster = await openCluster({ name: 'cell', state: 'memory', clock });
  server = await serve({ clusters: [cluster], listen: '127.0.0.1:0', state: { dir }, clock });
  writeFileSync(join(dir, 'kubeconfig'), server.kubeconfig('cell'), { mode: 0o600 });
  client = createClient(cluster.asUser(), { fieldManager: 'a-test' });
  await client.create(CustomResourceDefinitions, CustomResourceDefinitions.parse(Machines.crd()));
  await client.create(Namespaces, Namespaces.parse({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'web' } }));
});
afterEach(async () => {
  await server.close();
  await cluster.close();
  rmSync(dir, { recursive: true });
});

const PROVIDER = { name: 'ssh', config: { address: '10.0.0.7' } };
const add = (name: string, spec: Machine['spec'], metadata: object = {}) =>
  client.create(Machines, { apiVersion: API_VERSION, kind: 'Machine', metadata: { namespace: 'web', name, ...metadata }, spec });
const now = (name: string) => client.find(Machines, { namespace: 'web', name });

function giveBack(...args: string[]): Promise<{ code: number; stderr: string }> {
  const words = ['give-back', ...args, '-n', 'web', '--kubeconfig', join(dir, 'kubeconfig')];
  return new Promise((resolve) =>
    execFile(process.execPath, [ENTRY, ...words], { env: { ...process.env, NO_COLOR: '1' } }, (error, _, stderr) =>
      resolve({ code: typeof error?.code === 'number' ? error.code : error === null ? 0 : -1, stderr }),
    ),
  );
}

it('C14: sets the policy, deletes the Machine, and waits until it is gone; one that waits reports why, and is waited for again', async () => {
  await add('m0', { provider: PROVIDER }, { finalizers: ['kubenode.io/machine'] });
  const early = await giveBack('m0', '--timeout', '0');
  expect([early.code, early.stderr]).toEqual([8, expect.stringContaining('not given back yet: no controller of the cell has seen it yet')]);
  const found = await now('m0');
  expect([found?.spec.deletionPolicy, found?.metadata.deletionTimestamp]).toEqual(['Orphan', expect.any(String)]);
  const again = giveBack('m0');
  await client.patch(Machines, { namespace: 'web', name: 'm0' }, { merge: { metadata: { finalizers: [] } } });
  const { code, stderr } = await again;
  // Whether it was gone before the command read it is not settled here.
  expect(stderr).toMatch(/is given back: its Machine is gone|there is no Machine m0 in web/);
  expect(code).toBe(stderr.includes('given back') ? 0 : 1);
  expect(await now('m0')).toBeUndefined();
}, 60_000);

it('C14: agent and controllers that write the status meanwhile do not keep it from beginning; another policy does', async () => {
  const made = await add('m0', { provider: PROVIDER }, { finalizers: ['kubenode.io/machine'] });
  const key = { namespace: 'web', name: 'm0' };
  let writes = 0;
  const racing = (merge: (count: number) => object) => ({
    patch: client.patch.bind(client),
    get: client.get.bind(client),
    delete: (async (...args) => {
      writes++;
      if (writes <= 3) await client.patch(Machines, key, { merge: merge(writes) });
      await client.delete(...args);
    }) as Client['delete'],
  });
  await beginGivingBack(
    racing((count) => ({ metadata: { annotations: { count: String(count) } } })),
    made,
    false,
  );
  expect([writes, (await now('m0'))?.metadata.deletionTimestamp]).toEqual([4, expect.any(String)]);

  const other = await add('m1', { provider: PROVIDER });
  writes = 0;
  key.name = 'm1';
  const begun = beginGivingBack(
    racing(() => ({ spec: { deletionPolicy: 'Delete' } })),
    other,
    false,
  );
  await expect(begun).rejects.toMatchObject({ reason: 'Conflict' });
  expect((await now('m1'))?.spec.deletionPolicy).toBe('Delete');
}, 60_000);

it('C14: refuses machines that were not imported, are of a set, or whose deletion was ordered, and changes nothing', async () => {
  const owner = { apiVersion: API_VERSION, kind: 'MachineSet', name: 'web', uid: 'u', controller: true };
  await add('m1', { provider: PROVIDER }, { ownerReferences: [owner] });
  await add('m2', { provider: { name: 'local' } });
  await add('m3', {});
  const operation = { id: 'r1', epoch: 1, kind: 'Delete', notAfter: '2036-01-01T00:00:00Z' } as const;
  await add('m4', { provider: PROVIDER, operation }, { finalizers: ['kubenode.io/machine'] });
  await client.delete(Machines, { namespace: 'web', name: 'm4' });
  for (const [name, words] of [
    ['m1', 'belongs to MachineSet web'],
    ['m2', 'was not imported: it has provider local'],
    ['m3', 'was not imported: it has no provider'],
    ['m4', 'is being deleted'],
    ['m5', 'there is no Machine m5 in web'],
  ] as const) {
    const { code, stderr } = await giveBack(name);
    expect([name, code, stderr]).toEqual([name, 1, expect.stringContaining(words)]);
    expect(stderr).toContain('next: ');
    expect((await now(name))?.spec.deletionPolicy).toBeUndefined();
  }
}, 60_000);

it('a dry run and a wrong timeout change nothing', async () => {
  await add('m0', { provider: PROVIDER });
  expect((await giveBack('m0', '--dry-run')).code).toBe(0);
  for (const wrong of ['-1', '1.5', 'soon', '86401']) expect((await giveBack('m0', `--timeout=${wrong}`)).code).toBe(2);
  expect((await now('m0'))?.metadata.deletionTimestamp).toBeUndefined();
  expect((await now('m0'))?.spec.deletionPolicy).toBeUndefined();
}, 60_000);

it('reports where another client ordered the deletion, or gave another policy, meanwhile', async () => {
  const machine = await add('m9', { provider: PROVIDER });
  const order = { id: 'r', epoch: 1, kind: 'Delete' as const, notAfter: '2026-11-20T01:00:00Z' };
  const ordered = {
    ...machine,
    metadata: { ...machine.metadata, deletionTimestamp: '2026-11-20T00:00:00Z' },
    spec: { ...machine.spec, deletionPolicy: 'Orphan' as const, operation: order },
  };
  const answering = { patch: () => Promise.resolve(ordered), get: () => Promise.resolve(ordered), delete: () => Promise.resolve() };
  await expect(beginGivingBack(answering as unknown as Client, machine, false)).rejects.toMatchObject({ code: 'NotGivenBack' });
  expect(() => requireGivingBack(ordered)).toThrow('its agent removes what it installed');
  const { operation: _order, ...spec } = ordered.spec;
  expect(() => requireGivingBack({ ...ordered, spec: { ...spec, deletionPolicy: 'Reset' } })).toThrow(
    'was given the policy Reset meanwhile',
  );
  expect(() => requireGivingBack({ ...ordered, spec })).not.toThrow();
});
