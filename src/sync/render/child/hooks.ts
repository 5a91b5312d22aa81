/** How fleet code finds its modules: the commit's own files, from memory, and the packages that are shipped with the child. */
import { registerHooks } from 'node:module';
import { SandboxError } from './sandboxerror.ts';

export const SCHEME = 'fleet:///';

const FORMATS = new Map([
  ['ts', 'module-typescript'],
  ['mts', 'module-typescript'],
  ['js', 'module'],
  ['mjs', 'module'],
  ['json', 'json'],
]);

export type Shelf = Map<string, Record<string, unknown>>;

const SHELF = Symbol.for('kubenode.shelf');

/** Must run before any fleet module is imported. Packages may be added to the shelf until then. */
export function serve(files: ReadonlyMap<string, string>, shelf: Shelf): void {
  Object.defineProperty(globalThis, SHELF, { value: (name: string) => shelf.get(name) });

  registerHooks({
    resolve(specifier, context, next) {
      const parent = context.parentURL;
      if (!parent?.startsWith(SCHEME) && !specifier.startsWith(SCHEME)) return next(specifier, context);
      const importer = parent === undefined || !parent.startsWith(SCHEME) ? undefined : pathOf(parent);
      const refuse = (code: 'RenderImport' | 'RenderNotFound', message: string, hint?: string): never => {
        const location = importer === undefined ? undefined : importLine(importer, files.get(importer) ?? '', specifier);
        throw new SandboxError(code, message, {
          ...(hint === undefined ? {} : { next: hint }),
          ...(location === undefined ? {} : { location }),
        });
      };
      if (shelf.has(specifier)) return { url: `shipped:${specifier}`, format: 'module', importAttributes: {}, shortCircuit: true };
      if (!/^\.\.?\//.test(specifier) && !(importer === undefined && specifier.startsWith(SCHEME))) {
        const known = [...shelf.keys(), 'cdk8s-plus-27'].toSorted().join(', ');
        refuse(
          'RenderImport',
          `must not import "${specifier}": fleet code imports files of its own repository by relative path, and ${[...new Set(known.split(', '))].join(', ')}`,
          hintFor(specifier),
        );
      }
      const url = new URL(specifier, parent);
      const path = pathOf(url.href);
      if (url.search !== '' || url.hash !== '')
        refuse('RenderImport', `must not import "${specifier}": a "?" or "#" would run the file twice`);
      if (!files.has(path)) {
        const near = [`${path}.ts`, path.replace(/\.(m?)js$/, '.$1ts'), `${path.replace(/\/$/, '')}/index.ts`].find((other) =>
          files.has(other),
        );
        refuse(
          'RenderNotFound',
          `the commit has no file "${path}"`,
          near === undefined ? undefined : `did you mean "${relative(importer ?? '', near)}"?`,
        );
      }
      const { type } = context.importAttributes;
      if (type === 'text') {
        url.search = '?text';
        return { url: url.href, format: 'module', importAttributes: {}, shortCircuit: true };
      }
      const format = FORMATS.get(/\.([a-z0-9]+)$/i.exec(path)?.[1] ?? '');
      if (format === undefined)
        return refuse(
          'RenderImport',
          `"${path}" is no module: its text is imported`,
          `import text from '${specifier}' with { type: 'text' }`,
        );
      if (format === 'json' && type !== 'json')
        refuse('RenderImport', `"${path}" is imported as JSON`, `import value from '${specifier}' with { type: 'json' }`);
      return { url: url.href, format, importAttributes: context.importAttributes, shortCircuit: true };
    },

    load(url, context, next) {
      if (url.startsWith('shipped:')) {
        const name = url.slice('shipped:'.length);
        const names = Object.keys(shelf.get(name) ?? {}).filter(
          (key) => key !== 'default' && key !== 'module.exports' && /^[\w$]+$/.test(key),
        );
        const source = `const m = globalThis[Symbol.for('kubenode.shelf')](${JSON.stringify(name)});${names.map((key) => `export const ${key} = m.${key};`).join('')}`;
        return { format: 'module', shortCircuit: true, source };
      }
      if (!url.startsWith(SCHEME)) return next(url, context);
      const text = files.get(pathOf(url)) ?? '';
      return {
        format: context.format,
        shortCircuit: true,
        source: url.endsWith('?text') ? `export default ${JSON.stringify(text)}` : text,
      };
    },
  });
}

/** `fleet:///fleet/a.ts?text` → `fleet/a.ts` */
export function pathOf(url: string): string {
  const path = url.slice(SCHEME.length).replace(/[?#].*$/s, '');
  try {
    return decodeURIComponent(path);
  } catch {
    return path;
  }
}

/** The stack of a failing import does not name the line of the import, so it is looked up in the text. */
function importLine(file: string, text: string, specifier: string): string {
  const at = [`'${specifier}'`, `"${specifier}"`].map((quoted) => text.indexOf(quoted)).find((index) => index >= 0);
  if (at === undefined) return file;
  const before = text.slice(0, at).split('\n');
  return `${file}:${before.length}:${(before.at(-1)?.length ?? 0) + 1}`;
}

function relative(from: string, to: string): string {
  const base = from.split('/').slice(0, -1);
  const target = to.split('/');
  while (base.length > 0 && base[0] === target[0]) {
    base.shift();
    target.shift();
  }
  return `${base.length === 0 ? './' : '../'.repeat(base.length)}${target.join('/')}`;
}

function hintFor(specifier: string): string | undefined {
  if (/^(node:)?fs(\/promises)?$/.test(specifier)) return "import text from './file' with { type: 'text' }";
  if (specifier.startsWith('#') || specifier.startsWith('@/') || specifier.startsWith('~/'))
    return 'write the relative path: aliases of package.json and tsconfig.json are not read';
  if (specifier.startsWith('/') || specifier.includes(':')) return undefined;
  return 'a fleet that needs other packages renders in its own CI and hands over plain YAML';
}
