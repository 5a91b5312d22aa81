import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, expect, it } from 'vitest';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const folder = mkdtempSync(join(tmpdir(), 'kubenode-skips-'));
afterAll(() => rmSync(folder, { recursive: true }));

interface Test {
  file: string;
  test: string;
  status?: 'passed' | 'skipped' | 'pending' | 'todo';
}
const listed = JSON.parse(readFileSync(join(root, 'test/skips.json'), 'utf8')) as Test[];
const wall: Test = { file: 'src/sync/render/wall.test.ts', test: 'behind namespaces bwrap prevents what it must' };

let count = 0;
/** A report of vitest of these tests, which are skipped unless their status differs. */
function report(tests: readonly Test[]): string {
  const path = join(folder, `${++count}.json`);
  const testResults = tests.map(({ file, test, status = 'skipped' }) => ({
    name: join(root, file),
    status: 'passed',
    message: '',
    assertionResults: [{ fullName: test, status }],
  }));
  writeFileSync(path, JSON.stringify({ testResults }));
  return path;
}

const run = (...reports: string[]) => spawnSync(process.execPath, [join(root, 'tools/skips.ts'), ...reports], { encoding: 'utf8' });

it('takes what is listed, and what another run has passed', () => {
  const { status, stdout } = run(report([...listed, wall]), report([{ ...wall, status: 'passed' }]));
  expect([status, stdout.trim().split('\n')]).toEqual([0, [expect.stringContaining(`${listed.length} entries on the list`)]]);
});

it.each(['skipped', 'pending', 'todo'] as const)('fails for a test that is %s in every run, and not listed', (as) => {
  const { status, stdout } = run(report([...listed, { ...wall, status: as }]), report([]));
  expect([status, stdout]).toEqual([1, expect.stringContaining(`skipped, and not on test/skips.json: ${wall.file}: ${wall.test}`)]);
});

it('fails for an entry of the list that no report skips', () => {
  const { status, stdout } = run(report(listed.slice(1)));
  expect([status, stdout]).toEqual([1, expect.stringContaining(`on test/skips.json, and not skipped: ${listed[0]?.file}`)]);
});

it('fails without a report, and for one that is none', () => {
  expect(run().status).toBe(2);
  expect(run(join(folder, 'absent.json')).status).toBe(2);
});
