/**
 * Replays a recorded history under virtual time, through the code that runs in a cell: snapshot, index, evaluation, clocks, ladder and
 * verification. What is left out is Defender: every job is granted at once, since a history is a test of rules.
 */
import type { Outcome } from '../api/machine.ts';
import type { Observation } from '../api/machine.ts';
import { API_VERSION } from '../api/kind.ts';
import type { NodeRemedier } from '../api/node-remedier.ts';
import type { RemedyOperationJob } from '../api/remedy-operation-job.ts';
import { explain, type Explanation } from './explain.ts';
import { observeHeartbeats, type Heartbeats } from './heartbeats.ts';
import { beforeOf, proofFrom, verify } from './heal.ts';
import type { ExpectedJob, History, HistoryEvent } from './history.ts';
import { compileRule, indexRules, rulesReading, type RuleIndex } from './index.ts';
import { diagnosisOf, jobSpecOf } from './job.ts';
import { compareContenders, nextRung } from './ladder.ts';
import { runPass, type RuleOutcome } from './pass.ts';
import { RecordedMachine } from './recorded.ts';
import { changes, takeSnapshot, type Snapshot } from './snapshot.ts';

/** A job as the replay made it. */
export interface ReplayedJob {
  /** Seconds from the start. */
  at: number;
  rule: string;
  action: ExpectedJob['action'];
  rung: number;
  why: string;
  ends: NonNullable<ExpectedJob['ends']>;
  endsAt?: number;
  /** Why it ended so. */
  ending: string;
  /** What a human reads who is asked; else empty. */
  diagnosis: readonly string[];
}

export interface Replay {
  jobs: ReplayedJob[];
  /** Explanation of each rule at its last evaluation. */
  last: Explanation[];
  /** Where what happened is not what the history expects; empty: the test passes. */
  differences: string[];
}

export interface ReplayOptions {
  /** Rules in Shadow are replayed as if enforced, unless `AsWritten`. */
  mode?: 'AsWritten' | 'Enforce';
}

const HOUR_MS = 3_600_000;
const HEARTBEAT_MS = 60_000;
/** A history that needs this many passes goes round in circles. */
const MAX_PASSES = 100_000;

/** Throws RuleRefused for a rule that fails its check. */
export async function replay(rules: readonly NodeRemedier[], history: History, options: ReplayOptions = {}): Promise<Replay> {
  const asRun = options.mode === 'AsWritten' ? rules : rules.map((rule) => ({ ...rule, spec: { ...rule.spec, mode: 'Enforce' as const } }));
  const run = new Run(indexRules(asRun.map(compileRule)), history);
  await run.toEnd();
  const jobs = run.jobs();
  return { jobs, last: [...run.last.values()].map(explain), differences: differencesOf(history.expect, jobs) };
}

class Run {
  readonly last = new Map<string, RuleOutcome>();
  readonly #index: RuleIndex;
  readonly #history: History;
  readonly #world: RecordedMachine;
  readonly #jobs: RemedyOperationJob[] = [];
  readonly #nextAtMs = new Map<string, number>();
  #observations: Observation[] = [];
  #heartbeats: Heartbeats | undefined;
  #before: Snapshot | undefined;
  #operation = false;
  #running = true;
  #releasedAtMs: number | undefined;

  constructor(index: RuleIndex, history: History) {
    this.#index = index;
    this.#history = history;
    this.#world = new RecordedMachine(history);
  }

  async toEnd(): Promise<void> {
    const { startMs } = this.#world;
    const events = this.#history.events.map((event) => ({ ms: startMs + event.at * 1000, event }));
    const until = this.#history.untilSeconds;
    const endMs = until === undefined ? (events.at(-1)?.ms ?? startMs) + HOUR_MS : startMs + until * 1000;
    let nowMs = startMs;
    for (let passes = 0; nowMs <= endMs; passes += 1) {
      if (passes > MAX_PASSES) throw new Error(`history ${this.#history.name} does not end`);
      while (events[0] !== undefined && events[0].ms <= nowMs) {
        const event = events.shift()?.event;
        if (event !== undefined) this.#apply(event, nowMs);
      }
      const wakeAtMs = this.#running ? await this.#pass(nowMs) : Number.POSITIVE_INFINITY;
      nowMs = Math.max(nowMs, Math.min(events[0]?.ms ?? Number.POSITIVE_INFINITY, wakeAtMs));
    }
  }

  jobs(): ReplayedJob[] {
    const seconds = (time: string | undefined): number => (Date.parse(time ?? '') - this.#world.startMs) / 1000;
    return this.#jobs.map(({ metadata, spec, status }) => {
      const phase = status?.phase;
      const ends = phase === 'Succeeded' || phase === 'Failed' || phase === 'NeedsHuman' || phase === 'Shadow' ? phase : 'Open';
      return {
        at: seconds(metadata.creationTimestamp),
        rule: spec.rule,
        action: spec.action,
        rung: spec.rung,
        why: spec.why,
        ends,
        ...(status?.finishedAt === undefined ? {} : { endsAt: seconds(status.finishedAt) }),
        ending: status?.explanation ?? '',
        diagnosis: status?.diagnosis ?? [],
      };
    });
  }

  #apply(event: HistoryEvent, nowMs: number): void {
    this.#world.apply(event, nowMs);
    if (event.operation !== undefined) {
      this.#operation = event.operation === 'Begins';
      if (!this.#operation) this.#releasedAtMs = nowMs;
    }
    if (event.acted !== undefined) this.#acted(event.acted, nowMs);
    if (event.controller !== undefined) {
      this.#running = event.controller === 'Restarts';
      this.#forget();
    }
  }

  /** What a process that ends forgets: everything that is not in an object. */
  #forget(): void {
    this.#heartbeats = undefined;
    this.#before = undefined;
    this.#nextAtMs.clear();
  }

  get #live(): RemedyOperationJob | undefined {
    return this.#jobs.findLast(({ status }) => status?.phase === 'Running' || status?.phase === 'Verifying');
  }

  async #pass(nowMs: number): Promise<number> {
    const snapshot = this.#snapshot(nowMs);
    const changed = changes(this.#before, snapshot);
    this.#before = snapshot;
    const live = this.#live;
    const due = [...this.#nextAtMs].filter(([, ms]) => ms <= nowMs).map(([name]) => name);
    const names = live === undefined ? [...new Set([...rulesReading(this.#index, changed), ...due])] : [...this.#index.rules.keys()];
    const pass = await runPass({
      index: this.#index,
      names,
      snapshot,
      observations: this.#observations,
    });
    this.#observations = pass.observations;
    for (const outcome of pass.outcomes) {
      this.last.set(outcome.rule.name, outcome);
      this.#nextAtMs.set(outcome.rule.name, outcome.nextAtMs ?? Number.POSITIVE_INFINITY);
      this.#close(outcome, nowMs);
    }
    if (live !== undefined) return this.#verify(live, snapshot, nowMs);
    const waits = this.#fire(pass.outcomes, snapshot, nowMs);
    const wakes = [snapshot.staleAtMs ?? Number.POSITIVE_INFINITY, waits, ...this.#nextAtMs.values()];
    return Math.min(...wakes);
  }

  #snapshot(nowMs: number): Snapshot {
    const node = this.#world.node(nowMs);
    this.#heartbeats = observeHeartbeats(this.#heartbeats, node.metadata.uid ?? '', node.status?.conditions ?? [], nowMs);
    return takeSnapshot({
      nowMs,
      machine: this.#world.machine(),
      node,
      heartbeats: this.#heartbeats,
      kubeletFreshUntilMs: this.#world.freshUntilMs('kubelet', nowMs),
      agentFreshUntilMs: this.#world.freshUntilMs('agent', nowMs),
      peers: this.#world.peers,
      pause: { paused: this.#live !== undefined || this.#operation, releasedAtMs: this.#releasedAtMs },
    });
  }

  /** A question to a human ends when its rule is known not to match any more. */
  #close(outcome: RuleOutcome, nowMs: number): void {
    if (outcome.truth !== 'False') return;
    for (const { spec, status } of this.#jobs)
      if (spec.rule === outcome.rule.name && status?.phase === 'NeedsHuman') status.finishedAt ??= new Date(nowMs).toISOString();
  }

  /** Makes the job of the rule that comes first. Returns when one that has to wait may go on. */
  #fire(outcomes: readonly RuleOutcome[], snapshot: Snapshot, nowMs: number): number {
    const { machine } = snapshot;
    const steps = outcomes
      .filter((outcome) => outcome.due)
      .map((outcome) => {
        const { name, rule } = outcome.rule;
        const asked = {
          rule: { name, spec: rule.spec },
          machineUID: machine.metadata.uid ?? '',
          jobs: this.#jobs,
          matchedSinceMs: outcome.sinceMs ?? nowMs,
          nowMs,
          // A recorded history is of one machine.
          replacements: 0,
        };
        return { outcome, step: nextRung(asked) };
      });
    const due = steps
      .flatMap(({ outcome, step }) => (step.step === 'Act' || step.step === 'AskHuman' ? [{ outcome, step }] : []))
      .map(({ outcome, step }) => ({
        outcome,
        step,
        contender: {
          rule: outcome.rule.name,
          priority: outcome.rule.rule.spec.priority ?? 0,
          action: step.step === 'Act' ? step.action : ('Human' as const),
        },
      }))
      .sort((a, b) => compareContenders(a.contender, b.contender));
    for (const { outcome, step } of steps) if (step.step === 'Wait') this.#nextAtMs.set(outcome.rule.name, step.untilMs);
    for (const { outcome, step } of due) {
      const at = new Date(nowMs).toISOString();
      const shadow = outcome.rule.rule.spec.mode !== 'Enforce';
      const job: RemedyOperationJob = {
        apiVersion: API_VERSION,
        kind: 'RemedyOperationJob',
        metadata: { name: `${outcome.rule.name}-${this.#jobs.length + 1}`, creationTimestamp: at },
        spec: jobSpecOf(outcome, step, machine, nowMs, 0),
        status: shadow
          ? { phase: 'Shadow', finishedAt: at, explanation: step.why }
          : step.step === 'AskHuman'
            ? { phase: 'NeedsHuman', explanation: step.why, diagnosis: diagnosisOf(outcome, step, this.#jobs, machine.metadata.uid ?? '') }
            : { phase: 'Running', orderedAt: at, before: beforeOf(snapshot) },
      };
      this.#jobs.push(job);
      if (job.status?.phase === 'Running') {
        if (this.#history.actionSeconds === 0) this.#acted('Succeeded', nowMs);
        return nowMs;
      }
    }
    return Number.POSITIVE_INFINITY;
  }

  #acted(outcome: Outcome, nowMs: number): void {
    const job = this.#live;
    if (job?.status?.phase !== 'Running') return;
    if (outcome === 'Succeeded') {
      job.status.phase = 'Verifying';
      job.status.actedAt = new Date(nowMs).toISOString();
      job.status.proof = proofFrom(this.#snapshot(nowMs), job.spec);
    } else this.#finish(job, 'Failed', outcome, `the action ended ${outcome}`, nowMs);
  }

  #verify(job: RemedyOperationJob, snapshot: Snapshot, nowMs: number): number {
    const { status } = job;
    if (status === undefined) return Number.POSITIVE_INFINITY;
    const orderedAtMs = Date.parse(status.orderedAt ?? '');
    const actionMs = (this.#history.actionSeconds ?? Number.NaN) * 1000;
    if (status.phase === 'Running' && nowMs >= orderedAtMs + actionMs) this.#acted('Succeeded', nowMs);
    const found = verify({
      spec: job.spec,
      orderedAtMs,
      actedAtMs: status.actedAt === undefined ? undefined : Date.parse(status.actedAt),
      before: status.before ?? { bootID: '', conditions: [] },
      proof: status.proof ?? {},
      snapshot,
      matches: this.last.get(job.spec.rule)?.truth,
      gone: status.actedAt !== undefined,
    });
    status.proof = found.proof;
    status.explanation = found.why;
    if (found.state === 'Healed') this.#finish(job, 'Succeeded', 'Succeeded', found.why, nowMs);
    else if (found.state === 'Failed') this.#finish(job, 'Failed', 'PermanentFailure', found.why, nowMs);
    // A cell reconciles with every heartbeat while it verifies.
    const wakes = [found.nextAtMs, nowMs + HEARTBEAT_MS, status.phase === 'Running' ? orderedAtMs + actionMs : undefined];
    const ended = job.status?.finishedAt !== undefined;
    return ended ? nowMs : Math.min(...wakes.filter((each) => each !== undefined && !Number.isNaN(each)).map(Number));
  }

  #finish(job: RemedyOperationJob, phase: 'Succeeded' | 'Failed', outcome: Outcome, why: string, nowMs: number): void {
    job.status = { ...job.status, phase, outcome, explanation: why, finishedAt: new Date(nowMs).toISOString() };
    this.#releasedAtMs = nowMs;
  }
}

function differencesOf(expected: readonly ExpectedJob[], jobs: readonly ReplayedJob[]): string[] {
  const differences: string[] = [];
  for (let index = 0; index < Math.max(expected.length, jobs.length); index += 1) {
    const [want, got] = [expected[index], jobs[index]];
    const where = `expect[${index}]`;
    if (want === undefined) differences.push(`${where}: nothing more was expected, but ${text(got)}: ${got?.why}`);
    else if (got === undefined) differences.push(`${where}: expected ${text(want)}, but nothing more happened`);
    else if (Object.entries(want).some(([key, value]) => got[key as keyof ExpectedJob] !== value))
      differences.push(`${where}: expected ${text(want)}, but ${text(got)}${got.ending === '' ? '' : ` (${got.ending})`}`);
  }
  return differences;
}

function text(job: ExpectedJob | undefined): string {
  if (job === undefined) return 'nothing';
  const by = job.rule === undefined ? '' : ` by ${job.rule}`;
  const end = job.ends === undefined ? '' : `, ${job.ends}${job.endsAt === undefined ? '' : ` at ${job.endsAt} s`}`;
  return `${job.action}${by} at ${job.at} s${end}`;
}
