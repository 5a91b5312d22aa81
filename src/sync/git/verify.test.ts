import { createHash, generateKeyPairSync, sign, type KeyObject } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { isCoded, type CodedError } from '../../api/errors.ts';
import { splitCommit } from './commit.ts';
import type { GitErrorCode } from './errors.ts';
import { objectId } from './objects.ts';
import fixture from './signed.fixture.json' with { type: 'json' };
import { parseAllowedSigners } from './signers.ts';
import { sshString } from './ssh-wire.ts';
import { verifyCommits, verifyRawCommit } from './verify.ts';

const NOW = Date.UTC(2026, 10, 20);
const signers = parseAllowedSigners(fixture.allowedSigners.join('\n'));
const [first] = fixture.commits;
if (first === undefined) throw new Error('the fixture is empty');
const signed = { oid: first.oid, raw: Buffer.from(first.raw, 'base64') };

function refusal(raw: Buffer, allowed = signers, firstSeen?: number, oid = objectId('commit', raw)): CodedError {
  try {
    verifyRawCommit(oid, raw, allowed, NOW, firstSeen);
  } catch (error) {
    return error as CodedError;
  }
  throw new Error('the commit was accepted');
}
const codeOf = (...args: Parameters<typeof refusal>): GitErrorCode => refusal(...args).code as GitErrorCode;

/** What a commit that was changed may be refused for. Anything else, such as a TypeError, is a fault of the judge. */
const REFUSALS = new Set<string>([
  'GitObjectCorrupt',
  'CommitMalformed',
  'CommitUnsigned',
  'SignatureMalformed',
  'SignatureNamespace',
  'SignatureInvalid',
  'SignerUnknown',
] satisfies GitErrorCode[]);

/** `accepted`, or the code of the refusal, or what was thrown instead. */
function judged(oid: string, raw: Buffer): string {
  try {
    verifyRawCommit(oid, raw, signers, NOW, undefined);
    return 'accepted';
  } catch (error) {
    return isCoded(error) ? error.code : String(error);
  }
}

/** A key and its signatures, made by node:crypto instead of ssh-keygen, so that any part of them can be wrong. */
interface Maker {
  line: string;
  blob: Buffer;
  sign: (message: Buffer) => Buffer;
}

function bigint(value: string | undefined): Buffer {
  const number = Buffer.from(value ?? '', 'base64url');
  return mpint(number);
}

function mpint(number: Buffer): Buffer {
  let at = 0;
  while (number[at] === 0) at += 1;
  const short = number.subarray(at);
  return sshString((short[0] ?? 0) > 127 ? Buffer.concat([Buffer.from([0]), short]) : short);
}

function maker(type: string, publicParts: Buffer[], signature: (message: Buffer) => Buffer): Maker {
  const blob = Buffer.concat([sshString(type), ...publicParts]);
  return { line: `maker@example.com ${type} ${blob.toString('base64')}`, blob, sign: signature };
}

function ed25519(): { key: KeyObject; point: Buffer } {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519');
  return { key: privateKey, point: sshString(Buffer.from(publicKey.export({ format: 'jwk' }).x ?? '', 'base64url')) };
}

function p256(): { key: KeyObject; parts: Buffer[] } {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const { x = '', y = '' } = publicKey.export({ format: 'jwk' });
  const point = Buffer.concat([Buffer.from([4]), Buffer.from(x, 'base64url'), Buffer.from(y, 'base64url')]);
  return { key: privateKey, parts: [sshString('nistp256'), sshString(point)] };
}

const plainKey = (() => {
  const { key, point } = ed25519();
  return maker('ssh-ed25519', [point], (message) => Buffer.concat([sshString('ssh-ed25519'), sshString(sign(null, message, key))]));
})();

function sha256(value: string | Buffer): Buffer {
  return createHash('sha256').update(value).digest();
}

function token(algorithm: 'sk-ssh-ed25519@openssh.com' | 'sk-ecdsa-sha2-nistp256@openssh.com', flags: number): Maker {
  const application = 'ssh:';
  const counter = Buffer.from([flags, 0, 0, 0, 7]);
  const wire = (message: Buffer) => Buffer.concat([sha256(application), counter, sha256(message)]);
  if (algorithm === 'sk-ssh-ed25519@openssh.com') {
    const { key, point } = ed25519();
    return maker(algorithm, [point, sshString(application)], (message) =>
      Buffer.concat([sshString(algorithm), sshString(sign(null, wire(message), key)), counter]),
    );
  }
  const { key, parts } = p256();
  return maker(algorithm, [...parts, sshString(application)], (message) => {
    const pair = sign('sha256', wire(message), { key, dsaEncoding: 'ieee-p1363' });
    return Buffer.concat([
      sshString(algorithm),
      sshString(Buffer.concat([mpint(pair.subarray(0, 32)), mpint(pair.subarray(32))])),
      counter,
    ]);
  });
}

function rsa(bits: number, algorithm: string, hash: string): Maker {
  const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: bits });
  const { e, n } = publicKey.export({ format: 'jwk' });
  return maker('ssh-rsa', [bigint(e), bigint(n)], (message) =>
    Buffer.concat([sshString(algorithm), sshString(sign(hash, message, privateKey))]),
  );
}

const header = `tree ${'a'.repeat(40)}\nparent ${'b'.repeat(40)}\nauthor Ada <ada@example.com> 1767225600 +0000\ncommitter Ada <ada@example.com> 1767225600 +0000\n`;

interface Wrong {
  magic?: string;
  version?: number;
  namespace?: string;
  reserved?: string;
  hash?: string;
  tail?: string;
  armour?: (base64: string) => string;
}

function armoured(by: Maker, payload: Buffer, wrong: Wrong = {}): string {
  const { magic = 'SSHSIG', version = 1, namespace = 'git', reserved = '', hash = 'sha512', tail = '' } = wrong;
  const digest = createHash(hash).update(payload).digest();
  const message = Buffer.concat([Buffer.from('SSHSIG'), ...[namespace, reserved, hash, digest].map(sshString)]);
  const number = Buffer.alloc(4);
  number.writeUInt32BE(version);
  const parts = [by.blob, namespace, reserved, hash, by.sign(message)].map(sshString);
  const base64 = Buffer.concat([Buffer.from(magic), number, ...parts, Buffer.from(tail)]).toString('base64');
  const armour = wrong.armour ?? ((text) => (text.match(/.{1,70}/g) ?? []).join('\n'));
  return `-----BEGIN SSH SIGNATURE-----\n${armour(base64)}\n-----END SSH SIGNATURE-----`;
}

function commitWith(signature: string, message = 'made\n'): Buffer {
  return Buffer.from(`${header}gpgsig ${signature.replaceAll('\n', '\n ')}\n\n${message}`);
}

function commitBy(by: Maker, wrong?: Wrong): Buffer {
  return commitWith(armoured(by, Buffer.from(`${header}\nmade\n`), wrong));
}

describe('a commit signed by git and ssh-keygen', () => {
  it.each(fixture.commits)('is accepted: $name', ({ oid, raw, signer }) => {
    const verified = verifyRawCommit(oid, Buffer.from(raw, 'base64'), signers, NOW, undefined);
    expect(verified.signer).toBe(signer);
    expect(verified.keyFingerprint).toMatch(/^SHA256:[A-Za-z0-9+/]{43}$/);
  });

  it('is refused with any one bit of it flipped, whether or not it is given its new id', () => {
    const accepted: string[] = [];
    for (let at = 0; at < signed.raw.length; at += 1) {
      for (let bit = 0; bit < 8; bit += 1) {
        const raw = Buffer.from(signed.raw);
        raw.writeUInt8(raw.readUInt8(at) ^ (1 << bit), at);
        for (const oid of [signed.oid, objectId('commit', raw)]) {
          const code = judged(oid, raw);
          if (!REFUSALS.has(code)) accepted.push(`byte ${at} bit ${bit}: ${code}`);
          if (oid === signed.oid && code !== 'GitObjectCorrupt') accepted.push(`byte ${at} bit ${bit} under its old id: ${code}`);
        }
      }
    }
    expect(accepted).toEqual([]);
  });

  it('is refused with any one byte of it left out or doubled', () => {
    const accepted: string[] = [];
    for (let at = 0; at < signed.raw.length; at += 1) {
      const before = signed.raw.subarray(0, at);
      const rest = signed.raw.subarray(at);
      for (const raw of [Buffer.concat([before, rest.subarray(1)]), Buffer.concat([before, rest.subarray(0, 1), rest])]) {
        const code = judged(objectId('commit', raw), raw);
        if (!REFUSALS.has(code)) accepted.push(`byte ${at}: ${code}`);
      }
    }
    expect(accepted).toEqual([]);
  });

  it('is refused under another id', () => {
    expect(codeOf(signed.raw, signers, undefined, 'f'.repeat(40))).toBe('GitObjectCorrupt');
  });

  it('is refused when its signature is moved above its parents, which would drop them', () => {
    const text = signed.raw.toString('latin1');
    const signature = /^gpgsig .*\n(?: .*\n)+/m.exec(text)?.[0] ?? '';
    const rest = text.replace(signature, '');
    const moved = Buffer.from(rest.replace('\nauthor ', `\n${signature}author `), 'latin1');
    expect(splitCommit('x', signed.raw).payload.toString('latin1')).toBe(rest);
    expect(codeOf(moved)).toBe('CommitMalformed');
  });

  it('is refused with a second signature beside the good one', () => {
    const text = signed.raw.toString('latin1');
    const signature = /^gpgsig .*\n(?: .*\n)+/m.exec(text)?.[0] ?? '';
    const forSha256 = signature.replace('gpgsig ', 'gpgsig-sha256 ');
    expect(codeOf(Buffer.from(text.replace(signature, signature + forSha256), 'latin1'))).toBe('CommitMalformed');
    expect(codeOf(Buffer.from(text.replace(signature, signature + signature), 'latin1'))).toBe('CommitMalformed');
  });
});

function withOptions(options: string) {
  return parseAllowedSigners((fixture.allowedSigners[0] ?? '').replace(' ', ` ${options} `));
}

describe('whose key it is', () => {
  it('must be an allowed one', () => {
    const others = parseAllowedSigners(fixture.allowedSigners.slice(1).join('\n'));
    const error = refusal(signed.raw, others);
    expect(error.code).toBe('SignerUnknown');
    expect(error.message).toMatch(/commit [0-9a-f]{10}: is signed with the key SHA256:\S+, which no allowed signer has/);
  });

  it('must be allowed for git', () => {
    expect(codeOf(signed.raw, withOptions('namespaces="file,mail"'))).toBe('SignerNotAllowed');
    expect(codeOf(signed.raw, withOptions('namespaces="*,!git"'))).toBe('SignerNotAllowed');
    expect(verifyRawCommit(signed.oid, signed.raw, withOptions('namespaces="file,g?t"'), NOW, undefined).signer).toBe(
      'ed25519@example.com',
    );
  });

  it('must be valid by our clock when the commit is first seen, whatever date the commit gives itself', () => {
    // The commit reports January 2026.
    const expired = withOptions('valid-before="20260601Z"');
    expect(codeOf(signed.raw, expired)).toBe('SignerNotAllowed');
    expect(refusal(signed.raw, expired).message).toContain('expired at 2026-06-01T00:00:00.000Z (line 1)');
    expect(verifyRawCommit(signed.oid, signed.raw, expired, NOW, Date.UTC(2026, 5, 1)).signer).toBe('ed25519@example.com');
    expect(codeOf(signed.raw, expired, Date.UTC(2026, 5, 1) + 1)).toBe('SignerNotAllowed');
  });

  it('is not valid before its time, and a first observation in the future does not make it so', () => {
    const later = withOptions('valid-after="20270101Z"');
    expect(codeOf(signed.raw, later)).toBe('SignerNotAllowed');
    expect(codeOf(signed.raw, later, Date.UTC(2027, 5, 1))).toBe('SignerNotAllowed');
  });

  it('may stand in several lines, of which one must fit', () => {
    const [line = ''] = fixture.allowedSigners;
    const two = parseAllowedSigners(`${line.replace(' ', ' valid-before="20200101Z" ')}\n${line.replace('ed25519@', 'renewed@')}`);
    expect(verifyRawCommit(signed.oid, signed.raw, two, NOW, undefined).signer).toBe('renewed@example.com');
  });
});

function pgp(committer: string): Buffer {
  return Buffer.from(
    `${header.replace('committer Ada <ada@example.com>', `committer ${committer}`)}gpgsig -----BEGIN PGP SIGNATURE-----\n \n wsFcBAABCAAQ\n -----END PGP SIGNATURE-----\n \n\nMerge pull request #1\n`,
  );
}

describe('a signature of another kind', () => {
  it('none at all', () => {
    const error = refusal(Buffer.from(`${header}\nplain\n`));
    expect(error.code).toBe('CommitUnsigned');
    expect(error.next).toContain('gpg.format ssh');
  });

  it('PGP of a person', () => {
    const error = refusal(pgp('Ada <ada@example.com>'));
    expect(error.code).toBe('CommitPgpSigned');
    expect(error.message).toContain('is signed with PGP (committer Ada <ada@example.com>)');
  });

  it("PGP of a forge's web merge, which the message reports", () => {
    const error = refusal(pgp('GitHub <noreply@github.com>'));
    expect(error.code).toBe('CommitPgpSigned');
    expect(error.message).toContain("by its forge (committer GitHub <noreply@github.com>), as merges and edits on a forge's web page are");
  });

  it('X.509', () => {
    expect(codeOf(commitWith('-----BEGIN SIGNED MESSAGE-----\nMIAGCSqGSIb3\n-----END SIGNED MESSAGE-----'))).toBe('CommitX509Signed');
  });

  it('nothing that is known', () => {
    expect(codeOf(commitWith('hello'))).toBe('SignatureMalformed');
  });
});

describe('keys and signatures of every kind that OpenSSH has', () => {
  const accepts = (by: Maker, wrong?: Wrong) => {
    const raw = commitBy(by, wrong);
    return verifyRawCommit(objectId('commit', raw), raw, parseAllowedSigners(by.line), NOW, undefined).signer;
  };
  const refuses = (by: Maker, wrong?: Wrong) => codeOf(commitBy(by, wrong), parseAllowedSigners(by.line));

  it('accepts security keys that were touched', () => {
    expect(accepts(token('sk-ssh-ed25519@openssh.com', 1))).toBe('maker@example.com');
    expect(accepts(token('sk-ecdsa-sha2-nistp256@openssh.com', 5))).toBe('maker@example.com');
  });

  it('refuses security keys that no person touched', () => {
    expect(refuses(token('sk-ssh-ed25519@openssh.com', 0))).toBe('SignatureMalformed');
    expect(refuses(token('sk-ecdsa-sha2-nistp256@openssh.com', 4))).toBe('SignatureMalformed');
  });

  it('accepts RSA with SHA-2 and refuses it with SHA-1', () => {
    expect(accepts(rsa(2048, 'rsa-sha2-256', 'sha256'))).toBe('maker@example.com');
    expect(refuses(rsa(2048, 'ssh-rsa', 'sha1'))).toBe('SignatureMalformed');
  });

  it('refuses RSA keys below 2048 bits', () => {
    const weak = rsa(1024, 'rsa-sha2-512', 'sha512');
    expect(codeOf(commitBy(weak))).toBe('SignatureMalformed');
  });

  it('accepts sha256 as well as sha512, and nothing weaker', () => {
    expect(accepts(plainKey, { hash: 'sha256' })).toBe('maker@example.com');
    expect(refuses(plainKey, { hash: 'sha1' })).toBe('SignatureMalformed');
  });

  it('refuses a signature that was made for a file, or for a name that only resembles git', () => {
    expect(refuses(plainKey, { namespace: 'file' })).toBe('SignatureNamespace');
    expect(refuses(plainKey, { namespace: 'Git' })).toBe('SignatureNamespace');
  });

  it.each([
    ['another magic word', { magic: 'SSHSIH' }],
    ['another version', { version: 2 }],
    ['a reserved field in use', { reserved: 'x' }],
    ['bytes after the end', { tail: 'x' }],
    [
      'base64 on lines of unequal length',
      { armour: (text: string) => `${text.slice(0, 60)}\n${text.slice(60, 130)}\n${text.slice(130, 170)}\n${text.slice(170)}` },
    ],
    ['blanks inside the base64', { armour: (text: string) => `${text.slice(0, 20)} ${text.slice(20)}` }],
    ['an empty line at its end', { armour: (text: string) => `${text}\n` }],
  ] satisfies [string, Wrong][])('refuses %s', (_, wrong) => {
    expect(refuses(plainKey, wrong)).toBe('SignatureMalformed');
  });

  it('refuses a good signature of other content', () => {
    const other = armoured(plainKey, Buffer.from(`${header}\nother\n`));
    expect(codeOf(commitWith(other), parseAllowedSigners(plainKey.line))).toBe('SignatureInvalid');
  });

  it("refuses a signature whose key is exchanged for an allowed one's", () => {
    const allowed = token('sk-ssh-ed25519@openssh.com', 1);
    expect(codeOf(commitBy({ ...plainKey, blob: allowed.blob }), parseAllowedSigners(allowed.line))).toBe('SignatureMalformed');
    const { point } = ed25519();
    const same = maker('ssh-ed25519', [point], plainKey.sign);
    expect(codeOf(commitBy(same), parseAllowedSigners(same.line))).toBe('SignatureInvalid');
  });
});

describe('a range of commits', () => {
  const commits = ['good', 'bad', 'good too', 'bad too'].map((subject, i) => ({
    oid: String(i).repeat(40),
    subject,
    author: 'Ada',
    time: '',
  }));

  it('names each commit that is refused, newest first, with its subject', async () => {
    const verdict = await verifyCommits(commits, async (oid) => {
      if (oid.startsWith('0') || oid.startsWith('2')) return { signer: 'ada', keyFingerprint: 'SHA256:x' };
      return verifyRawCommit(
        objectId('commit', Buffer.from(`${header}\n${oid}\n`)),
        Buffer.from(`${header}\n${oid}\n`),
        signers,
        NOW,
        undefined,
      );
    });
    expect(verdict.verified.map(({ oid }) => oid[0])).toEqual(['0', '2']);
    expect(verdict.refused.map(({ subject }) => subject)).toEqual(['bad', 'bad too']);
    expect(verdict.refused[0]?.error.message).toMatch(/^commit [0-9a-f]{10}: is not signed; .* \("bad"\)$/);
    expect(verdict.refused[0]?.error).toMatchObject({ code: 'CommitUnsigned' });
  });

  it('does not take a failure to read for a refusal', async () => {
    await expect(verifyCommits(commits, () => Promise.reject(new Error('disk')))).rejects.toThrow('disk');
  });
});
