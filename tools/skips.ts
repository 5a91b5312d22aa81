/**
 * Fails where a test was skipped that should have run: `node tools/skips.ts REPORT.json …`, reports of vitest's JSON reporter.
 *
 * A test that one run skips and another passes has run. Every other skipped test must be on the list `test/skips.json`, with the reason and where it
 * runs instead; an entry of the list that no report skips any more must go.
 */
import { readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Ajv } from 'ajv';
import { readReport } from './report.ts';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');

interface Allowed {
  /** Path of the test file from the root. */
  readonly file: string;
  /** What the full name begins with. */
  readonly test: string;
  readonly reason: string;
}

const text = { type: 'string', minLength: 1 };
const ajv = new Ajv();
const isList = ajv.compile<Allowed[]>({
  type: 'array',
  items: {
    type: 'object',
    additionalProperties: false,
    required: ['file', 'test', 'reason'],
    properties: { file: text, test: text, reason: text },
  },
});

function readList(path: string): Allowed[] {
  const value: unknown = JSON.parse(readFileSync(path, 'utf8'));
  if (!isList(value)) throw new Error(`${path} is not a list of {file, test, reason}`);
  return value;
}

function main(paths: readonly string[]): number {
  if (paths.length === 0) throw new Error('name at least one report of vitest: node tools/skips.ts .build/tests.json');
  const ran = new Set<string>();
  const skipped = new Map<string, { file: string; test: string }>();
  for (const path of paths) {
    for (const { name, assertionResults } of readReport(path).testResults) {
      const file = relative(root, name);
      for (const { fullName, status } of assertionResults) {
        const key = `${file} ${fullName}`;
        if (status === 'passed' || status === 'failed') ran.add(key);
        else skipped.set(key, { file, test: fullName.trim() });
      }
    }
  }
  const never = [...skipped].filter(([key]) => !ran.has(key)).map(([, each]) => each);
  const allowed = readList(join(root, 'test/skips.json'));
  const covers = (entry: Allowed, each: { file: string; test: string }): boolean =>
    entry.file === each.file && each.test.startsWith(entry.test);
  const wrong = never.filter((each) => !allowed.some((entry) => covers(entry, each)));
  const unused = allowed.filter((entry) => !never.some((each) => covers(entry, each)));
  for (const { file, test } of wrong) process.stdout.write(`skipped, and not on test/skips.json: ${file}: ${test}\n`);
  for (const { file, test } of unused) process.stdout.write(`on test/skips.json, and not skipped: ${file}: ${test}\n`);
  process.stdout.write(`${skipped.size} skipped in some run, ${never.length} in every run, ${allowed.length} entries on the list\n`);
  return wrong.length + unused.length === 0 ? 0 : 1;
}

try {
  process.exitCode = main(process.argv.slice(2));
} catch (error) {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 2;
}
