import * as git from 'isomorphic-git';
import type { GitCache } from './cache.ts';
import { isOid } from './commit.ts';
import { gitError, printable } from './errors.ts';
import { branchMissing, serverError } from './server-errors.ts';
import { defaultHttpLimits, httpClient } from './http.ts';
import type { GitPorts, Head, HttpSpec } from './source.ts';

export interface Pull {
  /** A commit by its id; absent: the branch. */
  want?: string;
  /** A commit that is here with all its ancestors down to the edge of what is here. */
  have?: string;
  /** This many commits; absent: all that `have` lacks. */
  depth?: number;
  /** This many commits more than are here. */
  deepen?: number;
}

/** What is asked of a server. Errors: all of `gitErrorCodes` that are about the way to a server; none of them repeats a password. */
export interface PackTransfer {
  head(signal: AbortSignal): Promise<Head>;
  /** Fetches into the cache; returns the commit that came, which is there to be read. */
  pull(cache: GitCache, options: Pull, signal: AbortSignal): Promise<string>;
}

type Talk = Pick<Parameters<typeof git.fetch>[0], 'http' | 'onAuth'> & { url: string };

export function transfer(spec: HttpSpec, url: string, ports: GitPorts): PackTransfer {
  const limits = { ...defaultHttpLimits, ...spec.limits };
  const { host } = new URL(url);
  const server = { host, url, branch: spec.branch, auth: spec.auth };
  const ref = `refs/heads/${spec.branch}`;

  /** Runs an isomorphic-git call that talks to the server, and turns what it throws into errors of ours. */
  async function talk<T>(options: { objects: boolean }, signal: AbortSignal, call: (common: Talk) => Promise<T>): Promise<T> {
    const { auth } = spec;
    try {
      return await call({
        http: httpClient(spec, limits, ports, options, signal),
        url,
        // Called after a first 401; without `onAuthFailure`, a second one is the end.
        ...(auth === undefined ? {} : { onAuth: () => ({ ...auth }) }),
      });
    } catch (error) {
      signal.throwIfAborted();
      throw serverError(error, server);
    }
  }

  return {
    async head(signal) {
      signal.throwIfAborted();
      const refs = await talk({ objects: false }, signal, (common) => git.listServerRefs({ ...common, protocolVersion: 2, prefix: ref }));
      const found = refs.find((candidate) => candidate.ref === ref);
      if (found === undefined) throw branchMissing(server);
      if (!isOid(found.oid)) {
        throw gitError('GitProtocol', `${host}: names ${printable(found.oid, 70)} as the head, which is no SHA-1 id`);
      }
      return { oid: found.oid, ref };
    },

    async pull(cache, { want, have, depth, deepen }, signal) {
      await cache.setHave(ref, have);
      const { fetchHead } = await talk({ objects: true }, signal, (common) =>
        git.fetch({
          ...common,
          fs: ports.fs,
          gitdir: cache.gitdir,
          remote: cache.remote,
          ref,
          remoteRef: want ?? ref,
          singleBranch: true,
          tags: false,
          ...(deepen === undefined ? {} : { depth: deepen, relative: true }),
          ...(depth === undefined ? {} : { depth }),
        }),
      );
      if (fetchHead === null) throw branchMissing(server);
      // isomorphic-git reports success also when objects did not come.
      await cache.objects().commit(fetchHead);
      return fetchHead;
    },
  };
}
