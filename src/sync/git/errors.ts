import { content, errorsOf, isCoded, surroundings, type CodedError, type ErrorTable } from '../../api/errors.ts';

/** Every code that this folder throws, and what it means to the caller. In all of them what was accepted before stays in force. */
export const gitErrorCodes = {
  // The source as it is written down.
  GitSpec: surroundings('the source itself is not allowed: URL, branch name, path, allowed signers'),
  // Repositories on this disk.
  GitNotARepository: surroundings('there is no Git repository at the path'),
  GitUnsupportedRepository: surroundings('a repository of a kind that is not read: sha256, reftable, alternates'),
  GitDetachedHead: surroundings('no branch is checked out, so there is none to follow'),
  GitBranchMissing: surroundings('the branch has no commit, or does not exist'),
  GitPathExists: surroundings('a new repository was to be made where something is already'),
  // The way to a server.
  GitUnreachable: surroundings('no usable answer: connection refused or cut, or a status of the 5xx kind; trying again may help'),
  GitTimeout: surroundings('the server stopped sending, or took too long'),
  GitAuth: surroundings('the server wants other credentials'),
  GitHttpStatus: surroundings('the server answered with a status that fetching does not expect'),
  GitRedirect: surroundings('the server sends us elsewhere; redirects are never followed, since credentials would be sent along'),
  GitProtocol: surroundings('what the server sent is not what Git servers send, or reports that the server failed'),
  GitTooLarge: surroundings('more bytes or objects than the limits of the source allow'),
  GitDisk: surroundings('a folder of ours cannot be read or written'),
  // Objects.
  GitObjectMissing: surroundings('an object that must be there is not'),
  GitObjectCorrupt: surroundings('an object does not have the digest that its id is'),
  // Trees that are read.
  TreeSymlink: content('a symbolic link where files are read'),
  TreeSubmodule: content('a submodule where files are read'),
  TreeLfsPointer: content('a Git LFS pointer instead of the file'),
  TreeMode: content('an entry of a mode that Git does not write'),
  TreeName: content('a name that is reserved, empty or not UTF-8'),
  TreeDuplicateName: content('two entries whose names are equal, or equal in lower case'),
  TreeNotText: content('a file that is not UTF-8 text'),
  TreeTooManyEntries: content('more entries than the cap'),
  TreeTooDeep: content('folders nested deeper than the cap'),
  TreeTooLarge: content('more bytes than the cap'),
  // Signatures.
  AllowedSigners: surroundings('allowed signers that cannot be used, with the lines'),
  CommitMalformed: content('the commit is not of the form that Git writes'),
  CommitUnsigned: content('no signature'),
  CommitPgpSigned: content('signed with PGP, where SSH signatures are required'),
  CommitX509Signed: content('signed with X.509, where SSH signatures are required'),
  SignatureMalformed: content('the signature cannot be read, or is of a kind that is not accepted'),
  SignatureNamespace: content('a valid kind of signature, made for something other than Git'),
  SignatureInvalid: content('the signature does not belong to this commit'),
  SignerUnknown: content('the key is not among the allowed signers'),
  SignerNotAllowed: content('the key is among the allowed signers, but not for Git, or not at this time'),
} as const satisfies ErrorTable;

export type GitErrorCode = keyof typeof gitErrorCodes;

export const gitError = errorsOf(gitErrorCodes);

/** Whether a commit was judged and refused, as against not read at all. */
export function isGitRefusal(error: unknown): error is CodedError<GitErrorCode> {
  return isCoded(error, gitErrorCodes) && error.verdict;
}

/** Text of a stranger, fit for a terminal and a log: one line, no control or direction characters, at most `max` characters. */
export function printable(text: string, max = 200): string {
  const clean = text.replace(/[\p{Cc}\p{Zl}\p{Zp}\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]+/gu, ' ').trim();
  return clean.length <= max ? clean : `${clean.slice(0, max - 1).replace(/[\ud800-\udbff]$/, '')}…`;
}

/** `1.2 MiB`, for messages. */
export function bytes(count: number): string {
  if (count < 1024) return `${count} bytes`;
  return count < 1024 * 1024 ? `${(count / 1024).toFixed(1)} KiB` : `${(count / 1024 / 1024).toFixed(1)} MiB`;
}
