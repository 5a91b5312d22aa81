/** What `npm start` makes of its own API servers: least privilege, as on a cluster that follows docs/install.md. */
import { spawn, type ChildProcess } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Namespaces, Secrets } from '../../api/builtin.ts';
import { Fleets } from '../../api/fleet.ts';
import { serviceAccountUser } from '../../api/identity.ts';
import { API_VERSION } from '../../api/kind.ts';
import { Machines } from '../../api/machine.ts';
import { MANAGERS, SYSTEM_NAMESPACE } from '../../api/names.ts';
import type { Client } from '../../kube/client.ts';
import { systemClock } from '../../kube/clock.ts';
import { waitFor } from '../../kube/testing/wait-for.ts';
import { connect, type Connected } from '../connection.ts';
import { installOn } from './installed.ts';

const ENTRY = fileURLToPath(new URL('../../../bin/kubenode.js', import.meta.url));
const KEY = { namespace: 'web', name: 'a' };

let dir: string;
let serving: ChildProcess;
let servers: Record<'hub' | 'cell', Connected>;

beforeAll(async () => {
  dir = mkdtempSync(join(tmpdir(), 'kubenode-installed-'));
  const kubeconfig = join(dir, 'kubeconfig');
  const flags = ['--listen', '127.0.0.1:0', '--clusters', 'hub,cell', '--write-kubeconfig', kubeconfig];
  serving = spawn(process.execPath, [...process.execArgv, ENTRY, 'serve', ...flags], { stdio: 'ignore' });
  await waitFor(() => existsSync(kubeconfig), { deadlineMs: 60_000, what: 'the servers to be up' });
  servers = { hub: await connect({ kubeconfig, context: 'hub' }), cell: await connect({ kubeconfig, context: 'cell' }) };
  const { signal } = new AbortController();
  for (const role of ['hub', 'cell'] as const)
    await installOn(servers[role].client, {
      role,
      fieldManager: 'kubenode-start',
      embedded: true,
      clock: systemClock({ ref: true }),
      signal,
    });
  const { client } = servers.cell;
  await client.create(Namespaces, { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'web' } });
  await client.create(Machines, { apiVersion: API_VERSION, kind: 'Machine', metadata: KEY, spec: { provider: { name: 'local' } } });
}, 120_000);
afterAll(async () => {
  for (const server of Object.values(servers)) await server.close();
  serving.kill('SIGKILL');
  rmSync(dir, { recursive: true });
});

const as = (role: 'hub' | 'cell', account: string): Client => servers[role].as(serviceAccountUser(SYSTEM_NAMESPACE, account));
const outcome = (work: Promise<unknown>): Promise<string> =>
  work.then(
    () => 'done',
    (error: unknown) => (error instanceof Error ? error.message : String(error)),
  );

describe('on the own API servers of `npm start`', () => {
  it('the hub and the controllers of a cell may do what their roles grant, and nothing else', async () => {
    expect(await outcome(as('hub', 'kubenode-hub').list(Fleets))).toBe('done');
    expect(await outcome(as('hub', 'kubenode-hub').list(Secrets, { namespace: 'default' }))).toMatch(/is forbidden/);
    const cell = as('cell', 'kubenode-cell');
    expect(await outcome(cell.list(Machines))).toBe('done');
    expect(await outcome(cell.list(Secrets, { namespace: 'web' }))).toMatch(/is forbidden/);
    // It writes by impersonating the writers. Each writer has its own fields.
    expect(await outcome(cell.patch(Machines, KEY, { merge: { spec: { hold: true } } }))).toMatch(/is forbidden/);
  });

  it('a writer whom RBAC lets write a Machine is limited to its own fields by the policies', async () => {
    const order = { operation: { id: 'r1', epoch: 1, kind: 'Change', notAfter: '2099-01-01T00:00:00Z' } };
    const write = (account: string): Promise<string> =>
      outcome(as('cell', account).patch(Machines, KEY, { merge: { spec: order } }, { dryRun: true }));
    expect(await write(MANAGERS.machine)).toBe('done');
    expect(await write(MANAGERS.machineSet)).toMatch(/ValidatingAdmissionPolicy .* denied request/);
  });
});
