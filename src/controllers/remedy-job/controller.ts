import type { DisruptionLedger } from '../../api/disruption-ledger.ts';
import { MANAGERS } from '../../api/names.ts';
import type { Clock, Log, Random } from '../../api/ports.ts';
import { isFinished, RemedyOperationJobs, type RemedyOperationJob } from '../../api/remedy-operation-job.ts';
import { keyOf, parseKey } from '../../api/resource.ts';
import type { KubeObject, Stored } from '../../api/wire.ts';
import { hasReason } from '../../kube/api-error.ts';
import type { Client } from '../../kube/client.ts';
import { createController, watch, type ReconcileContext } from '../../kube/controller.ts';
import type { QueueResult } from '../../kube/queue.ts';
import type { Recorder } from '../../kube/recorder.ts';
import { mergeDiff } from '../../kube/merge-patch.ts';
import { changedRules } from '../remedy/rulebook.ts';
import type { RemedyCache } from '../remedy/remedy-cache.ts';
import { decide } from './decide.ts';
import { eventOf } from './events.ts';
import { isBegun, observe } from './observe.ts';

export interface RemedyJobControllerOptions {
  client: Client;
  /** The cache of the remedy controller in this process: it notes there which jobs are superseded. */
  remedyCache: RemedyCache;
  clock: Clock;
  random: Random;
  log: Log;
  recorder: Recorder;
  /** Of this term of leadership. */
  signal: AbortSignal;
}

/** How often a job is reconciled again while the stores are stale. */
const STALE_RETRY_MS = 5000;
/** After a write that was lost to another. */
const LOST_MS = 50;
/**
 * Before a job is reported as Pending: as a rule it is answered within this time, and then the answer is the first report, by one write
 * instead of two, and the second would have to wait for the first.
 */
const ANSWER_MS = 50;

interface JobDeps {
  remedyCache: RemedyCache;
  recorder: Recorder;
  clock: Clock;
  /** Until when each job that has no status yet may be answered, monotonic ms; by the job as it was read. */
  answers: WeakMap<Stored<RemedyOperationJob>, number>;
}

/**
 * The only writer of `RemedyOperationJob.status`. It touches no Machine, Node or ledger: a job asks by being there, and this reports what it sees
 * of the answer, the operation and the proof. Every write is conditioned on the job's resourceVersion, so that one of two leaders loses, and
 * a leader that is killed at any moment leaves a state from which the next one goes on.
 * Resolves when the signal has ended it.
 */
export async function runRemedyJobController(options: RemedyJobControllerOptions): Promise<void> {
  const { remedyCache, recorder, clock } = options;
  const { stores } = remedyCache;
  const deps: JobDeps = { remedyCache, recorder, clock, answers: new WeakMap() };
  const openJobs = (machineUID: string): string[] => openJobsOf(remedyCache, machineUID);
  const controller = createController({
    ...options,
    name: 'remedyjob',
    concurrency: 8,
    watches: [
      watch(stores.jobs, (job) => [keyOf(job.metadata)]),
      watch(stores.machines, (machine) => openJobs(machine.metadata.uid)),
      watch(stores.nodes, (node) => remedyCache.machinesOfNode(node.metadata.name).flatMap((machine) => openJobs(machine.metadata.uid))),
      watch(stores.ledgers, (ledger, old) => jobsOfLedger(remedyCache, ledger, old)),
      watch(stores.leases, () => []),
    ],
    reconcile: (key, run) => reconcile(deps, key, run),
  });
  const subscriptions = [
    remedyCache.onMachine((key) =>
      openJobs(stores.machines.get(parseKey(key))?.metadata.uid ?? '').forEach((job) => controller.enqueue(job)),
    ),
    remedyCache.onJob((job) => controller.enqueue(keyOf(job.metadata))),
    remedyCache.onRulebook((before, after) => {
      const names = changedRules(before, after);
      for (const job of stores.jobs.list()) if (!isFinished(job) && names.has(job.spec.rule)) controller.enqueue(keyOf(job.metadata));
    }),
  ];
  try {
    await controller.run();
  } finally {
    for (const cancel of subscriptions) cancel();
  }
}

async function reconcile(deps: JobDeps, key: string, run: ReconcileContext): Promise<QueueResult | void> {
  const { remedyCache, clock, answers } = deps;
  const job = remedyCache.stores.jobs.get(parseKey(key));
  if (job === undefined || job.metadata.deletionTimestamp !== undefined) return undefined;
  if (remedyCache.isStale()) return { requeueAfterMs: STALE_RETRY_MS };
  let decision = decide(await observe(remedyCache, job, undefined));
  if (decision.step === 'Read') {
    run.log.debug({ why: decision.why }, 'reads again');
    decision = decide(await observe(remedyCache, job, { client: run.client, signal: run.signal }));
  }
  switch (decision.step) {
    case 'Read':
      return { requeueAfterMs: LOST_MS };
    case 'Delete':
      await remove(job, run);
      return undefined;
    case 'Write':
      if (job.status?.phase === undefined && decision.status.phase === 'Pending') {
        const untilMs = answers.get(job) ?? clock.monotonic() + ANSWER_MS;
        answers.set(job, untilMs);
        if (clock.monotonic() < untilMs) return { requeueAfterMs: untilMs - clock.monotonic() };
      }
      if (!(await write(deps, job, decision.status, run))) return { requeueAfterMs: LOST_MS };
      return afterMs(remedyCache, decision.wakeAtMs);
    case 'Wait':
      return afterMs(remedyCache, decision.wakeAtMs);
    default:
      return decision satisfies never;
  }
}

function afterMs(remedyCache: RemedyCache, atMs: number | undefined): QueueResult | undefined {
  return atMs === undefined ? undefined : { requeueAfterMs: Math.max(1, atMs - remedyCache.now()) };
}

async function write(
  { remedyCache, recorder }: JobDeps,
  job: Stored<RemedyOperationJob>,
  status: NonNullable<RemedyOperationJob['status']>,
  run: ReconcileContext,
): Promise<boolean> {
  const { namespace, name, resourceVersion } = job.metadata;
  try {
    await run.client.patch(
      RemedyOperationJobs,
      { namespace, name },
      { merge: { metadata: { resourceVersion }, status: mergeDiff(job.status, status) } },
      { fieldManager: MANAGERS.remedyJob, subresource: 'status', signal: run.signal },
    );
  } catch (error) {
    if (hasReason(error, 'Conflict', 'NotFound')) return false;
    throw error;
  }
  if (job.status?.phase !== status.phase) run.log.info({ phase: status.phase, outcome: status.outcome }, status.explanation ?? '');
  const event = eventOf(job, status);
  if (event !== undefined) recorder.event(aboutNode(remedyCache, job), event);
  return true;
}

/** Where the Node is gone the Event still names it. */
function aboutNode({ stores }: RemedyCache, { spec }: RemedyOperationJob): KubeObject {
  return stores.nodes.get({ name: spec.node }) ?? { apiVersion: 'v1', kind: 'Node', metadata: { name: spec.node } };
}

async function remove({ metadata }: Stored<RemedyOperationJob>, run: ReconcileContext): Promise<void> {
  const { namespace, name, uid, resourceVersion } = metadata;
  try {
    await run.client.delete(RemedyOperationJobs, { namespace, name }, { uid, resourceVersion, signal: run.signal });
  } catch (error) {
    if (!hasReason(error, 'NotFound', 'Conflict')) throw error;
  }
}

function openJobsOf(remedyCache: RemedyCache, machineUID: string): string[] {
  return remedyCache
    .jobsOf(machineUID)
    .filter((job) => !isFinished(job))
    .map((job) => keyOf(job.metadata));
}

/** Jobs whose reservation came or went. */
function jobsOfLedger(remedyCache: RemedyCache, ledger: Stored<DisruptionLedger>, old: Stored<DisruptionLedger> | undefined): string[] {
  // Before its first term it is not known which reservations the ledger will have.
  if (!isBegun(old) && isBegun(ledger))
    return remedyCache.stores.jobs.list().flatMap((job) => (isFinished(job) ? [] : [keyOf(job.metadata)]));
  const [now, before] = [requestersOf(ledger), requestersOf(old)] as const;
  const moved = [...now, ...before].filter(([id]) => now.has(id) !== before.has(id)).map(([, requester]) => requester);
  return [...new Set(moved)].flatMap((uid) => {
    const job = remedyCache.jobOfUID(uid);
    return job === undefined ? [] : [keyOf(job.metadata)];
  });
}

/** By the id of the reservation that they asked for. */
const requestersOf = (ledger: DisruptionLedger | undefined): ReadonlyMap<string, string> =>
  new Map((ledger?.status?.reservations ?? []).map((reservation) => [reservation.id, reservation.requesterUID]));
