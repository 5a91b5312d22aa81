/** The index of a repository, versions 2 to 4 of its form: what the next commit has as far as it was added. Pure. */
import { createHash } from 'node:crypto';
import type { CodedError } from '../api/errors.ts';
import { cliError } from './errors.ts';

export interface IndexEntry {
  /** As a tree has it: `100644`. */
  mode: string;
  oid: string;
  /** Of the file when Git last compared it; 0 where it did not. */
  size: number;
  mtimeNs: bigint;
}

const HEADER = 12;
const OID = 20;
/** Up to the name: ten numbers, the object's id, flags. */
const FIXED = 62;
const EXTENDED = 0x4000;

/** By path. Names that are not UTF-8 have U+FFFD, as in the listing of a folder. Errors: IndexUnreadable. */
export function parseIndex(content: Buffer, file: string): Map<string, IndexEntry> {
  const refuse = (why: string, next: string): CodedError => cliError('IndexUnreadable', `${file}: ${why}`, { next });
  const damaged = (why: string): CodedError =>
    refuse(`the index is damaged: ${why}`, `rm '${file}' && git reset, which makes it of the last commit again; files stay as they are`);
  const end = content.length - OID;
  if (end < HEADER || content.toString('latin1', 0, 4) !== 'DIRC') throw damaged('it does not begin as one');
  const version = content.readUInt32BE(4);
  if (version < 2 || version > 4)
    throw refuse(`the index has version ${version}; 2 to 4 can be read`, 'git update-index --index-version 4');
  const checksum = content.subarray(end);
  // Without one where `index.skipHash` is set.
  if (checksum.some((byte) => byte !== 0) && !createHash('sha1').update(content.subarray(0, end)).digest().equals(checksum))
    throw damaged('its checksum does not fit, or it is of a repository with sha256, which the hub does not read');

  const entries = new Map<string, IndexEntry>();
  let at = HEADER;
  let name: Buffer = Buffer.alloc(0);
  for (let count = content.readUInt32BE(8); count > 0; count--) {
    if (at + FIXED > end) throw damaged('it ends inside an entry');
    const start = at;
    const mode = content.readUInt32BE(start + 24).toString(8);
    const entry: IndexEntry = {
      mode,
      oid: content.toString('hex', start + 40, start + 60),
      size: content.readUInt32BE(start + 36),
      mtimeNs: BigInt(content.readUInt32BE(start + 8)) * 1_000_000_000n + BigInt(content.readUInt32BE(start + 12)),
    };
    at += version > 2 && (content.readUInt16BE(start + 60) & EXTENDED) !== 0 ? FIXED + 2 : FIXED;
    let kept = 0;
    if (version === 4) {
      const dropped = numberAt(content, at);
      if (dropped.value > name.length) throw damaged('a name continues one that is shorter');
      kept = name.length - dropped.value;
      at = dropped.end;
    }
    const nul = content.indexOf(0, at);
    if (nul < 0 || nul >= end) throw damaged('it ends inside a name');
    name = Buffer.concat([name.subarray(0, kept), content.subarray(at, nul)]);
    at = version === 4 ? nul + 1 : start + (nul - start + 8 - ((nul - start) % 8));
    // A folder of a sparse index: its files are not in the working tree.
    if (mode !== '40000') entries.set(name.toString(), entry);
  }
  while (at + 8 <= end) {
    const extension = content.toString('latin1', at, at + 4);
    if (extension === 'link') throw refuse('the index is split into two files, which cannot be read', 'git update-index --no-split-index');
    if (!/^[A-Z]/.test(extension) && extension !== 'sdir')
      throw refuse(`the index has the extension ${JSON.stringify(extension)}, which is not known here`, 'upgrade kubenode');
    at += 8 + content.readUInt32BE(at + 4);
  }
  if (at !== end) throw damaged('it ends inside an extension');
  return entries;
}

/** Seven bits a byte, the highest first; each byte that continues counts one more. */
function numberAt(content: Buffer, start: number): { value: number; end: number } {
  let at = start;
  let byte = content[at++] ?? 0;
  let value = byte & 127;
  while ((byte & 128) !== 0) {
    byte = content[at++] ?? 0;
    value = (value + 1) * 128 + (byte & 127);
  }
  return { value, end: at };
}
