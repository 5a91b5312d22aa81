import { isAbsolute } from 'node:path';
import { infoOf } from './commit.ts';
import { gitError } from './errors.ts';
import { checkHttpSpec } from './http.ts';
import { checkBranch } from './layout.ts';
import { Clone } from './clone.ts';
import { exclusive } from './mutex.ts';
import { onDisk, type Objects } from './objects.ts';
import { infosOf, isStoreError, reading } from './reading.ts';
import type { Fetched, GitPorts, GitSource, HttpSpec } from './source.ts';
import { transfer } from './transfer.ts';
import { watchHead } from './watch.ts';

/**
 * A repository behind a smart HTTP server, through a cache on disk.
 *
 * The first fetch is shallow. Later ones name what was accepted last and have no depth, so that everything between arrives: a few kilobytes in
 * two requests. If the cache was lost, history is deepened step by step until it shows how the head stands to what was accepted.
 *
 * Memory: fetching runs in this process; see `httpClient` for what a pack costs. Sizes are checked before anything is unpacked or stored.
 * Not distinguished: a server that hides commits from one that never had them. Only signatures protect against what is forged.
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
  const clone = new Clone(spec, url, server, ports);
  const alone = exclusive();

  async function withCommit<T>(oid: string, signal: AbortSignal, fn: (objects: Objects) => Promise<T>): Promise<T> {
    async function first(): Promise<T> {
      if (!(await clone.has(oid))) await clone.bringCommit(oid, signal);
      return await fn(clone.objects());
    }
    async function second(): Promise<T> {
      await clone.bringCommitAgain(oid, signal);
      return await fn(clone.objects());
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
          async () => fetched(clone, await clone.bring(tip, lastAccepted, signal), lastAccepted, signal),
          async () => fetched(clone, await clone.bringAgain(signal), lastAccepted, signal),
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

async function fetched(clone: Clone, oid: string, lastAccepted: string | undefined, signal: AbortSignal): Promise<Fetched> {
  if (oid === lastAccepted) return { head: oid, relation: 'same', commits: [] };
  const info = infoOf(await clone.objects().commit(oid));
  if (lastAccepted === undefined) return { head: oid, relation: 'first', commits: [info] };
  const { relation, commits } = await clone.stand(oid, lastAccepted, signal);
  if (relation === 'unknown' || relation === 'tooLong') return { head: oid, relation: 'tooLong', commits: [info] };
  return { head: oid, relation, commits: await infosOf(clone.objects(), commits) };
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
