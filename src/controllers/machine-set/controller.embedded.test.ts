import { afterEach, beforeEach, expect, it } from 'vitest';
import { API_VERSION } from '../../api/kind.ts';
import { Machines, type Machine } from '../../api/machine.ts';
import { MachineComponentSets } from '../../api/machine-component-set.ts';
import { MachineSets, type MachineSet } from '../../api/machine-set.ts';
import type { KubeObject, Stored } from '../../api/wire.ts';
import { waitFor } from '../../kube/testing/wait-for.ts';
import { openCell, type TestCell } from '../machine-component-set/testing/cell.ts';
import { runMachineSetController } from './controller.ts';

const LATE = { deadlineMs: 15_000 };
const KEY = { namespace: 'web', name: 'web-a' };
let cell: TestCell;
let running: Promise<void>[];
beforeEach(async () => {
  cell = await openCell();
  running = [runMachineSetController({ ...cell.ports, providers: new Map([['fake', { validate: () => [] }]]), term: Promise.resolve(1) })];
});
afterEach(() => cell.close(running));

const machines = async (): Promise<Stored<Machine>[]> => (await cell.client.listAll(Machines)).items;
/** As the machine controller does, once they are drained. */
async function retireMarked(): Promise<void> {
  for (const { metadata, spec } of await machines())
    if (spec.retire?.epoch === 1) await cell.client.delete(Machines, metadata, { uid: metadata.uid });
}
const change = (spec: object) => cell.client.patch(MachineSets, KEY, { merge: { spec } });

async function make(spec: Partial<MachineSet['spec']>): Promise<void> {
  await cell.client.create(MachineSets, {
    apiVersion: API_VERSION,
    kind: 'MachineSet',
    metadata: { ...KEY },
    spec: { provider: { name: 'fake' }, ...spec },
  });
  await waitFor(async () => (await machines()).length === (spec.replicas ?? 1), LATE);
}

it('case 12: a label that the template loses disappears, and one that a human put there stays', async () => {
  await make({
    replicas: 2,
    template: { metadata: { labels: { a: '1' } }, labels: { x: '1', y: '1' }, taints: [{ key: 't', effect: 'NoSchedule' }] },
  });
  const [first] = await machines();
  const key = { namespace: 'web', name: first?.metadata.name ?? '' };
  await cell.client.patch(Machines, key, {
    merge: { metadata: { labels: { human: 'yes' } }, spec: { labels: { human: 'yes' }, hold: true } },
  });
  await change({ template: { metadata: { labels: { a: '2' } }, labels: { x: null }, taints: null, operationTimeoutSeconds: 60 } });
  await waitFor(async () => (await machines()).every((machine) => machine.metadata.labels?.['a'] === '2'), LATE);
  const spec = (await cell.client.get(Machines, key)).spec;
  expect(spec).toMatchObject({ labels: { y: '1', human: 'yes' }, hold: true, operationTimeoutSeconds: 60 });
  expect(spec.labels).not.toHaveProperty('x');
  expect(spec.taints).toBeUndefined();

  await change({ template: null });
  await waitFor(async () => (await machines()).every((machine) => machine.metadata.labels?.['a'] === undefined), LATE);
  expect((await cell.client.get(Machines, key)).spec.labels).toEqual({ human: 'yes' });
  // Every apply that is no change is not sent: at rest nothing moves.
  await new Promise((resolve) => setTimeout(resolve, 200));
  const { resourceVersion } = cell.cluster;
  await new Promise((resolve) => setTimeout(resolve, 300));
  expect(cell.cluster.resourceVersion).toBe(resourceVersion);
});

const full = { labels: { x: '1' }, taints: [{ key: 't', effect: 'NoSchedule' as const }] };
it.each<[string, NonNullable<MachineSet['spec']['template']>]>([
  ['labels that a commit gives as empty', { labels: {} }],
  ['labels and taints that a commit gives as empty', { labels: {}, taints: [] }],
  ['taints that a commit gives as empty', { ...full, taints: [] }],
  ['all that a commit drops', {}],
])('%s leave the machines, and the set goes on', async (_what, template) => {
  await make({ replicas: 1, template: full });
  const spec = { provider: { name: 'fake' }, replicas: 2, template };
  await cell.client.patch(MachineSets, KEY, { json: [{ op: 'replace', path: '/spec', value: spec }] });
  await waitFor(async () => {
    const { metadata, status } = await cell.client.get(MachineSets, KEY);
    return status?.observedGeneration === metadata.generation && status?.replicas === 2;
  }, LATE);
  const given = async (): Promise<unknown[]> =>
    (await machines()).map(({ spec: { labels = {}, taints = [] } }) => [Object.keys(labels).length, taints.length]);
  const { labels = {}, taints = [] } = template;
  const each = [Object.keys(labels).length, taints.length];
  expect(await given()).toEqual([each, each]);
});

it('names what its machines still run when the component set that installed it is deleted, until the removal is declared', async () => {
  await make({ replicas: 1 });
  const set = async (action: 'Install' | 'Remove'): Promise<string> => {
    const spec = { componentName: 'hello', version: '1.0.0', action };
    const created = await cell.client.create(MachineComponentSets, {
      apiVersion: API_VERSION,
      kind: 'MachineComponentSet',
      metadata: { name: 'hello' },
      spec,
    });
    return created.metadata.uid;
  };
  const setUID = await set('Install');
  const [machine] = await machines();
  const entry = { name: 'hello', action: 'Install', version: '1.0.0', setUID, setRevision: 1, joinedRevision: 0, revision: 1, attempt: 1 };
  await cell.client.patch(Machines, machine?.metadata ?? { name: '' }, { merge: { spec: { components: [entry] } } });
  const left = async (): Promise<string> => {
    const found = (await cell.client.get(MachineSets, KEY)).status?.conditions?.find(({ type }) => type === 'ComponentsLeft');
    return `${found?.status} ${found?.message}`;
  };
  await waitFor(async () => (await left()) === 'False ', LATE);
  await cell.client.delete(MachineComponentSets, { name: 'hello' });
  const text = '1 machine still runs hello 1.0.0, which no set owns; to remove it declare it with action Remove';
  await waitFor(async () => (await left()) === `True ${text}`, LATE);
  await set('Remove');
  await waitFor(async () => (await left()) === 'False ', LATE);
});

it('case 8 and 13: scales up and down through the scale subresource, to exactly what was asked', async () => {
  await make({ replicas: 3, maxRetiring: '100%' });
  const path = '/apis/kubenode.io/v1alpha1/namespaces/web/machinesets/web-a/scale';
  for (const replicas of [6, 2, 4]) {
    await cell.client.request({
      method: 'PATCH',
      path,
      headers: { 'content-type': 'application/merge-patch+json' },
      body: JSON.stringify({ spec: { replicas } }),
    });
    await waitFor(async () => {
      await retireMarked();
      return (await machines()).length === replicas;
    }, LATE);
    await waitFor(async () => (await cell.client.get(MachineSets, KEY)).status?.replicas === replicas, LATE);
    expect(await machines()).toHaveLength(replicas);
  }
  expect(await cell.client.request({ method: 'GET', path })).toMatchObject({
    spec: { replicas: 4 },
    status: { replicas: 4, selector: 'kubenode.io/machine-set=web-a' },
  });
});

it('goes on until it is ended, also beside a machine that is of no set', async () => {
  let ended = false;
  void running[0]?.then(() => (ended = true));
  await make({ replicas: 1 });
  const [first] = await machines();
  if (first === undefined) throw new Error('no machine was made');
  const key = { namespace: 'web', name: 'alone' };
  const alone = await cell.client.create(Machines, { apiVersion: API_VERSION, kind: 'Machine', metadata: key, spec: {} });
  await cell.client.delete(Machines, first.metadata, { uid: first.metadata.uid });
  await waitFor(
    async () => (await machines()).some(({ metadata }) => ![first.metadata.uid, alone.metadata.uid].includes(metadata.uid)),
    LATE,
  );
  expect(ended).toBe(false);
  expect(await cell.client.get(Machines, key)).toEqual(alone);
  expect(cell.log.lines.filter(({ level }) => level === 'error' || level === 'warn')).toEqual([]);
});

it('reports in its status when the server refuses its machines', async () => {
  // As a server of an earlier version took it.
  const crd = MachineSets.crd();
  const path = `/apis/apiextensions.k8s.io/v1/customresourcedefinitions/${crd.metadata.name}`;
  const { metadata } = (await cell.client.request({ method: 'GET', path })) as KubeObject;
  const spec: unknown = JSON.parse(JSON.stringify(crd.spec), (key, value: unknown) =>
    key === 'x-kubernetes-validations' ? undefined : value,
  );
  const headers = { 'content-type': 'application/json' };
  await cell.client.request({ method: 'PUT', path, headers, body: JSON.stringify({ ...crd, metadata, spec }) });
  await cell.client.create(MachineSets, {
    apiVersion: API_VERSION,
    kind: 'MachineSet',
    metadata: { ...KEY },
    spec: { replicas: 1, provider: { name: 'fake' }, template: { metadata: { labels: { 'not a label': 'x' } } } },
  });
  const reason = async (): Promise<string | undefined> =>
    (await cell.client.get(MachineSets, KEY)).status?.conditions?.find((condition) => condition.type === 'Progressing')?.reason;
  await waitFor(async () => (await reason()) === 'CreateFailed', LATE);
  expect(await machines()).toEqual([]);
  // Reported once: each try draws another name, and a status with it in it would lead to the next try at once.
  const { resourceVersion } = await cell.client.get(MachineSets, KEY).then(({ metadata }) => metadata);
  const failures = (): number => cell.log.lines.filter(({ message }) => message.includes('failed; is retried')).length;
  await waitFor(() => failures() >= 4, LATE);
  expect((await cell.client.get(MachineSets, KEY)).metadata.resourceVersion).toBe(resourceVersion);
  await change({ template: { metadata: { labels: { 'not a label': null, a: '1' } } } });
  await waitFor(async () => (await machines()).length === 1, LATE);
});
