import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';
import { DOCUMENT, document, keeps } from './document.ts';
import { benchmarkNamed, NAMES, percentile, resultsOf, type Sample } from './harness.ts';
import { readRecord } from './record.ts';

const sample = (name: string, value: number, reference: number): Sample => ({ name, tier: 'W', unit: 'ms', value, reference });

it('makes one result a name, with medians, ratio and spread', () => {
  expect(resultsOf([sample('a', 30, 10), sample('b', 1, 2), sample('a', 10, 5), sample('a', 20, 40)])).toEqual([
    { name: 'a', tier: 'W', value: 20, unit: 'ms', reference: 10, ratio: 2, runs: 3, spread: [10, 30] },
    { name: 'b', tier: 'W', value: 1, unit: 'ms', reference: 2, ratio: 0.5, runs: 1, spread: [1, 1] },
  ]);
});

it('has a ratio of 1 where nothing was wanted and nothing was there, and none where nothing was wanted', () => {
  const [none, some] = resultsOf([sample('none', 0, 0), sample('some', 3, 0)]);
  expect(none?.ratio).toBe(1);
  expect(some?.ratio).toBeNull();
  expect(JSON.parse(JSON.stringify(some))).toEqual({
    name: 'some',
    tier: 'W',
    value: 3,
    unit: 'ms',
    reference: 0,
    ratio: null,
    runs: 1,
    spread: [3, 3],
  });
});

it('takes percentiles by nearest rank, and the middle of an even number for the median', () => {
  const hundred = Array.from({ length: 100 }, (_, index) => 100 - index);
  expect([percentile(hundred, 99), percentile(hundred, 50), percentile([7], 99), percentile([3, 1, 2], 50)]).toEqual([99, 50.5, 7, 2]);
});

it('publishes a goal that was missed', async () => {
  const [result] = resultsOf([sample('agent/requests-per-hour', 70, 60)]);
  if (result === undefined) throw new Error('no result');
  expect(keeps(result, { of: 'value', most: 70 })).toBe(true);
  expect(keeps(result, { of: 'ratio', least: 2 })).toBe(false);
  const about = { benchmark: 'agent', commit: 'abc', date: '2026-11-20', machine: 'big', load: [0.5, 2] as [number, number] };
  const text = await document(new Map([['agent', { ...about, results: [result] }]]));
  expect(text).toContain('Missed: `agent/requests-per-hour`.');
  expect(text).toContain('| agent/requests-per-hour | W | 70 ms | 60 | 1.17 | 1 | 70 – 70 | value ≤ 62: **missed** |');
  expect(text).toContain('Load before the runs (one minute): 0.5 to 2');
  expect(text).toContain('Not run.');
});

it('names whose commit is whose where benchmarks ran at different ones', async () => {
  const run = (benchmark: string, commit: string) => ({
    benchmark,
    commit,
    date: '2026-11-20',
    machine: 'big',
    load: [0, 1] as [number, number],
    results: [],
  });
  const runs = [run('agent', 'abc'), run('render', 'def'), run('noop-commit', 'abc'), run('rules', 'def'), run('embedded', 'def')];
  const text = await document(new Map(runs.map((each) => [each.benchmark, each])));
  expect(text).toContain('- Commit: `abc` for noop-commit and agent; `def` for the others\n- Date: 2026-11-20\n');
});

it('has in docs/benchmarks.md what the record and the descriptions make; `npm run bench -- --page` makes it again', async () => {
  expect(await readFile(DOCUMENT, 'utf8')).toBe(await document(await readRecord()));
});

it.each(NAMES)('describes for %s what is measured against what', async (name) => {
  const { about, goals, processes, summary } = await benchmarkNamed(name);
  expect(about).toMatch(/reference|fewest/);
  expect(processes).toBeGreaterThan(0);
  for (const goal of Object.keys(goals)) expect(goal.startsWith(`${name}/`)).toBe(true);
  const text = summary?.((wanted) => {
    expect(wanted.startsWith(`${name}/`)).toBe(true);
    const [result] = resultsOf([sample(wanted, 30, 10)]);
    if (result === undefined) throw new Error('no result');
    return result;
  });
  if (text !== undefined) expect(text).not.toMatch(/NaN|undefined|^$/);
});

it('refuses a name that is none with one error that lists the names', async () => {
  const main = fileURLToPath(new URL('./main.ts', import.meta.url));
  const run = promisify(execFile)(process.execPath, [main, 'nothing', '--json']);
  await expect(run).rejects.toMatchObject({
    code: 2,
    stdout: '',
    stderr: expect.stringMatching(new RegExp(`^\\S there is no benchmark "nothing"; there are: ${NAMES.join(', ')}\n$`)) as unknown,
  });
});
