/**
 * The modules of a fleet: found, compiled and linked before any of its code runs, so that nothing that its code does can change what is loaded. Modules are the
 * commit's own files and the packages that are shipped with the child; there is no other loader.
 */
import { messageOf } from '../../../api/errors.ts';
import { stripTypeScriptTypes } from 'node:module';
import { posix } from 'node:path';
import { SourceTextModule, SyntheticModule, type Context, type Module } from 'node:vm';
import { SandboxError } from './sandbox-error.ts';
import { urlOf } from './scheme.ts';

/** Names and values of a shipped package. */
export type Shelf = ReadonlyMap<string, ReadonlyMap<string, unknown>>;

export interface Graph {
  /** In the order in which they may be evaluated before the entry: those of packages. */
  shipped: Module[];
  entry: Module;
}

interface Request {
  specifier: string;
  attributes: Partial<Record<string, string>>;
}

const SHIPPED = ['cdk8s', 'cdk8s-plus-27', 'constructs', 'kubenode/constructs'];

/** Errors: SandboxError, SyntaxError; each with a location in the fleet. */
export function link(entry: string, files: ReadonlyMap<string, string>, shelf: Shelf, context: Context): Graph {
  const modules = new Map<string, SourceTextModule>();
  const shipped = new Map<string, Module>();

  function shippedModule(name: string, exported: ReadonlyMap<string, unknown>): Module {
    const known = shipped.get(name);
    if (known !== undefined) return known;
    const module = new SyntheticModule(
      [...exported.keys()],
      () => {
        for (const [key, value] of exported) module.setExport(key, value);
      },
      { identifier: `shipped:${name}`, context },
    );
    shipped.set(name, module);
    return module;
  }

  function found(path: string, form: Form): SourceTextModule {
    const key = `${form}:${path}`;
    const known = modules.get(key);
    if (known !== undefined) return known;
    const module = compiled(path, sourceOf(path, files.get(path) ?? '', form), context);
    modules.set(key, module);
    const requests: readonly Request[] = module.moduleRequests;
    module.linkRequests(
      requests.map((request) => {
        const exported = shelf.get(request.specifier);
        if (exported !== undefined) return shippedModule(request.specifier, exported);
        const target = resolve(path, request, files);
        return found(target.path, target.form);
      }),
    );
    return module;
  }

  const main = found(entry, formOf(entry) ?? 'code');
  instantiate(main, files);
  return { shipped: [...shipped.values()], entry: main };
}

type Form = 'code' | 'json' | 'text';

/** What a file is by its ending; undefined: only text. */
function formOf(path: string): Form | undefined {
  const ending = /\.([a-z0-9]+)$/i.exec(path)?.[1] ?? '';
  return ['ts', 'mts', 'js', 'mjs'].includes(ending) ? 'code' : ending === 'json' ? 'json' : undefined;
}

function sourceOf(path: string, text: string, form: Form): string {
  switch (form) {
    case 'text':
      return `export default ${JSON.stringify(text)}`;
    case 'json': {
      try {
        JSON.parse(text);
      } catch (error) {
        throw new SandboxError('RenderSyntax', messageOf(error), { location: jsonLocation(path, error) });
      }
      return `export default JSON.parse(${JSON.stringify(text)})`;
    }
    case 'code': {
      const location = dynamicImport(text);
      if (location !== undefined)
        throw new SandboxError('RenderImport', 'must not load modules while it runs: import(…)', {
          location: `${path}:${location.line}:${location.column}`,
          next: "write import … from '…' at the top of the file; the words import( are refused in texts and comments too",
        });
      // Also of JavaScript: its errors have a location.
      return stripTypeScriptTypes(text, { mode: 'strip', sourceUrl: urlOf(path) });
    }
    default:
      return form satisfies never;
  }
}

const TRIVIA = String.raw`(?:\s|\/\*[\s\S]*?\*\/|\/\/[^\n\r\u2028\u2029]*)*`;
const DYNAMIC = new RegExp(String.raw`\bimport\b${TRIVIA}(?:\(|\.${TRIVIA}(?!meta\b|\s|\/))`, 'u');

/**
 * Where a text may call import(), which would lead to a loader and to objects that are not the fleet's. Rather too often than too seldom: without a parser,
 * strings and comments cannot be distinguished from code. The word itself cannot be written with escapes.
 */
export function dynamicImport(text: string): { line: number; column: number } | undefined {
  const at = DYNAMIC.exec(text)?.index;
  if (at === undefined) return undefined;
  const before = text.slice(0, at).split('\n');
  return { line: before.length, column: (before.at(-1)?.length ?? 0) + 1 };
}

function resolve(importer: string, { specifier, attributes }: Request, files: ReadonlyMap<string, string>): { path: string; form: Form } {
  const refuse = (code: 'RenderImport' | 'RenderNotFound', message: string, hint?: string): never => {
    throw new SandboxError(code, message, {
      ...(hint === undefined ? {} : { next: hint }),
      location: importLine(importer, files.get(importer) ?? '', specifier),
    });
  };
  if (!/^\.\.?\//.test(specifier))
    return refuse(
      'RenderImport',
      `must not import "${specifier}": fleet code imports files of its own repository by relative path, and ${SHIPPED.join(', ')}`,
      hintFor(specifier),
    );
  if (/[?#]/.test(specifier)) return refuse('RenderImport', `must not import "${specifier}": a "?" or "#" would run the file twice`);
  // No way leads above the root of the commit.
  const path = posix.join('/', posix.dirname(importer), specifier).slice(1);
  if (!files.has(path)) {
    const near = [`${path}.ts`, path.replace(/\.(m?)js$/, '.$1ts'), `${path.replace(/\/$/, '')}/index.ts`].find((other) =>
      files.has(other),
    );
    return refuse(
      'RenderNotFound',
      `the commit has no file "${path}"`,
      near === undefined ? undefined : `did you mean "${relative(importer, near)}"?`,
    );
  }
  const { type } = attributes;
  if (type === 'text') return { path, form: 'text' };
  const form = formOf(path);
  if (form === undefined)
    return refuse('RenderImport', `"${path}" is no module: its text is imported`, `import text from '${specifier}' with { type: 'text' }`);
  if (form === 'json' && type !== 'json')
    return refuse('RenderImport', `"${path}" is imported as JSON`, `import value from '${specifier}' with { type: 'json' }`);
  if (form === 'code' && type !== undefined) return refuse('RenderImport', `"${path}" is code, and no ${type}`);
  return { path, form };
}

function compiled(path: string, source: string, context: Context): SourceTextModule {
  try {
    return new SourceTextModule(source, { identifier: urlOf(path), context });
  } catch (error) {
    throw new SandboxError('RenderSyntax', messageIn(error), { location: path });
  }
}

/** Of an error of the engine, which belongs to the fleet's realm and is no Error of this one. No code of the fleet has run yet. */
const messageIn = (error: unknown): string => String(Reflect.get(Object(error) as object, 'message'));

/** The engine names the specifier and the name that is missing, and no location. */
function instantiate(module: SourceTextModule, files: ReadonlyMap<string, string>): void {
  try {
    module.instantiate();
  } catch (error) {
    const message = messageIn(error);
    // oxlint-disable-next-line kubenode/no-sentence-decisions -- V8 gives no code
    const [, specifier = '', name = ''] = /'(.+?)' does not provide an export named '(.+?)'/.exec(message) ?? [];
    if (specifier === '') throw error;
    const importer = [...files].find(
      ([path, text]) =>
        formOf(path) === 'code' && (name === 'default' || text.includes(name)) && importLocation(text, specifier) !== undefined,
    );
    throw new SandboxError('RenderImport', message, {
      next:
        name === 'default'
          ? `import { … } from '${specifier}': it has no default export`
          : `if ${name} is a type: import type { ${name} } from …`,
      ...(importer === undefined ? {} : { location: importLine(importer[0], importer[1], specifier) }),
    });
  }
}

function importLocation(text: string, specifier: string): number | undefined {
  return [`'${specifier}'`, `"${specifier}"`].map((quoted) => text.indexOf(quoted)).find((index) => index >= 0);
}

/** The stack of a failing import does not name the line of the import, so it is found in the text. */
function importLine(file: string, text: string, specifier: string): string {
  const at = importLocation(text, specifier);
  if (at === undefined) return file;
  const before = text.slice(0, at).split('\n');
  return `${file}:${before.length}:${(before.at(-1)?.length ?? 0) + 1}`;
}

function jsonLocation(path: string, error: unknown): string {
  const match = /\(line (\d+) column (\d+)\)/.exec(error instanceof Error ? error.message : '');
  return match === null ? path : `${path}:${match[1]}:${match[2]}`;
}

function relative(from: string, to: string): string {
  const path = posix.relative(posix.dirname(from), to);
  return path.startsWith('.') ? path : `./${path}`;
}

function hintFor(specifier: string): string | undefined {
  if (/^(node:)?fs(\/promises)?$/.test(specifier)) return "import text from './file' with { type: 'text' }";
  if (specifier.startsWith('#') || specifier.startsWith('@/') || specifier.startsWith('~/'))
    return 'write the relative path: aliases of package.json and tsconfig.json are not read';
  if (specifier.startsWith('/') || specifier.includes(':')) return undefined;
  return 'a fleet that needs other packages renders in its own CI and hands over plain YAML';
}
