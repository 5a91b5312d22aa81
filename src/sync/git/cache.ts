import * as git from 'isomorphic-git';
import { isOid } from './commit.ts';
import { openObjects, readShallow, type Objects } from './objects.ts';
import type { GitFs } from './source.ts';

/** Packs are never merged, and each object is searched for in all of them. */
const MAX_PACKS = 50;
const REMOTE = 'origin';

/**
 * A bare repository that fetched objects are kept in. All of it can be fetched again, so anything doubtful about it is settled by a new one
 * that takes its place once it is whole. It contains no credentials.
 */
export interface GitCache {
  readonly gitdir: string;
  readonly remote: string;
  /** Whether it is there, belongs to this URL, and was not left half-written. */
  usable(): Promise<boolean>;
  /** Whether it has grown so many packs that a new one is due. */
  crowded(): Promise<boolean>;
  /** Makes it empty. */
  create(): Promise<void>;
  /** Moves it to where `other` is, which is lost. */
  replace(other: GitCache): Promise<void>;
  /** Fresh: sees what was fetched since the last call, and forgets what was read. */
  objects(): Objects;
  shallow(): Promise<Set<string>>;
  /** The one commit that fetches name as present; isomorphic-git takes it from `ref`. Undefined: none. */
  setHave(ref: string, oid: string | undefined): Promise<void>;
}

export function gitCache(fs: GitFs, gitdir: string, url: string): GitCache {
  const shallow = () => readShallow(fs, gitdir);

  async function remove(): Promise<void> {
    await fs.promises.rm(gitdir, { recursive: true, force: true });
  }

  return {
    gitdir,
    remote: REMOTE,
    shallow,
    objects: () => openObjects(fs, gitdir),

    async usable() {
      const of: unknown = await git.getConfig({ fs, gitdir, path: `remote.${REMOTE}.url` });
      // A torn line of `shallow` would be sent to the server, which refuses it each time.
      return of === url && [...(await shallow())].every(isOid);
    },

    async crowded() {
      const names = await fs.promises.readdir(`${gitdir}/objects/pack`).catch((): string[] => []);
      return names.filter((name) => name.endsWith('.pack')).length > MAX_PACKS;
    },

    async create() {
      await remove();
      await git.init({ fs, dir: gitdir, gitdir, bare: true, defaultBranch: 'main' });
      // Without a remote, fetch fails after it has written `shallow`.
      await git.addRemote({ fs, gitdir, remote: REMOTE, url });
    },

    async replace(other) {
      await fs.promises.rm(other.gitdir, { recursive: true, force: true });
      await fs.promises.rename(gitdir, other.gitdir);
    },

    async setHave(ref, oid) {
      if (oid === undefined) await git.deleteRef({ fs, gitdir, ref });
      else await git.writeRef({ fs, gitdir, ref, value: oid, force: true });
    },
  };
}
