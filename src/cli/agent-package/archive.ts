/** A tar archive whose bytes depend on nothing but names, modes and contents: names sorted, no owners, no times. */

export interface ArchiveFile {
  /** At most 100 bytes. */
  name: string;
  mode: number;
  content: Buffer;
}

const BLOCK = 512;
const padding = (length: number): Buffer => Buffer.alloc((BLOCK - (length % BLOCK)) % BLOCK);

function header({ name, mode, content }: ArchiveFile): Buffer {
  const bytes = Buffer.alloc(BLOCK);
  bytes.write(name, 0, 100, 'utf8');
  bytes.write(`${mode.toString(8).padStart(7, '0')}\0`, 100);
  bytes.write('0000000\0', 108);
  bytes.write('0000000\0', 116);
  bytes.write(`${content.length.toString(8).padStart(11, '0')}\0`, 124);
  bytes.write('00000000000\0', 136);
  bytes.write('        ', 148);
  bytes.write('0', 156);
  bytes.write('ustar\x0000', 257);
  const sum = bytes.reduce((total, byte) => total + byte, 0);
  bytes.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148);
  return bytes;
}

/** The archive in pieces, to be written one after the other. */
export function archiveOf(files: readonly ArchiveFile[]): Buffer[] {
  const sorted = files.toSorted((a, b) => (a.name < b.name ? -1 : 1));
  return [...sorted.flatMap((file) => [header(file), file.content, padding(file.content.length)]), Buffer.alloc(2 * BLOCK)];
}
