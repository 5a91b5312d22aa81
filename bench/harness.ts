/** Runs benchmarks, each run in a process of its own, and makes results of what they saw. */
import { fork } from 'node:child_process';
import { loadavg } from 'node:os';
import { fileURLToPath } from 'node:url';
import { surroundings, type Run } from './record.ts';
import { benchError } from './errors.ts';

/**
 * What is real. S: everything in one process, over the embedded store. W: shipped programs over HTTPS, the embedded API server
 * in a process of its own. R: etcd and kube-apiserver.
 */
export type Tier = 'S' | 'W' | 'R';

/** One observation, and what the reference did in the same process window, in the same unit. */
export interface Sample {
  name: string;
  tier: Tier;
  unit: string;
  value: number;
  reference: number;
}

export interface Result {
  name: string;
  tier: Tier;
  /** Median over the runs; `reference` too. */
  value: number;
  unit: string;
  reference: number;
  /** value / reference; 1 where both are 0, null where only the reference is. */
  ratio: number | null;
  /** How many samples. */
  runs: number;
  /** Smallest and largest value. */
  spread: [number, number];
}

/** What a result should keep to. Never asserted; docs/benchmarks.md shows whether it did. */
export interface Goal {
  of: 'value' | 'ratio';
  most?: number;
  least?: number;
}

export interface Benchmark {
  /** Fresh processes, one after the other. */
  processes: number;
  /** Markdown: what is measured, against what, how the fewest possible is counted. */
  about: string;
  goals: Record<string, Goal>;
  /** Markdown, made of the results: what they mean to who runs a fleet. */
  summary?: (of: (name: string) => Result) => string;
  /** Why it cannot be run as things are, and what to do; undefined when it can. Asked only where it was not asked for by name. */
  lacks?: () => Promise<string | undefined>;
  /** One run. */
  run(report: (sample: Sample) => void): Promise<void>;
}

const LOADERS: Record<string, () => Promise<{ default: Benchmark }>> = {
  'commit-to-machine': () => import('./commit-to-machine.ts'),
  'noop-commit': () => import('./no-op-commit.ts'),
  agent: () => import('./agent.ts'),
  embedded: () => import('./embedded.ts'),
  render: () => import('./render.ts'),
  plan: () => import('./plan.ts'),
  rules: () => import('./rules.ts'),
  'condition-to-order': () => import('./condition-to-order.ts'),
  'real-condition-to-order': () => import('./real-condition-to-order.ts'),
  'real-watches': () => import('./real-watches.ts'),
  'real-resync': () => import('./real-resync.ts'),
  'real-recovery': () => import('./real-recovery.ts'),
};
export const NAMES: readonly string[] = Object.keys(LOADERS);

/** Errors: Usage for a name that is none. */
export async function benchmarkNamed(name: string): Promise<Benchmark> {
  const load = Object.hasOwn(LOADERS, name) ? LOADERS[name] : undefined;
  if (load === undefined) throw benchError('Usage', `there is no benchmark "${name}"; there are: ${NAMES.join(', ')}`);
  return (await load()).default;
}

let interruptedBy: NodeJS.Signals | undefined;
/** Whether the caller wants it all to end. */
export const interrupted = (): boolean => interruptedBy !== undefined;

/** All runs of one benchmark. `onProgress` gets a line for each that begins. */
export async function measure(name: string, onProgress: (text: string) => void): Promise<Run> {
  const { processes } = await benchmarkNamed(name);
  const about = await surroundings();
  const samples: Sample[] = [];
  const loads: number[] = [];
  for (let run = 1; run <= processes; run++) {
    loads.push(loadavg()[0] ?? 0);
    onProgress(`${name}, run ${run} of ${processes}`);
    await inProcess(name, (sample) => samples.push(sample));
  }
  return { benchmark: name, ...about, load: [Math.min(...loads), Math.max(...loads)], results: resultsOf(samples) };
}

/** What the forked process does. */
export async function runHere(name: string): Promise<void> {
  const benchmark = await benchmarkNamed(name);
  const sent: Promise<void>[] = [];
  await benchmark.run(
    (sample) => void sent.push(new Promise((resolve) => void process.send?.(sample, undefined, undefined, () => resolve()))),
  );
  await Promise.all(sent);
}

function inProcess(name: string, report: (sample: Sample) => void): Promise<void> {
  const entry = fileURLToPath(new URL('./main.ts', import.meta.url));
  return new Promise((resolve, reject) => {
    const child = fork(entry, ['--once', name], { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] });
    const onSignal = (signal: NodeJS.Signals): void => {
      interruptedBy = signal;
      child.kill(signal);
    };
    const signals = ['SIGINT', 'SIGTERM'] as const;
    for (const signal of signals) process.once(signal, onSignal);
    child.on('message', (message) => {
      if (!isSample(message)) reject(new Error(`${name} reported ${JSON.stringify(message)}`));
      else report(message);
    });
    child.once('error', reject);
    child.once('exit', (code, signal) => {
      for (const each of signals) process.removeListener(each, onSignal);
      if (code === 0) resolve();
      else reject(benchError('BenchmarkFailed', `${name} ended with ${signal ?? `exit code ${code}`}`));
    });
  });
}

function isSample(value: unknown): value is Sample {
  const { name, tier, unit, value: measured, reference } = (value ?? {}) as { [K in keyof Sample]?: unknown };
  const texts = [name, unit].every((each) => typeof each === 'string' && each !== '');
  return texts && ['S', 'W', 'R'].includes(String(tier)) && [measured, reference].every((each) => Number.isFinite(each));
}

/** One result a name, in the order in which names were first seen. */
export function resultsOf(samples: readonly Sample[]): Result[] {
  return [...Map.groupBy(samples, ({ name }) => name)].map(([name, each]) => {
    const values = each.map(({ value }) => value);
    const value = percentile(values, 50);
    const reference = percentile(
      each.map((sample) => sample.reference),
      50,
    );
    const ratio = reference === 0 ? (value === 0 ? 1 : null) : value / reference;
    const { tier = 'S', unit = '' } = each[0] ?? {};
    return { name, tier, value, unit, reference, ratio, runs: each.length, spread: [Math.min(...values), Math.max(...values)] };
  });
}

/** Nearest rank; for 50 the mean of the two in the middle. */
export function percentile(values: readonly number[], percent: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  const at = (index: number): number => sorted[Math.min(Math.max(index, 0), sorted.length - 1)] ?? Number.NaN;
  if (percent === 50) return (at(Math.floor((sorted.length - 1) / 2)) + at(Math.floor(sorted.length / 2))) / 2;
  return at(Math.ceil((percent / 100) * sorted.length) - 1);
}
