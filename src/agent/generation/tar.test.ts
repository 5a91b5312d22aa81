import { gzipSync } from 'node:zlib';
import { expect, test } from 'vitest';
import { readTarGz } from './tar.ts';
import type { ArchiveLimits } from './tar.ts';
import { tar, tarGz } from '../testing/archive.ts';

async function* inPieces(bytes: Buffer, size: number): AsyncGenerator<Uint8Array, void> {
  for (let from = 0; from < bytes.length; from += size) yield await Promise.resolve(bytes.subarray(from, from + size));
}

async function read(bytes: Buffer, { limits, size = 100 }: { limits?: ArchiveLimits; size?: number } = {}): Promise<[string, string][]> {
  const out: [string, string][] = [];
  for await (const entry of readTarGz(inPieces(bytes, size), limits)) {
    const chunks: Uint8Array[] = [];
    for await (const chunk of entry.content) chunks.push(chunk);
    out.push([`${entry.kind} ${entry.path}${entry.executable && entry.kind === 'file' ? '*' : ''}`, Buffer.concat(chunks).toString()]);
  }
  return out;
}

test('files and folders come with their content, in any pieces in which the bytes arrive', async () => {
  const big = 'x'.repeat(70_000);
  const bytes = tarGz([
    { name: './', type: '5' },
    { name: './bin/', type: '5', mode: 0o755 },
    { name: './bin/run', content: '#!/bin/sh\n', mode: 0o755 },
    { name: 'empty' },
    { name: 'big', content: big },
  ]);
  const expected = [
    ['folder bin', ''],
    ['file bin/run*', '#!/bin/sh\n'],
    ['file empty', ''],
    ['file big', big],
  ];
  for (const size of [1, 511, 512, 4096, 1_000_000]) expect(await read(bytes, { size })).toEqual(expected);
});

test('content that no consumer reads is passed over', async () => {
  const names: string[] = [];
  for await (const entry of readTarGz(inPieces(tarGz([{ name: 'a', content: 'x'.repeat(3000) }, { name: 'b' }]), 100)))
    names.push(entry.path);
  expect(names).toEqual(['a', 'b']);
});

test.each([
  ['pax', 'x', (name: string) => `${name.length + 10} path=${name}\n`.padEnd(0)],
  ['GNU', 'L', (name: string) => `${name}\0`],
])('long names are read as %s writes them', async (_what, type, header) => {
  const name = `${'folder/'.repeat(20)}file`;
  // The length of a pax record counts itself.
  const content = type === 'x' ? `${name.length + 10} path=${name}\n` : header(name);
  expect(
    await read(
      tarGz([
        { name: 'long', type, content },
        { name: 'short', content: 'y' },
      ]),
    ),
  ).toEqual([[`file ${name}`, 'y']]);
});

/* What GNU tar makes of `run` and of a file below names of more than 100 characters. */
const PAX =
  'H4sIAAAAAAACA+2azW6CQBSFWfsUNF0jd/5h4b7LvgKtYzVRMIiJj9+pi9YgamhgFDnfBsKQEHM539GJ0/g9O7zZbG7LXTwNeoEcWsrj0VE/Ehn5d/5znZFgJggPgQf2uyor3eODcSIozKrVxs6YSRUzmstkqngi00RwM3Grn+erOknShKtJAAbPNO7/GceIK3U5//VzxpjiQah85r8siurafbfW6x9uMPM/8X8WlVm1tGW0LvKvaFGs3dUozzbWt/+VewXg/7v5XwhBCUkN/4/A/xdD31kztPe/JmLw/73n31UztPY/Z1oS/A//g3vmv6tmaO1/zrUg+P9x59+uGdr7X0uN/R/4Hzxo/ts1Q3v/G6kM/D/E+Tc1wy3/c12bvyDubof/PcCYDrduTLOuX4TLKxN0zvPmv2mltf/du8Cw//NU87/mf8F43f9C4vu/H/9L7tv/aAb4H/6H/0/8r8/8rwT878f/+nH8v1itLTpgdPknkmf+JxWEBP/3ztzaLVIw5vyf7NiV+7yPZ/zj/79Ga/S/D5rb1ihSKaXNbfvbxUjPM+S/p9DX8n/19199/4cxbdD/Xnh9iT9WebxbIs0AAAAAAAAAAAAAAAAAAAAAADBovgGkkJaaAFAAAA==';
const GNU =
  'H4sIAAAAAAACA+2WS26DMBRFGXcVRB2Dn20ennYBbIIoToNCTGXI/mt1SH5CikkJ90xsyUgMru95zkUSHQoY5r81MF6v7E3JKkk5mYFzP9Q+TRPfdcO97x6dL5Rc1Jmvh4P1Wdu572zftbuwd/XJipflLwsmifxfnf+zbsbk/JXUmpD//81/2s2Ynn8p2SD/efLPxVcVUqwad4w4/8uiuJm/ZD3yvywpzP8K+S+u//FfE2Bp+U/2v1ZBAfD/WvyviC/9T/D/e/kfkwH+h//h/yv+D2GP/M+G4f+1+H/ftBYmfm//3+s/UXHh//AkTAn9j87O2h+0YM3992cX+R8P339SjeY/aYP+z8LnRmwbJ/rDB7oAAAAAALAGfgGk0EtMACgAAA==';

test.each([
  ['pax', PAX],
  ['GNU', GNU],
])('archives of other programs are read: %s', async (_what, base64) => {
  const deep = Array.from({ length: 5 }, () => 'a-rather-long-folder-name').join('/');
  const found = await read(Buffer.from(base64, 'base64'), { size: 4096 });
  expect(found).toContainEqual([`file ${deep}/file`, 'deep']);
  expect(found).toContainEqual(['file run*', '#!/bin/sh\n']);
});

test.each([
  ['a path that climbs', { name: '../etc/passwd', content: 'x' }, 'leads out'],
  ['a path that climbs inside', { name: 'a/../../b', content: 'x' }, 'leads out'],
  ['an absolute path', { name: '/etc/passwd', content: 'x' }, 'leads out'],
  ['a symbolic link', { name: 'link', type: '2' }, 'is a symbolic link'],
  ['a hard link', { name: 'link', type: '1' }, 'is a hard link'],
  ['a device', { name: 'null', type: '3' }, 'is a device'],
  ['a pipe', { name: 'fifo', type: '6' }, 'is a pipe'],
  ['an unknown kind', { name: 'odd', type: 'Q' }, 'of type "Q"'],
  ['content that is cut', { name: 'cut', content: 'x', size: 9000 }, 'ends in the middle'],
])('%s is refused', async (_what, item, message) => {
  await expect(read(tarGz([item]))).rejects.toMatchObject({ code: 'ArchiveInvalid', message: expect.stringContaining(message) });
});

test('a climb that a pax header hides is refused', async () => {
  const items = [
    { name: 'x', type: 'x', content: '18 path=../../hid\n' },
    { name: 'innocent', content: 'x' },
  ];
  await expect(read(tarGz(items))).rejects.toMatchObject({ code: 'ArchiveInvalid' });
});

test('a truncated archive, a damaged header and what is no archive differ from a whole one', async () => {
  const whole = tarGz([{ name: 'a', content: 'x'.repeat(5000) }]);
  for (const length of [0, 5, 30, whole.length - 9]) {
    await expect(read(whole.subarray(0, length))).rejects.toMatchObject({ code: 'ArchiveInvalid' });
  }
  const damaged = tar([{ name: 'a', content: 'x' }]);
  damaged[0] = 98;
  await expect(read(gzipSync(damaged))).rejects.toMatchObject({ message: expect.stringContaining('checksum') });
  await expect(read(Buffer.from('plain text, not compressed'))).rejects.toMatchObject({ message: expect.stringContaining('gzip') });
  await expect(read(gzipSync('plain text, compressed'))).rejects.toMatchObject({ code: 'ArchiveInvalid' });
});

test('an archive that unpacks to too much is refused before it is unpacked', async () => {
  const bomb = tarGz([{ name: 'zeros', content: Buffer.alloc(1_000_000) }]);
  expect(bomb.length).toBeLessThan(5000);
  await expect(read(bomb, { limits: { bytes: 100_000, entries: 10 } })).rejects.toMatchObject({ code: 'TooLarge' });
  const many = tarGz(Array.from({ length: 11 }, (_each, index) => ({ name: `f${index}` })));
  await expect(read(many, { limits: { bytes: 100_000, entries: 10 } })).rejects.toMatchObject({ code: 'TooLarge' });
});

/* Security, line 7: every bound counts everything that it bounds, headers and what follows the end too. */

const small = { bytes: 200_000, entries: 10 };

test.each([
  ['zeros after the end', gzipSync(Buffer.concat([tar([{ name: 'a' }]), Buffer.alloc(100_000_000)])), { bytes: 1e9, entries: 10 }],
  ['zeros after the end, in a member of their own', Buffer.concat([tarGz([{ name: 'a' }]), gzipSync(Buffer.alloc(5_000_000))]), small],
  ['headers that describe nothing', tarGz(Array.from({ length: 11 }, () => ({ name: 'x', type: 'g', content: '8 a=bcd\n' }))), small],
  ['long names without end', tarGz(Array.from({ length: 11 }, () => ({ name: 'x', type: 'L', content: 'name\0' }))), small],
  ['folders that only paths name', tarGz([{ name: 'a/b/c/d/e/f' }, { name: 'b/b/c/d/e/f' }]), small],
  ['content that a header understates', tarGz([{ name: 'a', content: Buffer.alloc(300_000), size: 1 }]), small],
])('security 7: too much of %s is refused', async (_what, bytes, limits) => {
  const began = performance.now();
  await expect(read(bytes, { limits, size: 65_536 })).rejects.toMatchObject({ code: expect.stringMatching(/^(TooLarge|ArchiveInvalid)$/) });
  expect(performance.now() - began).toBeLessThan(2_000);
});

test('security 7: headers and padding count too, where content does not', async () => {
  const empty = tarGz(Array.from({ length: 100 }, (_each, index) => ({ name: `f${index}` })));
  await expect(read(empty, { limits: { bytes: 40_000, entries: 1000 } })).rejects.toMatchObject({ code: 'TooLarge' });
  await expect(read(empty, { limits: { bytes: 60_000, entries: 1000 } })).resolves.toHaveLength(100);
});

test('the limits themselves are allowed', async () => {
  const items = Array.from({ length: 10 }, (_each, index) => ({ name: `f${index}`, content: 'x' }));
  await expect(read(tarGz(items), { limits: { bytes: 100_000, entries: 10 } })).resolves.toHaveLength(10);
  const padded = gzipSync(Buffer.concat([tar([{ name: 'a' }]), Buffer.alloc(500_000)]));
  await expect(read(padded, { size: 4096 })).resolves.toEqual([['file a', '']]);
  const part = 'n'.repeat(255);
  await expect(read(tarGz([{ name: 'x', type: 'L', content: `${part}\0` }, { name: 'a' }]))).resolves.toEqual([[`file ${part}`, '']]);
});

test('security 7: only zeros follow the end', async () => {
  const bytes = gzipSync(Buffer.concat([tar([{ name: 'a' }]), Buffer.from('more')]));
  for (const size of [64, 65_536]) {
    await expect(read(bytes, { size })).rejects.toMatchObject({ code: 'ArchiveInvalid', message: 'something follows its end' });
  }
});

test.each([
  ['a name of more than 255 bytes', 'é'.repeat(128), 'more than 255 bytes'],
  ['a path of more than 1,024 bytes', Array.from({ length: 9 }, () => 'n'.repeat(120)).join('/'), 'more than 1024 bytes'],
  ['more than 64 folders', Array.from({ length: 65 }, () => 'd').join('/'), 'folders deep'],
])('security 7: %s, too many or too large for a disk or a reader, is refused', async (_what, name, message) => {
  const items = [{ name: 'x', type: 'L', content: `${name}\0` }, { name: 'a' }];
  await expect(read(tarGz(items))).rejects.toMatchObject({ code: 'ArchiveInvalid', message: expect.stringContaining(message) });
});

test.each(['1e3', '0x10', '-1', ' 1', '99999999999999999999'])('a size of "%s" in a pax header is none', async (size) => {
  const record = `size=${size}\n`;
  const length = record.length + 1 + String(record.length + 3).length;
  const items = [
    { name: 'x', type: 'x', content: `${length} ${record}` },
    { name: 'a', content: 'x' },
  ];
  await expect(read(tarGz(items))).rejects.toMatchObject({ code: 'ArchiveInvalid', message: '"a" has no size' });
});

/** The archive with other bytes in its first header, which is whole again. */
function patched(bytes: Buffer, ...changes: [offset: number, text: string | Buffer][]): Buffer {
  for (const [offset, change] of changes) Buffer.from(change).copy(bytes, offset);
  bytes.write('        ', 148);
  const sum = bytes.subarray(0, 512).reduce((total, byte) => total + byte, 0);
  bytes.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148);
  return gzipSync(bytes);
}

test('a name that ustar has split is put together; before ustar there was nothing to split', async () => {
  const prefix = Buffer.from('some/folder');
  expect(await read(patched(tar([{ name: 'file', content: 'x' }]), [345, prefix]))).toEqual([['file some/folder/file', 'x']]);
  expect(await read(patched(tar([{ name: 'file', content: 'x' }]), [345, prefix], [257, Buffer.alloc(8)]))).toEqual([['file file', 'x']]);
});

test('a size that GNU tar writes in base 256 is read', async () => {
  const size = Buffer.alloc(12);
  size[0] = 0x80;
  size.writeUInt32BE(3, 8);
  const items = [{ name: 'a', content: 'xyz' }, { name: 'b' }];
  expect(await read(patched(tar(items), [124, size]))).toEqual([
    ['file a', 'xyz'],
    ['file b', ''],
  ]);
  size.writeBigUInt64BE(2n ** 63n, 4);
  await expect(read(patched(tar(items), [124, size]))).rejects.toMatchObject({ code: 'ArchiveInvalid', message: '"a" has no size' });
});

test.each([
  ['an empty field is nought', Buffer.alloc(12), ['folder a', 'file b']],
  ['spaces are none of a number', Buffer.from('          0\0'), ['folder a', 'file b']],
])('numbers in headers: %s', async (_what, field, expected) => {
  const found = await read(patched(tar([{ name: 'a/', type: '5' }, { name: 'b' }]), [124, field]));
  expect(found.map(([what]) => what)).toEqual(expected);
});

test('a header that contains no number where one belongs is refused', async () => {
  await expect(read(patched(tar([{ name: 'a' }]), [124, '0000000009\0']))).rejects.toMatchObject({
    code: 'ArchiveInvalid',
    message: 'a header contains no number where one belongs',
  });
});

test.each([
  ['no length', 'path=b\n'],
  ['a length that is none', 'xx path=b\n'],
  ['a length that ends before its record begins', '2 path=b\n'],
  ['a length of nothing', '0 path=b\n'],
  ['no end of its length', '99'],
  ['a second record that is damaged', '10 path=b\nx'],
])('a pax header with %s is damaged', async (_what, content) => {
  const items = [{ name: 'x', type: 'x', content }, { name: 'a' }];
  await expect(read(tarGz(items))).rejects.toMatchObject({ code: 'ArchiveInvalid', message: 'a pax header is damaged' });
});

test('a pax header is of the next entry only, and all of its records count', async () => {
  const items = [
    { name: 'x', type: 'x', content: '10 mtime=1\n10 path=b\n10 size=2\n'.replace('10 mtime=1', '11 mtime=1') },
    { name: 'a', content: 'xy' },
    { name: 'c', content: 'z' },
  ];
  expect(await read(tarGz(items))).toEqual([
    ['file b', 'xy'],
    ['file c', 'z'],
  ]);
});

test('a global header does not set a name', async () => {
  expect(await read(tarGz([{ name: 'x', type: 'g', content: '10 path=b\n' }, { name: 'a' }]))).toEqual([['file a', '']]);
});

test('a folder has no content, even if its header has a size', async () => {
  expect(
    await read(
      tarGz([
        { name: 'a/', type: '5', content: 'x'.repeat(600) },
        { name: 'b', content: 'y' },
      ]),
    ),
  ).toEqual([
    ['folder a', ''],
    ['file b', 'y'],
  ]);
});

test('a folder counts once, whether it has a header, is named by paths, or both', async () => {
  const items = [{ name: 'a/', type: '5' }, { name: 'a/b/', type: '5' }, { name: 'a/b/x' }, { name: 'a/b/y' }, { name: 'a/', type: '5' }];
  await expect(read(tarGz(items), { limits: { bytes: 100_000, entries: 5 } })).resolves.toHaveLength(5);
  await expect(read(tarGz(items), { limits: { bytes: 100_000, entries: 4 } })).rejects.toMatchObject({ code: 'TooLarge' });
  const implied = [{ name: 'a/b/x' }, { name: 'a/b/y' }];
  await expect(read(tarGz(implied), { limits: { bytes: 100_000, entries: 4 } })).resolves.toHaveLength(2);
  await expect(read(tarGz(implied), { limits: { bytes: 100_000, entries: 3 } })).rejects.toMatchObject({ code: 'TooLarge' });
});

test('what is executable by any user is executable', async () => {
  const found = await read(
    tarGz([
      { name: 'a', mode: 0o654 },
      { name: 'b', mode: 0o645 },
      { name: 'c', mode: 0o666 },
    ]),
  );
  expect(found.map(([what]) => what)).toEqual(['file a*', 'file b*', 'file c']);
});
