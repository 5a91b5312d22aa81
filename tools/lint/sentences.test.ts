import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { beforeAll, expect, it } from 'vitest';

const refused = [
  "a.message === 'it is gone'",
  "'it is gone' !== message",
  'a.condition?.message === `revision ${b}`',
  "(a.message ?? '').startsWith('superseded')",
  "a?.message?.includes('timed out')",
  '/held for/.test(a.message)',
  "a.reason.split(',')",
  "reason.startsWith('DrainTimeout')",
  '/^Drain/.exec(reason)',
];
const allowed = [
  'a.message === b.message',
  "a.message === ''",
  'a.message === undefined',
  "a.reason === 'NotFound'",
  "a.message.replaceAll('x', 'y')",
  "a.message.split('\\n')[0]",
  "['Gone', 'Expired'].includes(reason)",
];
const lines = [...refused, ...allowed];

/** How often the linter finds the rule broken in each line; it runs once, with a file for each. */
let found: ReadonlyMap<string, number>;
beforeAll(() => {
  const root = fileURLToPath(new URL('../..', import.meta.url));
  const folder = mkdtempSync(join(tmpdir(), 'sentences-'));
  try {
    const config = { jsPlugins: [join(root, 'tools/lint/sentences.ts')], rules: { 'kubenode/no-sentence-decisions': 'error' } };
    writeFileSync(join(folder, '.oxlintrc.json'), JSON.stringify({ ...config, categories: { correctness: 'off' } }));
    for (const [index, line] of lines.entries()) {
      const text = `declare const a: any, b: any, message: string, reason: string;\nexport const x = ${line};\n`;
      writeFileSync(join(folder, `line${index}.ts`), text);
    }
    const args = [join(root, 'node_modules/oxlint/bin/oxlint'), '-c', join(folder, '.oxlintrc.json'), '--format=unix', folder];
    const { stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8', cwd: folder });
    const messages = stdout.split('\n').filter((line) => line.includes('no-sentence-decisions'));
    if (messages.length === 0) throw new Error(`nothing was found: ${stdout}${stderr}`);
    found = new Map(lines.map((line, index) => [line, messages.filter((each) => each.includes(`line${index}.ts:`)).length]));
  } finally {
    rmSync(folder, { recursive: true });
  }
}, 60_000);

it.each(refused)('refuses a decision by a sentence: %s', (line) => expect(found.get(line)).toBe(1));

it.each(allowed)('allows %s', (line) => expect(found.get(line)).toBe(0));
