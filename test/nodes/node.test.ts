/** A whole node by its cell: a plain Debian becomes a Ready Node of a real control plane, by sets of components, and stays one. */
import { appendFileSync, cpSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { rolldown } from 'rolldown';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Nodes, Pods } from '../../src/api/builtin.ts';
import { API_VERSION } from '../../src/api/kind.ts';
import { Machines } from '../../src/api/machine.ts';
import { MachineComponents } from '../../src/api/machine-component.ts';
import { MachineComponentSets } from '../../src/api/machine-component-set.ts';
import { RemedyOperationJobs } from '../../src/api/remedy-operation-job.ts';
import { runCellControllers } from '../../src/cli/cell.ts';
import { manifests } from '../../src/cli/manifests.ts';
import { fleetRules } from '../../src/cli/rules/fleet-rules.ts';
import type { Release } from '../../src/constructs/index.ts';
import { systemClock } from '../../src/kube/clock.ts';
import type { Client } from '../../src/kube/client.ts';
import { createClient } from '../../src/kube/http-client.ts';
import { recordingLog } from '../../src/kube/testing/log.ts';
import { DEFAULT_ENTRY, DEFAULT_INCLUDE } from '../../src/sync/fleet/entry.ts';
import { childBundle } from '../../src/sync/render/testing/child-bundle.ts';
import { serveArtifacts, type Artifacts } from './artifacts.ts';
import { command } from './command.ts';
import { cniPlugins, containerd, detector, KERNEL_LOG, kubelet, SANDBOX } from './components.ts';
import { startNodesControlPlane, type NodesControlPlane } from './control-plane.ts';
import type { TestMachine } from './machine.ts';
import { rigProvider, type RigProvider } from './provider.ts';
import { openNodes, type NodesRig } from './rig.ts';

const NS = 'web';
const SECONDS = 180_000;
let rig: NodesRig;
let plane: NodesControlPlane;
let artifacts: Artifacts;
let provider: RigProvider;
let client: Client;
let controllers: Promise<void>;
const ended = new AbortController();
const log = recordingLog();

beforeAll(async () => {
  const print = (line: string): void => void process.stderr.write(`${line}\n`);
  rig = await openNodes(print);
  plane = await startNodesControlPlane(rig.gateway, print);
  artifacts = await serveArtifacts(rig.folder, rig.gateway, plane);
  const agent = join(rig.folder, 'agent.mjs');
  const bundle = await rolldown({
    input: fileURLToPath(new URL('../../src/agent/main.ts', import.meta.url)),
    platform: 'node',
    logLevel: 'silent',
  });
  await bundle.write({ file: agent, format: 'esm', codeSplitting: false });
  await bundle.close();
  client = createClient(plane.transport, { fieldManager: 'a-human', userAgent: 'nodes-test' });
  // All that `kubenode install` makes, but for the pods: the controllers run here.
  const made = await manifests({ role: 'cell', namespace: 'kubenode-system', image: 'none', replicas: 1, server: plane.connection.server });
  const pods = ['Deployment', 'PodDisruptionBudget'];
  const kinds = made.filter(({ kind }) => kind === 'CustomResourceDefinition');
  // Who may write what is tested with the installation; here one administrator is hub, cell and people.
  const rest = made.filter(({ kind }) => ![...pods, 'CustomResourceDefinition'].includes(kind) && !kind.startsWith('ValidatingAdmission'));
  await apply(kinds);
  await kubectl('wait', '--for=condition=Established', '--timeout=60s', 'crd', '--all');
  await apply([{ apiVersion: 'v1', kind: 'Namespace', metadata: { name: NS } }, ...rest]);
  provider = rigProvider(rig, agent);
  const { connection } = plane;
  controllers = runCellControllers(
    {
      client: createClient(plane.transport, { userAgent: 'kubenode-controller' }),
      clock: systemClock({ ref: true }),
      random: Math.random,
      log,
      signal: ended.signal,
    },
    {
      localNodes: undefined,
      mirror: artifacts.mirror,
      server: connection.server,
      certificateAuthority: connection.ca,
      providers: [provider],
    },
  );
  controllers.catch((error: unknown) => (ended.signal.aborted ? undefined : print(String(error))));
}, 900_000);

afterAll(async () => {
  ended.abort(new Error('the tests are over'));
  await controllers?.catch(() => undefined);
  await artifacts?.close();
  await plane?.stop();
  await rig?.close();
});

const kubectl = (...args: string[]): Promise<string> =>
  command([plane.kubectl, '--kubeconfig', plane.kubeconfig, ...args], { timeoutMs: 120_000 });
const apply = (objects: object[]): Promise<string> =>
  command([plane.kubectl, '--kubeconfig', plane.kubeconfig, 'apply', '--server-side', '-f', '-'], {
    input: JSON.stringify({ apiVersion: 'v1', kind: 'List', items: objects }),
    timeoutMs: 120_000,
  });

const troubles = (): string =>
  log.lines
    .filter(({ level }) => level === 'warn' || level === 'error')
    .slice(-20)
    .map(({ message, fields }) => `${message} ${JSON.stringify(fields).slice(0, 400)}`)
    .join('\n');

/** Waits, and reports the output of the machine and its agent when it waits in vain. */
async function until<T>(what: string, find: () => Promise<T | undefined | false>, ms = SECONDS): Promise<T> {
  const deadline = performance.now() + ms;
  for (;;) {
    const found = await find().catch(() => undefined);
    if (found !== undefined && found !== false) return found;
    if (performance.now() > deadline) {
      const machine = provider.machine('n1');
      const journal = await machine?.run(['journalctl', '--no-pager', '-n', '60', '-o', 'cat']);
      const { status, spec } = (await client.find(Machines, { namespace: NS, name: 'n1' })) ?? {};
      const conditions = (await node())?.status?.conditions;
      const jobs = (await client.listAll(RemedyOperationJobs)).items.map(({ spec, status }) => [
        spec.action,
        status?.phase,
        status?.explanation,
      ]);
      throw new Error(
        `${what}: not within ${ms / 1000} s\n${JSON.stringify({ status, spec, conditions, jobs }, null, 1)}\n${troubles()}\n${journal?.stdout ?? ''}`,
      );
    }
    await delay(200);
  }
}

const component = ({ objectName, spec }: Release): object => ({
  apiVersion: API_VERSION,
  kind: 'MachineComponent',
  metadata: { name: objectName },
  spec,
});
const set = ({ component: name, version }: Release): object => ({
  apiVersion: API_VERSION,
  kind: 'MachineComponentSet',
  metadata: { name },
  spec: { componentName: name, version, batches: ['100%'], soakSeconds: 0, maxUnavailable: 1, maxFailed: 1 },
});
const node = async () => await client.find(Nodes, { name: 'n1' });
const isReady = (found: Awaited<ReturnType<typeof node>>): boolean =>
  found?.status?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True') === true;
const machineOf = (): TestMachine => {
  const found = provider.machine('n1');
  if (found === undefined) throw new Error('there is no machine yet');
  return found;
};
const statusOf = async (name: string) =>
  (await client.get(Machines, { namespace: NS, name: 'n1' })).status?.components?.find((each) => each.name === name);
const property = async (unit: string, name: string): Promise<string> =>
  (await machineOf().ok(['systemctl', 'show', '--value', `--property=${name}`, `${unit}.service`])).trim();

test('a plain Debian becomes a Ready Node: its agent, containerd, runc, CNI plugins and kubelet come by its cell', async () => {
  const began = performance.now();
  const releases = [cniPlugins(artifacts), containerd(artifacts), kubelet(artifacts, '1.33.13')];
  for (const { objectName, spec } of releases) {
    expect(MachineComponents.validate({ apiVersion: API_VERSION, kind: 'MachineComponent', metadata: { name: objectName }, spec })).toEqual(
      [],
    );
  }
  await apply([...releases, kubelet(artifacts, '1.34.4')].map(component));
  await apply(releases.map(set));
  await apply([
    {
      apiVersion: API_VERSION,
      kind: 'DefenderPolicy',
      metadata: { name: 'default' },
      spec: { limits: [{ name: 'cell', scope: 'Cluster', maxUnavailable: 1 }] },
    },
  ]);
  await apply([
    {
      apiVersion: API_VERSION,
      kind: 'Machine',
      metadata: { namespace: NS, name: 'n1' },
      spec: { provider: { name: 'rig' }, labels: { 'example.com/role': 'web' } },
    },
  ]);
  const ready = await until('Node n1 Ready', async () => {
    const found = await node();
    return isReady(found) && found;
  });
  process.stderr.write(`a Node Ready ${((performance.now() - began) / 1000).toFixed(0)} s after its Machine\n`);
  expect(ready.status?.nodeInfo?.['kubeletVersion']).toBe('v1.33.13');
  expect(ready.spec?.['providerID']).toBe(`rig://${rig.id}/${NS}/n1`);
  await until('the Machine Running, labels synced', async () => {
    const { status } = await client.get(Machines, { namespace: NS, name: 'n1' });
    return status?.phase === 'Running' && (await node())?.metadata.labels?.['example.com/role'] === 'web';
  });
});

test('no credential lies there but those of this node; the kubelet took the one that the agent got, and asks as its Node', async () => {
  const kubeconfig = await machineOf().ok(['cat', '/etc/kubernetes/kubelet.kubeconfig']);
  expect((await machineOf().ok(['stat', '-c', '%a %U', '/etc/kubernetes/kubelet.kubeconfig'])).trim()).toBe('600 root');
  const user = (JSON.parse(kubeconfig) as { users: [{ name: string; user: object }] }).users[0];
  expect(user.name).toBe('system:node:n1');
  expect(Object.keys(user.user)).toEqual(['client-certificate-data', 'client-key-data']);
  interface Request {
    spec: { signerName: string; username: string };
    status?: { conditions?: { type: string; reason?: string }[] };
  }
  const ofKubelet = async (): Promise<Request[]> =>
    (JSON.parse(await kubectl('get', 'csr', '-o', 'json')) as { items: Request[] }).items.filter(({ spec }) =>
      spec.signerName.endsWith('-client-kubelet'),
    );
  const has = (request: Request, type: string): boolean => request.status?.conditions?.some((each) => each.type === type) === true;
  const requests = await until('the kubelet has a certificate that it asked for itself', async () => {
    const found = await ofKubelet();
    return found.some((each) => each.spec.username === 'system:node:n1' && has(each, 'Approved')) && found;
  });
  // By the agent once; what follows the kubelet asks for as its Node.
  const approved = requests.filter((each) => has(each, 'Approved')).map(({ spec }) => spec.username);
  expect(approved.toSorted()).toEqual([`kubenode:machine:${NS}:n1`, 'system:node:n1']);
  // What it asked for before its Machine had claimed the Node was denied at once (docs/protocols.md#g4g); it asked again by itself.
  for (const { spec, status } of requests.filter((each) => !has(each, 'Approved')))
    expect([spec.username, status?.conditions?.map(({ reason }) => reason)]).toEqual(['system:node:n1', ['NodeUnclaimed']]);
});

/** No registry is reachable. It may be there already. */
async function importImage(machine: TestMachine): Promise<void> {
  cpSync(artifacts.image, join(machine.disk, 'root/pod.tar'));
  const ctr = '/var/lib/kubenode/components/containerd/current/containerd/bin/ctr';
  await machine.ok([ctr, '-n', 'k8s.io', 'images', 'import', '/root/pod.tar']);
}

test('a pod runs on it and answers; its container outlives a restart of containerd, of the kubelet, and of the agent', async () => {
  const machine = machineOf();
  await importImage(machine);
  await apply([
    {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { namespace: NS, name: 'app' },
      spec: { containers: [{ name: 'app', image: SANDBOX, imagePullPolicy: 'Never', args: ['serve'] }], terminationGracePeriodSeconds: 1 },
    },
  ]);
  const running = await until('the pod Running', async () => {
    const found = await client.find(Pods, { namespace: NS, name: 'app' });
    return found?.status?.phase === 'Running' && found;
  });
  const container = (JSON.stringify(running.status).match(/"containerID":"([^"]+)"/) ?? [])[1];
  const address = (JSON.stringify(running.status).match(/"podIP":"([^"]+)"/) ?? [])[1] ?? '';
  const response = (): Promise<string> =>
    machine.ok(['bash', '-c', `exec 3<>/dev/tcp/${address}/8080; printf 'GET / HTTP/1.0\\r\\n\\r\\n' >&3; cat <&3`]);
  expect(await response()).toContain('on app');
  const shims = async (): Promise<string> => (await machine.ok(['pgrep', '-f', 'containerd-shim-runc-v2'])).trim();
  const before = await shims();
  for (const unit of ['containerd', 'kubelet', 'kubenode-agent']) {
    const main = await property(unit, 'MainPID');
    await machine.ok(['systemctl', 'restart', `${unit}.service`]);
    await until(
      `${unit} again`,
      async () => (await property(unit, 'ActiveState')) === 'active' && (await property(unit, 'MainPID')) !== main,
    );
    expect(await shims()).toBe(before);
    expect(await response()).toContain('on app');
  }
  await until('Node n1 Ready again', async () => isReady(await node()));
  const after = await client.get(Pods, { namespace: NS, name: 'app' });
  expect(JSON.stringify(after.status)).toContain(container);
  expect(JSON.stringify(after.status)).toMatch(/"restartCount":0/);
});

test('kill -9 of the agent at any moment restarts no unit and loses none', async () => {
  const machine = machineOf();
  const units = ['containerd', 'kubelet'];
  const invocations = async (): Promise<string[]> => await Promise.all(units.map((unit) => property(unit, 'InvocationID')));
  const before = await invocations();
  const kills = Number(process.env['KUBENODE_NODE_KILLS'] ?? 20);
  for (let done = 0; done < kills; done++) {
    const pid = await until('the agent runs', async () => {
      const found = await property('kubenode-agent', 'MainPID');
      return found !== '0' && found;
    });
    // At another moment of its life each time: systemd starts it again after 2 s.
    await delay(100 * (done % 20));
    await machine.run(['kill', '-9', pid]);
  }
  await until('both are reported healthy', async () => {
    const states = await Promise.all(units.map(async (unit) => (await statusOf(unit))?.state));
    return states.every((state) => state === 'Healthy');
  });
  expect(await invocations()).toEqual(before);
  process.stderr.write(`the agent was killed ${kills} times\n`);
});

test('a kubelet that is killed is running again soon, and its Node stays', async () => {
  const before = await property('kubelet', 'InvocationID');
  const uid = (await node())?.metadata.uid;
  await machineOf().ok(['kill', '-9', await property('kubelet', 'MainPID')]);
  await until(
    'another kubelet',
    async () => (await property('kubelet', 'ActiveState')) === 'active' && (await property('kubelet', 'InvocationID')) !== before,
  );
  await until('Ready', async () => isReady(await node()));
  expect((await node())?.metadata.uid).toBe(uid);
});

const kubeletVersion = async (): Promise<unknown> => (await node())?.status?.nodeInfo?.['kubeletVersion'];

test('a change of one line takes the kubelet to the next minor, drained and uncordoned; its revert brings the old one back', async () => {
  const pod = async () => await client.find(Pods, { namespace: NS, name: 'app' });
  expect((await pod())?.metadata.deletionTimestamp).toBeUndefined();
  for (const version of ['1.34.4', '1.33.13'] as const) {
    const began = performance.now();
    await apply([set(kubelet(artifacts, version))]);
    await until(`kubelet ${version}`, async () => (await kubeletVersion()) === `v${version}` && isReady(await node()));
    await until(`the set is done with ${version}`, async () => {
      const { status } = await client.get(MachineComponentSets, { name: 'kubelet' });
      return status?.updated === 1 && (await node())?.spec?.unschedulable !== true;
    });
    process.stderr.write(`kubelet ${version} ran, proven and uncordoned, after ${((performance.now() - began) / 1000).toFixed(0)} s\n`);
    // A minor version drains.
    expect(await pod()).toBeUndefined();
  }
});

const conditionOf = async (type: string) => (await node())?.status?.conditions?.find((each) => each.type === type);
const logged = (line: string): void => {
  const [, month = '', day = '', time = ''] = /^\w+ (\w+) (\d+) \d+ (\S+)/.exec(new Date().toString()) ?? [];
  const stamp = `${month} ${String(Number(day)).padStart(2)} ${time}`;
  appendFileSync(join(machineOf().disk, KERNEL_LOG), `${stamp} n1 kernel: [ 4711.000000] ${line}\n`);
};

test("a hung task in the kernel's log is seen by the real node-problem-detector, which has access as this node alone", async () => {
  writeFileSync(join(machineOf().disk, KERNEL_LOG), '');
  const release = detector(artifacts);
  await apply([component(release)]);
  await apply([set(release)]);
  await until('the detector reports that the kernel is well', async () => (await conditionOf('KernelDeadlock'))?.status === 'False');
  await until('it is reported healthy', async () => (await statusOf('node-problem-detector'))?.state === 'Healthy');
  const folder = '/etc/kubernetes/node-problem-detector';
  expect((await machineOf().ok(['stat', '-c', '%a %U', `${folder}/client.pem`])).trim()).toBe('600 root');
  const { users } = JSON.parse(await machineOf().ok(['cat', `${folder}/kubeconfig`])) as { users: [{ name: string; user: object }] };
  expect(users[0]).toEqual({
    name: 'system:node:n1',
    user: { 'client-certificate': `${folder}/client.pem`, 'client-key': `${folder}/client.pem` },
  });
  const began = performance.now();
  logged('task docker:7 blocked for more than 120 seconds.');
  const found = await until('KernelDeadlock', async () => {
    const { status, reason } = (await conditionOf('KernelDeadlock')) ?? {};
    return status === 'True' && reason;
  });
  expect(found).toBe('TaskHung');
  process.stderr.write(`the hung task was a condition of the Node ${((performance.now() - began) / 1000).toFixed(1)} s after the line\n`);
});

test("the catalogue's rule, enforced, migrates its pods and reboots it under Defender; in another boot it is proven healed and takes pods again", async () => {
  await importImage(machineOf());
  const began = performance.now();
  const before = await machineOf().bootID();
  await apply([
    {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { namespace: NS, name: 'other' },
      spec: {
        containers: [{ name: 'other', image: SANDBOX, imagePullPolicy: 'Never', args: ['serve'] }],
        terminationGracePeriodSeconds: 1,
      },
    },
  ]);
  await until('the pod Running', async () => (await client.find(Pods, { namespace: NS, name: 'other' }))?.status?.phase === 'Running');
  const root = fileURLToPath(new URL('../..', import.meta.url));
  const folder = { root, entry: DEFAULT_ENTRY, include: DEFAULT_INCLUDE };
  const { rules } = await fleetRules(folder, await childBundle(), AbortSignal.timeout(60_000));
  const rule = rules.find((each) => each.rule.metadata.name === 'hung-kernel-task')?.rule;
  if (rule === undefined) throw new Error('the catalogue has no rule hung-kernel-task');
  const { healedWhen } = rule.spec;
  // As the catalogue has it, but for who decides (a person enforces it) and how long is waited.
  const spec = { ...rule.spec, mode: 'Enforce', holdsForSeconds: 5, healedWhen: { ...healedWhen, forSeconds: 10 } };
  await apply([{ apiVersion: API_VERSION, kind: rule.kind, metadata: { name: rule.metadata.name }, spec }]);
  const jobs = async () => (await client.listAll(RemedyOperationJobs)).items.filter((each) => each.spec.rule === 'hung-kernel-task');
  const machine = machineOf();
  await machine.rebooted(before);
  await until('Ready in another boot', async () => {
    const found = await node();
    return isReady(found) && found?.status?.nodeInfo?.['bootID'] === (await machine.bootID());
  });
  process.stderr.write(
    `the machine was Ready in another boot ${((performance.now() - began) / 1000).toFixed(0)} s after the rule was enforced\n`,
  );
  expect(await client.find(Pods, { namespace: NS, name: 'other' })).toBeUndefined();
  await until('the boot is proven to have healed it', async () =>
    (await jobs()).some(({ spec, status }) => spec.action === 'Reboot' && status?.phase === 'Succeeded'),
  );
  process.stderr.write(`it was proven healed ${((performance.now() - began) / 1000).toFixed(0)} s after the rule was enforced\n`);
  const ends = (await jobs()).map(({ spec, status }) => `${spec.action} ${status?.phase} ${status?.outcome}`);
  // Each once: pods away, then one boot.
  expect(ends.toSorted()).toEqual(['MigratePods Succeeded Succeeded', 'Reboot Succeeded Succeeded']);
  await until('it takes pods again', async () => isReady(await node()) && (await node())?.spec?.unschedulable !== true);
  expect((await conditionOf('KernelDeadlock'))?.status).toBe('False');
  await until('the Machine Running', async () => {
    const { status } = await client.get(Machines, { namespace: NS, name: 'n1' });
    return status?.phase === 'Running';
  });
});

test('a kubelet that does not work puts itself back, and the set reports that it failed', async () => {
  const broken = artifacts.put('kubelet/v1.34.99/bin/linux/amd64/kubelet', Buffer.from('#!/bin/sh\necho broken\nexit 1\n'));
  const release = kubelet(artifacts, '1.34.4', '1.34.99', broken);
  await apply([component(release)]);
  await apply([set(release)]);
  await until('what was verified last is back, and the failure is kept', async () => {
    const { spec } = await client.get(Machines, { namespace: NS, name: 'n1' });
    const entry = spec.components?.find(({ name }) => name === 'kubelet');
    const status = await statusOf('kubelet');
    const isBack = status?.version === '1.33.13' && status.state === 'Healthy' && status.revision === entry?.revision;
    return isBack && entry?.lane === 'Restore' && entry.failed?.reason === 'ProbesFailed';
  });
  await until('the old one Ready', async () => (await kubeletVersion()) === 'v1.33.13' && isReady(await node()));
  await until('the set has halted', async () => {
    const { status } = await client.get(MachineComponentSets, { name: 'kubelet' });
    return status?.conditions?.some(({ type, status }) => type === 'Halted' && status === 'True');
  });
});
