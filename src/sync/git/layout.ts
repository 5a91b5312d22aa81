import { isAbsolute, resolve } from 'node:path';
import { isOid } from './commit.ts';
import { gitError } from './errors.ts';
import { isAbsent, readText } from './objects.ts';
import type { GitFs, Head, LocalSpec } from './source.ts';

/** Where a repository keeps its things. They differ in a linked work tree only. */
export interface Layout {
  /** Contains HEAD. */
  gitDir: string;
  /** Contains objects, branches, packed-refs and config. */
  commonDir: string;
}

/** Extensions that change nothing about reading refs and objects. */
const HARMLESS = new Set(['noop', 'preciousobjects', 'worktreeconfig', 'relativeworktrees', 'partialclone']);

/** Errors: GitSpec, GitNotARepository, GitUnsupportedRepository. Cheap, so read each time: work trees come, move and go. */
export async function findLayout(fs: GitFs, path: string): Promise<Layout> {
  const layout = await locate(fs, path);
  await refuseUnsupported(fs, path, layout.commonDir);
  return layout;
}

/** Also of a kind whose objects are not read. Errors: GitSpec, GitNotARepository. */
export async function locate(fs: GitFs, path: string): Promise<Layout> {
  if (!isAbsolute(path)) throw gitError('GitSpec', `the path of the Git source must be absolute, not ${JSON.stringify(path)}`);
  const gitDir = await findGitDir(fs, path);
  const common = (await readText(fs, `${gitDir}/commondir`))?.trim();
  const commonDir = common === undefined ? gitDir : resolve(gitDir, common);
  if (!(await isFolder(fs, `${commonDir}/objects`))) throw notARepository(path, `${commonDir} has no objects`);
  return { gitDir, commonDir };
}

async function findGitDir(fs: GitFs, path: string): Promise<string> {
  const dot = resolve(path, '.git');
  let stat;
  try {
    stat = await fs.promises.stat(dot);
  } catch (error) {
    if (!isAbsent(error)) throw error;
    if ((await readText(fs, resolve(path, 'HEAD'))) !== undefined && (await isFolder(fs, resolve(path, 'refs')))) return resolve(path);
    throw notARepository(path, (await isFolder(fs, path)) ? 'there is no .git in it' : 'there is no such folder');
  }
  if (stat.isDirectory()) return dot;
  const target = /^gitdir: (.+)$/m.exec(await fs.promises.readFile(dot, 'utf8'))?.[1];
  if (target === undefined) throw notARepository(path, 'its .git file names no folder');
  const gitDir = resolve(path, target.trimEnd());
  if (!(await isFolder(fs, gitDir)))
    throw notARepository(path, `its .git file names ${gitDir}, which is gone; git worktree repair may help`);
  return gitDir;
}

async function refuseUnsupported(fs: GitFs, path: string, commonDir: string): Promise<void> {
  const refuse = (what: string, next: string) => gitError('GitUnsupportedRepository', `${path}: ${what}`, { next });
  for (const [name, value] of extensionsOf((await readText(fs, `${commonDir}/config`)) ?? '')) {
    if (HARMLESS.has(name) || (name === 'objectformat' && value === 'sha1') || (name === 'refstorage' && value === 'files')) continue;
    throw refuse(
      name === 'objectformat'
        ? `is a ${value} repository; only sha1 ones are read`
        : name === 'refstorage'
          ? `keeps its branches as ${value}; only the form "files" is read`
          : `uses the extension ${name}=${value} of Git, which is not known here`,
      'make a repository of the usual form and push the branch there: git init --object-format=sha1 --ref-format=files',
    );
  }
  const alternates = await readText(fs, `${commonDir}/objects/info/alternates`);
  if (alternates !== undefined && /^[^#\s]/m.test(alternates)) {
    throw refuse(
      'borrows objects from another repository (clone --shared or --reference), which is not followed',
      'git repack -a -d && rm .git/objects/info/alternates',
    );
  }
}

/** The `[extensions]` of a config file, names in lower case. */
function extensionsOf(config: string): [string, string][] {
  const found: [string, string][] = [];
  let inside = false;
  for (const line of config.split('\n')) {
    const section = /^\s*\[([^\]"\s]*)[^\]]*\](.*)$/.exec(line);
    if (section !== null) inside = section[1]?.toLowerCase() === 'extensions';
    const setting = /^\s*([A-Za-z][A-Za-z0-9-]*)\s*(?:=\s*"?([^"#;]*?)"?\s*)?(?:[#;].*)?$/.exec(section?.[2] ?? line);
    if (inside && setting !== null) found.push([(setting[1] ?? '').toLowerCase(), (setting[2] ?? 'true').toLowerCase()]);
  }
  return found;
}

/**
 * The commit of the branch. Without a branch in `spec` it is the one that is checked out; a detached HEAD is refused, since a rebase or
 * bisect passes through commits that were not meant to be published.
 */
export async function readHead(fs: GitFs, layout: Layout, spec: LocalSpec): Promise<Head> {
  let ref = `refs/heads/${spec.branch ?? ''}`;
  if (spec.branch === undefined) {
    const text = ((await readText(fs, `${layout.gitDir}/HEAD`)) ?? '').trim();
    const target = /^ref: (refs\/heads\/.+)$/.exec(text)?.[1];
    if (target === undefined) {
      throw gitError('GitDetachedHead', `${spec.path}: no branch is checked out (a rebase or bisect under way?)`, {
        next: 'git switch BRANCH, or name the branch in the source',
      });
    }
    ref = target;
  }
  checkBranch(ref.slice('refs/heads/'.length));
  return { oid: await resolveRef(fs, layout, spec.path, ref), ref };
}

async function resolveRef(fs: GitFs, layout: Layout, path: string, ref: string): Promise<string> {
  let name = ref;
  for (let hops = 0; hops < 5; hops += 1) {
    // Loose first: git writes packed-refs before it removes the loose one.
    const value = (await readLoose(fs, `${layout.commonDir}/${name}`)) ?? (await readPacked(fs, layout, name));
    if (value === undefined) {
      throw gitError('GitBranchMissing', `${path}: there is no commit on the branch ${name.replace('refs/heads/', '')}`, {
        next: 'git branch --list shows the branches',
      });
    }
    if (isOid(value)) return value;
    const target = /^ref: (refs\/.+)$/.exec(value)?.[1];
    if (target === undefined || target.split('/').includes('..')) break;
    name = target;
  }
  throw gitError('GitObjectCorrupt', `${path}: ${ref} does not lead to a commit`);
}

async function readLoose(fs: GitFs, file: string): Promise<string | undefined> {
  try {
    return (await readText(fs, file))?.trim();
  } catch (error) {
    // A folder of branches, such as `refs/heads/feature`.
    if (error instanceof Error && 'code' in error && error.code === 'EISDIR') return undefined;
    throw error;
  }
}

async function readPacked(fs: GitFs, layout: Layout, ref: string): Promise<string | undefined> {
  const packed = (await readText(fs, `${layout.commonDir}/packed-refs`)) ?? '';
  const line = packed.split('\n').find((line) => line.slice(41) === ref && line[40] === ' ');
  return line?.slice(0, 40);
}

/** What git check-ref-format allows, and no leading `refs/`. Throws GitSpec. */
export function checkBranch(branch: string): void {
  const bad =
    branch === '' ||
    branch === '@' ||
    branch.startsWith('-') ||
    branch.startsWith('refs/') ||
    branch.endsWith('.') ||
    /[\p{Cc} ~^:?*[\\]|\.\.|@\{/u.test(branch) ||
    branch.split('/').some((step) => step === '' || step.startsWith('.') || step.endsWith('.lock'));
  if (bad) throw gitError('GitSpec', `${JSON.stringify(branch)} is no name of a branch; give it as "main", without refs/heads/`);
}

function notARepository(path: string, why: string): Error {
  return gitError('GitNotARepository', `${path}: is not a Git repository: ${why}`, {
    next: 'give the folder that contains .git, or a bare repository',
  });
}

async function isFolder(fs: GitFs, path: string): Promise<boolean> {
  try {
    return (await fs.promises.stat(path)).isDirectory();
  } catch (error) {
    if (isAbsent(error)) return false;
    throw error;
  }
}
