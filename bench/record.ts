/** bench/results.jsonl: what was measured last of each benchmark, and when and where. docs/benchmarks.md is made of it. */
import { execFile } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import { arch, cpus, platform, release, totalmem } from 'node:os';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { Result } from './harness.ts';

export interface Surroundings {
  /** With a word on changes that were not committed. */
  commit: string;
  /** `2026-11-20`, UTC. */
  date: string;
  machine: string;
}

export interface Run extends Surroundings {
  benchmark: string;
  /** Of the machine over one minute, before the runs: least and most. */
  load: [number, number];
  results: Result[];
}

const FILE = fileURLToPath(new URL('./results.jsonl', import.meta.url));
const ROOT = fileURLToPath(new URL('..', import.meta.url));

/** By benchmark. */
export async function readRecord(): Promise<Map<string, Run>> {
  const runs = new Map<string, Run>();
  let last: Run | undefined;
  for (const line of (await readFile(FILE, 'utf8')).split('\n').filter((each) => each !== '')) {
    // Written by `recordText`.
    const parsed = JSON.parse(line) as Omit<Run, 'results'> | Result;
    if ('benchmark' in parsed) {
      last = { ...parsed, results: [] };
      runs.set(last.benchmark, last);
    } else {
      if (last === undefined) throw new Error(`${FILE} begins with a result of no benchmark`);
      last.results.push(parsed);
    }
  }
  return runs;
}

export async function writeRecord(runs: ReadonlyMap<string, Run>): Promise<void> {
  await writeFile(FILE, recordText(runs));
}

/** A line for each benchmark, each followed by a line for each of its results, as `--json` prints them. */
function recordText(runs: ReadonlyMap<string, Run>): string {
  const lines = [...runs.values()].flatMap(({ results, ...about }) => [about, ...results]);
  return lines.map((line) => `${JSON.stringify(line)}\n`).join('');
}

export async function surroundings(): Promise<Surroundings> {
  const git = async (...args: string[]): Promise<string> =>
    (await promisify(execFile)('git', ['-C', ROOT, ...args]).catch(() => ({ stdout: '' }))).stdout.trim();
  const commit = await git('rev-parse', '--short=7', 'HEAD');
  const changed = (await git('status', '--porcelain', '--untracked-files=no', '--', ':!docs', ':!bench/results.jsonl')) !== '';
  const processors = `${cpus().length} × ${cpus()[0]?.model.trim() ?? 'unknown processor'}`;
  return {
    commit: commit === '' ? 'no Git checkout' : `${commit}${changed ? ' with changes' : ''}`,
    date: new Date().toISOString().slice(0, 10),
    machine: `${processors}, ${Math.round(totalmem() / 2 ** 30)} GiB, ${platform()} ${release()} ${arch()}, Node ${process.versions.node}`,
  };
}
