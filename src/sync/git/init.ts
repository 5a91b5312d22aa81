import { basename, dirname, isAbsolute, join } from 'node:path';
import * as git from 'isomorphic-git';
import type { Clock } from '../../api/ports.ts';
import { CodedError, messageOf } from '../../api/errors.ts';
import { checkBranch } from './layout.ts';
import { gitError } from './errors.ts';
import { isAbsent } from './objects.ts';
import type { GitFs } from './source.ts';

export interface NewRepository {
  message: string;
  author: { name: string; email: string };
  /** Default `main`. */
  branch?: string;
}

/**
 * Makes a repository with one commit of `files` (path → text) at `dir`, and returns the commit's id. Needs no system git.
 *
 * It is made beside `dir` and renamed, so `dir` is either whole or not there. Anything that is at `dir` already is left as it is:
 * GitPathExists. A process that is killed here leaves a folder `.NAME.new-…` beside it, which may be deleted.
 */
export async function initRepository(
  dir: string,
  files: ReadonlyMap<string, string>,
  { message, author, branch = 'main' }: NewRepository,
  ports: { fs: GitFs; clock: Clock },
): Promise<string> {
  const { fs, clock } = ports;
  if (!isAbsolute(dir)) throw gitError('GitSpec', `the path of a new repository must be absolute, not ${JSON.stringify(dir)}`);
  checkBranch(branch);
  for (const path of files.keys()) {
    if (path.split('/').some((step) => step === '' || step === '.' || step === '..' || step.toLowerCase() === '.git')) {
      throw gitError('GitSpec', `${JSON.stringify(path)} is no path of a file inside a repository`);
    }
  }
  await refuseExisting(fs, dir);
  await fs.promises.mkdir(dirname(dir), { recursive: true });
  const beside = await fs.promises.mkdtemp(join(dirname(dir), `.${basename(dir)}.new-`));
  try {
    // A folder of its own inside: mkdtemp's mode is closed to others, this one's follows the umask.
    const work = join(beside, 'repository');
    for (const [path, text] of files) {
      await fs.promises.mkdir(dirname(join(work, path)), { recursive: true });
      await fs.promises.writeFile(join(work, path), text);
    }
    await git.init({ fs, dir: work, defaultBranch: branch });
    await git.add({ fs, dir: work, filepath: [...files.keys()] });
    const timestamp = Math.floor(clock.now() / 1000);
    const oid = await git.commit({ fs, dir: work, message, author: { ...author, timestamp, timezoneOffset: 0 } });
    await refuseExisting(fs, dir);
    await fs.promises.rename(work, dir);
    return oid;
  } catch (cause) {
    throw cause instanceof CodedError
      ? cause
      : gitError('GitDisk', `no repository could be made at ${dir}: ${messageOf(cause)}`, { cause });
  } finally {
    await fs.promises.rm(beside, { recursive: true, force: true });
  }
}

async function refuseExisting(fs: GitFs, dir: string): Promise<void> {
  try {
    await fs.promises.lstat(dir);
  } catch (error) {
    if (isAbsent(error)) return;
    throw error;
  }
  throw gitError('GitPathExists', `${dir}: is there already; a new repository never replaces anything`, {
    next: 'use it as it is, or name another folder',
  });
}
