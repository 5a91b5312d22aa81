import { execFile } from 'node:child_process';
import { cp, mkdir, readFile, writeFile } from 'node:fs/promises';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { versionLines } from '../version-lines.ts';
import { cliError } from '../errors.ts';

const run = promisify(execFile);

/** A working copy of the fleet that the tour may commit to; the checkout it comes from is never touched. */
export interface TourFleet {
  readonly dir: string;
  /** Changes the version of a stand-in in fleet/versions.ts and commits. Returns the commit. */
  bump(component: string, version: string): Promise<string>;
  /** `git revert` of the last commit. */
  revert(): Promise<string>;
  /** Adds a file, lets fleet/main.ts import it, and commits. Returns the commit. */
  add(path: string, text: string, message: string): Promise<string>;
  /** Commits something that no unit depends on. */
  remark(): Promise<string>;
}

export async function cloneFleet(source: string, dir: string): Promise<TourFleet> {
  // The user's configuration must not decide: signing, hooks and templates are off, and the author is the tour's.
  const settings = [
    'user.name=Tour',
    'user.email=tour@localhost',
    'commit.gpgsign=false',
    'core.hooksPath=/dev/null',
    'init.defaultBranch=main',
    'advice.detachedHead=false',
  ];
  const git = async (...args: string[]): Promise<string> => {
    try {
      const { stdout } = await run('git', [...settings.flatMap((setting) => ['-c', setting]), ...args], { timeout: 30_000 });
      return stdout.trim();
    } catch (error) {
      throw cliError('GitFailed', `git ${args.join(' ')}: ${error instanceof Error ? error.message : String(error)}`, {
        cause: error,
      });
    }
  };
  const here = (...args: string[]): Promise<string> => git('-C', dir, ...args);
  if (existsSync(join(source, '.git'))) {
    await git('clone', '--quiet', '--no-local', '--depth=1', `file://${source}`, dir);
    await here('checkout', '--quiet', '-B', 'tour');
  } else {
    await mkdir(dir, { recursive: true });
    for (const part of ['fleet', 'rules', 'cdk8s.yaml'])
      if (existsSync(join(source, part))) await cp(join(source, part), join(dir, part), { recursive: true });
    await git('init', '--quiet', dir);
    await here('add', '--all');
    await here('commit', '--quiet', '--message', 'Start from the reference fleet');
  }
  const versions = join(dir, 'fleet', 'versions.ts');
  const commit = async (message: string): Promise<string> => {
    await here('commit', '--quiet', '--all', '--message', message);
    return await here('rev-parse', 'HEAD');
  };

  return {
    dir,
    async bump(component, version) {
      const before = await readFile(versions, 'utf8');
      const line = versionLines(before).find((each) => each.component === component);
      const after = line === undefined ? before : before.replace(line.text, line.text.replace(`'${line.version}'`, `'${version}'`));
      if (after === before) throw cliError('NoSuchLine', `fleet/versions.ts names no version of ${component}, or names ${version} already`);
      await writeFile(versions, after);
      return await commit(`Bump ${component} to ${version}`);
    },
    async revert() {
      await here('revert', '--no-edit', 'HEAD');
      return await here('rev-parse', 'HEAD');
    },
    async add(path, text, message) {
      await writeFile(join(dir, path), text);
      const main = join(dir, 'fleet', 'main.ts');
      await writeFile(main, `${await readFile(main, 'utf8')}import '../${path}';\n`);
      await here('add', '--', path);
      return await commit(message);
    },
    async remark() {
      await writeFile(versions, `${await readFile(versions, 'utf8')}// A remark changes no unit.\n`);
      return await commit('Add a remark');
    },
  };
}
