import type { FSWatcher, WatchOptions } from 'node:fs';
import type * as promises from 'node:fs/promises';
import type { Clock } from '../../api/ports.ts';
import type { AllowedSigner } from './signers.ts';

/** `node:fs` satisfies it. */
export interface GitFs {
  promises: Pick<
    typeof promises,
    | 'readFile'
    | 'writeFile'
    | 'unlink'
    | 'readdir'
    | 'mkdir'
    | 'mkdtemp'
    | 'rmdir'
    | 'rm'
    | 'rename'
    | 'stat'
    | 'lstat'
    | 'readlink'
    | 'symlink'
    | 'chmod'
  >;
  watch(path: string, options: WatchOptions & { encoding?: 'utf8' }, listener: (event: string, name: string | null) => void): FSWatcher;
}

/** Node's own `fetch` satisfies it. */
export type GitFetch = (
  url: string,
  init: { method: string; headers: Record<string, string>; body?: Uint8Array<ArrayBuffer>; redirect: 'manual'; signal: AbortSignal },
) => Promise<Response>;

export interface GitPorts {
  fs: GitFs;
  fetch: GitFetch;
  clock: Clock;
}

/** A repository on this disk, read where it lies: only commits count, nothing is ever written to it. */
export interface LocalSpec {
  kind: 'local';
  /** Absolute path of a work tree, a linked work tree or a bare repository. */
  path: string;
  /** Absent: the branch that is checked out there, read each time. */
  branch?: string;
}

/** A repository behind a smart HTTP server. */
export interface HttpSpec {
  kind: 'http';
  /** https, or http to this machine. No credentials, query or fragment in it. */
  url: string;
  branch: string;
  /** Sent only to `url`, and only after its server asked. */
  auth?: { username: string; password: string };
  /** Depth of the first fetch; default 1. */
  depth?: number;
  /**
   * A folder that this source may fill. It writes `kubenode-git-cache` and `kubenode-git-cache.new` there, which may be deleted at any
   * time; one process at a time.
   */
  cacheDir: string;
  /** Between two reads of the branch by `watch`; default 30. */
  pollSeconds?: number;
  limits?: Partial<HttpLimits>;
}

export type GitSpec = LocalSpec | HttpSpec;

export interface HttpLimits {
  /** Bytes of one answer of the server. Default 32 MiB. */
  responseBytes: number;
  /** Bytes of one object, inflated. Default 16 MiB. */
  objectBytes: number;
  /** Bytes of all objects of one answer, inflated. Default 256 MiB. */
  inflatedBytes: number;
  /** Objects of one answer. Default 500,000. */
  objects: number;
  /** Seconds without a byte. Default 30. */
  idleSeconds: number;
  /** Seconds for one request. Default 600. */
  requestSeconds: number;
}

export interface ReadLimits {
  /** Files and folders. Default 20,000. */
  entries: number;
  /** Folders above a file. Default 20. */
  depth: number;
  /** Bytes of one file. Default 4 MiB. */
  fileBytes: number;
  /** Bytes of all files. Default 64 MiB. */
  totalBytes: number;
}

export interface CommitInfo {
  oid: string;
  /** Author's name, fit to print. */
  author: string;
  /** When it was committed, by the committer's clock: RFC 3339. */
  time: string;
  /** First line of the message, fit to print. */
  subject: string;
}

export interface Head {
  oid: string;
  /** `refs/heads/main` */
  ref: string;
}

/**
 * How a head stands to the one that was accepted last.
 * - `first`: nothing was accepted yet.
 * - `same`, `descendant`: may be rendered.
 * - `rewritten`: the accepted head is not among its ancestors (amend, rebase, reset, force-push, another history).
 * - `tooLong`: not known within the limits of history that is fetched or walked.
 */
export type Relation = 'first' | 'same' | 'descendant' | 'rewritten' | 'tooLong';

export interface Fetched {
  head: string;
  relation: Relation;
  /**
   * Newest first, children before parents. `descendant` and `rewritten`: the commits that the accepted head lacks, side branches of merges
   * included. Where commit dates run backwards, or the history that would show it exceeds the limits, perhaps more, never fewer. `same`: none.
   * `first` and `tooLong`: the head alone.
   */
  commits: CommitInfo[];
}

export interface Verified {
  /** Principals as written in the allowed signers. */
  signer: string;
  /** `SHA256:…`, as ssh-keygen prints it. */
  keyFingerprint: string;
}

export interface RangeVerdict {
  /** Newest first. */
  verified: (Verified & { oid: string })[];
  /** Newest first; the message names commit and subject. Empty: every commit is signed by an allowed signer. */
  refused: { oid: string; subject: string; error: Error }[];
}

/**
 * Where sync reads commits.
 *
 * Guarantees: an error, an abort or a crash at any point leaves everything that was accepted readable as before; objects are compared
 * with their ids, so what `read` returns has the digest that the commit id is. Calls may overlap; those that touch the cache wait for each other.
 * Errors: CodedError with a code of `gitErrorCodes`; an abort rejects with the signal's reason.
 */
export interface GitSource {
  /** The branch's commit now. One or two small requests, or two small files. */
  head(signal: AbortSignal): Promise<Head>;
  /** Brings the head here and reports how it stands to `lastAccepted`. Does not accept anything: the next call names what was accepted. */
  fetch(lastAccepted: string | undefined, signal: AbortSignal): Promise<Fetched>;
  /**
   * The text of files of a commit, by path, from Git objects; never from a checkout. `paths` are files or folders from the root of the tree;
   * what is absent is absent in the result.
   */
  read(oid: string, options: { paths: readonly string[]; limits?: Partial<ReadLimits> }, signal: AbortSignal): Promise<Map<string, string>>;
  /** Calls when the branch points elsewhere than at the call before, soon after it does. May call once too often, never too seldom. */
  watch(onChange: () => void): () => void;
  /**
   * Who signed. `firstSeen` is when our own clock first saw this commit (ms; absent: now): key validity is judged at that time, since a
   * commit's own dates are written by the holder of the key.
   */
  verifyCommit(
    oid: string,
    allowedSigners: readonly AllowedSigner[],
    now: number,
    firstSeen: number | undefined,
    signal: AbortSignal,
  ): Promise<Verified>;
  /**
   * As `verifyCommit` for each of `Fetched.commits`, and always for the head, which is not among them when nothing is new: what was accepted before
   * signatures were asked for, or when other signers were allowed, is judged by what is asked now. Does not stop at the first that fails.
   */
  verifyRange(
    fetched: Pick<Fetched, 'head' | 'commits'>,
    allowedSigners: readonly AllowedSigner[],
    now: number,
    firstSeen: (oid: string) => number | undefined,
    signal: AbortSignal,
  ): Promise<RangeVerdict>;
}
