import { isAbsolute, join } from 'node:path';
import { isCoded } from '../../api/errors.ts';
import { MAX_WALK, relate, type Standing } from './ancestry.ts';
import { gitCache } from './cache.ts';
import { infoOf, short } from './commit.ts';
import { gitError } from './errors.ts';
import { checkHttpSpec } from './http.ts';
import { checkBranch } from './layout.ts';
import { exclusive } from './mutex.ts';
import { onDisk, type Objects } from './objects.ts';
import { hasCommit, infosOf, isStoreError, reading } from './reading.ts';
import type { Fetched, GitPorts, GitSource, HttpSpec } from './source.ts';
import { transfer, type Pull } from './transfer.ts';
import { watchHead } from './watch.ts';

/** Commits to deepen by, in all, before history counts as too long. */
const MAX_DEEPEN = 10_000;

/**
 * A repository behind a smart HTTP server, through a cache on disk.
 *
 * The first fetch is shallow. Later ones say what was accepted last and have no depth, so that everything between arrives: a few kilobytes in
 * two requests. If the cache was lost, history is deepened step by step until it shows how the head stands to what was accepted.
 *
 * Memory: fetching runs in this process; see `httpClient` for what a pack costs. Sizes are checked before anything is unpacked or stored.
 * Not distinguished: a server that hides commits from one that never had them. What must not be forged is for signatures to hold.
 */
export function httpSource(spec: HttpSpec, ports: GitPorts): GitSource {
  checkHttpSpec(spec);
  checkBranch(spec.branch);
  if (!isAbsolute(spec.cacheDir)) {
    throw gitError('GitSpec', `the cache folder of the Git source must be an absolute path, not ${JSON.stringify(spec.cacheDir)}`);
  }
  const { fs, clock } = ports;
  const url = spec.url.replace(/\/+$/, '');
  const server = transfer(spec, url, ports);
  const cache = gitCache(fs, join(spec.cacheDir, 'kubenode-git-cache'), url);
  const next = gitCache(fs, join(spec.cacheDir, 'kubenode-git-cache.new'), url);
  const alone = exclusive();
  /** The pair whose history was found too long, so that polling does not fetch it all again. */
  let tooLong = '';

  /** The old cache stays until the new one is whole, so that a server that fails now takes nothing away. */
  async function pullWhole(options: Pull, signal: AbortSignal): Promise<string> {
    await next.create();
    const oid = await server.pull(next, options, signal);
    await next.replace(cache);
    return oid;
  }

  async function cached(oid: string): Promise<boolean> {
    return (await cache.usable()) && (await hasCommit(cache.objects(), oid));
  }

  /** Brings the branch's head into the cache; it may have moved on since `tip` was seen. */
  async function bring(tip: string, lastAccepted: string | undefined, signal: AbortSignal): Promise<string> {
    if (await cached(tip)) return tip;
    const warm = lastAccepted !== undefined && (await cached(lastAccepted)) && !(await cache.crowded());
    return warm ? await server.pull(cache, { have: lastAccepted }, signal) : await pullWhole({ depth: spec.depth ?? 1 }, signal);
  }

  async function judge(oid: string, lastAccepted: string | undefined, signal: AbortSignal): Promise<Fetched> {
    if (oid === lastAccepted) return { head: oid, relation: 'same', commits: [] };
    const info = infoOf(await cache.objects().commit(oid));
    if (lastAccepted === undefined) return { head: oid, relation: 'first', commits: [info] };
    const { relation, commits } = await stand(oid, lastAccepted, signal);
    if (relation === 'unknown' || relation === 'tooLong') return { head: oid, relation: 'tooLong', commits: [info] };
    return { head: oid, relation, commits: await infosOf(cache.objects(), commits) };
  }

  async function stand(oid: string, lastAccepted: string, signal: AbortSignal): Promise<Standing> {
    const pair = `${oid} ${lastAccepted}`;
    for (let step = 16, got = 0; ; got += step, step *= 4) {
      const objects = cache.objects();
      const history = { commit: (oid: string) => objects.commit(oid), shallow: await cache.shallow(), maxCommits: MAX_WALK };
      const standing = await relate(oid, lastAccepted, await hasCommit(objects, lastAccepted), history, signal);
      if (standing.relation === 'tooLong' || standing.exact) return standing;
      if (got < MAX_DEEPEN && tooLong !== pair) {
        try {
          await server.pull(cache, { have: oid, deepen: step }, signal);
          continue;
        } catch (error) {
          if (!isCoded(error, 'GitTooLarge')) throw error;
        }
      }
      tooLong = pair;
      return standing;
    }
  }

  async function withCommit<T>(oid: string, signal: AbortSignal, fn: (objects: Objects) => Promise<T>): Promise<T> {
    async function first(): Promise<T> {
      if (!(await cached(oid))) {
        const into = await cache.usable();
        await pullCommit(oid, signal, into ? (options, signal) => server.pull(cache, options, signal) : pullWhole);
      }
      return await fn(cache.objects());
    }
    async function second(): Promise<T> {
      await pullCommit(oid, signal, pullWhole);
      return await fn(cache.objects());
    }
    return await alone(signal, () => orElse(signal, first, second));
  }

  return {
    head: (signal) => server.head(signal),

    async fetch(lastAccepted, signal) {
      const { oid: tip } = await server.head(signal);
      if (tip === lastAccepted) return { head: tip, relation: 'same', commits: [] };
      return await alone(signal, () =>
        orElse(
          signal,
          async () => judge(await bring(tip, lastAccepted, signal), lastAccepted, signal),
          async () => judge(await pullWhole({ depth: spec.depth ?? 1 }, signal), lastAccepted, signal),
        ),
      );
    },

    ...reading(withCommit),

    watch: (onChange) =>
      watchHead(
        {
          fs,
          clock,
          everyMs: (spec.pollSeconds ?? 30) * 1000,
          read: async (signal) => (await server.head(signal)).oid,
          folders: async () => [],
        },
        onChange,
      ),
  };
}

/** Runs `first`; if what is stored turns out not to be whole, `second`. */
async function orElse<T>(signal: AbortSignal, first: () => Promise<T>, second: () => Promise<T>): Promise<T> {
  return await onDisk(async () => {
    try {
      return await first();
    } catch (error) {
      signal.throwIfAborted();
      if (!isStoreError(error)) throw error;
    }
    return await second();
  });
}

/** A commit that the cache lost, or never had, by its id. */
async function pullCommit(oid: string, signal: AbortSignal, how: (options: Pull, signal: AbortSignal) => Promise<string>): Promise<void> {
  try {
    await how({ want: oid, depth: 1 }, signal);
  } catch (cause) {
    if (!isCoded(cause, 'GitProtocol')) throw cause;
    throw gitError('GitObjectMissing', `${cause.message}; commit ${short(oid)} is not in the cache either`, {
      cause,
      next: 'it may have been removed by a force-push; push it to any branch of the repository',
    });
  }
}
