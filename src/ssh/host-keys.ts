import { createHash } from 'node:crypto';

const KEY = /^(ssh-ed25519|ecdsa-sha2-nistp(?:256|384|521)|ssh-rsa) ([A-Za-z0-9+/]{43,4096}={0,2})(?: .*)?$/;

/** Type and key of a line as `ssh-ed25519 AAAA… comment`, or as `/etc/ssh/ssh_host_*_key.pub` has it; undefined: it is none. */
export function hostKeyOf(line: string): string | undefined {
  const [, type = '', blob = ''] = KEY.exec(line.trim()) ?? [];
  if (type === '') return undefined;
  // The key itself begins with its type: a line with another type was mixed up.
  const bytes = Buffer.from(blob, 'base64');
  const length = bytes.length < 4 ? 0 : bytes.readUInt32BE(0);
  return bytes.subarray(4, 4 + length).toString('latin1') === type ? `${type} ${blob}` : undefined;
}

/** As `ssh-keygen -l` shows it: `SHA256:…`. */
export function fingerprintOf(hostKey: string): string {
  const [, blob = ''] = hostKey.split(' ');
  return `SHA256:${createHash('sha256').update(Buffer.from(blob, 'base64')).digest('base64').replaceAll('=', '')}`;
}
