import { CustomResourceDefinitions, Leases, Namespaces, Nodes, type Node } from '../../../api/builtin.ts';
import { DisruptionLedgers, LEDGER_NAME, type LedgerReservation } from '../../../api/disruption-ledger.ts';
import { API_VERSION } from '../../../api/kind.ts';
import { CELL_KINDS } from '../../../api/kinds.ts';
import { Machines, type Machine, type MachineStatus } from '../../../api/machine.ts';
import { RemedyOperationJobs, type RemedyOperationJob } from '../../../api/remedy-operation-job.ts';
import { MachineComponentSets, type MachineComponentSet } from '../../../api/machine-component-set.ts';
import { agentLeaseName } from '../../../api/names.ts';
import type { Clock } from '../../../api/ports.ts';
import type { InfraProvider } from '../../../api/provider.ts';
import type { Stored } from '../../../api/wire.ts';
import { openCluster, type EmbeddedCluster } from '@kubenode/embedded';
import { createCache } from '../../../kube/cache.ts';
import type { Client } from '../../../kube/client.ts';
import { microTime, systemClock } from '../../../kube/clock.ts';
import { createClient } from '../../../kube/http-client.ts';
import type { RecordedEvent } from '../../../kube/recorder.ts';
import { recordingLog } from '../../../kube/testing/log.ts';
import { waitFor } from '../../../kube/testing/wait-for.ts';
import { runMachineSetController } from '../../machine-set/controller.ts';
import { fakeInfra, fakeProvider, type FakeInfra } from '../../../providers/testing/fake.ts';
import { runMachineController } from '../controller.ts';
import { job, type JobParts } from './objects.ts';

const clock = systemClock({ ref: true });
export const POOL = 'web';

export interface Leadership {
  readonly done: Promise<void>;
  stop(): Promise<void>;
}

/** An embedded API server, a cloud in memory, and the real machine controller; nodes and agents are played by the test. */
export interface TestCell {
  readonly client: Client;
  readonly cluster: EmbeddedCluster;
  readonly infra: FakeInfra;
  readonly events: RecordedEvent[];
  /** A leader; several may run at once, as in life. `through`: what it reads and writes by. `provider`: of the infra. */
  lead(options?: { sets?: boolean; through?: Client; provider?: InfraProvider; clock?: Clock }): Leadership;
  readonly clock: Clock;
  set(spec?: Partial<MachineComponentSet['spec']>): Promise<Stored<MachineComponentSet>>;
  addMachine(name: string, spec?: Partial<Machine['spec']>): Promise<void>;
  machine(name: string): Promise<Stored<Machine>>;
  edit(name: string, change: (machine: Stored<Machine>) => void, subresource?: 'status'): Promise<void>;
  report(name: string, status: Partial<MachineStatus>): Promise<void>;
  node(name: string): Promise<Stored<Node> | undefined>;
  editNode(name: string, change: (node: Stored<Node>) => void): Promise<void>;
  /** Boots the machine's instance: it registers a Node, and kubelet and agent have just renewed their Leases. */
  boot(name: string): Promise<void>;
  /** Kubelet and agent, or one of them, become stale: their Leases are gone. */
  dropLeases(name: string, ...who: ('kubelet' | 'agent')[]): Promise<void>;
  beat(name: string): Promise<void>;
  addJob(parts: JobParts): Promise<Stored<RemedyOperationJob>>;
  /** The job controller's part: notes the reservation that the job was given, so that it may be ordered. Returns the reservation's ID. */
  grant(job: string): Promise<string>;
  jobStatus(job: string, status: RemedyOperationJob['status']): Promise<void>;
  reservations(): Promise<LedgerReservation[]>;
  phase(name: string, phase: NonNullable<MachineStatus['phase']>): Promise<void>;
  close(): Promise<void>;
}

export async function openCell(): Promise<TestCell> {
  const cluster = await openCluster({ name: 'cell', state: 'memory', clock });
  const client = createClient(cluster.asUser(), { fieldManager: 'kubenode-test' });
  const infra = fakeInfra();
  const events: RecordedEvent[] = [];
  const leaders: Leadership[] = [];
  await Promise.all(CELL_KINDS.map((kind) => client.create(CustomResourceDefinitions, kind.crd())));
  for (const name of [POOL, 'kube-node-lease'])
    if ((await client.find(Namespaces, { name })) === undefined)
      await client.create(Namespaces, { apiVersion: 'v1', kind: 'Namespace', metadata: { name } });

  function lead({
    sets = false,
    through = client,
    provider = fakeProvider(infra),
    clock: own = clock,
  }: Parameters<TestCell['lead']>[0] = {}): Leadership {
    const ended = new AbortController();
    const shared = { client: through, clock: own, random: Math.random, log: recordingLog(), signal: ended.signal };
    const cache = createCache({ ...shared, keepManagers: ['kubenode-machine'] });
    const recorder = { event: (_: object, event: RecordedEvent) => void events.push(event), flush: () => Promise.resolve() };
    const cell = { server: 'https://cell', certificateAuthority: 'PEM', mirror: undefined };
    const providers = new Map([[provider.name, provider]]);
    const term = Promise.withResolvers<number>();
    const machines = runMachineController({ ...shared, reader: through, cache, recorder, cell, providers, onTerm: term.resolve });
    const done = sets
      ? Promise.all([machines, runMachineSetController({ ...shared, cache, recorder, providers, term: term.promise })]).then(
          () => undefined,
        )
      : machines;
    done.catch(() => undefined);
    const leadership = {
      done,
      async stop() {
        ended.abort(new Error('the term is over'));
        await done.catch(() => undefined);
        await cache.done();
      },
    };
    leaders.push(leadership);
    return leadership;
  }

  async function edit(name: string, change: (machine: Stored<Machine>) => void, subresource?: 'status'): Promise<void> {
    await retried(async () => {
      const machine = structuredClone(await client.get(Machines, { namespace: POOL, name }));
      change(machine);
      await client.update(Machines, machine, subresource === undefined ? {} : { subresource });
    });
  }

  async function beat(namespace: string, name: string): Promise<void> {
    const renewTime = microTime(clock.now());
    const spec = { holderIdentity: name, leaseDurationSeconds: namespace === POOL ? 180 : 40, renewTime };
    const found = await client.find(Leases, { namespace, name });
    if (found === undefined)
      await client.create(Leases, { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', metadata: { namespace, name }, spec });
    else await client.update(Leases, { ...found, spec });
  }

  const reservations = async (): Promise<LedgerReservation[]> =>
    (await client.find(DisruptionLedgers, { name: LEDGER_NAME }))?.status?.reservations ?? [];

  async function jobStatus(name: string, status: RemedyOperationJob['status']): Promise<void> {
    await retried(async () => {
      const found = await client.get(RemedyOperationJobs, { namespace: POOL, name });
      await client.update(RemedyOperationJobs, { ...found, status: { ...found.status, ...status } }, { subresource: 'status' });
    });
  }

  return {
    client,
    clock,
    cluster,
    infra,
    events,
    lead,
    edit,
    async set(spec = {}) {
      const whole = { componentName: 'kubelet', version: '2.0.0', ...spec };
      return await client.create(MachineComponentSets, {
        apiVersion: API_VERSION,
        kind: 'MachineComponentSet',
        metadata: { name: 'kubelet' },
        spec: whole,
      });
    },
    async addMachine(name, spec = {}) {
      const whole = { provider: { name: 'fake' }, ...spec };
      await client.create(Machines, { apiVersion: API_VERSION, kind: 'Machine', metadata: { namespace: POOL, name }, spec: whole });
    },
    machine: (name) => client.get(Machines, { namespace: POOL, name }),
    report: (name, status) => edit(name, (machine) => void (machine.status = { ...machine.status, ...status }), 'status'),
    node: (name) => client.find(Nodes, { name }),
    async editNode(name, change) {
      await retried(async () => {
        const node = structuredClone(await client.get(Nodes, { name }));
        change(node);
        await client.update(Nodes, node);
      });
    },
    async boot(name) {
      const { uid } = (await client.get(Machines, { namespace: POOL, name })).metadata;
      await waitFor(() => infra.instances.get(`fake://${uid}`)?.bootstrap !== undefined, { what: `an instance of ${name}` });
      infra.progress();
      await beat('kube-node-lease', name);
      await beat(POOL, agentLeaseName(name));
      const node = await client.create(Nodes, {
        apiVersion: 'v1',
        kind: 'Node',
        metadata: { name },
        spec: { providerID: `fake://${uid}` },
      });
      await client.update(Nodes, { ...node, status: { conditions: [{ type: 'Ready', status: 'True' }] } }, { subresource: 'status' });
      await edit(
        name,
        (machine) =>
          void (machine.status = { ...machine.status, agent: { version: '1', apiLevel: 1, bootID: 'b', os: 'linux', arch: 'amd64' } }),
        'status',
      );
    },
    async dropLeases(name, ...who) {
      if (who.includes('kubelet')) await client.delete(Leases, { namespace: 'kube-node-lease', name });
      if (who.includes('agent')) await client.delete(Leases, { namespace: POOL, name: agentLeaseName(name) });
    },
    async beat(name) {
      await beat('kube-node-lease', name);
      await beat(POOL, agentLeaseName(name));
    },
    async addJob(parts) {
      const { metadata, status, ...asked } = job(parts);
      const { uid } = (await client.get(Machines, { namespace: POOL, name: asked.spec.machine.name })).metadata;
      const { uid: _, ...named } = metadata;
      const spec = { ...asked.spec, machine: { ...asked.spec.machine, uid } };
      const made = await client.create(RemedyOperationJobs, { ...asked, metadata: named, spec });
      return await client.update(RemedyOperationJobs, { ...made, ...(status === undefined ? {} : { status }) }, { subresource: 'status' });
    },
    async grant(name) {
      const { uid } = (await client.get(RemedyOperationJobs, { namespace: POOL, name })).metadata;
      const reservation = await waitFor(async () => (await reservations()).find((each) => each.requesterUID === uid), {
        what: `a reservation of ${name}`,
        deadlineMs: 15_000,
      });
      await jobStatus(name, { phase: 'Granted', operationID: reservation.id, before: { bootID: 'b', conditions: [] } });
      return reservation.id;
    },
    jobStatus,
    reservations,
    async phase(name, phase) {
      await waitFor(async () => (await client.get(Machines, { namespace: POOL, name })).status?.phase === phase, {
        what: `${name} to be ${phase}`,
        deadlineMs: 10_000,
      });
    },
    async close() {
      await Promise.all(leaders.map((leader) => leader.stop()));
      await cluster.close();
    },
  };
}

async function retried(write: () => Promise<void>): Promise<void> {
  for (let tries = 0; ; tries++) {
    try {
      await write();
      return;
    } catch (error) {
      if (tries > 20) throw error;
    }
  }
}
