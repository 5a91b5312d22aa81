import { join } from 'node:path';
import { isCoded } from '../../api/errors.ts';
import { MAX_WALK, relate, type CommitStanding } from './ancestry.ts';
import { gitCache, type GitCache } from './cache.ts';
import { short } from './commit.ts';
import { gitError, gitErrorCodes } from './errors.ts';
import type { Objects } from './objects.ts';
import { hasCommit } from './reading.ts';
import type { GitPorts, HttpSpec } from './source.ts';
import type { Pull, PackTransfer } from './transfer.ts';

/** Commits to deepen by, in all, before history counts as too long. */
const MAX_DEEPEN = 10_000;

/** What is here of the repository of a server, in a cache on disk, and how more of it comes. One call at a time. */
export class Clone {
  readonly #server: PackTransfer;
  readonly #cache: GitCache;
  readonly #next: GitCache;
  /** Of a first fetch. */
  readonly #depth: number;
  /** The pair whose history was found too long, so that polling does not fetch it all again. */
  #tooLong = '';

  constructor({ cacheDir, depth = 1 }: HttpSpec, url: string, server: PackTransfer, { fs }: Pick<GitPorts, 'fs'>) {
    this.#server = server;
    this.#cache = gitCache(fs, join(cacheDir, 'kubenode-git-cache'), url);
    this.#next = gitCache(fs, join(cacheDir, 'kubenode-git-cache.new'), url);
    this.#depth = depth;
  }

  objects(): Objects {
    return this.#cache.objects();
  }

  async has(oid: string): Promise<boolean> {
    return (await this.#cache.usable()) && (await hasCommit(this.#cache.objects(), oid));
  }

  /** Brings the branch's head; it may have moved on since `tip` was seen. */
  async bring(tip: string, lastAccepted: string | undefined, signal: AbortSignal): Promise<string> {
    if (await this.has(tip)) return tip;
    const warm = lastAccepted !== undefined && (await this.has(lastAccepted)) && !(await this.#cache.crowded());
    return warm ? await this.#server.pull(this.#cache, { have: lastAccepted }, signal) : await this.bringAgain(signal);
  }

  /** The same, as at first. */
  async bringAgain(signal: AbortSignal): Promise<string> {
    return await this.#pullWhole({ depth: this.#depth }, signal);
  }

  /** Brings a commit that the cache lost, or never had, by its id. */
  async bringCommit(oid: string, signal: AbortSignal): Promise<void> {
    const into = await this.#cache.usable();
    await pullCommit(oid, () => {
      const options = { want: oid, depth: 1 };
      return into ? this.#server.pull(this.#cache, options, signal) : this.#pullWhole(options, signal);
    });
  }

  /** The same, into a cache of its own. */
  async bringCommitAgain(oid: string, signal: AbortSignal): Promise<void> {
    await pullCommit(oid, () => this.#pullWhole({ want: oid, depth: 1 }, signal));
  }

  /** How one commit stands to the one that was accepted last; brings as much history as that needs. */
  async stand(oid: string, lastAccepted: string, signal: AbortSignal): Promise<CommitStanding> {
    const pair = `${oid} ${lastAccepted}`;
    for (let step = 16, got = 0; ; got += step, step *= 4) {
      const objects = this.#cache.objects();
      const history = { commit: (oid: string) => objects.commit(oid), shallow: await this.#cache.shallow(), maxCommits: MAX_WALK };
      const standing = await relate(oid, lastAccepted, await hasCommit(objects, lastAccepted), history, signal);
      if (standing.relation === 'tooLong' || standing.exact) return standing;
      if (got < MAX_DEEPEN && this.#tooLong !== pair) {
        try {
          await this.#server.pull(this.#cache, { have: oid, deepen: step }, signal);
          continue;
        } catch (error) {
          if (!isCoded(error, gitErrorCodes, 'GitTooLarge')) throw error;
        }
      }
      this.#tooLong = pair;
      return standing;
    }
  }

  /** The old cache stays until the new one is whole, so that a server that fails now takes nothing away. */
  async #pullWhole(options: Pull, signal: AbortSignal): Promise<string> {
    await this.#next.create();
    const oid = await this.#server.pull(this.#next, options, signal);
    await this.#next.replace(this.#cache);
    return oid;
  }
}

async function pullCommit(oid: string, pull: () => Promise<string>): Promise<void> {
  try {
    await pull();
  } catch (cause) {
    if (!isCoded(cause, gitErrorCodes, 'GitProtocol')) throw cause;
    throw gitError('GitObjectMissing', `${cause.message}; commit ${short(oid)} is not in the cache either`, {
      cause,
      next: 'it may have been removed by a force-push; push it to any branch of the repository',
    });
  }
}
