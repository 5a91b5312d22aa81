import { isAbsolute } from 'node:path';
import * as git from 'isomorphic-git';
import { CodedError, isCoded, messageOf } from '../../api/errors.ts';
import { MAX_WALK, relate, type Standing } from './ancestry.ts';
import { gitCache } from './cache.ts';
import { infoOf, short } from './commit.ts';
import { gitError, printable } from './errors.ts';
import { checkHttpSpec, defaultHttpLimits, httpClient } from './http.ts';
import { checkBranch } from './layout.ts';
import { exclusive } from './mutex.ts';
import { onDisk } from './objects.ts';
import { hasCommit, infosOf, isStoreError, reading } from './reading.ts';
import type { Fetched, GitPorts, GitSource, Head, HttpSpec } from './source.ts';
import { watchHead } from './watch.ts';

const POLL_MS = 30_000;
/** Commits to deepen by, in all, before history counts as too long. */
const MAX_DEEPEN = 10_000;

/**
 * A repository behind a smart HTTP server, through a cache on disk.
 *
 * The first fetch is shallow. Later ones say what was accepted last and have no depth, so that everything between arrives: a few kilobytes in
 * two requests. If the cache was lost, history is deepened step by step until it tells how the head stands to what was accepted.
 *
 * Memory: fetching runs in this process; see `httpClient` for what a pack costs. Sizes are checked before anything is unpacked or stored.
 * Not told apart: a server that hides commits from one that never had them. What must not be forged is for signatures to hold.
 */
export function httpSource(spec: HttpSpec, ports: GitPorts): GitSource {
  checkHttpSpec(spec);
  checkBranch(spec.branch);
  if (!isAbsolute(spec.cacheDir))
    throw gitError('GitSpec', `the cache folder of the Git source must be an absolute path, not ${JSON.stringify(spec.cacheDir)}`);

  const limits = { ...defaultHttpLimits, ...spec.limits };
  const url = spec.url.replace(/\/+$/, '');
  const { host } = new URL(url);
  const ref = `refs/heads/${spec.branch}`;
  const cache = gitCache(ports.fs, spec.cacheDir, url);
  const alone = exclusive();
  /** The pair that history was found too long for, so that polling does not fetch it all again. */
  let tooLong = '';

  /** Runs an isomorphic-git call that talks to the server, and turns whatever it throws into errors of ours. */
  async function talk<T>(options: { objects: boolean }, signal: AbortSignal, call: (common: Talk) => Promise<T>): Promise<T> {
    const { auth } = spec;
    try {
      return await call({
        http: httpClient(spec, limits, ports, options, signal),
        url,
        ...(auth === undefined ? {} : { onAuth: () => ({ ...auth }) }),
        // Else a refused password would be sent again and again.
        onAuthFailure: () => ({ cancel: true }),
      });
    } catch (error) {
      signal.throwIfAborted();
      throw translate(error);
    }
  }

  function translate(error: unknown): Error {
    if (error instanceof CodedError) return redacted(error);
    if (error instanceof git.Errors.UserCanceledError || error instanceof git.Errors.HttpError) {
      const what = spec.auth === undefined ? 'wants credentials, and the source has none' : 'refuses the credentials of the source';
      return gitError('GitAuth', `${host}: ${what}`, {
        next: 'check the Secret that the source names, and that the account may read the repository',
      });
    }
    if (error instanceof git.Errors.NotFoundError) return branchMissing();
    if (error instanceof Error && 'syscall' in error) return error;
    return redacted(gitError('GitProtocol', `${host}: does not answer as Git servers do: ${printable(messageOf(error))}`));
  }

  /** An error may repeat words of the server, which was told the password. */
  function redacted(error: CodedError): CodedError {
    if (spec.auth === undefined) return error;
    const { username, password } = spec.auth;
    const secrets = [password, Buffer.from(`${username}:${password}`).toString('base64')].filter((secret) => secret !== '');
    const message = secrets.reduce((text, secret) => text.replaceAll(secret, '***'), error.message);
    return message === error.message ? error : new CodedError(error.code, message, error.next === undefined ? {} : { next: error.next });
  }

  function branchMissing(): Error {
    return gitError('GitBranchMissing', `${host}: has no commit on the branch ${spec.branch}`, { next: `git ls-remote --heads ${url}` });
  }

  async function head(signal: AbortSignal): Promise<Head> {
    signal.throwIfAborted();
    const refs = await talk({ objects: false }, signal, (common) => git.listServerRefs({ ...common, protocolVersion: 2, prefix: ref }));
    const found = refs.find((candidate) => candidate.ref === ref);
    if (found === undefined) throw branchMissing();
    if (!/^[0-9a-f]{40}$/.test(found.oid))
      throw gitError('GitProtocol', `${host}: names ${printable(found.oid, 70)} as the head, which is no SHA-1 id`);
    return { oid: found.oid, ref };
  }

  /** Fetches into the cache; returns the commit that came. `want` absent: the branch. */
  async function pull(options: { want?: string; have?: string; depth?: number; deepen?: number }, signal: AbortSignal): Promise<string> {
    await cache.setHave(ref, options.have);
    const { fetchHead } = await talk({ objects: true }, signal, (common) =>
      git.fetch({
        ...common,
        fs: ports.fs,
        gitdir: cache.gitdir,
        remote: cache.remote,
        ref,
        remoteRef: options.want ?? ref,
        singleBranch: true,
        tags: false,
        ...(options.deepen === undefined ? {} : { depth: options.deepen, relative: true }),
        ...(options.depth === undefined ? {} : { depth: options.depth }),
      }),
    );
    if (fetchHead === null) throw branchMissing();
    // isomorphic-git reports success also when objects did not come.
    await cache.objects().commit(fetchHead);
    return fetchHead;
  }

  /** Once more from nothing, when what is in the cache turns out not to be whole. */
  async function orAnew<T>(signal: AbortSignal, fn: () => Promise<T>): Promise<T> {
    return await onDisk(async () => {
      try {
        await cache.prepare();
        return await fn();
      } catch (error) {
        signal.throwIfAborted();
        if (!isStoreError(error)) throw error;
      }
      await cache.drop();
      await cache.prepare();
      return await fn();
    });
  }

  async function bring(tip: string, lastAccepted: string | undefined, signal: AbortSignal): Promise<Fetched> {
    let oid = tip;
    if (!(await hasCommit(cache.objects(), tip))) {
      if (lastAccepted !== undefined && (await hasCommit(cache.objects(), lastAccepted))) {
        oid = await pull({ have: lastAccepted }, signal);
      } else {
        await cache.drop();
        await cache.prepare();
        oid = await pull({ depth: spec.depth ?? 1 }, signal);
      }
    }
    if (oid === lastAccepted) return { head: oid, relation: 'same', commits: [] };
    const objects = cache.objects();
    const info = infoOf(await objects.commit(oid));
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
          await pull({ have: oid, deepen: step }, signal);
          continue;
        } catch (error) {
          if (!isCoded(error, 'GitTooLarge')) throw error;
        }
      }
      tooLong = pair;
      return standing.relation === 'unknown' ? { ...standing, relation: 'tooLong' } : standing;
    }
  }

  /** A commit that the cache lost, or never had, by its id. */
  async function pullCommit(oid: string, signal: AbortSignal): Promise<void> {
    try {
      await pull({ want: oid, depth: 1 }, signal);
    } catch (cause) {
      if (!isCoded(cause, 'GitProtocol')) throw cause;
      throw gitError('GitObjectMissing', `${host}: does not give us commit ${short(oid)}: ${cause.message}`, {
        cause,
        next: 'it may have been removed by a force-push; push it to any branch of the repository',
      });
    }
  }

  return {
    head,

    async fetch(lastAccepted, signal) {
      const tip = await head(signal);
      if (tip.oid === lastAccepted) return { head: tip.oid, relation: 'same', commits: [] };
      return await alone(signal, () => orAnew(signal, () => bring(tip.oid, lastAccepted, signal)));
    },

    ...reading((oid, signal, fn) =>
      alone(signal, () =>
        orAnew(signal, async () => {
          if (!(await hasCommit(cache.objects(), oid))) await pullCommit(oid, signal);
          return await fn(cache.objects());
        }),
      ),
    ),

    watch: (onChange) =>
      watchHead(
        { fs: ports.fs, clock: ports.clock, everyMs: POLL_MS, look: async (signal) => (await head(signal)).oid, folders: async () => [] },
        onChange,
      ),
  };
}

type Talk = Pick<Parameters<typeof git.fetch>[0], 'http' | 'onAuth' | 'onAuthFailure'> & { url: string };
