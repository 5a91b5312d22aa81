import { gitError, printable } from './errors.ts';
import type { CommitInfo } from './source.ts';

const LF = 10;
const SPACE = 32;

export interface Commit extends CommitInfo {
  tree: string;
  parents: string[];
  /** `Name <email>` */
  committer: string;
  /** Committer's time, ms; 0 where it cannot be read. The author of a commit can write anything here. */
  timeMs: number;
}

/**
 * Reads the head of a commit by position, as git does: one `tree`, then the `parent` lines that follow it directly, then author and
 * committer. The same words further down mean nothing, so a commit cannot show one ancestry to us and another to git; nor can a signature
 * stand among them, where it would part the parents from the tree: signed they would count, read by position they would not.
 */
export function parseCommit(oid: string, raw: Buffer): Commit {
  const end = raw.indexOf('\n\n');
  if (end < 0) throw malformed(oid, 'has no end of its header');
  let at = 0;
  function peek(key: string): string | undefined {
    if (at > end || raw.toString('latin1', at, at + key.length + 1) !== `${key} `) return undefined;
    const nl = raw.indexOf(LF, at);
    return raw.toString('utf8', at + key.length + 1, nl);
  }
  function take(key: string): string | undefined {
    const value = peek(key);
    if (value !== undefined) at = raw.indexOf(LF, at) + 1;
    return value;
  }

  const tree = take('tree');
  if (tree === undefined || !isOid(tree)) throw malformed(oid, 'does not begin with its tree');
  const parents: string[] = [];
  for (let parent = take('parent'); parent !== undefined; parent = take('parent')) {
    if (!isOid(parent)) throw malformed(oid, 'names a parent that is not an id');
    parents.push(parent);
  }
  const author = take('author');
  const committer = take('committer');
  if (author === undefined || committer === undefined) throw malformed(oid, 'lacks author or committer after its parents');

  const timeMs = timeOf(committer);
  const message = raw.toString('utf8', end + 2).replace(/^\n+/, '');
  return {
    oid,
    tree,
    parents,
    author: printable(author.slice(0, Math.max(0, author.indexOf('<'))), 100),
    committer: printable(committer.slice(0, committer.lastIndexOf('>') + 1), 200),
    time: new Date(timeMs).toISOString().replace('.000Z', 'Z'),
    timeMs,
    subject: printable(message.split('\n', 1)[0] ?? ''),
  };
}

export function infoOf(commit: Commit): CommitInfo {
  return { oid: commit.oid, author: commit.author, time: commit.time, subject: commit.subject };
}

/**
 * Parts a commit into what was signed and the signature, byte for byte. isomorphic-git's own `payload` searches for PGP's marks, drops CR and
 * trims newlines, so no SSH signature ever matches it.
 */
export function splitCommit(oid: string, raw: Buffer): { payload: Buffer; signature: string | undefined } {
  const end = raw.indexOf('\n\n');
  const keep: Buffer[] = [];
  const signatures: Buffer[][] = [];
  let into: Buffer[] | undefined;
  for (let at = 0; at <= end;) {
    const nl = raw.indexOf(LF, at);
    const line = raw.subarray(at, nl + 1);
    at = nl + 1;
    if (line[0] === SPACE) {
      if (into === undefined) keep.push(line);
      else into.push(line.subarray(1));
      continue;
    }
    const key = line.toString('latin1', 0, Math.max(0, line.indexOf(SPACE)));
    // git leaves it out of what is signed, so anyone could put anything there.
    if (key === 'gpgsig-sha256') throw malformed(oid, 'carries a second signature (gpgsig-sha256), which the first does not cover');
    if (key === 'gpgsig') {
      into = [line.subarray(key.length + 1)];
      signatures.push(into);
    } else {
      into = undefined;
      keep.push(line);
    }
  }
  if (end < 0) throw malformed(oid, 'has no end of its header');
  if (signatures.length > 1) throw malformed(oid, 'has more than one signature');
  const [signature] = signatures;
  return {
    payload: Buffer.concat([...keep, raw.subarray(end + 1)]),
    signature: signature === undefined ? undefined : Buffer.concat(signature).toString('latin1'),
  };
}

export function isOid(text: string): boolean {
  return /^[0-9a-f]{40}$/.test(text);
}

/** The first 10 digits: enough for people. */
export function short(oid: string): string {
  return oid.slice(0, 10);
}

/** Twelve digits of seconds are within what a Date can be. */
function timeOf(person: string): number {
  return Number(/> (\d{1,12}) [+-]\d{4}$/.exec(person)?.[1] ?? 0) * 1000;
}

function malformed(oid: string, what: string): Error {
  return gitError('CommitMalformed', `commit ${short(oid)} ${what}`);
}
