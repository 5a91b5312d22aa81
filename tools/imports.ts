/**
 * Holds the import boundaries: which folder of `src` may use which. Tests are exempt. Cycles between files are the linter's.
 *
 *   node tools/imports.ts
 */
import { readFileSync, readdirSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const SRC = fileURLToPath(new URL('../src', import.meta.url));

const CORE = ['api', 'kube'];
/** What each folder may import besides itself. */
const ALLOWED: Record<string, string[]> = {
  api: [],
  kube: ['api'],
  constructs: ['api'],
  embedded: ['api'],
  rules: CORE,
  defender: CORE,
  providers: CORE,
  ssh: CORE,
  sync: CORE,
  agent: CORE,
  controllers: [...CORE, 'rules', 'defender', 'providers'],
  observe: [...CORE, 'rules', 'defender', 'providers', 'sync', 'controllers'],
  cli: ['api', 'kube', 'constructs', 'embedded', 'rules', 'defender', 'providers', 'ssh', 'sync', 'agent', 'controllers', 'observe'],
};
/** The child that renders fleets carries the constructs in its bundle. */
const EXEMPT: [RegExp, string][] = [[/^sync\/render\/child/, 'constructs']];
/** The agent is small: of kube/ it uses only these. */
const AGENT_KUBE = /^kube\/(api-error|backoff|client|clock|connect|http-client|https-transport|lines|resource-version|server-time)\.ts$/;

const problems: string[] = [];
for (const entry of readdirSync(SRC, { recursive: true, withFileTypes: true })) {
  if (!entry.isFile() || !entry.name.endsWith('.ts') || entry.name.endsWith('.test.ts')) continue;
  const path = join(entry.parentPath, entry.name);
  const file = relative(SRC, path);
  if (/(^|\/)[a-z-]*testing(\/|\.ts$)/.test(file)) continue;
  const from = file.split('/')[0] ?? '';
  for (const [, target] of readFileSync(path, 'utf8').matchAll(/^\s*(?:import|export)\b[^;]*?from '(\.[^']+)'/gms)) {
    const used = relative(SRC, resolve(dirname(path), target ?? ''));
    const to = used.split('/')[0] ?? '';
    if (used.startsWith('..') || to === from) continue;
    const exempt = EXEMPT.some(([pattern, folder]) => pattern.test(file) && folder === to);
    if (ALLOWED[from]?.includes(to) !== true && !exempt)
      problems.push(`src/${file}: must not import ${to}/ (${used}); ${from}/ may use ${ALLOWED[from]?.join(', ') || 'nothing'}`);
    if (from === 'agent' && to === 'kube' && !AGENT_KUBE.test(used)) problems.push(`src/${file}: the agent must not import ${used}`);
  }
}
for (const problem of problems) process.stderr.write(`${problem}\n`);
process.exit(problems.length === 0 ? 0 : 1);
