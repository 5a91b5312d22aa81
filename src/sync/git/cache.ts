import * as git from 'isomorphic-git';
import { openObjects, readShallow, type Objects } from './objects.ts';
import type { GitFs } from './source.ts';

/** Packs are never merged, and each object is looked for in all of them. */
const MAX_PACKS = 50;
const REMOTE = 'origin';

/**
 * The bare repository that fetched objects are kept in. Everything in it can be fetched again, so anything doubtful about it is settled by
 * dropping it. It holds no credentials.
 */
export interface GitCache {
  readonly gitdir: string;
  readonly remote: string;
  /** Makes it when it is not there, belongs to another URL, or has grown too many packs. */
  prepare(): Promise<void>;
  drop(): Promise<void>;
  /** Fresh: sees what was fetched since the last call, and forgets what was read. */
  objects(): Objects;
  shallow(): Promise<Set<string>>;
  /** The one commit that fetches tell the server we have; isomorphic-git takes it from `ref`. Undefined: none. */
  setHave(ref: string, oid: string | undefined): Promise<void>;
}

export function gitCache(fs: GitFs, cacheDir: string, url: string): GitCache {
  const gitdir = `${cacheDir}/kubenode-git-cache`;

  async function drop(): Promise<void> {
    await fs.promises.rm(gitdir, { recursive: true, force: true });
  }

  async function packs(): Promise<number> {
    const names = await fs.promises.readdir(`${gitdir}/objects/pack`).catch((): string[] => []);
    return names.filter((name) => name.endsWith('.pack')).length;
  }

  return {
    gitdir,
    remote: REMOTE,
    drop,

    async prepare() {
      const of: unknown = await git.getConfig({ fs, gitdir, path: `remote.${REMOTE}.url` });
      if (of === url && (await packs()) <= MAX_PACKS) return;
      await drop();
      await git.init({ fs, dir: gitdir, gitdir, bare: true, defaultBranch: 'main' });
      // Without a remote, fetch fails after it has written `shallow`. The URL comes last, so a half-made cache is made anew.
      await git.addRemote({ fs, gitdir, remote: REMOTE, url });
    },

    objects: () => openObjects(fs, gitdir),
    shallow: () => readShallow(fs, gitdir),

    async setHave(ref, oid) {
      if (oid === undefined) await git.deleteRef({ fs, gitdir, ref });
      else await git.writeRef({ fs, gitdir, ref, value: oid, force: true });
    },
  };
}
