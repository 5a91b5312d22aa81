/** A cell in which only the controller of repair jobs runs, once it is started. The test makes jobs by hand. */
import { API_VERSION } from '../../../api/kind.ts';
import { Machines } from '../../../api/machine.ts';
import { RemedyOperationJobs, type RemedyOperationJob, type RemedyOperationJobStatus } from '../../../api/remedy-operation-job.ts';
import type { ApiRequest, ApiResponse } from '../../../api/transport.ts';
import type { Stored } from '../../../api/wire.ts';
import { createCache } from '../../../kube/cache.ts';
import type { Client } from '../../../kube/client.ts';
import { createClient } from '../../../kube/http-client.ts';
import { createRecorder } from '../../../kube/recorder.ts';
import { seededRandom } from '../../../kube/testing/clock.ts';
import { recordingLog } from '../../../kube/testing/log.ts';
import { openRemedyCache, type RemedyCache } from '../../remedy/remedy-cache.ts';
import { openRemedyCell, POOL, type RemedyCell } from '../../remedy/testing/cell.ts';
import { runRemedyJobController } from '../controller.ts';

export interface Desk {
  cell: RemedyCell;
  remedyCache: RemedyCache;
  /** The client of the process: its requests are recorded, and may be intercepted. */
  client: Client;
  signal: AbortSignal;
  log: ReturnType<typeof recordingLog>;
  /** Each request that was sent, and when its answer was there: `>` and `<`, method, and the last parts of its path. */
  readonly trace: string[];
  /** Answers instead of the server, where it answers anything. */
  intercept: (request: ApiRequest) => ApiResponse | undefined;
  /** How often a job was reconciled: each time takes a snapshot of its machine. */
  reconciliations(): number;
  /** Starts the controller. */
  start(): Promise<void>;
  /** Makes a job for machine `a`. */
  job(name: string, spec?: Partial<RemedyOperationJob['spec']>, status?: RemedyOperationJobStatus): Promise<Stored<RemedyOperationJob>>;
  /** As the server has it. */
  read(name: string): Promise<Stored<RemedyOperationJob>>;
  close(): Promise<void>;
}

export async function openDesk(machines: readonly string[] = ['a']): Promise<Desk> {
  const cell = await openRemedyCell(machines);
  const { clock, cluster } = cell;
  const stopped = new AbortController();
  const { signal } = stopped;
  const log = recordingLog();
  const trace: string[] = [];
  const sent = cluster.asUser();
  const own = createClient(async (request) => {
    const what = `${request.method} ${request.path.split('/').slice(-2).join('/')}`;
    trace.push(`>${what}`);
    const response = desk.intercept(request) ?? (await sent(request));
    trace.push(`<${what}`);
    return response;
  });
  const ports = { client: own, clock, random: seededRandom(3), log, signal };
  const cache = createCache({ ...ports, client: createClient(cluster.asUser()) });
  let remedyCache: RemedyCache | undefined;
  void openRemedyCache({ cache, clock, signal }).then((opened) => (remedyCache = opened));
  const seen = await cell.until(() => Promise.resolve(remedyCache), 'the stores to be synced');
  let reconciliations = 0;
  const counted: RemedyCache = {
    ...seen,
    snapshot(machine, live) {
      reconciliations += 1;
      return seen.snapshot(machine, live);
    },
  };
  const running: Promise<unknown>[] = [];
  const key = (name: string) => ({ namespace: POOL, name });
  const desk: Desk = {
    cell,
    remedyCache: counted,
    client: own,
    signal,
    log,
    trace,
    intercept: () => undefined,
    reconciliations: () => reconciliations,
    async start() {
      const recorder = createRecorder({ ...ports, component: 'kubenode-remedy', instance: 'test' });
      running.push(runRemedyJobController({ ...ports, remedyCache: counted, recorder }));
      await cell.settle();
    },
    async job(name, spec = {}, status) {
      const machine = await cell.client.find(Machines, key('a'));
      await cell.client.create(RemedyOperationJobs, {
        apiVersion: API_VERSION,
        kind: 'RemedyOperationJob',
        metadata: key(name),
        spec: {
          rule: 'hung',
          machine: { name: 'a', uid: machine?.metadata.uid ?? '' },
          node: 'a',
          mode: 'Enforce',
          rung: 0,
          attempt: 1,
          action: 'Reboot',
          timeoutSeconds: 600,
          healedWhen: { condition: 'KernelDeadlock', is: 'False', forSeconds: 60 },
          priority: 0,
          matchedSince: new Date(clock.now() - 60_000).toISOString(),
          why: 'it was seen',
          ...spec,
        },
      });
      if (status !== undefined) await cell.client.patch(RemedyOperationJobs, key(name), { merge: { status } }, { subresource: 'status' });
      await cell.settle();
      return await desk.read(name);
    },
    read: (name) => cell.client.get(RemedyOperationJobs, key(name)),
    async close() {
      stopped.abort(new Error('the test is over'));
      let over = false;
      void Promise.allSettled([...running, cache.done()]).then(() => (over = true));
      await cell.until(() => Promise.resolve(over), 'the controller to end');
      seen.stop();
      await cell.close();
    },
  };
  return desk;
}
