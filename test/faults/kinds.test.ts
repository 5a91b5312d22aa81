/** Servers whose definitions are absent or newer than the program that comes to them. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { CustomResourceDefinitions, Leases, Namespaces } from '../../src/api/builtin.ts';
import { Freezes } from '../../src/api/freeze.ts';
import { API_VERSION, GROUP } from '../../src/api/kind.ts';
import { CELL_KINDS } from '../../src/api/kinds.ts';
import { Machines } from '../../src/api/machine.ts';
import { MachineSets } from '../../src/api/machine-set.ts';
import { SYSTEM_NAMESPACE } from '../../src/api/names.ts';
import type { JsonObject } from '../../src/api/wire.ts';
import type { Client } from '../../src/kube/client.ts';
import { createClient } from '../../src/kube/http-client.ts';
import { httpTransport } from '../../src/kube/http-transport.ts';
import { troubleWithKinds } from '../../src/kube/served.ts';
import { waitFor } from '../../src/kube/testing/wait-for.ts';
import { scrape as scrapeMetrics } from '../../src/cli/testing/scrape.ts';
import { freePort } from './reach.ts';
import { startController, writeKubeconfig } from './kubenode.ts';
import { KINDS, type BrokenServer } from './servers.ts';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 180_000 });

const LATE = { deadlineMs: 30_000 };
const CRD = { name: `${Freezes.plural}.${GROUP}` };
const POOL = 'web';

/** The definition as a later KubeNode might have it: kept in v1beta1, with a field that v1alpha1 lacks. */
function newer(): JsonObject {
  const { spec } = Freezes.crd();
  const [version] = spec['versions'] as [{ schema: { openAPIV3Schema: { properties: { spec: { properties: JsonObject } } } } }];
  const later = structuredClone(version);
  later.schema.openAPIV3Schema.properties.spec.properties['until'] = { type: 'string' };
  return {
    versions: [
      { ...version, storage: false },
      { ...later, name: 'v1beta1' },
    ],
  };
}

describe.each(KINDS)('$name', ({ name: serverName, open }) => {
  let server: BrokenServer;
  let folder: string;
  let admin: Client;
  let close: () => Promise<void>;
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'kubenode-kinds-'));
    server = await open();
    const transport = httpTransport(server.connection);
    close = () => transport.close();
    admin = createClient(transport, { fieldManager: 'a-human' });
    for (const name of [SYSTEM_NAMESPACE, POOL])
      await admin.create(Namespaces, { apiVersion: 'v1', kind: 'Namespace', metadata: { name } });
  });
  afterAll(async () => {
    await close();
    await server.close();
    rmSync(folder, { recursive: true });
  });

  /** A real server has none to give in the moment in which a definition is new. */
  const machines = async (): Promise<number> => {
    const found = await admin.list(Machines, { namespace: POOL }).catch(() => undefined);
    return found?.items.length ?? -1;
  };
  /** Of an account that may read metrics. */
  const tokenOfReader = async (): Promise<string> => {
    const post = async (path: string, body: object): Promise<unknown> =>
      await admin.request({ method: 'POST', path, headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) });
    const [rbac, name] = ['rbac.authorization.k8s.io', 'kinds-metrics-reader'];
    const about = { apiVersion: `${rbac}/v1`, metadata: { name } };
    const accounts = `/api/v1/namespaces/${POOL}/serviceaccounts`;
    await post(accounts, { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name } });
    await post(`/apis/${rbac}/v1/clusterroles`, {
      ...about,
      kind: 'ClusterRole',
      rules: [{ nonResourceURLs: ['/metrics'], verbs: ['get'] }],
    });
    await post(`/apis/${rbac}/v1/clusterrolebindings`, {
      ...about,
      kind: 'ClusterRoleBinding',
      roleRef: { apiGroup: rbac, kind: 'ClusterRole', name },
      subjects: [{ kind: 'ServiceAccount', name, namespace: POOL }],
    });
    const answer = await post(`${accounts}/${name}/token`, { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec: {} });
    return (answer as { status: { token: string } }).status.token;
  };
  const define = async (): Promise<void> => {
    await admin.create(CustomResourceDefinitions, Freezes.crd());
    await waitFor(async () => (await troubleWithKinds(admin, CELL_KINDS)) === undefined, LATE);
  };
  const undefine = async (): Promise<void> => {
    await admin.delete(CustomResourceDefinitions, CRD);
    await waitFor(async () => (await admin.find(CustomResourceDefinitions, CRD)) === undefined, LATE);
  };

  test('controllers end when a kind becomes newer under them, write nothing, and go on when it is one that they know', async () => {
    for (const kind of CELL_KINDS) await admin.create(CustomResourceDefinitions, kind.crd());
    const [port, metricsPort] = [await freePort(), await freePort()];
    const kubeconfig = writeKubeconfig(join(folder, 'kubeconfig'), server.connection);
    const args = [
      '--cell',
      '--kubeconfig',
      kubeconfig,
      '--lease-seconds',
      '3',
      '--health',
      `127.0.0.1:${port}`,
      '--metrics',
      `127.0.0.1:${metricsPort}`,
    ];
    const controller = await startController(join(folder, 'log'), ...args);
    const token = await tokenOfReader();
    const ready = async (): Promise<string> => {
      const answer = await fetch(`http://127.0.0.1:${port}/readyz`);
      return `${answer.status} ${(await answer.text()).trim()}`;
    };
    try {
      const metadata = { namespace: POOL, name: 'a' };
      await admin.create(MachineSets, {
        apiVersion: API_VERSION,
        kind: 'MachineSet',
        metadata,
        spec: { provider: { name: 'ssh', config: { address: '192.0.2.1' } }, replicas: 1 },
      });
      await waitFor(async () => (await machines()) === 1, LATE);
      expect(await ready()).toBe('200 ok');
      const scrape = async (): Promise<string> => (await scrapeMetrics({ port: metricsPort }, token)).body;
      for (const line of [
        /^kubenode_machines\{phase="\w+"\} 1$/m,
        /^kubenode_reconcile_total\{controller="machineset",result="\w+"\} [1-9]/m,
        /^kubenode_workqueue_keys\{controller="machine",state="ready"\} \d/m,
        /^kubenode_store_lists_total\{resource="machines\.kubenode\.io"\} [1-9]/m,
        /^kubenode_api_requests_total\{to="own",method="WATCH",code="200"\} [1-9]/m,
        /^kubenode_leader\{role="cell"\} 1$/m,
      ])
        await waitFor(async () => line.test(await scrape()), { ...LATE, what: String(line) });
      // As few as an operator can read: none is by machine.
      expect((await scrape()).split('\n').length).toBeLessThan(600);

      await admin.patch(CustomResourceDefinitions, CRD, { merge: { spec: newer() } });
      const logged = await controller.waitForLog('KindsNewer');
      expect(logged).toMatchObject({ next: 'run a KubeNode that is as new as its kinds' });
      expect(logged.msg).toContain('freezes of kubenode.io are kept in v1beta1; this KubeNode knows v1alpha1');
      await controller.waitForLog('released the Lease');
      expect((await admin.get(Leases, { namespace: SYSTEM_NAMESPACE, name: 'kubenode-cell' })).spec?.holderIdentity ?? '').toBe('');
      expect(await ready()).toMatch(/^503 KindsNewer: freezes/);
      expect(await scrape()).toMatch(/^kubenode_blocked\{role="cell"\} 1$/m);
      await admin.patch(MachineSets, metadata, { merge: { spec: { replicas: 2 } } });

      // Until here nothing has taken up the second machine: the kinds have to fit first.
      const before = controller.lines().length;
      await undefine();
      await controller.waitForLog('KindsAbsent', before);
      expect(await machines()).toBe(1);
      await define();
      await controller.waitForLog('a term begins', before);
      await waitFor(async () => (await machines()) === 2, LATE);
      expect(await ready()).toBe('200 ok');
    } finally {
      await controller.kill();
    }
  });

  // The embedded server refuses such a write: it keeps, and finds unknown, what a real one no longer shows.
  test.runIf(serverName === 'kube-apiserver')(
    'what they are kept from: a write in an older version loses what only the newer one has',
    async () => {
      await admin.patch(CustomResourceDefinitions, CRD, { merge: { spec: newer() } });
      const later = { ...Freezes, version: 'v1beta1', parse: (value: unknown) => value as ReturnType<typeof Freezes.parse> };
      const object = {
        apiVersion: `${GROUP}/v1beta1`,
        kind: 'Freeze',
        metadata: { name: 'friday' },
        spec: { reason: 'sale', until: 'monday' },
      };
      await waitFor(
        () =>
          admin.create(later, object).then(
            () => true,
            () => false,
          ),
        LATE,
      );
      expect((await admin.get(later, { name: 'friday' })).spec).toMatchObject({ until: 'monday' });
      expect(await troubleWithKinds(admin, [Freezes])).toMatchObject({ reason: 'KindsNewer' });
      await admin.patch(Freezes, { name: 'friday' }, { merge: { spec: { reason: 'a sale' } } });
      expect((await admin.get(later, { name: 'friday' })).spec).toEqual({ reason: 'a sale' });
      await undefine();
      await define();
    },
  );
});
