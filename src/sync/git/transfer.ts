import * as git from 'isomorphic-git';
import { CodedError, messageOf } from '../../api/errors.ts';
import type { GitCache } from './cache.ts';
import { isOid } from './commit.ts';
import { gitError, printable } from './errors.ts';
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
export interface Transfer {
  head(signal: AbortSignal): Promise<Head>;
  /** Fetches into the cache; returns the commit that came, which is there to be read. */
  pull(cache: GitCache, options: Pull, signal: AbortSignal): Promise<string>;
}

type Talk = Pick<Parameters<typeof git.fetch>[0], 'http' | 'onAuth'> & { url: string };

export function transfer(spec: HttpSpec, url: string, ports: GitPorts): Transfer {
  const limits = { ...defaultHttpLimits, ...spec.limits };
  const { host } = new URL(url);
  const ref = `refs/heads/${spec.branch}`;

  /** Runs an isomorphic-git call that talks to the server, and turns whatever it throws into errors of ours. */
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
      throw translate(error);
    }
  }

  function translate(error: unknown): Error {
    if (error instanceof CodedError) return redacted(error);
    if (error instanceof git.Errors.HttpError) {
      const what = spec.auth === undefined ? 'wants credentials, and the source has none' : 'refuses the credentials of the source';
      return gitError('GitAuth', `${host}: ${what}`, {
        next: 'check the Secret that the source names, and that the account may read the repository',
      });
    }
    if (error instanceof git.Errors.NotFoundError) return branchMissing();
    if (error instanceof Error && 'syscall' in error) return error;
    return redacted(gitError('GitProtocol', `${host}: does not answer as Git servers do: ${printable(messageOf(error))}`));
  }

  /** An error may repeat words of the server, which was sent the password. */
  function redacted(error: CodedError): CodedError {
    if (spec.auth === undefined) return error;
    const { username, password } = spec.auth;
    const secrets = [password, Buffer.from(`${username}:${password}`).toString('base64')].filter((secret) => secret !== '');
    const message = secrets.reduce((text, secret) => text.replaceAll(secret, '***'), error.message);
    return message === error.message
      ? error
      : new CodedError(error.code, message, { verdict: error.verdict, ...(error.next === undefined ? {} : { next: error.next }) });
  }

  function branchMissing(): Error {
    return gitError('GitBranchMissing', `${host}: has no commit on the branch ${spec.branch}`, { next: `git ls-remote --heads ${url}` });
  }

  return {
    async head(signal) {
      signal.throwIfAborted();
      const refs = await talk({ objects: false }, signal, (common) => git.listServerRefs({ ...common, protocolVersion: 2, prefix: ref }));
      const found = refs.find((candidate) => candidate.ref === ref);
      if (found === undefined) throw branchMissing();
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
      if (fetchHead === null) throw branchMissing();
      // isomorphic-git reports success also when objects did not come.
      await cache.objects().commit(fetchHead);
      return fetchHead;
    },
  };
}
