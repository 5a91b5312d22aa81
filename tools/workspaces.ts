/** The packages of this repository besides the published one. They are private: what is published has their code in it. */
import { readFileSync, readdirSync } from 'node:fs';
import { join, posix } from 'node:path';

export interface Workspace {
  /** As others import it. */
  readonly name: string;
  /** Its folder, from the root. */
  readonly folder: string;
  /** Its sources, from the root, by what others import: `.` or `./NAME`; one may end in `*`. */
  readonly exports: Readonly<Record<string, string>>;
}

export function workspacesOf(root: string): Workspace[] {
  return readdirSync(join(root, 'packages')).map((entry) => {
    const folder = `packages/${entry}`;
    const { name, exports } = JSON.parse(readFileSync(join(root, folder, 'package.json'), 'utf8')) as Omit<Workspace, 'folder'>;
    const files = Object.entries(exports).map(([key, file]) => [key, posix.join(folder, file)] as const);
    return { name, folder, exports: Object.fromEntries(files) };
  });
}

/** The source that a specifier names, from the root; undefined when it names none of the packages. */
export function sourceOf(specifier: string, workspaces: readonly Workspace[]): string | undefined {
  const owner = workspaces.find(({ name }) => specifier === name || specifier.startsWith(`${name}/`));
  if (owner === undefined) return undefined;
  const key = `.${specifier.slice(owner.name.length)}`;
  const file = owner.exports[key] ?? owner.exports['./*']?.replace('*', key.slice(2));
  if (file === undefined) throw new Error(`${owner.name} exports no ${key}`);
  return file;
}
