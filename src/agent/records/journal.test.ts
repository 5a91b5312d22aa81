import { expect, test } from 'vitest';
import { createDurable } from '../disk/durable.ts';
import { beginJournal, encode, openJournal, replay } from './journal.ts';
import type { JournalEntry } from './state.ts';
import { Disk } from '../testing/inodes.ts';
import { simulatedFiles } from '../testing/disk.ts';

const accept = (name: string, revision: number): JournalEntry => ({
  t: 'accept',
  accepted: { name, action: 'Install', version: '1', values: {}, labels: {}, revision, content: `c${revision}` },
});
const entries: JournalEntry[] = [{ t: 'open', machineUID: 'uid' }, accept('app', 1), accept('app', 2), accept('web', 1)];
const bytes = Buffer.from(entries.map(encode).join(''));

test('a journal that was cut at any byte is what it was before the line that was cut', () => {
  const ends = entries.map((_entry, index) =>
    Buffer.byteLength(
      entries
        .slice(0, index + 1)
        .map(encode)
        .join(''),
    ),
  );
  for (let length = 0; length <= bytes.length; length++) {
    const whole = ends.filter((end) => end <= length).length;
    const { state, lines, torn } = replay(bytes.subarray(0, length).toString());
    expect([lines, torn]).toEqual([whole, !ends.includes(length) && length > 0]);
    expect(Object.keys(state?.components ?? {})).toEqual(whole < 2 ? [] : whole < 4 ? ['app'] : ['app', 'web']);
  }
});

test('a last line of zeros, or with a part of it lost, counts as never written', () => {
  const last = encode(accept('app', 3));
  for (const tail of [
    '\0'.repeat(last.length),
    `${'\0'.repeat(50)}${last.slice(50)}`,
    `${last.slice(0, 40)}${'\0'.repeat(20)}${last.slice(60)}`,
  ]) {
    expect(replay(bytes.toString() + tail)).toMatchObject({ lines: 4, torn: true, state: { components: { app: { revision: 2 } } } });
  }
});

test('damage that whole lines follow is not taken for a line that was cut', () => {
  const text = bytes.toString();
  for (const from of [0, 20, text.indexOf('\n') + 5]) {
    const damaged = `${text.slice(0, from)}#${text.slice(from + 1)}`;
    expect(() => replay(damaged)).toThrow(/line [12] of the journal is damaged/);
  }
});

async function fresh(): Promise<{
  disk: Disk;
  open: () => ReturnType<typeof openJournal>;
  begin: () => ReturnType<typeof beginJournal>;
  text: () => string;
}> {
  const disk = new Disk();
  const durable = createDurable(simulatedFiles(disk, { lags: true }), '');
  const text = (): string => {
    const inode = disk.inodes.get(disk.find('/j', true) ?? 0);
    return inode?.kind === 'file' ? inode.data.toString() : '';
  };
  return { disk, open: () => openJournal(durable, '/j'), begin: () => beginJournal(durable, '/j', 'uid'), text };
}

test('a journal grows by lines and is written again as one when it is long', async () => {
  const { begin, open, text } = await fresh();
  const journal = await begin();
  for (let revision = 1; revision <= 250; revision++) await journal.append(accept('app', revision));
  expect(text().split('\n').length).toBeLessThan(210);
  expect(journal.state.components['app']?.revision).toBe(250);
  expect((await open())?.state).toEqual(journal.state);
});

test('a write that failed is not followed by another: the journal must be opened again', async () => {
  const disk = new Disk();
  let full = false;
  const before = (): void => {
    if (full) throw Object.assign(new Error('ENOSPC: no space left'), { code: 'ENOSPC' });
  };
  const durable = createDurable(simulatedFiles(disk, { before, lags: true }), '');
  const journal = await beginJournal(durable, '/j', 'uid');
  full = true;
  await expect(journal.append(accept('app', 1))).rejects.toMatchObject({ code: 'DiskFailing', message: expect.stringContaining('ENOSPC') });
  full = false;
  await expect(journal.append(accept('app', 1))).rejects.toMatchObject({
    code: 'DiskFailing',
    message: expect.stringContaining('opened again'),
  });
  expect(journal.state.components).toEqual({});
  const again = await openJournal(durable, '/j');
  await again?.append(accept('app', 1));
  expect(again?.state.components['app']?.revision).toBe(1);
});

test('a line that was cut is gone from the disk before another is written', async () => {
  const { begin, disk, open, text } = await fresh();
  await (await begin()).append(accept('app', 1));
  const inode = disk.inodes.get(disk.find('/j', true) ?? 0);
  if (inode?.kind === 'file') inode.data = Buffer.concat([inode.data, Buffer.from('1234567890abcdef {"t":"acc')]);
  const journal = await open();
  await journal?.append(accept('app', 2));
  expect(replay(text())).toMatchObject({ torn: false, state: { components: { app: { revision: 2 } } } });
});
