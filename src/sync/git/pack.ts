import { createHash } from 'node:crypto';
import { setImmediate as turn } from 'node:timers/promises';
import { inflateSync } from 'node:zlib';
import { bytes, gitError, printable } from './errors.ts';
import type { HttpLimits } from './source.ts';

const OFS_DELTA = 6;
const REF_DELTA = 7;
/** git's own bound on chains of deltas. */
const MAX_CHAIN = 4095;

/**
 * The pack inside an answer of `git-upload-pack`, taken out of its side band.
 *
 * isomorphic-git drops what a server sends in band 3 or in an `ERR` line and goes on without the objects; here it is an error with
 * the server's words. Throws GitProtocol.
 */
export function packOf(answer: Buffer): Buffer {
  const parts: Buffer[] = [];
  for (let at = 0; at < answer.length;) {
    const digits = answer.toString('latin1', at, at + 4);
    const length = /^[0-9a-f]{4}$/i.test(digits) ? Number.parseInt(digits, 16) : -1;
    if (length >= 0 && length < 4) {
      at += 4;
      continue;
    }
    if (length < 0 || at + length > answer.length)
      throw gitError('GitProtocol', 'the answer of the Git server breaks off, or is not its protocol');
    const line = answer.subarray(at + 4, at + length);
    at += length;
    if (line[0] === 1) parts.push(line.subarray(1));
    else if (line[0] === 3) throw refused(line.toString('utf8', 1));
    else if (line.toString('latin1', 0, 4) === 'ERR ') throw refused(line.toString('utf8', 4));
  }
  if (parts.length === 0) throw gitError('GitProtocol', 'the Git server answered without objects');
  return Buffer.concat(parts);
}

function refused(words: string): Error {
  return gitError('GitProtocol', `the Git server reports: ${printable(words)}`);
}

/**
 * Measures a pack before anyone unpacks it: a 1 MB pack can contain a gigabyte of zeros, and a delta of a few bytes can ask for as much. Each
 * object is inflated with the size it declares as its bound, and dropped again; what deltas will grow to is read from their first bytes.
 *
 * Errors: GitTooLarge; GitProtocol for a pack whose checksum or form is wrong.
 */
export async function checkPack(pack: Buffer, limits: Pick<HttpLimits, 'objectBytes' | 'inflatedBytes' | 'objects'>): Promise<void> {
  const trailer = pack.length - 20;
  if (trailer < 12 || pack.toString('latin1', 0, 4) !== 'PACK' || pack.readUInt32BE(4) !== 2) {
    throw gitError('GitProtocol', 'the Git server sent something that is no pack of version 2');
  }
  if (!createHash('sha1').update(pack.subarray(0, trailer)).digest().equals(pack.subarray(trailer))) {
    throw gitError('GitProtocol', 'the pack that the Git server sent does not have its checksum');
  }
  const count = pack.readUInt32BE(8);
  if (count > limits.objects) throw gitError('GitTooLarge', `the Git server sent ${count} objects; allowed are ${limits.objects}`);

  /** Position → deltas below it, for chains. */
  const chains = new Map<number, number>();
  let inflated = 0;
  let at = 12;
  function byte(): number {
    const value = at < trailer ? pack[at] : undefined;
    if (value === undefined) throw gitError('GitProtocol', 'the pack ends inside an object');
    at += 1;
    return value;
  }
  function grow(size: number): void {
    if (size > limits.objectBytes) {
      throw gitError('GitTooLarge', `an object of ${bytes(size)} is in what the Git server sent; allowed are ${bytes(limits.objectBytes)}`);
    }
    inflated += size;
    if (inflated > limits.inflatedBytes) {
      throw gitError('GitTooLarge', `what the Git server sent unpacks to more than ${bytes(limits.inflatedBytes)}`);
    }
  }

  for (let index = 0; index < count; index += 1) {
    if (index % 256 === 255) await turn();
    const start = at;
    const first = byte();
    const type = (first >> 4) & 7;
    let size = first & 15;
    for (let scale = 16, more = first; more >= 128; scale *= 128) {
      more = byte();
      size += (more & 127) * scale;
      if (size > Number.MAX_SAFE_INTEGER) throw gitError('GitProtocol', 'the pack declares a size that cannot be');
    }
    grow(size);
    if (type === OFS_DELTA) {
      let back = 0;
      for (let more = 128, plus = 0; more >= 128; plus = 1) {
        more = byte();
        back = (back + plus) * 128 + (more & 127);
      }
      const below = chains.get(start - back);
      if (below === undefined) throw gitError('GitProtocol', 'the pack has a delta whose base is not in it');
      if (below >= MAX_CHAIN) throw gitError('GitTooLarge', `the pack has a chain of more than ${MAX_CHAIN} deltas`);
      chains.set(start, below + 1);
    } else if (type === REF_DELTA) {
      at += 20;
      chains.set(start, 1);
    } else if (type >= 1 && type <= 4) {
      chains.set(start, 0);
    } else {
      throw gitError('GitProtocol', `the pack has an object of the unknown type ${type}`);
    }
    const { content, used } = inflate(pack.subarray(at, trailer), size);
    at += used;
    if (type === OFS_DELTA || type === REF_DELTA) grow(targetSize(content));
  }
  if (at !== trailer) throw gitError('GitProtocol', 'the pack has bytes after its last object');
}

/** What zlib returns with `info: true`; its types leave that out. */
interface Inflated {
  buffer: Buffer;
  engine: { bytesWritten: number };
}

function inflate(from: Buffer, size: number): { content: Buffer; used: number } {
  let result: Inflated;
  try {
    result = inflateSync(from, { info: true, maxOutputLength: Math.max(1, size) }) as unknown as Inflated;
  } catch (cause) {
    throw gitError('GitProtocol', `the pack has an object that does not unpack to the ${bytes(size)} it declares`, { cause });
  }
  if (result.buffer.length !== size) throw gitError('GitProtocol', 'the pack has an object of another size than it declares');
  return { content: result.buffer, used: result.engine.bytesWritten };
}

/** The second number at the head of a delta: the size of what it makes. The first, of its base, is checked when it is applied. */
function targetSize(delta: Buffer): number {
  let at = 0;
  function number(): number {
    let value = 0;
    for (let scale = 1, more = 128; more >= 128; scale *= 128) {
      const next = delta[at];
      if (next === undefined || scale > 2 ** 49) throw gitError('GitProtocol', 'the pack has a delta that breaks off');
      at += 1;
      more = next;
      value += (more & 127) * scale;
    }
    return value;
  }
  number();
  return number();
}
