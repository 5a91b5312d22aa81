/** docs/benchmarks.md, made from the results of one run. */
import { execFile } from 'node:child_process';
import { arch, cpus, platform, release, totalmem } from 'node:os';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { benchmarkNamed, type Goal, type Measured, type Result } from './harness.ts';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
export const DOCUMENT: string = fileURLToPath(new URL('../docs/benchmarks.md', import.meta.url));

/** Where and of what the numbers are, in words. */
export async function surroundings(): Promise<string[]> {
  const git = async (...args: string[]): Promise<string> =>
    (await promisify(execFile)('git', ['-C', ROOT, ...args]).catch(() => ({ stdout: '' }))).stdout.trim();
  const commit = await git('rev-parse', 'HEAD');
  const changed = (await git('status', '--porcelain', '--untracked-files=no')) !== '';
  return [
    `Commit: ${commit === '' ? 'unknown, this was no Git checkout' : commit}${changed ? ', with changes that were not committed' : ''}`,
    `Date: ${new Date().toISOString().slice(0, 16).replace('T', ' ')} UTC`,
    `Machine: ${cpus().length} × ${cpus()[0]?.model.trim() ?? 'unknown processor'}, ${Math.round(totalmem() / 2 ** 30)} GiB, ${platform()} ${release()} ${arch()}, Node ${process.versions.node}`,
  ];
}

export async function document(measured: ReadonlyMap<string, Measured>, lines: readonly string[]): Promise<string> {
  const loads = [...measured.values()].flatMap(({ loads }) => loads);
  const parts = await Promise.all([...measured].map(async ([name, { results }]) => await section(name, results)));
  const missed = parts.flatMap(({ missed }) => missed);
  return `# Benchmarks

Made by \`npm run bench -- --write\`. Each reference was measured in the same run, beside the value: read the ratio, which depends less on
the machine than the value does. Nothing here is asserted by a test, and what misses its goal is published as it is.

${lines.map((line) => `- ${line}`).join('\n')}
- Load before the runs (one minute): ${number(Math.min(...loads))} to ${number(Math.max(...loads))}, the runs before included

Tiers: **S**, everything in one process over the embedded store; **W**, the shipped programs over HTTPS with the embedded API server in a
process of its own; **R**, etcd and kube-apiserver. R was not run. Value and reference are medians over the runs, the spread is the smallest and
the largest value; every run begins in a fresh process. Nodes are processes on this same machine, and share its processors with the servers and with
what measures.

${missed.length === 0 ? 'All goals were kept.' : `Missed: ${missed.join(', ')}.`}

${parts.map(({ text }) => text).join('\n')}`;
}

async function section(name: string, results: readonly Result[]): Promise<{ text: string; missed: string[] }> {
  const { about, goals } = await benchmarkNamed(name);
  const missed: string[] = [];
  const rows = results.map((result) => {
    const goal = goals[result.name];
    const kept = goal === undefined ? undefined : keeps(result, goal);
    if (kept === false) missed.push(`\`${result.name}\``);
    const { tier, value, unit, reference, ratio, runs, spread } = result;
    const verdict = goal === undefined ? '' : `${wording(goal)}: ${kept === true ? 'kept' : '**missed**'}`;
    const cells = [
      result.name,
      tier,
      `${number(value)} ${unit}`,
      number(reference),
      ratio === null ? '∞' : number(ratio),
      runs,
      spread.map(number).join(' – '),
      verdict,
    ];
    return `| ${cells.join(' | ')} |`;
  });
  const text = `## ${name}

${about.trim()}

| name | tier | value | reference | ratio | runs | spread | goal |
| --- | --- | --- | --- | --- | --- | --- | --- |
${rows.join('\n')}
`;
  return { text, missed };
}

export function keeps(result: Result, goal: Goal): boolean {
  const judged = result[goal.of] ?? Number.POSITIVE_INFINITY;
  return judged <= (goal.most ?? Number.POSITIVE_INFINITY) && judged >= (goal.least ?? Number.NEGATIVE_INFINITY);
}

function wording({ of, most, least }: Goal): string {
  return `${of} ${most === undefined ? `≥ ${least}` : `≤ ${most}`}`;
}

/** Three significant digits, or whole. */
export function number(value: number): string {
  if (Math.abs(value) >= 100) return Math.round(value).toLocaleString('en-US');
  return String(Number(value.toPrecision(3)));
}
