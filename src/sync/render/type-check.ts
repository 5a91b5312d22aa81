/**
 * TypeScript's own check of a fleet, for `plan` and CI: rendering removes types and does not check them. The hub does without it, since
 * the compiler is a binary for each platform that a hub does not ship.
 */
import { syncError } from '../errors.ts';
import { mkdir, mkdtemp, realpath, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join, resolve, sep } from 'node:path';
import { compile, compilerPath, packageFolders } from './compiler.ts';
import { constructsTypes } from './declarations.ts';
import type { Finding } from './finding.ts';

export type TypeCheck = { checked: true; findings: Finding[] } | { checked: false; reason: string };

export interface TypeCheckOptions {
  entry: string;
  signal: AbortSignal;
}

/**
 * Checks the files as they are rendered: the same packages, nothing of Node or the browser but `console`. `checked: false` when
 * TypeScript is not installed. Errors: CodedError `TypeCheckFailed` when the compiler itself fails.
 */
export async function typecheck(files: ReadonlyMap<string, string>, { entry, signal }: TypeCheckOptions): Promise<TypeCheck> {
  const compiler = compilerPath();
  if (compiler === undefined) return { checked: false, reason: 'typescript is not installed beside kubenode' };
  if (!files.has(entry))
    return { checked: true, findings: [{ code: 'RenderNotFound', file: entry, message: `there is no file "${entry}"` }] };
  const types = await constructsTypes(compiler, signal);
  const folder = await realpath(await mkdtemp(join(tmpdir(), 'kubenode-check-')));
  try {
    const root = join(folder, 'commit');
    const own = { 'env.d.ts': environment(files), 'tsconfig.json': JSON.stringify(configuration(entry, types), null, 2) };
    const commit = [...files].map(([path, text]): [string, string] => [targetOf(root, path), text]);
    for (const [path, text] of [...commit, ...Object.entries(own).map(([name, text]): [string, string] => [join(folder, name), text])]) {
      await mkdir(dirname(path), { recursive: true });
      await writeFile(path, text);
    }
    return { checked: true, findings: parse(await compile(compiler, join(folder, 'tsconfig.json'), folder, signal), files) };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

function targetOf(root: string, path: string): string {
  const target = resolve(root, path);
  if (!target.startsWith(root + sep)) throw syncError('TypeCheckFailed', `"${path}" leads out of the commit`);
  return target;
}

function configuration(entry: string, types: string): object {
  const packages = ['cdk8s', 'cdk8s-plus-27', 'constructs'].map((name) => [name, packageFolders(name)] as const);
  return {
    compilerOptions: {
      target: 'es2024',
      lib: ['es2024'],
      // Not nodenext: it takes files for CommonJS where no package.json above them has another `type`.
      module: 'preserve',
      moduleResolution: 'bundler',
      strict: true,
      noEmit: true,
      allowImportingTsExtensions: true,
      erasableSyntaxOnly: true,
      verbatimModuleSyntax: true,
      resolveJsonModule: true,
      skipLibCheck: true,
      types: [],
      paths: Object.fromEntries([...packages, ['kubenode/constructs', [types]]]),
    },
    files: ['env.d.ts', join('commit', entry)],
  };
}

/** What rendering offers besides the language: a log, and any file as text. */
function environment(files: ReadonlyMap<string, string>): string {
  const endings = new Set([...files.keys()].map((path) => /[^/]*?(\.[^./]+|[^./]+)$/.exec(path)?.[1] ?? ''));
  const texts = [...endings].filter((ending) => ending !== '' && !/^\.(m?[tj]s|json)$/.test(ending));
  return [
    'declare const console: Record<"log" | "info" | "warn" | "error" | "debug", (...values: unknown[]) => void>;',
    ...texts.map((ending) => `declare module ${JSON.stringify(`*${ending}`)} { const text: string; export default text; }`),
    '',
  ].join('\n');
}

/** Only errors in the commit's own files: those of packages are not the fleet's. */
function parse(output: string, files: ReadonlyMap<string, string>): Finding[] {
  const findings: Finding[] = [];
  for (const line of output.split('\n')) {
    const match = /^(.+?)\((\d+),(\d+)\): error (TS\d+): (.*)$/.exec(line);
    const last = findings.at(-1);
    if (match === null) {
      if (last !== undefined && /^\s/.test(line)) last.message += ` ${line.trim()}`;
      continue;
    }
    const [, path = '', row, column, code = '', message = ''] = match;
    const file = path.replaceAll('\\', '/').replace(/^commit\//, '');
    if (path.startsWith('commit') && files.has(file)) findings.push({ code, file, line: Number(row), column: Number(column), message });
  }
  return findings;
}
