/**
 * Checks the import boundaries: which folder of `src` may use which, which of them may use which package of `packages`, and that those packages use nothing
 * of `src`. Production code of `src` is checked against its folder's line; in the packages tests are checked too. Cycles between files are the linter's.
 *
 *   node tools/imports.ts
 */
import { readFileSync, readdirSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { workspacesOf } from './workspaces.ts';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const SRC = join(ROOT, 'src');

const CORE = ['api', 'kube'];
/** What each folder may import besides itself. */
const ALLOWED: Record<string, string[]> = {
  api: ['@kubenode/api-machinery'],
  kube: ['api'],
  constructs: ['api'],
  rules: CORE,
  defender: CORE,
  providers: CORE,
  ssh: CORE,
  sync: CORE,
  agent: CORE,
  controllers: [...CORE, 'rules', 'defender', 'providers'],
  observe: [...CORE, 'rules', 'defender', 'providers', 'sync', 'controllers'],
  cli: [
    'api',
    'kube',
    'constructs',
    '@kubenode/embedded',
    'rules',
    'defender',
    'providers',
    'ssh',
    'sync',
    'agent',
    'controllers',
    'observe',
  ],
};
/** What each package may import of the others. */
const PACKAGES: Record<string, string[]> = { '@kubenode/api-machinery': [], '@kubenode/embedded': ['@kubenode/api-machinery'] };
/** What each controller may import of the others; all may import `controllers/shared`. There is no cycle among them. */
const CONTROLLERS: Record<string, string[]> = {
  'machine-set': ['machine'],
  machine: ['identity'],
  'remedy-job': ['remedy'],
};
/** The child that renders fleets carries the constructs in its bundle. */
const EXEMPT: [RegExp, string][] = [[/^sync\/render\/child/, 'constructs']];
/** The agent is small: of kube/ it uses only these. */
const AGENT_KUBE =
  /^kube\/(api-error|backoff|client|clock|connect|http-client|https-transport|lines|no-inspector|resource-version|server-time)\.ts$/;

const problems: string[] = [];

const sources = (folder: string): string[] =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith('.ts'))
    .map((entry) => join(entry.parentPath, entry.name));

const TARGET = String.raw`'(\.[^']+|@kubenode/[^/']+)`;
const IMPORTS = new RegExp(String.raw`^\s*(?:import|export)\b[^;]*?from ${TARGET}|^\s*import ${TARGET}|\bimport\(\s*${TARGET}`, 'gms');

/** What a file names: of a package its name, of all else its path. */
function imported(path: string): string[] {
  const found = readFileSync(path, 'utf8').matchAll(IMPORTS);
  return Array.from(found, ([, named, loaded, asked]) => named ?? loaded ?? asked ?? '').map((target) =>
    target.startsWith('.') ? resolve(dirname(path), target) : target,
  );
}

/** Both paths begin with `controllers/`. */
function checkController(file: string, used: string): void {
  const [, from = ''] = file.split('/');
  const [, to = ''] = used.split('/');
  if (to === from || to === 'shared' || CONTROLLERS[from]?.includes(to) === true) return;
  problems.push(
    `src/${file}: must not import controllers/${to} (${used}); put what several controllers share into controllers/shared, or name it in tools/imports.ts`,
  );
}

function checkFolder(path: string): void {
  const file = relative(SRC, path);
  for (const target of imported(path))
    if (relative(ROOT, target).startsWith('packages/'))
      problems.push(`src/${file}: import a package by its name, and not ${relative(ROOT, target)}`);
  if (file.endsWith('.test.ts') || /(^|\/)[a-z-]*testing(\/|\.ts$)/.test(file)) return;
  const from = file.split('/')[0] ?? '';
  for (const target of imported(path)) {
    const used = target.startsWith('@') ? target : relative(SRC, target);
    const to = target.startsWith('@') ? target : (used.split('/')[0] ?? '');
    if (to === 'controllers' && from === 'controllers') checkController(file, used);
    if (used.startsWith('..') || to === from) continue;
    const exempt = EXEMPT.some(([pattern, folder]) => pattern.test(file) && folder === to);
    if (ALLOWED[from]?.includes(to) !== true && !exempt)
      problems.push(`src/${file}: must not import ${to}/ (${used}); ${from}/ may use ${ALLOWED[from]?.join(', ') || 'nothing'}`);
    if (from === 'agent' && to === 'kube' && !AGENT_KUBE.test(used)) problems.push(`src/${file}: the agent must not import ${used}`);
  }
}

function checkPackage(name: string, folder: string): void {
  const allowed = PACKAGES[name];
  if (allowed === undefined) problems.push(`${folder}: tools/imports.ts does not list what ${name} may import`);
  for (const path of sources(join(ROOT, folder)))
    for (const target of imported(path)) {
      const within = !target.startsWith('@') && !relative(join(ROOT, folder), target).startsWith('..');
      if (within || allowed?.includes(target) === true) continue;
      problems.push(
        `${relative(ROOT, path)}: must not import ${target.startsWith('@') ? target : relative(ROOT, target)}; ${name} may use ${allowed?.join(', ') || 'nothing'}`,
      );
    }
}

for (const path of sources(SRC)) checkFolder(path);
for (const { name, folder } of workspacesOf(ROOT)) checkPackage(name, folder);
for (const problem of problems) process.stderr.write(`${problem}\n`);
process.exit(problems.length === 0 ? 0 : 1);
