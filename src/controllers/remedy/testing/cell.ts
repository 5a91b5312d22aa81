/**
 * A cell on the embedded server under a fake clock, with the two remedy controllers in it and a test in the place of all other parts: it plays
 * detectors, kubelets, agents, Defender and the machine controller by hand.
 */
import {
  CustomResourceDefinitions,
  Events,
  Leases,
  Namespaces,
  Nodes,
  type Lease,
  type Node,
  type NodeCondition,
} from '../../../api/builtin.ts';
import { DisruptionLedgers, LEDGER_NAME, type LedgerReservation } from '../../../api/disruption-ledger.ts';
import { API_VERSION } from '../../../api/kind.ts';
import { CELL_KINDS } from '../../../api/kinds.ts';
import { type CancelCause, Machines, type Machine, type Outcome } from '../../../api/machine.ts';
import { agentLeaseName, ANNOTATIONS } from '../../../api/names.ts';
import { NodeRemediers, type NodeRemedierSpec } from '../../../api/node-remedier.ts';
import { RemedyOperationJobs, type JobPhase, type RemedyOperationJob } from '../../../api/remedy-operation-job.ts';
import type { Clock } from '../../../api/ports.ts';
import type { ApiRequest, Transport } from '../../../api/transport.ts';
import type { KubeObject, Stored } from '../../../api/wire.ts';
import { openCluster, type EmbeddedCluster } from '@kubenode/embedded';
import { createCache } from '../../../kube/cache.ts';
import type { Client } from '../../../kube/client.ts';
import { microTime } from '../../../kube/clock.ts';
import { createClient } from '../../../kube/http-client.ts';
import { createRecorder } from '../../../kube/recorder.ts';
import { fakeClock, seededRandom, type FakeClock } from '../../../kube/testing/clock.ts';
import { recordingLog } from '../../../kube/testing/log.ts';
import { ruleObject } from '../../../rules/testing.ts';
import { runRemedyJobController } from '../../remedy-job/controller.ts';
import { runRemedyController } from '../controller.ts';
import { openRemedyCache, type RemedyCache } from '../remedy-cache.ts';

export const POOL = 'web';
/** Conditions of a healthy node, as the kubelet and Node Problem Detector write them. */
const HEALTHY = {
  Ready: 'True',
  KernelDeadlock: 'False',
  ReadonlyFilesystem: 'False',
  KubeletUnhealthy: 'False',
  GPUFault: 'False',
} as const;

/** One process: what ends when it does. */
export interface Process {
  remedyCache: RemedyCache;
  requests: ApiRequest[];
  evaluated: { machine: string; rules: number }[];
  log: ReturnType<typeof recordingLog>;
  stop(): Promise<void>;
}

export interface RemedyCell {
  cluster: EmbeddedCluster;
  client: Client;
  clock: FakeClock;
  /** Starts the controllers of one process. Requests pass `through`, which may lose or delay them. */
  /** `clock`: what the process takes for one; by default that of the server, `wallOffsetMs` off. */
  start(options?: { through?: (transport: Transport) => Transport; wallOffsetMs?: number; clock?: Clock }): Promise<Process>;
  rule(name: string, spec?: object): Promise<void>;
  edit(name: string, spec: Partial<NodeRemedierSpec>): Promise<void>;
  /** Time passes in which kubelets, agents and detectors that run send heartbeats. */
  pass(seconds: number): Promise<void>;
  /** Lets everything that is ready run. */
  settle(): Promise<void>;
  /** A detector reports: conditions that it names change, the others of it beat. */
  detect(machine: string, conditions?: Record<string, string>, options?: { at?: number; transition?: string }): Promise<void>;
  /** Those of these machines send no heartbeats while time passes. */
  readonly stopped: { kubelet: Set<string>; agent: Set<string>; detector: Set<string> };
  machine(name: string): Promise<Stored<Machine>>;
  node(name: string): Promise<Stored<Node>>;
  jobs(): Promise<Stored<RemedyOperationJob>[]>;
  /** The newest job, once it has that phase. */
  job(phase: JobPhase): Promise<Stored<RemedyOperationJob>>;
  phases(): Promise<string[]>;
  /** As Defender in the machine controller: a reservation for the job. Returns its id. */
  reserve(job: Stored<RemedyOperationJob>): Promise<string>;
  cordon(machine: string, id: string): Promise<void>;
  order(job: Stored<RemedyOperationJob>, action?: string): Promise<void>;
  /** Of a reservation without an order, or of an order. */
  cancel(job: Stored<RemedyOperationJob>, reason: string, cause?: CancelCause): Promise<void>;
  /** The report of the end: by the agent, or by the machine controller. */
  report(job: Stored<RemedyOperationJob>, outcome: Outcome, by?: 'operation' | 'repair'): Promise<void>;
  boot(machine: string, bootID: string): Promise<void>;
  release(id: string): Promise<void>;
  /** Other reservations of the ledger. */
  reservations(change: (reservations: LedgerReservation[]) => LedgerReservation[]): Promise<void>;
  status(machine: string, status: object): Promise<void>;
  addMachine(name: string, labels?: Record<string, string>): Promise<void>;
  reasons(): Promise<string[]>;
  until<T>(condition: () => Promise<T | undefined | false>, what?: string): Promise<T>;
  /** Errors: a controller logged an error. */
  close(): Promise<void>;
}

export async function openRemedyCell(machines: readonly string[] = ['a']): Promise<RemedyCell> {
  const clock = fakeClock(Date.parse('2026-01-01T00:00:00Z'));
  const cluster = await openCluster({ name: 'cell', state: 'memory', clock });
  const client = createClient(cluster.asUser(), { fieldManager: 'a-test' });
  for (const kind of CELL_KINDS) await client.create(CustomResourceDefinitions, CustomResourceDefinitions.parse(kind.crd()));
  await client.create(Namespaces, { apiVersion: 'v1', kind: 'Namespace', metadata: { name: POOL } });
  await client.create(DisruptionLedgers, { apiVersion: API_VERSION, kind: 'DisruptionLedger', metadata: { name: LEDGER_NAME }, spec: {} });
  const stopped = { kubelet: new Set<string>(), agent: new Set<string>(), detector: new Set<string>() };
  const names: string[] = [];
  const processes = new Set<Process>();
  const logs: Process['log'][] = [];
  let operations = 0;
  const iso = (): string => new Date(clock.now()).toISOString();
  const key = (name: string) => ({ namespace: POOL, name });

  async function renew(namespace: string, name: string, leaseDurationSeconds: number): Promise<void> {
    const spec = { renewTime: microTime(clock.now()), leaseDurationSeconds };
    if ((await client.find(Leases, { namespace, name })) === undefined) {
      const lease: Lease = { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', metadata: { namespace, name }, spec };
      await client.create(Leases, lease);
    } else await client.patch(Leases, { namespace, name }, { merge: { spec } });
  }

  async function renewAll(): Promise<void> {
    for (const name of names) {
      if (!stopped.kubelet.has(name)) await renew('kube-node-lease', name, 40);
      if (!stopped.agent.has(name)) await renew(POOL, agentLeaseName(name), 180);
    }
  }

  const cell: RemedyCell = {
    cluster,
    client,
    clock,
    stopped,

    async start({ through = same, wallOffsetMs = 0, clock: own } = {}) {
      const ended = new AbortController();
      const { signal } = ended;
      const log = recordingLog();
      logs.push(log);
      const requests: ApiRequest[] = [];
      const sent = cluster.asUser();
      const counted = through((request) => {
        requests.push(request);
        return sent(request);
      });
      const skewed = {
        ...clock,
        now: () => clock.now() + wallOffsetMs,
        monotonic: () => clock.monotonic(),
        setTimer: clock.setTimer.bind(clock),
      };
      const ports = {
        client: createClient(counted, { userAgent: 'kubenode-controller' }),
        clock: own ?? skewed,
        random: seededRandom(3),
        log,
        signal,
      };
      const cache = createCache(ports);
      const recorder = createRecorder({ ...ports, component: 'kubenode-remedy', instance: 'test' });
      const opening = openRemedyCache({ ...ports, cache });
      let remedyCache: RemedyCache | undefined;
      void opening.then((opened) => (remedyCache = opened));
      await cell.until(() => Promise.resolve(remedyCache), 'the stores to be synced');
      const seen = await opening;
      const evaluated: Process['evaluated'] = [];
      const onEvaluated = (machine: string, rules: number) => void evaluated.push({ machine, rules });
      const running = [
        runRemedyController({ ...ports, remedyCache: seen, recorder, onEvaluated }),
        runRemedyJobController({ ...ports, remedyCache: seen, recorder }),
      ];
      const process: Process = {
        remedyCache: seen,
        requests,
        evaluated,
        log,
        async stop() {
          processes.delete(process);
          ended.abort(new Error('the process ends'));
          let over = false;
          void Promise.allSettled([...running, cache.done()]).then(() => (over = true));
          await cell.until(() => Promise.resolve(over), 'the controllers to end');
          seen.stop();
        },
      };
      processes.add(process);
      await cell.settle();
      return process;
    },

    async rule(name, spec = {}) {
      const { metadata, ...rest } = ruleObject(name, spec);
      await client.create(NodeRemediers, NodeRemediers.parse({ ...rest, metadata: { name: metadata.name } }));
      await cell.settle();
    },
    async edit(name, spec) {
      await client.patch(NodeRemediers, { name }, { merge: { spec } });
      await cell.settle();
    },

    async pass(seconds) {
      for (let left = seconds; left > 0; left -= 10) {
        await clock.advance(Math.min(left, 10) * 1000);
        await renewAll();
        if (Math.floor(clock.now() / 10_000) % 6 === 0) for (const name of names) if (!stopped.detector.has(name)) await cell.detect(name);
        await cell.settle();
      }
    },
    settle: async () => {
      // Each wave of what is ready sets off the next; all is settled when the server has seen no write for some.
      let still = 0;
      let version = cluster.resourceVersion;
      for (let waves = 0; waves < 2000 && still < 12; waves++) {
        await clock.advance(0);
        still = cluster.resourceVersion === version ? still + 1 : 0;
        version = cluster.resourceVersion;
      }
    },

    async detect(name, changes = {}, { at, transition } = {}) {
      const node = await client.get(Nodes, { name });
      const heartbeat = at === undefined ? iso() : new Date(at).toISOString();
      const before = node.status?.conditions ?? [];
      const kept = before.map((each): NodeCondition => {
        const status = changes[each.type];
        const moved = status !== undefined && status !== each.status;
        return {
          ...each,
          ...(moved ? { status: status as NodeCondition['status'], reason: `${each.type}${status}`, lastTransitionTime: heartbeat } : {}),
          ...(transition !== undefined && status !== undefined ? { lastTransitionTime: transition } : {}),
          lastHeartbeatTime: heartbeat,
        };
      });
      await client.patch(Nodes, { name }, { merge: { status: { conditions: kept } } }, { subresource: 'status' });
      await cell.settle();
    },

    machine: (name) => client.get(Machines, key(name)),
    node: (name) => client.get(Nodes, { name }),
    async jobs() {
      const { items } = await client.listAll(RemedyOperationJobs);
      return items.toSorted((a, b) => Number(a.metadata.uid > b.metadata.uid)).toSorted((a, b) => createdAt(a) - createdAt(b));
    },
    job: (phase) =>
      cell
        .until(async () => (await cell.jobs()).findLast((job) => job.status?.phase === phase), `a job that is ${phase}`)
        .catch(async (error: unknown) => {
          const found = (await cell.jobs()).map(
            ({ spec, status }) => `${spec.rule} ${spec.action} ${status?.phase}: ${status?.explanation}`,
          );
          throw new Error(`${error instanceof Error ? error.message : ''}; there are: ${found.join('; ') || 'none'}`, { cause: error });
        }),
    phases: async () => (await cell.jobs()).map(({ spec, status }) => `${spec.action} ${status?.phase}`),

    async reserve(job) {
      const id = `reservation-${++operations}`;
      await cell.reservations((reservations) => [
        ...reservations,
        {
          id,
          machineUID: job.spec.machine.uid,
          machine: `${POOL}/${job.spec.machine.name}`,
          kind: 'Repair',
          class: 'Repair',
          requesterUID: job.metadata.uid,
          requester: `RemedyOperationJob/${POOL}/${job.metadata.name}`,
          scopes: ['cluster'],
          since: iso(),
          notAfter: new Date(clock.now() + 900_000).toISOString(),
        },
      ]);
      return id;
    },
    async cordon(name, id) {
      const metadata = { annotations: { [ANNOTATIONS.cordonOwner]: id } };
      await client.patch(Nodes, { name }, { merge: { metadata, spec: { unschedulable: true } } });
      await cell.settle();
    },
    async order(job, action = job.spec.action) {
      const operation = {
        id: job.status?.operationID ?? '',
        epoch: 1,
        kind: 'Repair' as const,
        action,
        args: null,
        reason: null,
        notAfter: new Date(clock.now() + 900_000).toISOString(),
      };
      await client.patch(Machines, key(job.spec.machine.name), { merge: { spec: { operation } } });
      await cell.settle();
    },
    async cancel(job, reason, cause = 'RequestGone') {
      const operation = {
        id: job.status?.operationID ?? '',
        epoch: 1,
        kind: 'Cancelled' as const,
        cause,
        reason,
        action: null,
        notAfter: iso(),
      };
      await client.patch(Machines, key(job.spec.machine.name), { merge: { spec: { operation } } });
      await cell.settle();
    },
    async report(job, outcome, by = 'operation') {
      const { name } = job.spec.machine;
      await cell.status(name, { [by]: { id: job.status?.operationID ?? '', state: 'Done', outcome, message: `it ended ${outcome}` } });
    },
    async boot(name, bootID) {
      await cell.status(name, { agent: { version: '1', apiLevel: 1, bootID, os: 'linux', arch: 'amd64' } });
    },
    async release(id) {
      await cell.reservations((reservations) => reservations.filter((reservation) => reservation.id !== id));
    },
    async reservations(change) {
      const ledger = await client.get(DisruptionLedgers, { name: LEDGER_NAME });
      const status = { epoch: 1, reservations: change(ledger.status?.reservations ?? []) };
      await client.patch(DisruptionLedgers, { name: LEDGER_NAME }, { merge: { status } }, { subresource: 'status' });
      await cell.settle();
    },
    async status(name, status) {
      await client.patch(Machines, key(name), { merge: { status } }, { subresource: 'status' });
      await cell.settle();
    },

    async addMachine(name, labels = {}) {
      const at = iso();
      const node = await client.create(Nodes, { apiVersion: 'v1', kind: 'Node', metadata: { name, labels } });
      const conditions = Object.entries(HEALTHY).map(([type, status]) => ({
        type,
        status,
        reason: `${type}${status}`,
        lastTransitionTime: at,
        lastHeartbeatTime: at,
      }));
      await client.patch(Nodes, { name }, { merge: { status: { conditions } } }, { subresource: 'status' });
      if ((await client.find(Machines, key(name))) === undefined)
        await client.create(Machines, { apiVersion: API_VERSION, kind: 'Machine', metadata: { ...key(name), labels }, spec: {} });
      const status = {
        phase: 'Running',
        nodeRef: { name, uid: node.metadata.uid },
        agent: { version: '1', apiLevel: 1, bootID: 'boot-1', os: 'linux', arch: 'amd64' },
      };
      await client.patch(Machines, key(name), { merge: { status } }, { subresource: 'status' });
      names.push(name);
      await renewAll();
    },

    async reasons() {
      await cell.pass(1);
      return (await client.listAll(Events)).items.map((event) => event.reason ?? '');
    },
    async until(condition, what = condition.toString()) {
      const start = performance.now();
      for (;;) {
        const found = await condition();
        if (found !== undefined && found !== false) return found;
        if (performance.now() - start > 60_000) throw new Error(`waited 60 s in vain for ${what}`);
        await clock.advance(1);
      }
    },
    async close() {
      for (const process of processes) await process.stop();
      await cluster.close();
      // A controller logs as an error what it takes for its own defect, and nothing that happens to it from outside.
      const errors = logs.flatMap(({ lines }) => lines.filter(({ level }) => level === 'error'));
      if (errors.length > 0) throw new Error(`a controller logged errors: ${JSON.stringify(errors)}`);
    },
  };
  for (const name of machines) await cell.addMachine(name);
  return cell;
}

const same = (transport: Transport): Transport => transport;
const createdAt = (object: KubeObject): number => Date.parse(object.metadata.creationTimestamp ?? '');
