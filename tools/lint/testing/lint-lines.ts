import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** How often the linter finds the rule broken in each line, which follows `before` in a file of its own. It runs once. */
export function lintLines(rule: string, before: string, lines: readonly string[]): ReadonlyMap<string, number> {
  const root = fileURLToPath(new URL('../../..', import.meta.url));
  const folder = mkdtempSync(join(tmpdir(), 'lint-'));
  try {
    const config = { jsPlugins: [join(root, 'tools/lint/plugin.ts')], rules: { [`kubenode/${rule}`]: 'error' } };
    writeFileSync(join(folder, '.oxlintrc.json'), JSON.stringify({ ...config, categories: { correctness: 'off' } }));
    for (const [index, line] of lines.entries()) writeFileSync(join(folder, `line${index}.ts`), `${before}\n${line}\n`);
    const args = [join(root, 'node_modules/oxlint/bin/oxlint'), '-c', join(folder, '.oxlintrc.json'), '--format=unix', folder];
    const { stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8', cwd: folder });
    const messages = stdout.split('\n').filter((line) => line.includes(rule));
    if (messages.length === 0) throw new Error(`nothing was found: ${stdout}${stderr}`);
    return new Map(lines.map((line, index) => [line, messages.filter((each) => each.includes(`line${index}.ts:`)).length]));
  } finally {
    rmSync(folder, { recursive: true });
  }
}
