/** One observation of one machine: which of its rules a change concerns, and their outcomes now. */
import type { Machine, Observation } from '../../api/machine.ts';
import type { PeerScope } from '../../api/facts.ts';
import type { RemedyOperationJob } from '../../api/remedy-operation-job.ts';
import type { Stored } from '../../api/wire.ts';
import { rulesReading, type RuleIndex } from '../../rules/index.ts';
import { runPass, type RuleOutcome } from '../../rules/pass.ts';
import { changes, type Snapshot } from '../../rules/snapshot.ts';
import { acted, named } from './decide.ts';
import type { RemedyCache } from './remedy-cache.ts';

/** What is kept of a rule on a machine between two observations; nothing of one that does not match and waits for nothing. */
interface Seen {
  matches: boolean;
  nextAtMs: number | undefined;
  peers: readonly PeerScope[];
}

/** What is kept of a machine between two observations. Without it everything is evaluated. */
export interface Memory {
  index: RuleIndex;
  snapshot: Snapshot;
  rules: ReadonlyMap<string, Seen>;
  /** Of its jobs: when a job moves on, what waits for it is evaluated. */
  jobs: string;
}

export interface Observed {
  machine: Stored<Machine>;
  snapshot: Snapshot;
  index: RuleIndex;
  jobs: readonly Stored<RemedyOperationJob>[];
  /** undefined: nothing has changed, nothing was evaluated. */
  pass: { outcomes: RuleOutcome[]; observations: Observation[]; changed: boolean } | undefined;
}

function versionsOf(jobs: readonly Stored<RemedyOperationJob>[]): string {
  return jobs
    .map(({ metadata }) => `${metadata.name}@${metadata.resourceVersion}`)
    .sort()
    .join(' ');
}

export async function observe(remedyCache: RemedyCache, machine: Stored<Machine>, memory: Memory | undefined): Promise<Observed> {
  const { index } = remedyCache.rulebook();
  const { uid } = machine.metadata;
  const snapshot = remedyCache.snapshot(machine);
  const jobs = remedyCache.jobsOf(uid);
  const before = memory?.index === index ? memory : undefined;
  const names = new Set(rulesReading(index, changes(before?.snapshot, snapshot)));
  for (const [name, { nextAtMs }] of before?.rules ?? []) if (nextAtMs !== undefined && nextAtMs <= snapshot.atMs) names.add(name);
  const observations = machine.status?.observations ?? [];
  const idle =
    before === undefined
      ? index.rules.size === 0 && observations.length === 0 && named(machine).length === 0
      : names.size === 0 && before.jobs === versionsOf(jobs);
  if (idle) return { machine, snapshot, index, jobs, pass: undefined };
  // All rules that compete for the machine are judged together.
  for (const [name, { matches }] of before?.rules ?? []) if (matches) names.add(name);
  for (const name of [...named(machine), ...acted(jobs)]) names.add(name);
  const pass = await runPass({ index, names: [...names], snapshot, observations });
  // While an operation has the machine its clocks stand still. They start again when it ends.
  return { machine, snapshot, index, jobs, pass: snapshot.pause.paused ? { ...pass, observations, changed: false } : pass };
}

/** What to keep after an observation. `waits`: when the ladder of a rule may go on. */
export function remember(
  memory: Memory | undefined,
  { snapshot, index, jobs, pass }: Observed,
  waits: ReadonlyMap<string, number>,
): Memory {
  const rules = new Map(memory?.index === index ? memory.rules : []);
  for (const outcome of pass?.outcomes ?? []) {
    const { name } = outcome.rule;
    const matches = outcome.truth === 'True';
    const times = [outcome.nextAtMs, waits.get(name)].filter((each) => each !== undefined);
    if (!matches && times.length === 0 && outcome.peers.length === 0) rules.delete(name);
    else rules.set(name, { matches, nextAtMs: times.length === 0 ? undefined : Math.min(...times), peers: outcome.peers });
  }
  return { index, snapshot, rules, jobs: versionsOf(jobs) };
}

/** When to observe again though nothing has changed, ms. */
export function wakeAtMs({ snapshot, rules }: Memory): number | undefined {
  const times = [snapshot.staleAtMs, ...[...rules.values()].map((each) => each.nextAtMs)].filter((each) => each !== undefined);
  return times.length === 0 ? undefined : Math.min(...times);
}

/** Scopes whose counts could change the outcome of a rule on this machine. */
export function scopesOf({ rules }: Memory): Set<PeerScope> {
  return new Set([...rules.values()].flatMap((each) => each.peers));
}
