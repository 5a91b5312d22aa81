/**
 * The processes as they run in a cluster, each with the rights that the manifests give it and no others: nothing that they do is refused.
 * A commit goes from Git through the hub into a cell, and a machine is made.
 */
import { spawn, type ChildProcess } from 'node:child_process';
import { closeSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { BREAK_GLASS } from '../../deploy/identities.ts';
import { Clusters } from '../../src/api/cluster.ts';
import { DisruptionLedgers, LEDGER_NAME } from '../../src/api/disruption-ledger.ts';
import { Fleets } from '../../src/api/fleet.ts';
import { API_VERSION } from '../../src/api/kind.ts';
import { machineAccess, poolAccess, standInAccess, standInPoolAccess } from '../../src/api/machine-access.ts';
import { Machines } from '../../src/api/machine.ts';
import { MachineComponentSets } from '../../src/api/machine-component-set.ts';
import { MachineSets } from '../../src/api/machine-set.ts';
import { NodeRemediers } from '../../src/api/node-remedier.ts';
import { Rollouts } from '../../src/api/rollout.ts';
import { Leases, Namespaces } from '../../src/api/builtin.ts';
import { kubeconfigText } from '@kubenode/embedded';
import { systemClock } from '../../src/kube/clock.ts';
import { loadKubeconfig } from '../../src/kube/kubeconfig.ts';
import { testRepository, type TestRepository } from '../../src/sync/git/testing/repository.ts';
import { install } from './installed.ts';
import { attempt, OPTIONS, until, WHO, write, type Rig } from './rig.ts';

const ENTRY = fileURLToPath(new URL('../../bin/kubenode.js', import.meta.url));
const POOL = 'leastprivilege';

const MAIN = (replicas: number) => `import { DefenderPolicy, fleet, MachineComponentSet, MachineSet, release } from 'kubenode/constructs';
fleet.cluster('here', { labels: { stage: 'test' } });
fleet.allClusters((cluster) => {
  const pool = cluster.pool('${POOL}');
  new MachineSet(pool, 'nodes', { replicas: ${replicas}, provider: { name: 'local' } });
  new DefenderPolicy(cluster, 'default', { limits: [{ name: 'cell', scope: 'Cluster', maxUnavailable: 1 }] });
  new MachineComponentSet(cluster, 'nothing', { component: release('nothing', '1.0.0', { any: [] }, {}), pools: ['${POOL}'], soakSeconds: 0 });
});
`;

let rig: Rig & { remove: () => Promise<void> };
let dir: string;
let repository: TestRepository;
const processes: { name: string; child: ChildProcess; log: string }[] = [];

async function tokenOf(name: string): Promise<string> {
  const path = `/api/v1/namespaces/${OPTIONS.namespace}/serviceaccounts/${name}/token`;
  const answer = await write(rig.admin, 'POST', path, {
    apiVersion: 'authentication.k8s.io/v1',
    kind: 'TokenRequest',
    spec: { expirationSeconds: 3600 },
  });
  return (answer as { status: { token: string } }).status.token;
}

async function kubeconfigOf(name: string): Promise<string> {
  const { server, ca = '' } = await loadKubeconfig({ path: process.env['KUBENODE_TEST_KUBECONFIG'] ?? '', env: {}, clock: systemClock() });
  return kubeconfigText({ cluster: 'here', server, authority: ca, token: await tokenOf(name) });
}

async function start(name: string, account: string, args: string[]): Promise<void> {
  const kubeconfig = join(dir, `${name}.kubeconfig`);
  writeFileSync(kubeconfig, await kubeconfigOf(account), { mode: 0o600 });
  const log = join(dir, `${name}.log`);
  const file = openSync(log, 'a');
  const child = spawn(process.execPath, [...process.execArgv, ENTRY, 'controller', ...args, '--kubeconfig', kubeconfig], {
    stdio: ['ignore', file, file],
  });
  closeSync(file);
  processes.push({ name, child, log });
}

/** What was refused, of everything that was logged. */
function refusals(): string[] {
  return processes.flatMap(({ name, log }) =>
    readFileSync(log, 'utf8')
      .split('\n')
      .filter((line) => /forbidden|cannot impersonate/i.test(line) && !line.includes('being terminated'))
      .map((line) => `${name}: ${line}`),
  );
}

function logs(): string {
  return processes.map(({ name, log }) => `${name}: ${readFileSync(log, 'utf8').split('\n').slice(-20).join('\n')}`).join('\n');
}

async function eventually(what: string, isTrue: () => Promise<boolean>, seconds = 60): Promise<void> {
  try {
    await until(
      what,
      async () => {
        if (refusals().length > 0) throw new Error(`refused:\n${refusals().slice(0, 10).join('\n')}`);
        return await isTrue();
      },
      seconds,
    );
  } catch (error) {
    throw new Error(`${error instanceof Error ? error.message : String(error)}\n${logs()}`, { cause: error });
  }
}

async function sweep(): Promise<void> {
  const glass = rig.as({ user: 'root', group: BREAK_GLASS });
  const binding = {
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind: 'ClusterRoleBinding',
    metadata: { name: 'leastprivilege-glass' },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'cluster-admin' },
    subjects: [{ kind: 'Group', apiGroup: 'rbac.authorization.k8s.io', name: BREAK_GLASS }],
  };
  await rig.apply(binding);
  await until('the glass', async () => (await attempt(glass.list(Machines))).outcome === 'ok');
  for (const { metadata } of (await glass.list(Machines, { namespace: POOL })).items) {
    await attempt(glass.patch(Machines, metadata, { merge: { metadata: { finalizers: null } } }));
    await attempt(glass.delete(Machines, metadata));
  }
  await attempt(glass.delete(MachineSets, { namespace: POOL, name: 'nodes' }));
  await attempt(glass.delete(MachineComponentSets, { name: 'nothing' }));
  await attempt(glass.delete(DisruptionLedgers, { name: LEDGER_NAME }));
  for (const { metadata } of (await glass.list(Rollouts)).items) await attempt(glass.delete(Rollouts, metadata));
  await attempt(glass.delete(Clusters, { name: 'here' }));
  await attempt(glass.delete(Fleets, { name: 'here' }));
  await attempt(glass.delete(NodeRemediers, { name: 'hung' }));
  await attempt(write(rig.admin, 'DELETE', '/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/leastprivilege-glass'));
}

beforeAll(async () => {
  rig = await install();
  dir = mkdtempSync(join(tmpdir(), 'kubenode-leastprivilege-'));
  await sweep();
  repository = testRepository(join(dir, 'fleet'));
  repository.commit('Begin', { 'fleet/main.ts': MAIN(1) });
  // As an administrator does by hand: docs/install.md.
  const kubeconfig = Buffer.from(await kubeconfigOf('kubenode-sync')).toString('base64');
  const secrets = `/api/v1/namespaces/${OPTIONS.namespace}/secrets`;
  await attempt(write(rig.admin, 'DELETE', `${secrets}/cluster-here`));
  await write(rig.admin, 'POST', secrets, { apiVersion: 'v1', kind: 'Secret', metadata: { name: 'cluster-here' }, data: { kubeconfig } });
  await rig.as(WHO.admin).create(Fleets, {
    apiVersion: API_VERSION,
    kind: 'Fleet',
    metadata: { name: 'here' },
    spec: {
      source: { path: repository.dir, pollSeconds: 1 },
      // Its only machine goes, too.
      stages: [{ name: 'test', clusterSelector: { stage: 'test' }, prune: { maxMachines: '100%' } }],
    },
  });
}, 120_000);

afterAll(async () => {
  for (const { child } of processes) {
    if (child.exitCode !== null) continue;
    const gone = new Promise((resolve) => child.once('exit', resolve));
    child.kill('SIGTERM');
    await gone;
  }
  await sweep();
  await rig.remove();
  rmSync(dir, { recursive: true, force: true });
}, 60_000);

test('hub and cell do their work with the rights that they have', async () => {
  mkdirSync(join(dir, 'nodes'));
  await start('cell', 'kubenode-cell', [
    '--cell',
    '--separate-identities',
    '--local-nodes',
    join(dir, 'nodes'),
    '--server',
    'https://127.0.0.1:1',
  ]);
  await start('hub', 'kubenode-hub', ['--hub', '--cache', join(dir, 'cache'), '--isolation', 'process']);
  const { admin } = rig;
  await eventually('the leases of both', async () => {
    const names = (await admin.list(Leases, { namespace: OPTIONS.namespace })).items.map((lease) => lease.metadata.name);
    return names.includes('kubenode-cell') && names.includes('kubenode-hub');
  });
  await eventually(
    'the epoch of the ledger',
    async () => ((await admin.find(DisruptionLedgers, { name: LEDGER_NAME }))?.status?.epoch ?? 0) > 0,
  );
  await eventually('the commit', async () => (await admin.get(Fleets, { name: 'here' })).status?.commit !== undefined);
  await eventually('the pool', async () => (await admin.find(Namespaces, { name: POOL })) !== undefined);
  await eventually('a machine', async () => (await admin.list(Machines, { namespace: POOL })).items.length === 1);
  await eventually('its status, by several', async () => {
    const [machine] = (await admin.list(Machines, { namespace: POOL })).items;
    return (
      machine?.status?.providerID !== undefined &&
      machine.metadata.finalizers !== undefined &&
      machine.status.conditions?.some(({ type }) => type === 'UpToDate') === true
    );
  });
  await eventually('the set of components', async () => (await admin.get(MachineComponentSets, { name: 'nothing' })).status?.desired === 1);
  // Who may write what shows in who wrote it.
  const [machine] = (await admin.list(Machines, { namespace: POOL })).items;
  expect(machine?.metadata.managedFields?.map(({ manager }) => manager)).toEqual(
    expect.arrayContaining(['kubenode-machine', 'kubenode-machineset', 'kubenode-machinecomponentset']),
  );

  repository.commit('None', { 'fleet/main.ts': MAIN(0) });
  // As far as it goes without the host of its node: reserved, and asked of the provider.
  await eventually('the deletion of the machine', async () => {
    const ledger = await admin.get(DisruptionLedgers, { name: LEDGER_NAME });
    return ledger.status?.reservations?.some(({ kind, machine }) => kind === 'Delete' && machine.startsWith(`${POOL}/`)) === true;
  });
  await eventually(
    'the rollout done',
    async () => (await admin.list(Rollouts)).items.some(({ spec, status }) => spec.sequence === 2 && status?.phase === 'Done'),
    90,
  );
  expect(refusals()).toEqual([]);
}, 240_000);

test('who admits agents can give what an agent gets, and no other can', async () => {
  const key = { namespace: 'web', name: 'm9' };
  await attempt(rig.as(WHO.operator).delete(Machines, key));
  const machine = await rig.as(WHO.operator).create(Machines, { apiVersion: API_VERSION, kind: 'Machine', metadata: key, spec: {} });
  try {
    for (const name of ['machine', 'identity'] as const) {
      for (const { role, roleBinding } of [machineAccess(machine), machineAccess(machine, { standIn: true }), standInAccess(machine)])
        for (const object of [role, roleBinding])
          expect([object.kind, await attempt(rig.apply(object, rig.as(WHO[name])))]).toEqual([object.kind, { outcome: 'ok', message: '' }]);
      for (const object of [poolAccess('web'), standInPoolAccess('web')])
        expect(await attempt(rig.apply(object, rig.as(WHO[name])))).toEqual({ outcome: 'ok', message: '' });
    }
    for (const name of ['cell', 'machineSet', 'machineComponentSet', 'remedy', 'sync', 'hub', 'operator', 'admin'] as const)
      expect([name, (await attempt(rig.apply(machineAccess(machine).role, rig.as(WHO[name])))).outcome]).toEqual([name, 'rbac']);
  } finally {
    await rig.as(WHO.operator).delete(Machines, key);
  }
});
