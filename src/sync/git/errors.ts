import { CodedError, isCoded } from '../../api/errors.ts';

/** Every code that this folder throws, and what it means to the caller. In all of them what was accepted before stays in force. */
export const gitErrorCodes = {
  // The source as it is written down.
  GitSpec: 'the source itself is not allowed: URL, branch name, path, allowed signers',
  // Repositories on this disk.
  GitNotARepository: 'the path holds no Git repository',
  GitUnsupportedRepository: 'a repository of a kind that is not read: sha256, reftable, alternates',
  GitDetachedHead: 'no branch is checked out, so there is none to follow',
  GitBranchMissing: 'the branch has no commit, or does not exist',
  GitPathExists: 'a new repository was to be made where something is already',
  // The way to a server.
  GitUnreachable: 'no usable answer: connection refused or cut, or a status of the 5xx kind; trying again may help',
  GitTimeout: 'the server stopped sending, or took too long',
  GitAuth: 'the server wants other credentials',
  GitHttpStatus: 'the server answered with a status that fetching does not expect',
  GitRedirect: 'the server sends us elsewhere; redirects are never followed, since credentials would be sent along',
  GitProtocol: 'what the server sent is not what Git servers send, or says that the server failed',
  GitTooLarge: 'more bytes or objects than the limits of the source allow',
  GitDisk: 'a folder of ours cannot be read or written',
  // Objects.
  GitObjectMissing: 'an object that must be there is not',
  GitObjectCorrupt: 'an object is not what its id says',
  // Trees that are read.
  TreeSymlink: 'a symbolic link where files are read',
  TreeSubmodule: 'a submodule where files are read',
  TreeLfsPointer: 'a Git LFS pointer instead of the file',
  TreeMode: 'an entry of a mode that Git does not write',
  TreeName: 'a name that is reserved, empty or not UTF-8',
  TreeDuplicateName: 'two entries whose names are equal, or equal in lower case',
  TreeNotText: 'a file that is not UTF-8 text',
  TreeTooManyEntries: 'more entries than the cap',
  TreeTooDeep: 'folders nested deeper than the cap',
  TreeTooLarge: 'more bytes than the cap',
  // Signatures.
  AllowedSigners: 'allowed signers that cannot be used, with the lines',
  CommitMalformed: 'the commit is not of the form that Git writes',
  CommitUnsigned: 'no signature',
  CommitPgpSigned: 'signed with PGP, where SSH signatures are required',
  CommitX509Signed: 'signed with X.509, where SSH signatures are required',
  SignatureMalformed: 'the signature cannot be read, or is of a kind that is not accepted',
  SignatureNamespace: 'a valid kind of signature, made for something other than Git',
  SignatureInvalid: 'the signature does not belong to this commit',
  SignerUnknown: 'the key is not among the allowed signers',
  SignerNotAllowed: 'the key is among the allowed signers, but not for Git, or not at this time',
} as const;

export type GitErrorCode = keyof typeof gitErrorCodes;

export function gitError(code: GitErrorCode, message: string, options: { cause?: unknown; next?: string } = {}): CodedError {
  return new CodedError(code, message, options);
}

/** Whether a commit was judged and refused, as against not read at all. */
export function isRefusal(error: unknown): error is CodedError & { code: GitErrorCode } {
  return isCoded(error) && /^(Commit|Signature|Signer)/.test(error.code) && error.code in gitErrorCodes;
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
