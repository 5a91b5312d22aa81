/** What a hub makes of cells that it cannot reach, or must leave alone; the others go on. */
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { stringify } from 'yaml';
import { ConfigMaps, CustomResourceDefinitions, Events, Namespaces, Secrets } from '../../src/api/builtin.ts';
import { Clusters } from '../../src/api/cluster.ts';
import { sha256Hex } from '../../src/api/digest.ts';
import { DefenderPolicies } from '../../src/api/defender-policy.ts';
import { MachineComponentSets } from '../../src/api/machine-component-set.ts';
import { MachineSets } from '../../src/api/machine-set.ts';
import { SYSTEM_NAMESPACE } from '../../src/api/names.ts';
import type { Condition } from '../../src/api/wire.ts';
import { waitFor } from '../../src/kube/testing/wait-for.ts';
import { openHub, versions, type TestHub } from './hub.ts';

vi.setConfig({ testTimeout: 600_000, hookTimeout: 300_000 });
const LATE = 200_000;

let hub: TestHub;
beforeEach(async () => {
  hub = await openHub();
  await hub.finish(hub.repository.git('rev-parse', 'HEAD'));
});
afterEach(() => hub.close());

const bump = (of: Record<string, string>): string => hub.commit('Bump', { 'fleet/versions.ts': versions(of) });

async function reachable(cell: string, reason: string): Promise<Condition> {
  const found = async (): Promise<Condition | undefined> =>
    (await hub.hub.get(Clusters, { name: cell })).status?.conditions?.find(({ type }) => type === 'Reachable');
  return await waitFor(
    async () => {
      const condition = await found();
      return condition?.reason === reason && condition;
    },
    { deadlineMs: LATE, what: `Reachable of ${cell} with reason ${reason}; it is ${JSON.stringify(await found())}` },
  );
}

async function giveKubeconfig(cell: string, text: string): Promise<void> {
  const data = { kubeconfig: Buffer.from(text).toString('base64') };
  await hub.hub.patch(Secrets, { namespace: SYSTEM_NAMESPACE, name: `cluster-${cell}` }, { merge: { data } });
  // The hub follows no Secrets. It reads this one whenever it checks the cell: every few seconds while the cell is away, else every minute or two.
  await hub.hub.patch(Clusters, { name: cell }, { merge: { metadata: { annotations: { touched: sha256Hex(text) } } } });
}

/** Of the Cluster of this test: a real server keeps the Events of earlier ones of that name for an hour. */
async function eventsOf(cell: string): Promise<string[]> {
  const { uid } = (await hub.hub.get(Clusters, { name: cell })).metadata;
  const { items } = await hub.hub.list(Events, { namespace: 'default', fieldSelector: `involvedObject.uid=${uid}` });
  return items.map(({ reason = '' }) => reason).toSorted();
}

it('a Secret without a good kubeconfig is reported, the other cells go on, and a good one is taken up', async () => {
  const expired = `e30.${Buffer.from('{"exp":1000000000}').toString('base64url')}.hunter2`;
  const kubeconfig = (user: object, server = 'https://127.0.0.1:1'): string =>
    stringify({
      'current-context': 'x',
      contexts: [{ name: 'x', context: { cluster: 'c', user: 'u' } }],
      clusters: [{ name: 'c', cluster: { server } }],
      users: [{ name: 'u', user }],
    });
  for (const [text, reason, message] of [
    [
      'no: [yaml',
      'KubeconfigInvalid',
      /^Secret kubenode-system\/cluster-prod: the kubeconfig cannot be used: line 1 of it is no YAML .*; next: kubectl/,
    ],
    [kubeconfig({ token: expired }), 'CredentialsExpired', /its token expired on 2001-09-09T01:46:40\.000Z/],
    [kubeconfig({ token: 'hunter2' }), 'Unreachable', /https:\/\/127\.0\.0\.1:1: nothing listens there/],
  ] as const) {
    await giveKubeconfig('prod', text);
    const condition = await reachable('prod', reason);
    expect(condition).toMatchObject({ status: 'False', message: expect.stringMatching(message) as string });
    expect(condition.message).not.toContain('hunter2');
  }
  const commit = bump({ runtime: '1.1.0', kubelet: '1.0.0' });
  await waitFor(async () => (await hub.sets('test'))['runtime'] === '1.1.0', { deadlineMs: LATE });
  await hub.prove('test');
  const blocked = async (): Promise<string | undefined> =>
    (await hub.rollout(commit))?.status?.units?.[0]?.clusters?.find(({ name, phase }) => name === 'prod' && phase === 'Blocked')?.message;
  expect(await waitFor(blocked, { deadlineMs: LATE })).toContain('nothing listens there');
  expect((await hub.sets('prod'))['runtime']).toBe('1.0.0');

  await giveKubeconfig('prod', 'prod');
  await reachable('prod', 'Connected');
  await hub.finish(commit);
  expect((await hub.sets('prod'))['runtime']).toBe('1.1.0');
  await waitFor(async () => (await eventsOf('prod')).length >= 4, { deadlineMs: LATE });
  expect(await eventsOf('prod')).toEqual(['Connected', 'CredentialsExpired', 'KubeconfigInvalid', 'Unreachable']);
});

it('a cell whose kinds are newer is Blocked and written nothing into, and one that lacks them too, until they are those that the hub knows', async () => {
  const prod = hub.cell('prod');
  const key = { name: `${DefenderPolicies.plural}.${DefenderPolicies.group}` };
  const { spec } = DefenderPolicies.crd();
  const [version] = spec['versions'] as [object];
  const kept = [
    { ...version, storage: false },
    { ...version, name: 'v1beta1' },
  ];
  await prod.patch(CustomResourceDefinitions, key, { merge: { spec: { versions: kept } } });
  const commit = bump({ runtime: '1.1.0', kubelet: '1.0.0' });
  const unitInProd = async () => (await hub.rollout(commit))?.status?.units?.[0]?.clusters?.find(({ name }) => name === 'prod');
  await waitFor(
    async () => {
      await hub.prove('test');
      return (await unitInProd())?.phase === 'Blocked';
    },
    { deadlineMs: LATE },
  );
  const condition = await reachable('prod', 'KindsNewer');
  expect(condition.message).toMatch(/^defenderpolicies of kubenode\.io are kept in v1beta1; .*nothing is written; next: upgrade this hub$/);
  const isReported = async (): Promise<boolean> => (await unitInProd())?.message?.includes('are kept in v1beta1') === true;
  await waitFor(isReported, { deadlineMs: LATE, what: 'the rollout to report it' });
  expect(await hub.sets('prod')).toEqual({ runtime: '1.0.0', kubelet: '1.0.0' });

  await prod.delete(CustomResourceDefinitions, key);
  expect((await reachable('prod', 'KindsAbsent')).message).toContain('does not serve defenderpolicies of kubenode.io/v1alpha1');
  expect(await hub.sets('prod')).toEqual({ runtime: '1.0.0', kubelet: '1.0.0' });
  await waitFor(async () => (await prod.find(CustomResourceDefinitions, key)) === undefined, { deadlineMs: LATE });
  await prod.create(CustomResourceDefinitions, DefenderPolicies.crd());
  await reachable('prod', 'Connected');
  await hub.finish(commit);
  expect((await hub.sets('prod'))['runtime']).toBe('1.1.0');
});

it('a cell that is older is Blocked, with the field that it does not know, and is not written into without it', async () => {
  const prod = hub.cell('prod');
  const key = { name: `${MachineComponentSets.plural}.${MachineComponentSets.group}` };
  const good = MachineComponentSets.crd().spec;
  const older = structuredClone(good) as typeof good & {
    versions: [{ schema: { openAPIV3Schema: { properties: { spec: { properties: object } } } } }];
  };
  Reflect.deleteProperty(older.versions[0].schema.openAPIV3Schema.properties.spec.properties, 'soakSeconds');
  await prod.patch(CustomResourceDefinitions, key, { merge: { spec: { versions: older.versions } } });
  const commit = bump({ runtime: '1.1.0', kubelet: '1.0.0' });
  const unitInProd = async () => (await hub.rollout(commit))?.status?.units?.[0]?.clusters?.find(({ name }) => name === 'prod');
  await waitFor(
    async () => {
      await hub.prove('test');
      const { phase, message } = (await unitInProd()) ?? {};
      return phase === 'Blocked' && message?.includes('.spec.soakSeconds: field not declared in schema') === true;
    },
    { deadlineMs: LATE, what: 'the words of the server' },
  );
  expect(await hub.sets('prod')).toEqual({ runtime: '1.0.0', kubelet: '1.0.0' });

  await prod.patch(CustomResourceDefinitions, key, { merge: { spec: { versions: good['versions'] } } });
  await hub.finish(commit);
  expect((await hub.sets('prod'))['runtime']).toBe('1.1.0');
});

const POOLS = `import { fleet, KubeObject, MachineSet } from 'kubenode/constructs';
fleet.cluster('test', { labels: { stage: 'test' } });
fleet.cluster('prod', { labels: { stage: 'prod' } });
fleet.allClusters((cluster) => {
  const pool = cluster.pool('shop');
  new KubeObject(pool, { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'motd' }, data: { text: 'TEXT' } });
  new MachineSet(pool, 'web', { provider: 'none', replicas: 0 });
});
`;

it('what goes into a namespace that is being deleted waits, with the words of the server, and is made when the namespace is there again', async () => {
  await hub.patchFleet({ prune: { maxDeletions: 20 } });
  for (const cell of ['test', 'prod']) {
    const metadata = { name: 'shop', labels: { 'kubenode.io/fleet': 'main' } };
    await hub.cell(cell).create(Namespaces, { apiVersion: 'v1', kind: 'Namespace', metadata });
  }
  const prod = hub.cell('prod');
  const finalized = { namespace: 'shop', name: 'held' };
  await prod.create(ConfigMaps, { apiVersion: 'v1', kind: 'ConfigMap', metadata: { ...finalized, finalizers: ['example.com/hold'] } });
  await prod.delete(Namespaces, { name: 'shop' });
  const commit = hub.commit('Pools', { 'fleet/main.ts': POOLS });

  /** The set's own controller is played here. */
  const settle = async (cell: string): Promise<void> => {
    const client = hub.cell(cell);
    const set = await client.find(MachineSets, { namespace: 'shop', name: 'web' });
    if (set === undefined || set.status?.observedGeneration === set.metadata.generation) return;
    const status = { observedGeneration: set.metadata.generation, replicas: 0, availableReplicas: 0, readyReplicas: 0 };
    await client.patch(MachineSets, { namespace: 'shop', name: 'web' }, { merge: { status } }, { subresource: 'status' });
  };
  const message = async (unit: string): Promise<string | undefined> => {
    await settle('test');
    const found = (await hub.rollout(commit))?.status?.units?.find((each) => each.unit === unit);
    return found?.clusters?.find(({ name, phase }) => name === 'prod' && phase === 'Blocked')?.message;
  };
  for (const unit of ['ConfigMap/shop/motd', 'MachineSet/shop/web'])
    expect(await waitFor(() => message(unit), { deadlineMs: LATE, what: unit })).toContain('because it is being terminated');

  await prod.patch(ConfigMaps, finalized, { merge: { metadata: { finalizers: null } } });
  await waitFor(
    async () => {
      await settle('test');
      await settle('prod');
      return (await hub.rollout(commit))?.status?.phase === 'Done';
    },
    { deadlineMs: LATE, what: 'the rollout' },
  );
  expect((await prod.get(ConfigMaps, { namespace: 'shop', name: 'motd' })).data).toEqual({ text: 'TEXT' });
  expect((await prod.get(Namespaces, { name: 'shop' })).metadata.labels).toMatchObject({ 'kubenode.io/fleet': 'main' });
});
