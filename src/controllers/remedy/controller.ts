import { MANAGERS } from '../../api/names.ts';
import { NodeRemediers } from '../../api/node-remedier.ts';
import type { Clock, Log, Random } from '../../api/ports.ts';
import { isFinished, type RemedyOperationJob } from '../../api/remedy-operation-job.ts';
import { keyOf, parseKey } from '../../api/resource.ts';
import type { Stored } from '../../api/wire.ts';
import { hasReason } from '../../kube/api-error.ts';
import type { Client } from '../../kube/client.ts';
import { createController, watch, type ReconcileContext } from '../../kube/controller.ts';
import type { QueueResult } from '../../kube/queue.ts';
import type { Recorder } from '../../kube/recorder.ts';
import type { RuleOutcome } from '../../rules/pass.ts';
import { mergeDiff } from '../../kube/merge-patch.ts';
import { createJob, listJobs, reportMachine } from './act.ts';
import { decide, type Decision, type RemedyView } from './decide.ts';
import { observe, remember, scopesOf, wakeAtMs, type Observed, type Memory } from './observe.ts';
import { createDependents } from './dependents.ts';
import { eventOfRule, ruleStatus } from './report.ts';
import type { RemedyCache } from './remedy-cache.ts';

export interface RemedyControllerOptions {
  client: Client;
  /** Of the same cell; may be shared with the remedyjob controller. */
  remedyCache: RemedyCache;
  clock: Clock;
  random: Random;
  log: Log;
  recorder: Recorder;
  /** Of this term of leadership. */
  signal: AbortSignal;
  /** Called for each observation of a machine that evaluated rules, with how many. */
  onEvaluated?: (machine: string, rules: number) => void;
}

/** How often a machine is reconciled again while the stores are stale. */
const STALE_RETRY_MS = 5000;
/** Jobs of a rule are counted at most this often. */
const COUNT_MS = 1000;
const BY_RULE = 'remedy/rule';
const byRule = (job: Stored<RemedyOperationJob>): string[] => [job.spec.rule];

interface RemedyDeps {
  remedyCache: RemedyCache;
  clock: Clock;
  recorder: Recorder;
  onEvaluated: RemedyControllerOptions['onEvaluated'];
  /** What was observed last of each machine, by its key. */
  memories: Map<string, Memory>;
  /** Machines by the peer groups that their rules read. */
  dependents: ReturnType<typeof createDependents>;
  /** When the jobs of each rule were counted last, monotonic ms. */
  counted: Map<string, number>;
}

/**
 * Finds out which repair rules match which machines, and makes jobs of what has matched for long enough. Two loops: one a machine, which
 * evaluates only the rules that read what changed; one a rule, which reports whether it runs and what it did.
 * Writes no job's status, and no node. Resolves when the signal has ended both.
 */
export async function runRemedyController(options: RemedyControllerOptions): Promise<void> {
  const { client, remedyCache, clock, random, log, recorder, signal, onEvaluated } = options;
  const { stores } = remedyCache;
  const dependents = createDependents();
  const deps: RemedyDeps = { remedyCache, clock, recorder, onEvaluated, dependents, memories: new Map(), counted: new Map() };
  stores.jobs.addIndex(BY_RULE, byRule);
  const shared = { client, clock, random, log, signal };
  const ofMachine = (job: Stored<RemedyOperationJob>): string[] => [
    keyOf({ namespace: job.metadata.namespace, name: job.spec.machine.name }),
  ];
  const machines = createController({
    ...shared,
    name: 'remedy',
    concurrency: 16,
    watches: [
      watch(stores.machines, (machine) => [keyOf(machine.metadata)]),
      watch(stores.nodes, (node) => remedyCache.machinesOfNode(node.metadata.name).map((machine) => keyOf(machine.metadata))),
      watch(stores.jobs, ofMachine),
      watch(stores.leases, () => []),
      watch(stores.ledgers, () => []),
    ],
    reconcile: (key, run) => reconcileMachine(deps, key, run),
  });
  const rules = createController({
    ...shared,
    name: 'remedy-rule',
    watches: [watch(stores.rules, (rule) => [rule.metadata.name]), watch(stores.jobs, byRule)],
    reconcile: (name, run) => reconcileRule(deps, name, run),
  });
  const subscriptions = [
    remedyCache.onMachine((key) => machines.enqueue(key)),
    remedyCache.onGroups((groups) => dependents.of(groups).forEach((key) => machines.enqueue(key))),
    remedyCache.onRulebook((_before, { sources }) => {
      for (const machine of stores.machines.list()) machines.enqueue(keyOf(machine.metadata));
      // Whether a rule may run depends on the others.
      for (const name of sources.keys()) rules.enqueue(name);
    }),
  ];
  try {
    await Promise.all([machines.run(), rules.run()]);
  } finally {
    for (const cancel of subscriptions) cancel();
  }
}

async function reconcileMachine(deps: RemedyDeps, key: string, run: ReconcileContext): Promise<QueueResult | void> {
  const { remedyCache, memories, dependents } = deps;
  const machine = remedyCache.stores.machines.get(parseKey(key));
  const memory = memories.get(key);
  // After a failure everything is evaluated again.
  memories.delete(key);
  if (machine === undefined || machine.metadata.deletionTimestamp !== undefined || machine.spec.paused === true) {
    dependents.set(key, []);
    return undefined;
  }
  if (remedyCache.isStale()) return { requeueAfterMs: STALE_RETRY_MS };
  const observed = await observe(remedyCache, machine, memory?.snapshot.machine.metadata.uid === machine.metadata.uid ? memory : undefined);
  const waits = observed.pass === undefined ? new Map<string, number>() : await act(deps, observed, observed.pass, run);
  const kept = remember(memory, observed, waits);
  memories.set(key, kept);
  const groups = remedyCache.groupsOf(machine.metadata.uid);
  dependents.set(
    key,
    [...scopesOf(kept)].map((scope) => groups[scope]).filter((group) => group !== undefined),
  );
  const atMs = wakeAtMs(kept);
  return atMs === undefined ? undefined : { requeueAfterMs: Math.max(1, atMs - remedyCache.now()) };
}

async function act(
  deps: RemedyDeps,
  observed: Observed,
  pass: NonNullable<Observed['pass']>,
  run: ReconcileContext,
): Promise<Decision['waits']> {
  const { remedyCache } = deps;
  const { signal } = run;
  const { machine } = observed;
  deps.onEvaluated?.(keyOf(machine.metadata), pass.outcomes.length);
  const view: RemedyView = {
    nowMs: observed.snapshot.atMs,
    machine,
    jobs: observed.jobs,
    jobsOfSet: remedyCache.jobsOfSet(machine),
    outcomes: pass.outcomes,
  };
  let decision = decide(view);
  // The job may exist already, though the stores do not show it: another leader made it, or this one before a crash.
  if (decision.create.length > 0) decision = decide({ ...view, jobs: await listJobs(run.client, machine, signal) });
  remedyCache.supersede(machine.metadata.uid, decision.superseded);
  wakeJobsOf(remedyCache, observed, pass.outcomes);
  const make = async (isShadow: boolean): Promise<void> => {
    for (const job of decision.create) {
      if ((job.spec.mode === 'Shadow') !== isShadow) continue;
      const made = await createJob(run.client, machine, job, signal);
      run.log.info({ job: job.name, rule: job.spec.rule, action: job.spec.action, mode: job.spec.mode, made }, job.why);
    }
  };
  await make(false);
  try {
    const { observations, changed } = pass;
    await reportMachine(run.client, machine, { observations, changed, repairNeeded: decision.repairNeeded }, remedyCache.now(), signal);
  } catch (error) {
    // Gone, or another machine has the name: the store will show it.
    if (!hasReason(error, 'NotFound', 'Conflict')) throw error;
  }
  // After the observations: in Shadow only they record that this match has been reported.
  await make(true);
  return decision.waits;
}

/** Time and peers are events only here. A job that waits for permission is woken when its rule does not match any more. */
function wakeJobsOf(remedyCache: RemedyCache, { jobs }: Observed, outcomes: readonly RuleOutcome[]): void {
  const over = new Set(outcomes.filter((outcome) => outcome.truth === 'False').map((outcome) => outcome.rule.name));
  for (const job of jobs) if (over.has(job.spec.rule) && !isFinished(job)) remedyCache.wakeJob(job);
}

async function reconcileRule(
  { remedyCache, clock, counted, recorder }: RemedyDeps,
  name: string,
  run: ReconcileContext,
): Promise<QueueResult | void> {
  const { stores } = remedyCache;
  const rule = stores.rules.get({ name });
  if (rule === undefined || rule.metadata.deletionTimestamp !== undefined) return void counted.delete(name);
  const isNew = rule.status?.observedGeneration !== rule.metadata.generation;
  const lastMs = counted.get(name);
  if (!isNew && lastMs !== undefined && clock.monotonic() < lastMs + COUNT_MS)
    return { requeueAfterMs: lastMs + COUNT_MS - clock.monotonic() };
  counted.set(name, clock.monotonic());
  const errors = remedyCache.rulebook().errors.get(name) ?? [];
  const status = ruleStatus({ nowMs: remedyCache.now(), rule, errors, jobs: stores.jobs.byIndex(BY_RULE, name) });
  const diff = mergeDiff(rule.status, status);
  if (diff === undefined) return undefined;
  const { resourceVersion } = rule.metadata;
  const write = { fieldManager: MANAGERS.remedy, subresource: 'status', signal: run.signal };
  await run.client.patch(NodeRemediers, { name }, { merge: { metadata: { resourceVersion }, status: diff } }, write);
  const event = eventOfRule(rule.status, status);
  if (event !== undefined) recorder.event(rule, event);
  return undefined;
}
