/** Faults of nodes, one after the other, each until its repair is ordered; beside a client that makes the writes and decides nothing. */
import { spawn, type ChildProcess } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { CustomResourceDefinitions, Leases, Namespaces, Nodes } from '../src/api/builtin.ts';
import { DefenderPolicies } from '../src/api/defender-policy.ts';
import { DisruptionLedgers, LEDGER_NAME, type DisruptionLedger } from '../src/api/disruption-ledger.ts';
import { API_VERSION } from '../src/api/kind.ts';
import { CELL_KINDS } from '../src/api/kinds.ts';
import { Machines, type Machine } from '../src/api/machine.ts';
import { agentLeaseName, MANAGERS } from '../src/api/names.ts';
import { NodeRemediers } from '../src/api/node-remedier.ts';
import { RemedyOperationJobs, type RemedyOperationJobSpec } from '../src/api/remedy-operation-job.ts';
import type { Stored } from '../src/api/wire.ts';
import { hasReason } from '../src/kube/api-error.ts';
import type { Connection } from '../src/kube/connect.ts';
import type { Client } from '../src/kube/client.ts';
import { microTime } from '../src/kube/clock.ts';
import { createClient } from '../src/kube/http-client.ts';
import { nodeHttpsTransport } from '../src/kube/https-transport.ts';
import { httpTransport } from '../src/kube/http-transport.ts';
import { served } from './bodies.ts';
import { counting, expense, type Expense } from './expense.ts';
import { now, pause } from './system.ts';

export const FAULTS = 200;
const POOL = 'web';
const AT_ONCE = 24;

const nameOf = (index: number): string => `node-${index}`;
const iso = (): string => new Date().toISOString();

export interface Repairs {
  /** From the patch of the condition until the order is on the Machine's watch, ms; of each fault. */
  values: number[];
  /** The same of the bare client. */
  references: number[];
  /** While faults were repaired, not while the bare client worked. */
  spent: Expense;
  /** In that time: of this process, and all that the server answered. */
  requests: { own: number; all: number };
}

export interface Target {
  connection: Connection;
  /** The same as a file. */
  kubeconfig: string;
  /** Whose processor time is measured beside the controllers'. */
  pids: Record<string, number>;
  /** How many requests the server has answered, where it reports that. */
  answered?: () => Promise<number>;
  /** A controller there marks a Node NotReady whose kubelet is stale. */
  needsKubelets?: boolean;
}

export async function repairs(
  { connection, kubeconfig, pids, answered, needsKubelets = false }: Target,
  machines: number,
): Promise<Repairs> {
  const transport = httpTransport(connection);
  const agents = nodeHttpsTransport(connection);
  const [asking, watched] = [counting(transport), counting(agents)];
  const client = createClient(asking, { userAgent: 'kubenode-bench', fieldManager: 'kubenode-bench' });
  const watching = createClient(watched, { userAgent: 'kubenode-bench' });
  let controllers: ChildProcess | undefined;
  let stopKubelets: (() => Promise<void>) | undefined;
  try {
    await populate(client, machines);
    stopKubelets = needsKubelets ? renewLeases(client, machines) : undefined;
    controllers = startControllers(kubeconfig);
    await settled(client);
    const values: number[] = [];
    const before = asking.count + watched.count;
    const answeredBefore = await answered?.();
    const spending = await expense({ ...pids, controllers: controllers.pid ?? 0 });
    for (let fault = 0; fault < FAULTS; fault++)
      values.push(await untilOrdered(watching, nameOf(fault), () => breakNode(client, nameOf(fault))));
    const spent = await spending();
    const own = asking.count + watched.count - before;
    const all = answered === undefined ? Number.NaN : (await answered()) - (answeredBefore ?? 0);
    await stop(controllers);
    controllers = undefined;

    const found = await client.get(DisruptionLedgers, { name: LEDGER_NAME });
    const emptied = { ...found, status: { ...found.status, reservations: [] } };
    const ledger = { now: await client.update(DisruptionLedgers, emptied, { subresource: 'status' }) };
    const references: number[] = [];
    for (let fault = FAULTS; fault < 2 * FAULTS; fault++) {
      const machine = await client.get(Machines, { namespace: POOL, name: nameOf(fault) });
      references.push(await untilOrdered(watching, nameOf(fault), () => threeWrites(client, machine, ledger)));
    }
    return { values, references, spent, requests: { own, all } };
  } finally {
    if (controllers !== undefined) await stop(controllers);
    await stopKubelets?.();
    await transport.close();
    await agents.close();
  }
}

function startControllers(kubeconfig: string): ChildProcess {
  const entry = fileURLToPath(new URL('../bin/kubenode.js', import.meta.url));
  const args = ['controller', '--cell', '--leader-elect', 'false', '--kubeconfig', kubeconfig, '--log-level', 'error'];
  return spawn(process.execPath, [entry, ...args], {
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    env: { ...process.env, KUBENODE_PARENT: 'ipc' },
  });
}

async function stop(child: ChildProcess): Promise<void> {
  const gone = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  if (child.exitCode === null && child.signalCode === null) child.kill('SIGTERM');
  else return;
  await gone;
}

/** Machines that have claimed their Nodes, with agents and kubelets that have just renewed their Leases. */
async function populate(client: Client, machines: number): Promise<void> {
  await Promise.all(CELL_KINDS.map((kind) => client.create(CustomResourceDefinitions, kind.crd())));
  for (const kind of CELL_KINDS) await served(client, kind);
  for (const name of [POOL, 'kube-node-lease'])
    await client.create(Namespaces, { apiVersion: 'v1', kind: 'Namespace', metadata: { name } }).catch((error: unknown) => {
      if (!hasReason(error, 'AlreadyExists')) throw error;
    });
  await client.create(DefenderPolicies, {
    apiVersion: API_VERSION,
    kind: 'DefenderPolicy',
    metadata: { name: 'wide' },
    spec: { limits: [{ name: 'all', scope: 'Cluster', maxUnavailable: '100%' }] },
  });
  await client.create(NodeRemediers, {
    apiVersion: API_VERSION,
    kind: 'NodeRemedier',
    metadata: { name: 'full-disk' },
    spec: {
      when: { all: [{ fact: 'condition.DiskPressure.status', operator: 'equal', value: 'True' }] },
      holdsForSeconds: 0,
      ladder: [{ action: 'CleanDisk', args: { belowPercent: 80 } }, { action: 'Human' }],
      healedWhen: { condition: 'DiskPressure', is: 'False', forSeconds: 1 },
      mode: 'Enforce',
    },
  });
  let next = 0;
  const worker = async (): Promise<void> => {
    while (next < machines) await addMachine(client, nameOf(next++));
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
}

async function addMachine(client: Client, name: string): Promise<void> {
  const node = await client.create(Nodes, {
    apiVersion: 'v1',
    kind: 'Node',
    metadata: { name },
    spec: { providerID: `bench://${name}` },
    status: { conditions: [condition('Ready', 'True'), condition('DiskPressure', 'False')], nodeInfo: { architecture: 'amd64' } },
  });
  const machine = await client.create(Machines, {
    apiVersion: API_VERSION,
    kind: 'Machine',
    metadata: { namespace: POOL, name },
    spec: {},
  });
  const status = {
    phase: 'Running' as const,
    providerID: `bench://${name}`,
    nodeRef: { name, uid: node.metadata.uid },
    agent: { version: '0.0.0', apiLevel: 1, bootID: 'boot-1', os: 'linux', arch: 'amd64' },
  };
  await client.update(Machines, { ...machine, status }, { subresource: 'status' });
  for (const key of [
    { namespace: POOL, name: agentLeaseName(name) },
    { namespace: 'kube-node-lease', name },
  ])
    await client.create(Leases, {
      apiVersion: 'coordination.k8s.io/v1',
      kind: 'Lease',
      metadata: key,
      spec: { holderIdentity: name, leaseDurationSeconds: 86_400, renewTime: microTime(Date.now()) },
    });
}

/** As kubelets do it, one after the other, each once in this time. */
const RENEWAL_MS = 30_000;

function renewLeases(client: Client, machines: number): () => Promise<void> {
  const over = new AbortController();
  const renewing = (async () => {
    for (let at = 0, began = now(); !over.signal.aborted; at++) {
      const early = began + (at * RENEWAL_MS) / machines - now();
      if (early > 0) await pause(early);
      const key = { namespace: 'kube-node-lease', name: nameOf(at % machines) };
      await client.patch(Leases, key, { merge: { spec: { renewTime: microTime(Date.now()) } } });
    }
  })();
  return async () => {
    over.abort();
    await renewing;
  };
}

const condition = (type: string, status: 'True' | 'False') => ({
  type,
  status,
  reason: `${type}Is${status}`,
  message: '',
  lastHeartbeatTime: iso(),
  lastTransitionTime: iso(),
});

/** The controllers have reported each machine's state and have written nothing for two seconds or more. */
async function settled(client: Client): Promise<void> {
  let before = '';
  let checkMs = 0;
  for (let unchanged = 0; unchanged < 2;) {
    // Listing ten thousand takes seconds, and slows down what is waited for.
    await pause(Math.max(1000, 3 * checkMs));
    const began = performance.now();
    const [rule] = (await client.list(NodeRemediers, { limit: 1 })).items;
    const accepted = rule?.status?.conditions?.some(({ type, status }) => type === 'Accepted' && status === 'True') === true;
    const list = await client.listAll(Machines);
    const reported = list.items.filter(({ status }) => status?.conditions?.some(({ type }) => type === 'Ready') === true).length;
    const version = `${list.items.reduce((most, { metadata }) => Math.max(most, Number(metadata.resourceVersion)), 0)}`;
    unchanged = accepted && reported === list.items.length && version === before ? unchanged + 1 : 0;
    before = version;
    checkMs = performance.now() - began;
  }
}

async function breakNode(client: Client, name: string): Promise<void> {
  const strategic = { status: { conditions: [condition('DiskPressure', 'True')] } };
  await client.patch(Nodes, { name }, { strategic }, { subresource: 'status' });
}

/** From before `cause` until the order is on the watch of the machine, ms. */
async function untilOrdered(client: Client, name: string, cause: () => Promise<void>): Promise<number> {
  const ended = new AbortController();
  const opened = Promise.withResolvers<void>();
  const seen = (async (): Promise<number> => {
    const events = client.watch(Machines, { namespace: POOL, fieldSelector: `metadata.name=${name}`, signal: ended.signal });
    for await (const { type, object } of events) {
      // Without a resourceVersion a watch begins with the object as it is.
      opened.resolve();
      if (type !== 'BOOKMARK' && type !== 'DELETED' && object.spec.operation !== undefined) return now();
    }
    throw new Error(`the watch of ${name} ended`);
  })();
  await opened.promise;
  const began = now();
  await cause();
  const timeout = setTimeout(() => ended.abort(new Error(`no order for ${name} within 30 s`)), 30_000);
  try {
    return (await seen) - began;
  } finally {
    clearTimeout(timeout);
    ended.abort(new Error('seen'));
  }
}

/** `ledger.now` is the ledger as the write before left it. */
async function threeWrites(client: Client, machine: Stored<Machine>, ledger: { now: Stored<DisruptionLedger> }): Promise<void> {
  const { name, uid } = machine.metadata;
  const spec: RemedyOperationJobSpec = {
    rule: 'full-disk',
    machine: { name, uid },
    node: name,
    rung: 0,
    attempt: 1,
    action: 'CleanDisk',
    args: { belowPercent: 80 },
    timeoutSeconds: 600,
    healedWhen: { condition: 'DiskPressure', is: 'False', forSeconds: 1 },
    priority: 0,
    matchedSince: iso(),
    why: 'condition.DiskPressure.status is "True"',
  };
  const job = await client.create(RemedyOperationJobs, {
    apiVersion: API_VERSION,
    kind: 'RemedyOperationJob',
    metadata: { namespace: POOL, name: `bare-${name}` },
    spec,
  });
  const id = `bare-${name}`;
  const reservation = {
    id,
    machineUID: uid,
    machine: `${POOL}/${name}`,
    kind: 'Repair' as const,
    class: 'Repair' as const,
    requesterUID: job.metadata.uid,
    requester: `RemedyOperationJob/${POOL}/${job.metadata.name}`,
    scopes: ['cluster', `pool/${POOL}`],
    since: iso(),
    notAfter: iso(),
  };
  const { status } = ledger.now;
  const reserved = { ...ledger.now, status: { ...status, reservations: [...(status?.reservations ?? []), reservation] } };
  ledger.now = await client.update(DisruptionLedgers, reserved, { subresource: 'status', fieldManager: MANAGERS.defender });
  const operation = { id, epoch: 1, kind: 'Repair' as const, action: 'CleanDisk', args: { belowPercent: 80 }, notAfter: iso() };
  await client.update(Machines, { ...machine, spec: { ...machine.spec, operation } }, { fieldManager: MANAGERS.machine });
}
