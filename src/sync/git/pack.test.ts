import { createHash } from 'node:crypto';
import fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { deflateSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { defaultHttpLimits } from './http.ts';
import { checkPack } from './pack.ts';
import { hasGit, testRepository } from './testing/repository.ts';

const BLOB = 3;
const OFS_DELTA = 6;
const REF_DELTA = 7;

function size(type: number, length: number): Buffer {
  const bytes = [(type << 4) | (length & 15)];
  for (let rest = Math.floor(length / 16); rest > 0; rest = Math.floor(rest / 128)) {
    bytes[bytes.length - 1] = (bytes.at(-1) ?? 0) | 128;
    bytes.push(rest & 127);
  }
  return Buffer.from(bytes);
}

function varint(value: number): number[] {
  const bytes = [value & 127];
  for (let rest = Math.floor(value / 128); rest > 0; rest = Math.floor(rest / 128)) {
    bytes[bytes.length - 1] = (bytes.at(-1) ?? 0) | 128;
    bytes.push(rest & 127);
  }
  return bytes;
}

const entry = (type: number, content: Buffer, declared = content.length, base = Buffer.alloc(0)) =>
  Buffer.concat([size(type, declared), base, deflateSync(content)]);

function pack(entries: Buffer[], count = entries.length, more = Buffer.alloc(0)): Buffer {
  const header = Buffer.from('PACK\0\0\0\x02\0\0\0\0', 'latin1');
  header.writeUInt32BE(count, 8);
  const body = Buffer.concat([header, ...entries, more]);
  return Buffer.concat([body, createHash('sha1').update(body).digest()]);
}

const check = (bytes: Buffer, limits = {}) => checkPack(bytes, { ...defaultHttpLimits, ...limits });
const text = entry(BLOB, Buffer.from('hello '.repeat(100)));

describe('a pack, before it is unpacked', () => {
  it.skipIf(!hasGit)('passes when git made it, deltas and all (skipped without git)', async () => {
    const dir = fs.mkdtempSync(join(tmpdir(), 'kubenode-pack-'));
    try {
      const { commit, git } = testRepository(dir);
      for (let i = 0; i < 20; i += 1) commit(`c${i}`, { a: Array.from({ length: 500 + i }, (_, n) => `line ${n} of many`).join('\n') });
      git('repack', '-a', '-d', '-f', '--depth=50', '--quiet');
      const folder = join(dir, '.git/objects/pack');
      const [name = ''] = fs.readdirSync(folder).filter((file) => file.endsWith('.pack'));
      const bytes = fs.readFileSync(join(folder, name));
      await expect(check(bytes)).resolves.toBeUndefined();
      await expect(check(bytes, { objects: 59 })).rejects.toMatchObject({ code: 'GitTooLarge' });
      await expect(check(bytes, { objects: 60 })).resolves.toBeUndefined();
      await expect(check(bytes, { inflatedBytes: 20_000 })).rejects.toMatchObject({ code: 'GitTooLarge' });
    } finally {
      fs.rmSync(dir, { recursive: true });
    }
  });

  it('security 9: is refused for what it unpacks to, by the limits that are set unless others are given', async () => {
    const { inflatedBytes, objectBytes } = defaultHttpLimits;
    // Zeros: a few kilobytes in the pack, and just as much as is allowed, or one more, once unpacked.
    const zeros = entry(BLOB, Buffer.alloc(objectBytes));
    const most = inflatedBytes / objectBytes;
    await expect(check(pack(Array<Buffer>(most).fill(zeros)))).resolves.toBeUndefined();
    await expect(check(pack(Array<Buffer>(most + 1).fill(zeros)))).rejects.toMatchObject({ code: 'GitTooLarge' });
    await expect(check(pack([entry(BLOB, Buffer.alloc(objectBytes + 1))]))).rejects.toMatchObject({ code: 'GitTooLarge' });
  });

  it('may be empty', async () => {
    await expect(check(pack([]))).resolves.toBeUndefined();
  });

  it('is refused for what it declares, before anything is inflated', async () => {
    const bomb = entry(BLOB, Buffer.from('small'), 2 ** 40);
    await expect(check(pack([bomb]))).rejects.toMatchObject({
      code: 'GitTooLarge',
      message: expect.stringContaining('an object of 1048576.0 MiB'),
    });
  });

  it('is refused when an object unpacks to more, or less, than it declares', async () => {
    await expect(check(pack([entry(BLOB, Buffer.alloc(50_000_000), 10)]))).rejects.toMatchObject({ code: 'GitProtocol' });
    await expect(check(pack([entry(BLOB, Buffer.alloc(5), 10)]))).rejects.toMatchObject({ code: 'GitProtocol' });
    await expect(check(pack([entry(BLOB, Buffer.alloc(5), 0)]))).rejects.toMatchObject({ code: 'GitProtocol' });
  });

  it('is refused for what a small delta would grow to', async () => {
    const delta = Buffer.from([...varint(600), ...varint(2 ** 33), 0x80]);
    const back = Buffer.from([text.length]);
    const bytes = pack([text, entry(OFS_DELTA, delta, delta.length, back)]);
    await expect(check(bytes)).rejects.toMatchObject({ code: 'GitTooLarge', message: expect.stringContaining('8192.0 MiB') });
    const byName = pack([entry(REF_DELTA, delta, delta.length, Buffer.alloc(20, 7))]);
    await expect(check(byName)).rejects.toMatchObject({ code: 'GitTooLarge' });
  });

  it('is refused for many deltas that together grow too much', async () => {
    const delta = Buffer.from([...varint(600), ...varint(15_000_000), 0x80]);
    const one = entry(REF_DELTA, delta, delta.length, Buffer.alloc(20, 7));
    await expect(check(pack([one]))).resolves.toBeUndefined();
    await expect(check(pack(Array.from({ length: 20 }, () => one)))).rejects.toMatchObject({ code: 'GitTooLarge' });
  });

  it.each([
    ['a delta whose base is not in it', pack([entry(OFS_DELTA, Buffer.from([0, 0]), 2, Buffer.from([5]))]), 'base is not in it'],
    ['a delta without sizes', pack([entry(REF_DELTA, Buffer.from([0x80]), 1, Buffer.alloc(20))]), 'a delta that breaks off'],
    ['an unknown type', pack([entry(5, Buffer.from('x'))]), 'unknown type 5'],
    ['the type 0', pack([entry(0, Buffer.from('x'))]), 'unknown type 0'],
    ['fewer objects than it reports', pack([text], 2), ''],
    ['more objects than it reports', pack([text, text], 1), 'after its last object'],
    ['something after the last object', pack([text], 1, Buffer.from('x')), 'after its last object'],
    ['a size that never ends', pack([Buffer.alloc(40, 0xff)], 1), ''],
    ['no pack', Buffer.from('<html>'.repeat(10)), 'no pack of version 2'],
    ['too few bytes', Buffer.from('PACK'), 'no pack of version 2'],
  ])('is refused for %s', async (_, bytes, message) => {
    await expect(check(bytes)).rejects.toMatchObject({
      code: expect.stringMatching(/^Git(Protocol|TooLarge)$/),
      message: expect.stringContaining(message),
    });
  });

  it('is refused with any one byte changed', async () => {
    const bytes = pack([text, entry(BLOB, Buffer.from('two'))]);
    for (let at = 0; at < bytes.length; at += 1) {
      const changed = Buffer.from(bytes);
      changed.writeUInt8(changed.readUInt8(at) ^ 0x10, at);
      await expect(check(changed), `byte ${at}`).rejects.toMatchObject({ code: 'GitProtocol' });
    }
  });

  it('is refused, and never crashes the reader, with any one byte changed and its checksum corrected', async () => {
    const body = pack([text, entry(BLOB, Buffer.from('two'))]).subarray(0, -20);
    for (let at = 0; at < body.length; at += 1) {
      const changed = Buffer.from(body);
      changed.writeUInt8(changed.readUInt8(at) ^ 0x41, at);
      const bytes = Buffer.concat([changed, createHash('sha1').update(changed).digest()]);
      const outcome = await check(bytes).then(
        () => 'passed',
        (error: { code: string }) => error.code,
      );
      // A change of a type or of a literal inside the deflated text may leave a pack of the same sizes: its ids show it then.
      expect(['passed', 'GitProtocol', 'GitTooLarge'], `byte ${at}`).toContain(outcome);
    }
  });
});
