import { messageOf } from '../../api/errors.ts';
import { parseCommit, short, splitCommit } from './commit.ts';
import { gitError, isGitRefusal } from './errors.ts';
import { objectId } from './objects.ts';
import { allowsNamespace, type AllowedSigner } from './signers.ts';
import { parseSshSignature, type SshSignature } from './ssh-sig.ts';
import type { CommitInfo, RangeVerdict, Verified } from './source.ts';

const NAMESPACE = 'git';

/**
 * Who signed a commit: `raw` is the object as Git stores it, header and message, and must have the id `oid`.
 *
 * Order: id, form, kind of signature, namespace, the signature itself, the key, its time. The time is our own clock's when the commit was
 * first seen (`firstSeen`, never later than `now`): git uses the committer's date, which the holder of an expired key can choose.
 *
 * Guarantee: the signature covers every byte of the commit but its own armour, and thus tree and parents by their SHA-1.
 * Errors: GitObjectCorrupt, Commit…, Signature…, Signer….
 */
export function verifyRawCommit(
  oid: string,
  raw: Buffer,
  allowedSigners: readonly AllowedSigner[],
  now: number,
  firstSeen: number | undefined,
): Verified {
  const name = `commit ${short(oid)}`;
  if (objectId('commit', raw) !== oid) throw gitError('GitObjectCorrupt', `${name}: its content does not have that id`);
  const { committer } = parseCommit(oid, raw);
  const { payload, signature: armoured } = splitCommit(oid, raw);
  if (armoured === undefined) {
    throw gitError('CommitUnsigned', `${name}: is not signed; every commit must carry an SSH signature of an allowed signer`, {
      next: 'git config gpg.format ssh && git config commit.gpgsign true, then git commit --amend --no-edit',
    });
  }
  refuseOtherKinds(name, armoured, committer);

  const signature = readSignature(name, armoured);
  if (signature.namespace !== NAMESPACE) {
    throw gitError(
      'SignatureNamespace',
      `${name}: its signature was made for ${JSON.stringify(signature.namespace)}, not for "${NAMESPACE}"`,
    );
  }
  const { fingerprint } = signature.key;
  if (!isValid(name, signature, payload)) {
    throw gitError('SignatureInvalid', `${name}: its signature, with the key ${fingerprint}, belongs to other content`);
  }
  return { signer: allowedBy(name, signature, allowedSigners, Math.min(now, firstSeen ?? now)), keyFingerprint: fingerprint };
}

/** Judges each commit; keeps their order. Errors that prove nothing about a signature, such as an abort, are thrown. */
export async function verifyCommits(commits: readonly CommitInfo[], verify: (oid: string) => Promise<Verified>): Promise<RangeVerdict> {
  const verdict: RangeVerdict = { verified: [], refused: [] };
  for (const { oid, subject } of commits) {
    try {
      verdict.verified.push({ oid, ...(await verify(oid)) });
    } catch (cause) {
      if (!isGitRefusal(cause)) throw cause;
      const error = gitError(cause.code, `${cause.message} (${JSON.stringify(subject)})`, {
        cause,
        ...(cause.next === undefined ? {} : { next: cause.next }),
      });
      verdict.refused.push({ oid, subject, error });
    }
  }
  return verdict;
}

function refuseOtherKinds(name: string, armoured: string, committer: string): void {
  if (/^-----BEGIN PGP (SIGNATURE|MESSAGE)-----/.test(armoured)) {
    const byForge = /\bnoreply@|^GitHub |^GitLab |^Gitea |^Forgejo /i.test(committer);
    throw gitError(
      'CommitPgpSigned',
      byForge
        ? `${name}: is signed with PGP by its forge (committer ${committer}), as merges and edits on a forge's web page are; SSH signatures are required`
        : `${name}: is signed with PGP (committer ${committer}); SSH signatures are required. Forges sign merges made on their web page this way`,
      { next: 'merge on a machine that has an allowed SSH key: git merge -S, then push' },
    );
  }
  if (armoured.startsWith('-----BEGIN SIGNED MESSAGE-----')) {
    throw gitError('CommitX509Signed', `${name}: is signed with X.509; SSH signatures are required`);
  }
}

function readSignature(name: string, armoured: string): SshSignature {
  try {
    return parseSshSignature(armoured);
  } catch (cause) {
    throw gitError('SignatureMalformed', `${name}: its signature ${messageOf(cause)}`, { cause });
  }
}

function isValid(name: string, signature: SshSignature, payload: Buffer): boolean {
  try {
    return signature.verifies(payload);
  } catch (cause) {
    throw gitError('SignatureMalformed', `${name}: its signature ${messageOf(cause)}`, { cause });
  }
}

function allowedBy(name: string, { key }: SshSignature, allowedSigners: readonly AllowedSigner[], time: number): string {
  const reasons: string[] = [];
  for (const signer of allowedSigners) {
    if (!signer.key.blob.equals(key.blob)) continue;
    const reason = !allowsNamespace(signer, NAMESPACE)
      ? `is allowed only for ${(signer.namespaces ?? []).join(', ')}`
      : signer.validAfter !== undefined && time < signer.validAfter
        ? `is valid only after ${new Date(signer.validAfter).toISOString()}`
        : signer.validBefore !== undefined && time > signer.validBefore
          ? `expired at ${new Date(signer.validBefore).toISOString()}`
          : undefined;
    if (reason === undefined) return signer.principals;
    reasons.push(`${reason} (line ${signer.line})`);
  }
  if (reasons.length === 0) {
    throw gitError('SignerUnknown', `${name}: is signed with the key ${key.fingerprint}, which no allowed signer has`, {
      next: 'sign with an allowed key, or add this one to the allowed signers of the Fleet',
    });
  }
  throw gitError(
    'SignerNotAllowed',
    `${name}: the key ${key.fingerprint} ${reasons.join(', ')}; the commit was first seen ${new Date(time).toISOString()}`,
  );
}
