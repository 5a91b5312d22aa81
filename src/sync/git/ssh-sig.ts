import { createHash } from 'node:crypto';
import { parseSshKey, type SshKey } from './ssh-key.ts';
import { sshReader, sshString } from './ssh-wire.ts';

const BEGIN = '-----BEGIN SSH SIGNATURE-----\n';
const END = '\n-----END SSH SIGNATURE-----';

/** An SSH signature as ssh-keygen -Y sign makes it: PROTOCOL.sshsig of OpenSSH. */
export interface SshSignature {
  key: SshKey;
  namespace: string;
  /** Whether it is this key's signature over `message`. Throws RangeError for an algorithm that is not accepted. */
  verifies(message: Buffer): boolean;
}

/**
 * Reads an armoured signature, strictly: equal lines of base64 without slack bits, nothing around or after. So of the bytes that mean
 * nothing, and that anyone could change in a signed commit, only the width of the lines is left.
 *
 * Throws RangeError with what is wrong.
 */
export function parseSshSignature(armoured: string): SshSignature {
  const blob = sshReader(unarmour(armoured));
  if (blob.fixed(6).toString('latin1') !== 'SSHSIG') throw new RangeError('does not begin with SSHSIG');
  const version = blob.uint32();
  if (version !== 1) throw new RangeError(`is of version ${version}; 1 is read`);
  const key = parseKey(blob.string());
  const namespace = blob.text();
  const reserved = blob.string();
  if (reserved.length > 0) throw new RangeError('uses the reserved field');
  const hash = blob.text();
  if (hash !== 'sha512' && hash !== 'sha256') throw new RangeError(`hashes with ${hash}; sha512 and sha256 are accepted`);
  const signature = blob.string();
  blob.end();
  return {
    key,
    namespace,
    verifies(message) {
      const digest = createHash(hash).update(message).digest();
      const signed = Buffer.concat([Buffer.from('SSHSIG'), sshString(namespace), sshString(reserved), sshString(hash), sshString(digest)]);
      return key.verifies(signed, signature);
    },
  };
}

function parseKey(blob: Buffer): SshKey {
  try {
    return parseSshKey(blob);
  } catch (cause) {
    throw new RangeError(`contains a key that ${cause instanceof Error ? cause.message : 'cannot be read'}`, { cause });
  }
}

function unarmour(text: string): Buffer {
  const body = text.endsWith('\n') ? text.slice(0, -1) : text;
  if (!body.startsWith(BEGIN) || !body.endsWith(END) || body.length <= BEGIN.length + END.length) {
    throw new RangeError('does not stand between the BEGIN and END lines of an SSH signature');
  }
  const lines = body.slice(BEGIN.length, -END.length).split('\n');
  const base64 = lines.join('');
  const blob = Buffer.from(base64, 'base64');
  const width = lines[0]?.length ?? 0;
  const even = lines.every((line, index) => (index === lines.length - 1 ? line.length <= width && line !== '' : line.length === width));
  if (!even || blob.toString('base64') !== base64) throw new RangeError('is not plain base64');
  return blob;
}
