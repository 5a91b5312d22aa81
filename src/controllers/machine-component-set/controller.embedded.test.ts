import { afterEach, beforeEach, expect, it } from 'vitest';
import { Events, Leases, Namespaces } from '../../api/builtin.ts';
import { API_VERSION } from '../../api/kind.ts';
import { Machines } from '../../api/machine.ts';
import { MachineComponents } from '../../api/machine-component.ts';
import { MachineComponentSets } from '../../api/machine-component-set.ts';
import { agentLeaseName, ANNOTATIONS } from '../../api/names.ts';
import type { KubeObject } from '../../api/wire.ts';
import { findCondition } from '../../kube/conditions.ts';
import { microTime } from '../../kube/clock.ts';
import { waitFor } from '../../kube/testing/wait-for.ts';
import { noisy } from '../machine/testing/noisy.ts';
import { runMachineComponentSetController } from './controller.ts';
import { modelAgent, type ModelAgent } from './testing/agent.ts';
import { openCell, type TestCell } from './testing/cell.ts';

const NAMES = ['a', 'b', 'c', 'd'];
const LATE = { deadlineMs: 15_000 };
let cell: TestCell;
let running: Promise<void>[];
let agents: Map<string, ModelAgent>;
let bad: Set<string>;
let agentsEnd: AbortController;
let noise: ReturnType<typeof noisy>;

beforeEach(async () => {
  cell = await openCell();
  agentsEnd = new AbortController();
  bad = new Set();
  for (const version of ['1.0.0', '2.0.0', '3.0.0']) {
    await cell.client.create(MachineComponents, {
      apiVersion: API_VERSION,
      kind: 'MachineComponent',
      metadata: { name: `kubelet-${version}` },
      spec: { componentName: 'kubelet', version, platforms: [{ os: 'any', arch: 'any', artifacts: [] }] },
    });
  }
  agents = new Map(
    NAMES.map((name) => [
      name,
      modelAgent(
        'kubelet',
        (entry) => bad.has(`${name} ${entry.version}`),
        () => false,
      ),
    ]),
  );
  for (const name of NAMES) {
    await cell.client.create(Machines, { apiVersion: API_VERSION, kind: 'Machine', metadata: { namespace: 'web', name }, spec: {} });
    await cell.client.patch(
      Machines,
      { namespace: 'web', name },
      { merge: { status: { phase: 'Running', firstReadyAt: '2026-11-20T00:00:00Z' } } },
      { subresource: 'status' },
    );
    await cell.client.create(Leases, {
      apiVersion: 'coordination.k8s.io/v1',
      kind: 'Lease',
      metadata: { namespace: 'web', name: agentLeaseName(name) },
      spec: { holderIdentity: name, renewTime: microTime(cell.ports.clock.now()), leaseDurationSeconds: 180 },
    });
  }
  noise = noisy(cell.ports.client, { reports: false });
  noise.pause(true);
  running = [runMachineComponentSetController({ ...cell.ports, client: noise.through, term: Promise.resolve(1) }), playAgents()];
});
afterEach(async () => {
  agentsEnd.abort();
  await cell.close(running);
});

/** The agents write their part of the status as agents do. */
async function playAgents(): Promise<void> {
  while (!agentsEnd.signal.aborted) {
    for (const [name, agent] of agents) {
      const machine = await cell.client.get(Machines, { namespace: 'web', name });
      const before = JSON.stringify([machine.status?.agent, machine.status?.components]);
      agent.step(machine);
      const { agent: node, components } = machine.status ?? {};
      if (JSON.stringify([node, components]) === before) continue;
      await cell.client.apply(
        Machines,
        {
          apiVersion: API_VERSION,
          kind: 'Machine',
          metadata: { namespace: 'web', name },
          status: { agent: node, ...(components === undefined ? {} : { components }) },
        } as KubeObject,
        { fieldManager: 'kubenode-agent', subresource: 'status', force: true },
      );
    }
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

const status = async () => (await cell.client.get(MachineComponentSets, { name: 'kubelet' })).status ?? {};
const isDone = async (): Promise<boolean> => findCondition((await status()).conditions, 'Progressing')?.reason === 'Complete';
const versions = async (): Promise<string[]> =>
  (await cell.client.listAll(Machines)).items.map((machine) => machine.spec.components?.[0]?.version ?? '');

it('rolls a version out, halts at a bad one and goes back, on an API server with schemas and field ownership', async () => {
  await cell.client.create(MachineComponentSets, {
    apiVersion: API_VERSION,
    kind: 'MachineComponentSet',
    metadata: { name: 'kubelet' },
    spec: { componentName: 'kubelet', version: '1.0.0', values: { a: { b: 1 } }, batches: [1, '100%'], soakSeconds: 0, unitDigest: 'v1:a' },
  });
  await waitFor(isDone, LATE);
  expect(await status()).toMatchObject({
    progress: '4/4',
    evidence: { unitDigest: 'v1:a' },
    verified: { version: '1.0.0', values: { a: { b: 1 } } },
  });

  for (const name of NAMES) bad.add(`${name} 2.0.0`);
  const change = (spec: object) => cell.client.patch(MachineComponentSets, { name: 'kubelet' }, { merge: { spec } });
  await change({ version: '2.0.0', values: null, unitDigest: 'v1:b' });
  await waitFor(async () => findCondition((await status()).conditions, 'Halted')?.status === 'True', LATE);
  await waitFor(async () => (await versions()).every((version) => version === '1.0.0'), LATE);
  expect((await status()).evidence).toBeUndefined();
  const failed = (await cell.client.listAll(Machines)).items.filter((machine) => machine.spec.components?.[0]?.failed !== undefined);
  expect(failed).toHaveLength(1);
  // The server merged the entry as one value: nothing of the failed content is left in it.
  expect(failed[0]?.spec.components?.[0]).toMatchObject({ version: '1.0.0', values: { a: { b: 1 } }, revision: 3 });

  await change({ version: '3.0.0', unitDigest: 'v1:c' });
  await waitFor(async () => (await isDone()) && (await versions()).every((version) => version === '3.0.0'), LATE);
  expect(await status()).toMatchObject({ revision: { number: 3 }, failed: 0, evidence: { unitDigest: 'v1:c' } });
  expect((await status()).revision?.values).toBeUndefined();
  await cell.ports.recorder.flush();
  const reasons = (await cell.client.listAll(Events)).items.map((event) => event.reason);
  expect(reasons).toEqual(expect.arrayContaining(['RevisionBegun', 'ContentVerified', 'RolloutHalted', 'ComponentFailed']));
});

it('C4a: agents that write their status before each write of the controller keep no content, no verdict and no failure away', async () => {
  noise.pause(false);
  await cell.client.create(MachineComponentSets, {
    apiVersion: API_VERSION,
    kind: 'MachineComponentSet',
    metadata: { name: 'kubelet' },
    spec: { componentName: 'kubelet', version: '1.0.0', batches: [1, '100%'], soakSeconds: 0, unitDigest: 'v1:a' },
  });
  await waitFor(isDone, LATE);
  for (const name of NAMES) bad.add(`${name} 2.0.0`);
  await cell.client.patch(MachineComponentSets, { name: 'kubelet' }, { merge: { spec: { version: '2.0.0', unitDigest: 'v1:b' } } });
  await waitFor(async () => findCondition((await status()).conditions, 'Halted')?.status === 'True', LATE);
  await waitFor(async () => (await versions()).every((version) => version === '1.0.0'), LATE);
  expect(noise.count()).toBeGreaterThan(10);
}, 60_000);

it('a soak that is made shorter ends at once, not at the next resync', async () => {
  await cell.client.create(MachineComponentSets, {
    apiVersion: API_VERSION,
    kind: 'MachineComponentSet',
    metadata: { name: 'kubelet' },
    spec: { componentName: 'kubelet', version: '1.0.0', batches: ['100%'], soakSeconds: 3600 },
  });
  const machines = async () => (await cell.client.listAll(Machines)).items;
  await waitFor(async () => (await machines()).every(({ status: each }) => each?.soaks?.length === 1), LATE);
  expect((await machines()).flatMap(({ status: each }) => each?.verified ?? [])).toEqual([]);
  await cell.client.patch(MachineComponentSets, { name: 'kubelet' }, { merge: { spec: { soakSeconds: 0 } } });
  await waitFor(async () => (await machines()).every(({ status: each }) => each?.verified?.[0]?.version === '1.0.0'), LATE);
});

it('B9: an entry that was announced and is not wanted any more is settled: its Machine is written to, and is announced no more', async () => {
  await cell.client.create(MachineComponentSets, {
    apiVersion: API_VERSION,
    kind: 'MachineComponentSet',
    metadata: { name: 'kubelet' },
    spec: { componentName: 'kubelet', version: '1.0.0', soakSeconds: 0 },
  });
  await waitFor(isDone, LATE);
  await waitFor(async () => ((await status()).writing ?? []).length === 0, LATE);
  const fenceOf = async (name: string) =>
    (await cell.client.get(Machines, { namespace: 'web', name })).metadata.annotations?.[ANNOTATIONS.entryFence];
  const fences = await Promise.all(NAMES.map(fenceOf));
  const announce = async (): Promise<string> => {
    const { resourceVersion } = (await cell.client.get(Machines, { namespace: 'web', name: 'b' })).metadata;
    const writing = [{ machine: 'web/b', resourceVersion }];
    await cell.client.patch(MachineComponentSets, { name: 'kubelet' }, { merge: { status: { writing } } }, { subresource: 'status' });
    return resourceVersion;
  };
  // As a leader left it that ended between the announcement and the write.
  const version = await announce();
  await waitFor(async () => (await fenceOf('b')) === version, LATE);
  await waitFor(async () => ((await status()).writing ?? []).length === 0, LATE);
  expect(await Promise.all(['a', 'c', 'd'].map(fenceOf))).toEqual(fences.filter((_, index) => index !== 1));
});

it('invariant 10: an idle set costs no request', async () => {
  await cell.client.create(MachineComponentSets, {
    apiVersion: API_VERSION,
    kind: 'MachineComponentSet',
    metadata: { name: 'kubelet' },
    spec: { componentName: 'kubelet', version: '1.0.0', soakSeconds: 0 },
  });
  await waitFor(isDone, LATE);
  await cell.ports.recorder.flush();
  let before = '';
  // At rest: two reads half a second apart show the same version.
  await waitFor(async () => {
    before = cell.cluster.resourceVersion;
    await new Promise((resolve) => setTimeout(resolve, 300));
    return cell.cluster.resourceVersion === before;
  }, LATE);
  // Noise that concerns no set leads to no write either.
  await cell.client.patch(Namespaces, { name: 'web' }, { merge: { metadata: { labels: { noise: '1' } } } });
  await cell.client.patch(Machines, { namespace: 'web', name: 'a' }, { merge: { metadata: { annotations: { noise: '1' } } } });
  const { resourceVersion } = cell.cluster;
  await new Promise((resolve) => setTimeout(resolve, 300));
  expect(cell.cluster.resourceVersion).toBe(resourceVersion);
});
