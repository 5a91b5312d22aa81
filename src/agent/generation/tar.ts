import { dirname } from 'node:path';
import { agentError, short } from '../errors.ts';

/*
 * Reads tar.gz archives: ustar, with the long names of pax and GNU. The `tar` package would add 8 MB to every node (measured) and
 * makes links and devices, which no component needs and every path escape is made of.
 */

export interface ArchiveEntry {
  kind: 'file' | 'folder';
  /** Relative, with plain parts only. */
  path: string;
  executable: boolean;
  size: number;
  /** Content of a file; must be read before the next entry is asked for. */
  content: AsyncIterable<Uint8Array>;
}

export interface ArchiveLimits {
  /** Limit of everything that comes out of the compression: content, headers, padding. */
  bytes: number;
  /** Headers of any kind, and folders that only a path names. */
  entries: number;
}

export const ARCHIVE_LIMITS: ArchiveLimits = { bytes: 4 * 1024 ** 3, entries: 100_000 };

const BLOCK = 512;
/** What file systems allow: of a path with room for what stands before it, and of each of its parts; in bytes. */
const LONGEST_PATH = 1024;
const LONGEST_PART = 255;
const DEEPEST = 64;
/** Limit of a header that only describes the next one. */
const LONGEST_HEADER = 16 * 1024;
/** Zeros that follow the end: a record of the largest size that tar programs write. */
const LONGEST_END = 1024 ** 2;

/** Errors: `ArchiveInvalid`, `TooLarge`. */
export async function* readTarGz(
  compressed: AsyncIterable<Uint8Array>,
  limits: ArchiveLimits = ARCHIVE_LIMITS,
): AsyncGenerator<ArchiveEntry, void> {
  // Loaded when there is something to unpack.
  const { createGunzip } = process.getBuiltinModule('node:zlib');
  const { Readable } = process.getBuiltinModule('node:stream');
  const { pipeline } = process.getBuiltinModule('node:stream/promises');
  const gunzip = createGunzip();
  // Rejects with the error that the reader below gets too.
  const done = pipeline(Readable.from(compressed), gunzip).catch(() => undefined);
  try {
    yield* readTar(gunzip, limits);
  } catch (error) {
    if (error instanceof Error && 'code' in error && typeof error.code === 'string' && error.code.startsWith('Z_')) {
      throw agentError('ArchiveInvalid', `it is no whole gzip file: ${error.message}`, { cause: error });
    }
    throw error;
  } finally {
    gunzip.destroy();
    await done;
  }
}

async function* readTar(stream: AsyncIterable<Uint8Array>, limits: ArchiveLimits): AsyncGenerator<ArchiveEntry, void> {
  const bytes = byteReader(stream, limits.bytes);
  const folders = new Set<string>();
  let entries = 0;
  let total = 0;
  let longName: string | undefined;
  let pax: Record<string, string> = {};
  const count = (): void => {
    if (++entries > limits.entries) throw agentError('TooLarge', `it contains more than ${limits.entries} entries`);
  };
  for (;;) {
    const header = await bytes.take(BLOCK);
    if (header.every((byte) => byte === 0)) return await bytes.end(LONGEST_END);
    check(header);
    count();
    const type = String.fromCharCode(header[156] ?? 0);
    const size = numberAt(header, 124, 12);
    if (type === 'L' || type === 'x' || type === 'g') {
      if (size > LONGEST_HEADER) throw agentError('ArchiveInvalid', `a header of ${size} bytes is too long`);
      const data = (await bytes.take(padded(size))).subarray(0, size);
      if (type === 'L') longName = cut(data);
      if (type === 'x') pax = records(data);
      continue;
    }
    const raw = pax['path'] ?? longName ?? joined(textAt(header, 345, isUstar(header) ? 155 : 0), textAt(header, 0, 100));
    const length = pax['size'] === undefined ? size : /^\d+$/.test(pax['size']) ? Number(pax['size']) : NaN;
    if (!Number.isSafeInteger(length) || length < 0) throw agentError('ArchiveInvalid', `"${short(raw, 200)}" has no size`);
    longName = undefined;
    pax = {};
    const path = plainPath(raw);
    // Before anything of it is written.
    total += length;
    if (total > limits.bytes) throw agentError('TooLarge', `unpacked it is more than ${limits.bytes} bytes`);
    if (type !== '0' && type !== '\0' && type !== '7' && type !== '5') {
      const what =
        { '1': 'a hard link', '2': 'a symbolic link', '3': 'a device', '4': 'a device', '6': 'a pipe' }[type] ?? `of type "${type}"`;
      throw agentError('ArchiveInvalid', `"${short(raw, 200)}" is ${what}; only files and folders are unpacked`);
    }
    const file = type !== '5';
    // Folders that are made on the way to it are entries too.
    for (let above = file ? dirname(path) : path; above !== '.' && above !== '' && !folders.has(above); above = dirname(above)) {
      folders.add(above);
      if (above !== path) count();
    }
    const content = bytes.part(file ? length : 0);
    if (path !== '')
      yield { kind: file ? 'file' : 'folder', path, executable: (numberAt(header, 100, 8) & 0o111) !== 0, size: length, content };
    // What the reader left, and the padding.
    for await (const rest of content) void rest;
    await bytes.skip(padded(length) - (file ? length : 0));
  }
}

function plainPath(raw: string): string {
  const parts = raw.split('/').filter((part) => part !== '' && part !== '.');
  if (raw.startsWith('/') || parts.includes('..') || raw.includes('\0')) {
    throw agentError('ArchiveInvalid', `"${short(raw, 200)}" leads out of the folder it is unpacked in`);
  }
  const path = parts.join('/');
  const long = parts.find((part) => Buffer.byteLength(part) > LONGEST_PART);
  if (long !== undefined) throw agentError('ArchiveInvalid', `the name "${short(long, 200)}" has more than ${LONGEST_PART} bytes`);
  if (Buffer.byteLength(path) > LONGEST_PATH)
    throw agentError('ArchiveInvalid', `"${short(raw, 200)}" has more than ${LONGEST_PATH} bytes`);
  if (parts.length > DEEPEST) throw agentError('ArchiveInvalid', `"${short(raw, 200)}" is more than ${DEEPEST} folders deep`);
  return path;
}

function check(header: Buffer): void {
  let sum = 0;
  for (const [index, byte] of header.entries()) sum += index >= 148 && index < 156 ? 32 : byte;
  if (sum !== numberAt(header, 148, 8))
    throw agentError('ArchiveInvalid', 'a header does not match its checksum: this is no tar file, or a damaged one');
}

const isUstar = (header: Buffer): boolean => header.toString('latin1', 257, 262) === 'ustar';
const padded = (size: number): number => Math.ceil(size / BLOCK) * BLOCK;
const joined = (prefix: string, name: string): string => (prefix === '' ? name : `${prefix}/${name}`);
const cut = (data: Buffer): string => data.toString('utf8').replace(/\0.*$/s, '');
const textAt = (header: Buffer, offset: number, length: number): string => cut(header.subarray(offset, offset + length));

function numberAt(header: Buffer, offset: number, length: number): number {
  // GNU writes what octal has no room for in base 256, with the first bit set.
  if (((header[offset] ?? 0) & 0x80) !== 0) return Number(header.readBigUInt64BE(offset + length - 8));
  const digits = header.toString('latin1', offset, offset + length).replaceAll(/[\0 ]/g, '');
  if (!/^[0-7]*$/.test(digits)) throw agentError('ArchiveInvalid', 'a header contains no number where one belongs');
  return digits === '' ? 0 : Number.parseInt(digits, 8);
}

/** pax records: `LENGTH KEY=VALUE\n`, the length counting itself. */
function records(data: Buffer): Record<string, string> {
  const out: Record<string, string> = {};
  for (let from = 0; from < data.length;) {
    const space = data.indexOf(32, from);
    const length = Number(data.toString('latin1', from, space));
    if (space < 0 || !Number.isSafeInteger(length) || length <= space - from) throw agentError('ArchiveInvalid', 'a pax header is damaged');
    const record = data.toString('utf8', space + 1, from + length - 1);
    const equals = record.indexOf('=');
    out[record.slice(0, equals)] = record.slice(equals + 1);
    from += length;
  }
  return out;
}

interface ByteReader {
  take(length: number): Promise<Buffer>;
  /** The next bytes, as they come. */
  part(length: number): AsyncIterable<Uint8Array>;
  skip(length: number): Promise<void>;
  /** Reads to the end: only zeros, and not more than the limit. */
  end(most: number): Promise<void>;
}

/** `most`: bytes that are read in all. */
function byteReader(stream: AsyncIterable<Uint8Array>, most: number): ByteReader {
  const chunks = stream[Symbol.asyncIterator]();
  let chunk: Buffer = Buffer.alloc(0);
  let had = 0;

  async function more(): Promise<boolean> {
    const next = await chunks.next();
    if (next.done === true) return false;
    had += next.value.byteLength;
    if (had > most) throw agentError('TooLarge', `unpacked it is more than ${most} bytes`);
    chunk = Buffer.from(next.value.buffer, next.value.byteOffset, next.value.byteLength);
    return true;
  }

  async function* part(length: number): AsyncGenerator<Uint8Array, void> {
    let left = length;
    while (left > 0) {
      if (chunk.length === 0 && !(await more())) throw agentError('ArchiveInvalid', 'it ends in the middle');
      const piece = chunk.subarray(0, left);
      chunk = chunk.subarray(piece.length);
      left -= piece.length;
      if (piece.length > 0) yield piece;
    }
  }

  return {
    part: (length) => oneReader(part(length)),
    async take(length) {
      const pieces: Uint8Array[] = [];
      for await (const piece of part(length)) pieces.push(piece);
      return Buffer.concat(pieces);
    },
    async skip(length) {
      for await (const piece of part(length)) void piece;
    },
    async end(longest) {
      let zeros = 0;
      do {
        zeros += chunk.length;
        if (chunk.some((byte) => byte !== 0)) throw agentError('ArchiveInvalid', 'something follows its end');
        if (zeros > longest) throw agentError('TooLarge', `more than ${longest} bytes follow its end`);
      } while (await more());
    },
  };
}

/** An iterable that goes on where it was left: `for await` would end a generator that it leaves early. */
function oneReader(generator: AsyncGenerator<Uint8Array, void>): AsyncIterable<Uint8Array> {
  return { [Symbol.asyncIterator]: () => ({ next: () => generator.next() }) };
}
