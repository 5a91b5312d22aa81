import { createPublicKey, sign } from 'node:crypto';
import type { KeyObject } from 'node:crypto';
import { vouchedText } from '../../api/admission.ts';

/*
 * A PKCS#10 request by hand: the little DER that one subject and one ECDSA key need. A library for it would cost every node 10 MB.
 */

function der(tag: number, ...parts: Uint8Array[]): Buffer {
  const content = Buffer.concat(parts);
  const { length } = content;
  const head = length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.from([tag, ...head]), content]);
}

const sequence = (...parts: Uint8Array[]): Buffer => der(0x30, ...parts);
const O = Buffer.from('060355040a', 'hex');
const CN = Buffer.from('0603550403', 'hex');
/** ecdsa-with-SHA256. */
const ALGORITHM = sequence(Buffer.from('06082a8648ce3d040302', 'hex'));

const attribute = (type: Uint8Array, value: string): Buffer => der(0x31, sequence(type, der(0x0c, Buffer.from(value, 'utf8'))));

export function spkiOf(key: KeyObject): Buffer {
  return createPublicKey(key).export({ type: 'spki', format: 'der' });
}

/** DER of a request with the subject `O=organization, CN=commonName` and nothing else, signed by the ECDSA P-256 key it is for. */
export function makeRequest(key: KeyObject, commonName: string, organization: string): Buffer {
  const version = Buffer.from('020100', 'hex');
  const subject = sequence(attribute(O, organization), attribute(CN, commonName));
  const info = sequence(version, subject, spkiOf(key), der(0xa0));
  return sequence(info, ALGORITHM, der(0x03, Buffer.from([0]), sign('sha256', info, key)));
}

export function pemOf(request: Uint8Array): string {
  const lines =
    Buffer.from(request)
      .toString('base64')
      .match(/.{1,64}/g) ?? [];
  return `-----BEGIN CERTIFICATE REQUEST-----\n${lines.join('\n')}\n-----END CERTIFICATE REQUEST-----\n`;
}

/** The value of annotation VOUCHER: this key confirms that the key of the request is to follow it. */
export function vouch(key: KeyObject, request: Uint8Array): string {
  return [spkiOf(key), sign('sha256', vouchedText(request), key)].map((part) => part.toString('base64')).join('.');
}
