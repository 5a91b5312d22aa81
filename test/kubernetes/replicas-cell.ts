/** A pool of machines without a provider, with agents and a detector that the test plays. */
import { CustomResourceDefinitions, Leases, Namespaces, Nodes } from '../../src/api/builtin.ts';
import { DefenderPolicies } from '../../src/api/defender-policy.ts';
import { DisruptionLedgers, LEDGER_NAME } from '../../src/api/disruption-ledger.ts';
import { API_VERSION } from '../../src/api/kind.ts';
import { CELL_KINDS } from '../../src/api/kinds.ts';
import { Machines, type Machine, type MachineStatus } from '../../src/api/machine.ts';
import { MachineComponents } from '../../src/api/machine-component.ts';
import { machineComponentName } from '../../src/api/machine-component/values.ts';
import { MachineComponentSets } from '../../src/api/machine-component-set.ts';
import { agentLeaseName, SYSTEM_NAMESPACE } from '../../src/api/names.ts';
import { NodeRemediers } from '../../src/api/node-remedier.ts';
import type { Stored } from '../../src/api/wire.ts';
import { modelAgent, type ModelAgent } from '../../src/controllers/machine-component-set/testing/agent.ts';
import type { Client } from '../../src/kube/client.ts';
import { microTime } from '../../src/kube/clock.ts';
import { waitFor } from '../../src/kube/testing/wait-for.ts';

export const POOL = 'replicas';
export const MACHINES = 6;
export const LIMIT = 2;
const COMPONENT = 'runtime';
const ILL = 'RuntimeUnhealthy';
const LATE_MS = 40_000;

const condition = (type: string, status: 'True' | 'False', since = new Date().toISOString()) => {
  const now = new Date().toISOString();
  return { type, status, reason: `${type}Is${status}`, message: '', lastHeartbeatTime: now, lastTransitionTime: since };
};
const nameOf = (index: number): string => `replicas-${index}`;
const meta = (name: string) => ({ apiVersion: API_VERSION, metadata: { name } });

export async function populate(client: Client): Promise<void> {
  for (const kind of CELL_KINDS) await client.create(CustomResourceDefinitions, kind.crd());
  for (const name of [POOL, 'kube-node-lease', SYSTEM_NAMESPACE])
    if ((await client.find(Namespaces, { name })) === undefined)
      await client.create(Namespaces, { apiVersion: 'v1', kind: 'Namespace', metadata: { name } });
  for (const kind of CELL_KINDS)
    await waitFor(() => client.list(kind).then(() => true, () => false), { deadlineMs: 20_000, what: kind.kind }); // prettier-ignore
  const limits = [{ name: 'pool', scope: 'Pool' as const, maxUnavailable: LIMIT }];
  await client.create(DefenderPolicies, { ...meta('narrow'), kind: 'DefenderPolicy', spec: { limits } });
  await client.create(NodeRemediers, {
    ...meta('ill-runtime'),
    kind: 'NodeRemedier',
    spec: {
      when: { all: [{ fact: `condition.${ILL}.status`, operator: 'equal', value: 'True' }] },
      holdsForSeconds: 0,
      ladder: [{ action: 'RestartComponent', args: { component: COMPONENT } }, { action: 'Human' }],
      healedWhen: { condition: ILL, is: 'False', forSeconds: 1 },
      mode: 'Enforce',
    },
  });
  for (let index = 0; index < MACHINES; index++) await addMachine(client, nameOf(index));
}

const leasesOf = (name: string) => [
  { namespace: POOL, name: agentLeaseName(name) },
  { namespace: 'kube-node-lease', name },
];

async function addMachine(client: Client, name: string): Promise<void> {
  const providerID = `test://${name}`;
  const conditions = [condition('Ready', 'True'), condition(ILL, 'False')];
  const node = await client.create(Nodes, {
    apiVersion: 'v1',
    kind: 'Node',
    metadata: { name },
    spec: { providerID },
    status: { conditions, nodeInfo: { architecture: 'amd64' } },
  });
  // A real server takes no status at a creation.
  await client.patch(Nodes, { name }, { strategic: { status: { conditions } } }, { subresource: 'status' });
  const machine = await client.create(Machines, {
    apiVersion: API_VERSION,
    kind: 'Machine',
    metadata: { namespace: POOL, name, labels: { app: 'web' } },
    spec: {},
  });
  const status: MachineStatus = {
    phase: 'Running',
    providerID,
    nodeRef: { name, uid: node.metadata.uid },
    agent: { version: '0.0.0', apiLevel: 1, bootID: 'boot-1', os: 'linux', arch: 'amd64' },
  };
  await client.update(Machines, { ...machine, status }, { subresource: 'status' });
  for (const key of leasesOf(name))
    await client.create(Leases, {
      apiVersion: 'coordination.k8s.io/v1',
      kind: 'Lease',
      metadata: key,
      spec: { holderIdentity: name, leaseDurationSeconds: 86_400, renewTime: microTime(Date.now()) },
    });
}

/** The set that all machines are in gets this version; makes it where there is none. */
export async function bump(client: Client, version: string): Promise<void> {
  const name = machineComponentName(COMPONENT, version);
  await client.create(MachineComponents, {
    ...meta(name),
    kind: 'MachineComponent',
    spec: { componentName: COMPONENT, version, platforms: [{ os: 'any', arch: 'any', artifacts: [] }] },
  });
  const spec = { componentName: COMPONENT, version, pools: [POOL], batches: ['100%'], soakSeconds: 0, maxUnavailable: LIMIT };
  if ((await client.find(MachineComponentSets, { name: COMPONENT })) === undefined)
    await client.create(MachineComponentSets, { ...meta(COMPONENT), kind: 'MachineComponentSet', spec });
  else await client.patch(MachineComponentSets, { name: COMPONENT }, { merge: { spec: { version } } });
}

/** Every machine runs the version, all reservations are freed and nothing is cordoned. */
export async function settled(client: Client, version: string): Promise<void> {
  const reservations = async () => (await client.find(DisruptionLedgers, { name: LEDGER_NAME }))?.status?.reservations ?? [];
  await waitFor(
    async () => {
      const { items } = await client.list(Machines, { namespace: POOL });
      const run = items.every(
        ({ status }) => status?.components?.some((each) => each.version === version && each.state === 'Healthy') === true,
      );
      if (!run || (await reservations()).length > 0) return false;
      return (await client.list(Nodes)).items.every(({ spec }) => spec?.unschedulable !== true);
    },
    { deadlineMs: LATE_MS, what: `every machine to run ${version}` },
  );
}

export const breakNode = (client: Client, index: number): Promise<unknown> => reportCondition(client, nameOf(index), 'True');

const reportCondition = (client: Client, name: string, ill: 'True' | 'False', since?: string): Promise<unknown> =>
  client.patch(Nodes, { name }, { strategic: { status: { conditions: [condition(ILL, ill, since)] } } }, { subresource: 'status' });

export interface Agents {
  /** Whether they carry out what they are ordered; else they only see it. */
  willing: boolean;
  /** IDs of operations that were carried out, in order. */
  readonly done: readonly string[];
  close(): Promise<void>;
}

/** Agents of all machines, each at its Machine's events; one that carried out a repair reports its node's condition as healed. */
export async function playAgents(client: Client): Promise<Agents> {
  const ended = new AbortController();
  const models = new Map<string, ModelAgent>();
  const seen = new Map<string, Stored<Machine>>();
  const done: string[] = [];
  /** Since when, by name. */
  const healed = new Map<string, string>();
  let willing = true;
  let wake = Promise.withResolvers<void>();
  const rouse = (): void => {
    wake.resolve();
    wake = Promise.withResolvers();
  };

  const isOrdered = (machine: Machine): boolean => {
    const order = machine.spec.operation;
    return order !== undefined && order.kind !== 'Cancelled' && machine.status?.operation?.id !== order.id;
  };

  function agentOf(name: string): ModelAgent {
    const found = models.get(name);
    if (found !== undefined) return found;
    const ordered = (revision: number): boolean => {
      const machine = seen.get(name);
      return machine?.spec.operation?.components?.some((each) => each.revision >= revision) === true && (willing || !isOrdered(machine));
    };
    const made = modelAgent(COMPONENT, () => false, (entry) => !ordered(entry.revision)); // prettier-ignore
    models.set(name, made);
    return made;
  }

  /** What it saw may be older than what it wrote: a step that is repeated reports the same. */
  async function step(machine: Stored<Machine>): Promise<void> {
    const { name } = machine.metadata;
    const next = structuredClone(machine);
    agentOf(name).step(next);
    const order = machine.spec.operation;
    if (willing && order !== undefined && isOrdered(machine)) {
      const component = next.status?.components?.find((each) => each.name === COMPONENT);
      const isDone = order.kind === 'Repair' || (component?.state === 'Healthy' && component.running === component.revision);
      if (isDone) {
        if (!done.includes(order.id)) done.push(order.id);
        if (order.kind === 'Repair') healed.set(name, new Date().toISOString());
        next.status = { ...next.status, operation: { id: order.id, state: 'Done', outcome: 'Succeeded', bootID: 'boot-1' } };
      }
    }
    const { agent, components, operation } = next.status ?? {};
    const before = machine.status ?? {};
    if (JSON.stringify([agent, components, operation]) === JSON.stringify([before.agent, before.components, before.operation])) return;
    await client.patch(
      Machines,
      { namespace: POOL, name },
      { merge: { status: { agent, components, operation } } },
      { subresource: 'status' },
    );
  }

  const list = await client.list(Machines, { namespace: POOL });
  for (const machine of list.items) seen.set(machine.metadata.name, machine);
  const watching = (async () => {
    for await (const { type, object } of client.watch(Machines, {
      namespace: POOL,
      resourceVersion: list.metadata.resourceVersion,
      signal: ended.signal,
    }))
      if (type === 'ADDED' || type === 'MODIFIED') {
        seen.set(object.metadata.name, object);
        rouse();
      }
  })().catch(() => undefined);
  const acting = (async () => {
    const acted = new Map<string, string>();
    while (!ended.signal.aborted) {
      const woken = wake.promise;
      for (const [name, machine] of seen) {
        const state = `${machine.metadata.resourceVersion} ${willing}`;
        if (acted.get(name) === state) continue;
        acted.set(name, state);
        await step(machine);
      }
      await woken;
    }
  })().catch((error: unknown) => {
    if (!ended.signal.aborted) throw error;
  });
  // A detector reports again and again: only its reports prove that a fault is healed.
  const detector = setInterval(() => {
    for (const [name, since] of healed) void reportCondition(client, name, 'False', since).catch(() => undefined);
  }, 300);
  const heartbeats = setInterval(() => {
    for (let index = 0; index < MACHINES; index++)
      for (const key of leasesOf(nameOf(index)))
        void client.patch(Leases, key, { merge: { spec: { renewTime: microTime(Date.now()) } } }).catch(() => undefined);
  }, 5000);
  return {
    get willing() {
      return willing;
    },
    set willing(is) {
      willing = is;
      rouse();
    },
    done,
    async close() {
      clearInterval(detector);
      clearInterval(heartbeats);
      ended.abort(new Error('the agents go'));
      rouse();
      await Promise.all([watching, acting]);
    },
  };
}
