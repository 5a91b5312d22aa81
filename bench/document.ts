/** docs/benchmarks.md, made of what was measured. */
import { fileURLToPath } from 'node:url';
import { benchmarkNamed, NAMES, type Goal, type Result } from './harness.ts';
import type { Run } from './record.ts';

export const DOCUMENT: string = fileURLToPath(new URL('../docs/benchmarks.md', import.meta.url));

export async function document(record: ReadonlyMap<string, Run>): Promise<string> {
  const sections = await Promise.all(NAMES.map(async (name) => await section(name, record.get(name))));
  const missed = sections.flatMap((each) => each.missed);
  const runs = NAMES.flatMap((name) => record.get(name) ?? []);
  const loads = runs.flatMap(({ load }) => load);
  const real = runs.some(({ results }) => results.some(({ tier }) => tier === 'R'));
  return `# Benchmarks

Made by \`npm run bench -- --write\` of what \`bench/results.jsonl\` keeps. Each reference was measured in the same run, beside the value: read the
ratio, which depends less on the machine than the value does. Nothing here is asserted by a test, and what misses its goal is published as it is.

- Commit: ${perBenchmark(runs, ({ commit }) => `\`${commit}\``)}
- Date: ${perBenchmark(runs, ({ date }) => date)}
- Machine: ${perBenchmark(runs, ({ machine }) => machine)}
- Load before the runs (one minute): ${number(Math.min(...loads))} to ${number(Math.max(...loads))}, the runs before included

Tiers: **S**, everything in one process over the embedded store; **W**, the shipped programs over HTTPS with the embedded API server in a
process of its own; **R**, etcd and kube-apiserver${real ? '' : ', which was not run'}. Value and reference are medians over the runs, the spread is the smallest and
the largest value; every run begins in a fresh process. Nodes are processes on this same machine, and share its processors with the servers and with
what measures.

${missed.length === 0 ? 'All goals were kept.' : `Missed: ${missed.join(', ')}.`}

${sections.map(({ text }) => text).join('\n')}`;
}

/** The value that all have in common, or each value with its benchmarks; the most frequent is given for "the others". */
function perBenchmark(runs: readonly Run[], of: (run: Run) => string): string {
  const groups = [...Map.groupBy(runs, of)].toSorted(([, a], [, b]) => a.length - b.length);
  const [only, ...more] = groups;
  if (only !== undefined && more.length === 0) return only[0];
  return groups
    .map(
      ([value, each], index) => `${value} for ${index === groups.length - 1 ? 'the others' : enumerated(each.map((run) => run.benchmark))}`,
    )
    .join('; ');
}

function enumerated(names: readonly string[]): string {
  return names.length < 2 ? names.join('') : `${names.slice(0, -1).join(', ')} and ${names.at(-1)}`;
}

async function section(name: string, run: Run | undefined): Promise<{ text: string; missed: string[] }> {
  const { about, goals, summary } = await benchmarkNamed(name);
  if (run === undefined) return { text: `## ${name}\n\n${about.trim()}\n\nNot run.\n`, missed: [] };
  const resultOf = (wanted: string): Result => {
    const found = run.results.find((result) => result.name === wanted);
    if (found === undefined) throw new Error(`bench/results.jsonl has no ${wanted}`);
    return found;
  };
  const missed: string[] = [];
  const rows = run.results.map((result) => {
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
${summary === undefined ? '' : `\n${summary(resultOf).trim()}\n`}`;
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
