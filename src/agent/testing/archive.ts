import { gzipSync } from 'node:zlib';

export interface Item {
  name: string;
  content?: string | Buffer;
  /** As in the header: `0` file, `5` folder, `2` symbolic link … */
  type?: string;
  mode?: number;
  /** Instead of the true size. */
  size?: number;
}

/** A tar archive of these items, uncompressed. */
export function tar(items: Item[]): Buffer {
  const blocks: Buffer[] = [];
  for (const { name, content = '', type = '0', mode = 0o644, size } of items) {
    const data = Buffer.from(content);
    const header = Buffer.alloc(512);
    header.write(name, 0, 100);
    header.write(`${mode.toString(8).padStart(7, '0')}\0`, 100);
    header.write(`${(size ?? data.length).toString(8).padStart(11, '0')}\0`, 124);
    header.write('        ', 148);
    header.write(type, 156);
    header.write('ustar\x0000', 257);
    let sum = 0;
    for (const byte of header) sum += byte;
    header.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148);
    blocks.push(header, data, Buffer.alloc((512 - (data.length % 512)) % 512));
  }
  return Buffer.concat([...blocks, Buffer.alloc(1024)]);
}

export const tarGz = (items: Item[]): Buffer => gzipSync(tar(items));
