import { createPrivateKey, generateKeyPairSync } from 'node:crypto';
import { beforeAll, describe, expect, it } from 'vitest';
import fc from 'fast-check';
import { makeRequest, pemOf } from '../../agent/identity/request.ts';
import { DerError, elementsOf, oidOf, TAG, textOf } from './der.ts';
import { canonicalAddress, kindOfKey, parseSigningRequest } from './signing-request.ts';
import { AGENT_SUBJECT, base64, pkcs10 } from './testing/requests.ts';

const pem = (der: Uint8Array): string => base64(pemOf(der));
let der: Buffer;
beforeAll(async () => void ({ der } = await pkcs10()));

describe('a request', () => {
  it('of another library is read whole', async () => {
    const { pem } = await pkcs10({
      names: [
        { type: 'dns', value: 'node.example' },
        { type: 'ip', value: '10.0.0.1' },
        { type: 'ip', value: '2001:db8::1' },
        { type: 'email', value: 'a@b' },
        { type: 'url', value: 'spiffe://x' },
      ],
      extensions: ['1.2.3.4'],
      challenge: 'x',
    });
    expect(parseSigningRequest(base64(pem))).toMatchObject({
      subject: [
        { type: 'O', value: 'kubenode:machines' },
        { type: 'CN', value: 'kubenode:machine:web:a' },
      ],
      names: [
        { type: 'dns', value: 'node.example' },
        { type: 'ip', value: '10.0.0.1' },
        { type: 'ip', value: '2001:db8:0:0:0:0:0:1' },
        { type: 'email', value: 'a@b' },
        { type: 'uri', value: 'spiffe://x' },
      ],
      others: ['1.2.840.113549.1.9.7', '1.2.3.4'],
    });
  });

  it('with alternative names in two extensions is none: readers of one of them would see half', async () => {
    const { pem } = await pkcs10({ names: [{ type: 'dns', value: 'a' }], moreNames: [{ type: 'dns', value: 'kubernetes' }] });
    expect(() => parseSigningRequest(base64(pem))).toThrow('alternative names are asked for twice');
  });

  it('with a name of an unexpected kind has that name all the same', async () => {
    const { pem } = await pkcs10({
      names: [
        { type: 'dns', value: 'node.example' },
        { type: 'id', value: '1.2.3' },
      ],
    });
    expect(parseSigningRequest(base64(pem)).names).toEqual([
      { type: 'dns', value: 'node.example' },
      { type: 'other', value: '2a03' },
    ]);
  });

  it.each(['P-256', 'P-384', 'RSA'] as const)('with a key of %s is verified', async (algorithm) => {
    const { pem } = await pkcs10({ algorithm });
    const kind = { 'P-256': 'ECDSA P-256', 'P-384': 'ECDSA secp384r1', RSA: 'RSA 2048' }[algorithm];
    expect(kindOfKey(parseSigningRequest(base64(pem)).key)).toBe(kind);
  });

  it('has a key of a kind that people know by its name', () => {
    const kind = (type: 'ed25519' | 'x25519') => kindOfKey(generateKeyPairSync(type as 'ed25519').publicKey);
    expect([kind('ed25519'), kind('x25519')]).toEqual(['ed25519', 'x25519']);
  });

  it('of the agent is read, and is for the key it was made with', () => {
    const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
    const read = parseSigningRequest(pem(makeRequest(privateKey, 'kubenode:machine:web:a', 'kubenode:machines')));
    expect(read.subject).toEqual(AGENT_SUBJECT.map((part) => Object.entries(part).map(([type, [value]]) => ({ type, value }))).flat());
    expect([read.names, read.others]).toEqual([[], []]);
    const own = createPrivateKey(privateKey.export({ type: 'pkcs8', format: 'pem' }));
    expect(read.key.export({ format: 'jwk' })).toMatchObject({ x: own.export({ format: 'jwk' }).x });
  });
});

describe('a request is refused', () => {
  it.each([
    ['that is signed with another key', (bytes: Buffer) => void (bytes[bytes.length - 5] = (bytes.at(-5) ?? 0) ^ 1)],
    ['whose subject was changed after', (bytes: Buffer) => void bytes.write('b', bytes.indexOf('kubenode:machine:web:a') + 21)],
  ])('%s', (_what, change) => {
    const bytes = Buffer.from(der);
    change(bytes);
    expect(() => parseSigningRequest(pem(bytes))).toThrow(/signature/);
  });

  it('with bytes behind it', () => {
    expect(() => parseSigningRequest(pem(Buffer.concat([der, Buffer.from([0x05, 0])])))).toThrow('something follows the request');
  });

  it.each([
    ['', 'it is not one PEM block'],
    ['hi', 'it is not one PEM block'],
    ['-----BEGIN CERTIFICATE REQUEST-----\nA\n-----END CERTIFICATE REQUEST-----\n', 'its base64 is not valid'],
    ['-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n', 'it ends too early'],
    ['-----BEGIN NEW CERTIFICATE REQUEST-----\nAAAA\n-----END NEW CERTIFICATE REQUEST-----\n', 'it is not one PEM block'],
    ['x'.repeat(20_000), 'it is too long'],
  ])('%# that is no PEM of one', (text, why) => {
    expect(() => parseSigningRequest(base64(text))).toThrow(why);
  });

  it('of two blocks, since another reader may take the other one', () => {
    const twice = pemOf(der) + pemOf(der);
    expect(() => parseSigningRequest(base64(twice))).toThrow('it is not one PEM block');
    expect(() => parseSigningRequest(base64(`text before\n${pemOf(der)}`))).toThrow('it is not one PEM block');
  });

  it('with a length that is not in its shortest form', () => {
    // 30 82 LL LL becomes 30 83 00 LL LL.
    const long = Buffer.concat([Buffer.from([0x30, 0x83, 0]), der.subarray(2)]);
    expect(() => parseSigningRequest(pem(long))).toThrow(/length/);
  });

  it.each(['kubenode:machine:web:a\u0000.evil', 'a\nb'])('whose name contains control characters: %j', async (value) => {
    const { pem: text } = await pkcs10({ subject: [{ CN: [value] }] });
    expect(() => parseSigningRequest(base64(text))).toThrow(DerError);
  });

  /** An element with this tag around these bytes. */
  const around = (tag: number, ...parts: Uint8Array[]): Buffer => {
    const content = Buffer.concat(parts);
    const { length } = content;
    const head = length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
    return Buffer.concat([Buffer.from([tag, ...head]), content]);
  };
  const NULL = Buffer.from([0x05, 0]);

  it('with a part more than it has, or another one instead of it', () => {
    const [outer] = elementsOf(der);
    const [info, ...signed] = elementsOf(outer?.content ?? Buffer.alloc(0));
    const [version, subject, key, attributes] = elementsOf(info?.content ?? Buffer.alloc(0)).map(({ whole }) => whole);
    if (version === undefined || subject === undefined || key === undefined || attributes === undefined) throw new Error('not a request');
    const rest = signed.map(({ whole }) => whole);
    const made = (...parts: Buffer[]) => pem(around(TAG.sequence, around(TAG.sequence, ...parts), ...rest));
    const refused = (request: string) => expect(() => parseSigningRequest(request));
    refused(pem(around(TAG.sequence, outer?.content ?? NULL, NULL))).toThrow('the request has too many parts');
    refused(made(version, subject, key, attributes, NULL)).toThrow('what is signed has too many parts');
    refused(made(Buffer.from([TAG.integer, 1, 1]), subject, key, attributes)).toThrow('the version is not 0');
    refused(made(Buffer.from([TAG.integer, 2, 0, 0]), subject, key, attributes)).toThrow('the version is not 0');
    refused(made(version, subject, NULL, attributes)).toThrow('the public key is missing or of another kind');
    refused(made(version, subject, around(TAG.sequence, NULL), attributes)).toThrow('the public key cannot be read');
    refused(made(version, subject, key)).toThrow('the list of attributes is missing or of another kind');
  });

  it('with an element that gives no length, or more than a request may have', () => {
    const behind = (length: number, ...head: number[]) =>
      elementsOf(Buffer.concat([Buffer.from([TAG.sequence, ...head]), Buffer.alloc(length)]));
    // To readers of BER it ends where two zeros are.
    expect(() => behind(128, 0x80)).toThrow('a length that DER does not allow');
    expect(() => behind(128, 0x84, 0, 0, 1, 0)).toThrow('a length that DER does not allow, or that is too long');
    expect(behind(128, 0x81, 0x80)).toHaveLength(1);
    expect(behind(65_536, 0x83, 1, 0, 0)).toHaveLength(1);
    expect(() => behind(127, 0x81, 0x80)).toThrow('it ends too early');
  });

  it('whose elements, identifiers or texts have more than one reading', () => {
    const oid = (...bytes: number[]) => oidOf({ tag: TAG.oid, content: Buffer.from(bytes), whole: Buffer.alloc(0) }, 'it');
    expect([oid(0x2a, 0x86, 0x48), oid(0x55, 4, 3), oid(0x88, 0x37), oid(0x01), oid(0x50)]).toEqual([
      '1.2.840',
      '2.5.4.3',
      '2.999',
      '0.1',
      '2.0',
    ]);
    expect(oid(0x2a, 0x7f, 0x81, 0x00)).toBe('1.2.127.128');
    for (const bytes of [
      [0x80, 0x01],
      [0x2a, 0x80, 0x01],
    ])
      expect(() => oid(...bytes)).toThrow('not in its shortest form');
    for (const bytes of [[], [0x2a, 0x86], [0x86]]) expect(() => oid(...bytes)).toThrow('ends too early');
    expect(() => oid(0x2a, ...Array.from({ length: 9 }, () => 0xff), 0x7f)).toThrow('is too large');
    expect(oid(0x2a, 0x8f, 0xff, 0xff, 0xff, 0xff, 0x7f)).toBe('1.2.549755813887');
    expect(() => elementsOf(Buffer.from([0x1f, 0x81, 0x01, 0]))).toThrow('a tag of several bytes');
    const text = (tag: number, value: string) => textOf({ tag, content: Buffer.from(value), whole: Buffer.alloc(0) }, 'it');
    expect([text(TAG.utf8, 'Zürich'), text(TAG.printable, 'a'), text(TAG.ia5, 'a@b')]).toEqual(['Zürich', 'a', 'a@b']);
    for (const tag of [TAG.printable, TAG.ia5]) expect(() => text(tag, 'Zürich')).toThrow('characters that are not allowed');
    expect(() => text(TAG.octetString, 'a')).toThrow('no text of a kind that is read');
    expect(() => textOf(undefined, 'it')).toThrow('no text of a kind that is read');
  });

  it('with any bytes, without another error', () => {
    fc.assert(
      fc.property(fc.nat({ max: der.length - 1 }), fc.integer({ min: 1, max: 255 }), fc.boolean(), (at, change, cut) => {
        const bytes = Buffer.from(der);
        bytes[at] = (bytes[at] ?? 0) ^ change;
        // No byte of it can be changed unnoticed: what is not structure is signed.
        expect(() => parseSigningRequest(pem(cut ? bytes.subarray(0, at) : bytes))).toThrow(DerError);
      }),
      { numRuns: 2000 },
    );
  });
});

it.each([
  ['::1', '0:0:0:0:0:0:0:1'],
  ['2001:DB8::0001', '2001:db8:0:0:0:0:0:1'],
  ['1::', '1:0:0:0:0:0:0:0'],
  ['::ffff:10.0.0.1', '0:0:0:0:0:ffff:a00:1'],
  ['fe80::1%eth0', 'fe80:0:0:0:0:0:0:1'],
  ['10.0.0.1', '10.0.0.1'],
  ['node.example', 'node.example'],
])('address %s is written as %s', (text, canonical) => {
  expect(canonicalAddress(text)).toBe(canonical);
});
