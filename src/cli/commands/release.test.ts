import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { CustomResourceDefinitions, Namespaces } from '../../api/builtin.ts';
import { API_VERSION } from '../../api/kind.ts';
import { Machines } from '../../api/machine.ts';
import { openCluster, serve, type ApiServer, type EmbeddedCluster } from '@kubenode/embedded';
import type { Client } from '../../kube/client.ts';
import { systemClock } from '../../kube/clock.ts';
import { createClient } from '../../kube/http-client.ts';

const ENTRY = fileURLToPath(new URL('../../../bin/kubenode.js', import.meta.url));
const KEY = { namespace: 'web', name: 'm0' };
const ORDER = { id: 'reservation-1', epoch: 3, kind: 'Change', notAfter: '2036-01-01T00:00:00Z' } as const;
let dir: string;
let cluster: EmbeddedCluster;
let server: ApiServer;
let client: Client;

beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), 'kubenode-release-'));
  const clock = systemClock({ ref: true });
  cluster = await openCluster({ name: 'cell', state: 'memory', clock });
  server = await serve({ clusters: [cluster], listen: '127.0.0.1:0', state: { dir }, clock });
  writeFileSync(join(dir, 'kubeconfig'), server.kubeconfig('cell'), { mode: 0o600 });
  client = createClient(cluster.asUser(), { fieldManager: 'a-test' });
  await client.create(CustomResourceDefinitions, CustomResourceDefinitions.parse(Machines.crd()));
  await client.create(Namespaces, Namespaces.parse({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'web' } }));
  await client.create(Machines, { apiVersion: API_VERSION, kind: 'Machine', metadata: { ...KEY }, spec: { operation: ORDER } });
});
afterEach(async () => {
  await server.close();
  await cluster.close();
  rmSync(dir, { recursive: true });
});

function release(...args: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  return run(['release', ...args, '--kubeconfig', join(dir, 'kubeconfig')]);
}

function run(args: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  return new Promise((resolve) =>
    execFile(process.execPath, [ENTRY, ...args], { env: { ...process.env, NO_COLOR: '1' } }, (error, stdout, stderr) =>
      resolve({ code: typeof error?.code === 'number' ? error.code : error === null ? 0 : -1, stdout, stderr }),
    ),
  );
}
const operation = async () => (await client.get(Machines, KEY)).spec.operation;

it('D5: replaces the order by Cancelled under the same id and epoch, with the reason', async () => {
  const { code, stderr } = await release('m0', '-n', 'web', '--reason', 'the rack is gone');
  expect(stderr).toContain('machine/m0: operation reservation-1 (Change) is given up');
  expect(code).toBe(0);
  expect(await operation()).toEqual({ ...ORDER, kind: 'Cancelled', cause: 'Released', reason: 'OperatorRelease: the rack is gone' });
  const again = await release('m0', '-n', 'web', '--reason', 'once more');
  expect(again.code).toBe(1);
  expect(again.stderr).toContain('has no operation under way');
  // What is printed can be run as it is.
  const next = /next: kubenode (.*)/.exec(again.stderr)?.[1]?.split(' ') ?? [];
  expect(next.slice(0, 2)).toEqual(['why', 'machine/web/m0']);
  const why = await run(next);
  expect(`${why.code} ${why.stderr}`).not.toMatch(/^2 /);
  expect(next).toContain('--kubeconfig');
}, 30_000);

it('D5: a dry run, an unknown machine and a missing reason change nothing and report what to do', async () => {
  expect((await release('m0', '-n', 'web', '--reason', 'x', '--dry-run')).code).toBe(0);
  const unknown = await release('m1', '-n', 'web', '--reason', 'x');
  expect([unknown.code, unknown.stderr]).toEqual([1, expect.stringContaining('there is no Machine m1 in web')]);
  const blank = await release('m0', '-n', 'web', '--reason', ' ');
  expect([blank.code, blank.stderr]).toEqual([2, expect.stringContaining('`--reason` must not be empty')]);
  expect(await operation()).toEqual(ORDER);
}, 30_000);
