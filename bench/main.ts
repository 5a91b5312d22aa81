/**
 *   npm run bench [-- NAME] [--json] [--write]      runs all benchmarks, or one
 *   npm run bench -- --page                         runs none: docs/benchmarks.md again
 *
 * --json: one JSON line a result. --write: what was measured replaces what bench/results.jsonl has of it, and docs/benchmarks.md is made again.
 */
import { writeFile } from 'node:fs/promises';
import { parseArgs } from 'node:util';
import { messageOf } from '../src/api/errors.ts';
import { EXIT, fail } from '../src/cli/exit.ts';
import { table, terminalOutput, type Output } from '../src/cli/output.ts';
import { DOCUMENT, document, number } from './document.ts';
import { benchmarkNamed, interrupted, measure, NAMES, runHere, type Result } from './harness.ts';
import { readRecord, writeRecord, type Run } from './record.ts';
import { benchError } from './errors.ts';

function flagsOf(args: string[]) {
  const flag = { type: 'boolean', default: false } as const;
  try {
    return parseArgs({ args, allowPositionals: true, options: { json: flag, write: flag, page: flag, once: flag } });
  } catch (error) {
    throw benchError('Usage', error instanceof Error ? error.message : String(error), {
      next: 'npm run bench -- [NAME] [--json] [--write] | --page',
    });
  }
}

async function main(output: Output): Promise<number> {
  const { values, positionals } = flagsOf(process.argv.slice(2));
  const [name, ...more] = positionals;
  if (more.length > 0) throw benchError('Usage', `one NAME at most, got ${positionals.join(' ')}; there are: ${NAMES.join(', ')}`);
  if (name !== undefined) await benchmarkNamed(name);
  if (values.once) {
    await runHere(name ?? '');
    return EXIT.ok;
  }
  if (values.page) {
    if (name !== undefined || values.write || values.json) throw benchError('Usage', '--page runs nothing and goes with nothing else');
    await writePage(await readRecord());
    output.report('done', 'wrote docs/benchmarks.md');
    return EXIT.ok;
  }

  const rows: string[][] = [];
  const failed: string[] = [];
  for (const each of name === undefined ? NAMES : [name]) {
    const lacks = name === undefined ? await (await benchmarkNamed(each)).lacks?.() : undefined;
    if (lacks !== undefined) {
      output.report('warning', `${each} is not run: ${lacks}`);
      continue;
    }
    try {
      const run = await measure(each, (text) => output.report('doing', text));
      if (values.json) for (const result of run.results) output.print(JSON.stringify(result));
      rows.push(...run.results.map(row));
      if (values.write) await keep(run);
    } catch (error) {
      if (name !== undefined || interrupted()) throw error;
      output.report('failed', messageOf(error));
      failed.push(each);
    }
  }
  if (!values.json && rows.length > 0) output.print(table(TITLES, rows));
  if (values.write && rows.length > 0) output.report('done', 'wrote bench/results.jsonl and docs/benchmarks.md');
  if (failed.length > 0) throw benchError('BenchmarkFailed', `failed: ${failed.join(', ')}`);
  return EXIT.ok;
}

/** At once, so that hours of measuring do not hang on the last benchmark. */
async function keep(run: Run): Promise<void> {
  const record = await readRecord();
  record.set(run.benchmark, run);
  await writeRecord(record);
  await writePage(record);
}

async function writePage(record: ReadonlyMap<string, Run>): Promise<void> {
  await writeFile(DOCUMENT, await document(record));
}

const TITLES = ['NAME', 'TIER', 'VALUE', 'UNIT', 'REFERENCE', 'RATIO', 'RUNS', 'SPREAD'];

function row({ name, tier, value, unit, reference, ratio, runs, spread }: Result): string[] {
  return [
    name,
    tier,
    number(value),
    unit,
    number(reference),
    ratio === null ? '∞' : number(ratio),
    String(runs),
    spread.map(number).join('–'),
  ];
}

const output = terminalOutput();
try {
  process.exit(await main(output));
} catch (error) {
  process.exit(fail(output, error));
}
