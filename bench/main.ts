/**
 *   npm run bench [-- NAME] [--json] [--write]
 *
 * Without a name: all. --json: one JSON line a result. --write: docs/benchmarks.md is made anew from the results of this run.
 */
import { writeFile } from 'node:fs/promises';
import { parseArgs } from 'node:util';
import { CodedError } from '../src/api/errors.ts';
import { fail } from '../src/cli/exit.ts';
import { table, terminalOutput, type Output } from '../src/cli/output.ts';
import { DOCUMENT, document, number, surroundings } from './document.ts';
import { benchmarkNamed, measure, NAMES, runHere, type Measured, type Result } from './harness.ts';

function flagsOf(args: string[]) {
  const flag = { type: 'boolean', default: false } as const;
  try {
    return parseArgs({ args, allowPositionals: true, options: { json: flag, write: flag, once: flag } });
  } catch (error) {
    throw new CodedError('Usage', error instanceof Error ? error.message : String(error), {
      next: 'npm run bench -- [NAME] [--json] [--write]',
    });
  }
}

async function main(output: Output): Promise<void> {
  const { values, positionals } = flagsOf(process.argv.slice(2));
  const [name, ...more] = positionals;
  if (more.length > 0) throw new CodedError('Usage', `one NAME at most, got ${positionals.join(' ')}; there are: ${NAMES.join(', ')}`);
  if (name !== undefined) await benchmarkNamed(name);
  if (values.once) return await runHere(name ?? '');
  if (values.write && name !== undefined) throw new CodedError('Usage', '--write makes the page of all benchmarks: leave NAME out');

  const before = await surroundings();
  const measured = new Map<string, Measured>();
  for (const each of name === undefined ? NAMES : [name]) {
    const found = await measure(each, (text) => output.say('doing', text));
    measured.set(each, found);
    if (values.json) for (const result of found.results) output.print(JSON.stringify(result));
  }
  if (!values.json)
    output.print(
      table(
        TITLES,
        [...measured.values()].flatMap(({ results }) => results.map(row)),
      ),
    );
  if (values.write) {
    await writeFile(DOCUMENT, await document(measured, before));
    output.say('done', 'wrote docs/benchmarks.md');
  }
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
  await main(output);
  process.exit(0);
} catch (error) {
  process.exit(fail(output, error));
}
