import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, it } from 'vitest';

const root = fileURLToPath(new URL('../..', import.meta.url));
let folder = '';
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sentences-'));
  const config = { jsPlugins: [join(root, 'tools/lint/sentences.ts')], rules: { 'kubenode/no-sentence-decisions': 'error' } };
  writeFileSync(join(folder, '.oxlintrc.json'), JSON.stringify({ ...config, categories: { correctness: 'off' } }));
});
afterEach(() => rmSync(folder, { recursive: true }));

/** How often the linter finds the rule broken in this line. */
function found(line: string): number {
  writeFileSync(join(folder, 'line.ts'), `declare const a: any, b: any, message: string, reason: string;\nexport const x = ${line};\n`);
  const args = [join(root, 'node_modules/oxlint/bin/oxlint'), '-c', join(folder, '.oxlintrc.json'), join(folder, 'line.ts')];
  const { stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8', cwd: folder });
  expect(stdout, stderr).toContain('1 file');
  return stdout.split('no-sentence-decisions').length - 1;
}

it.each([
  "a.message === 'it is gone'",
  "'it is gone' !== message",
  'a.condition?.message === `revision ${b}`',
  "(a.message ?? '').startsWith('superseded')",
  "a?.message?.includes('timed out')",
  '/held for/.test(a.message)',
  "a.reason.split(',')",
  "reason.startsWith('DrainTimeout')",
  '/^Drain/.exec(reason)',
])('refuses a decision by a sentence: %s', (line) => {
  expect(found(line)).toBe(1);
});

it.each([
  'a.message === b.message',
  "a.message === ''",
  'a.message === undefined',
  "a.reason === 'NotFound'",
  "a.message.replaceAll('x', 'y')",
  "a.message.split('\\n')[0]",
  "['Gone', 'Expired'].includes(reason)",
])('allows %s', (line) => {
  expect(found(line)).toBe(0);
});
