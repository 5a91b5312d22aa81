import { expect, test } from 'vitest';
import { createDurable, draftOf, hasContent } from './durable.ts';
import { Disk } from '../testing/inodes.ts';
import { simulatedFiles } from '../testing/disk.ts';

function world() {
  const disk = new Disk();
  const synced: string[] = [];
  const files = simulatedFiles(disk, { lags: true, before: ({ what, path }) => void (what === 'sync' && synced.push(path)) });
  return { disk, files, synced, durable: createDurable(files, '') };
}

/** What of it would be there after a loss of power. */
const kept = (disk: Disk): string => disk.darkest().key();

test('a file exists, with its folders, when the call returns', async () => {
  const { disk, durable } = world();
  expect(await durable.replace('/a/b/c', 'text', 0o640)).toBe(true);
  expect(kept(disk)).toBe(disk.key());
  expect(disk.key()).toContain('/a/b/c 416 text');
});

test('what is already as it should be is not written, but synced: who wrote it may have been killed before', async () => {
  const { disk, durable, files, synced } = world();
  await durable.replace('/a/x', 'text', 0o644);
  await files.write('/a/.y', Buffer.from('text'), { mode: 0o644, sync: true });
  await files.rename('/a/.y', '/a/y');
  synced.length = 0;
  expect(await durable.replace('/a/y', 'text', 0o644)).toBe(false);
  expect(synced).toEqual(['/a']);
  expect(kept(disk)).toContain('/a/y 420 text');
  expect(await durable.replace('/a/y', 'text', 0o600)).toBe(true);
});

test('a folder that another program removed is made again', async () => {
  const { disk, durable, files } = world();
  await durable.replace('/a/b/x', 'text', 0o644);
  await files.unlink('/a/b/x');
  await files.rmdir('/a/b');
  await durable.replace('/a/b/x', 'text', 0o644);
  expect(kept(disk)).toContain('/a/b/x 420 text');
});

test('a draft that a killed process left, or a link that another program put there, is not written through', async () => {
  const { disk, durable, files } = world();
  await files.mkdir('/a');
  await files.write('/precious', Buffer.from('precious'), { mode: 0o644 });
  await files.symlink('/precious', draftOf('/a/x'));
  await durable.replace('/a/x', 'text', 0o644);
  expect(disk.key()).toContain('/precious 420 precious');
  expect(disk.key()).not.toContain('.kubenode');
});

test('what is in the way is named', async () => {
  const { durable, files } = world();
  await files.mkdir('/folder');
  await files.write('/file', Buffer.from('x'), { mode: 0o644 });
  await expect(durable.replace('/folder', 'text', 0o644)).rejects.toMatchObject({
    code: 'FileFailed',
    message: '/folder is a folder; a file belongs there',
  });
  await expect(durable.replace('/file/below', 'text', 0o644)).rejects.toMatchObject({ code: 'FileFailed' });
});

test('a link is switched as a whole, and a file that is removed stays removed', async () => {
  const { disk, durable } = world();
  await durable.folder('/a');
  await durable.link('/a/current', 'one');
  await durable.link('/a/current', 'two');
  expect(kept(disk)).toContain('/a/current > two');
  await durable.replace('/a/x', 'text', 0o644);
  await durable.remove('/a/x');
  await durable.remove('/a/x');
  await durable.remove('/nowhere/x');
  expect(kept(disk)).not.toContain('/a/x');
});

test('a link that leads where it should is not made again, but synced', async () => {
  const { durable, files, synced } = world();
  await durable.folder('/a');
  await durable.link('/a/current', 'one');
  const before = await files.stat('/a/current');
  synced.length = 0;
  await durable.link('/a/current', 'one');
  expect((await files.stat('/a/current'))?.inode).toBe(before?.inode);
  expect(synced).toEqual(['/a']);
});

test('with a file goes permanently what a killed process had written of it', async () => {
  const { disk, durable, files } = world();
  await durable.replace('/a/x', 'text', 0o644);
  await files.write(draftOf('/a/x'), Buffer.from('half'), { mode: 0o644, sync: true });
  await durable.remove('/a/x');
  expect(disk.key()).not.toContain('x');
  expect(kept(disk)).toBe(disk.key());
});

test('a line that was appended is there after a loss of power, behind what was there', async () => {
  const { disk, durable } = world();
  await durable.replace('/a/journal', 'one\n', 0o600);
  await durable.append('/a/journal', 'two\n');
  expect(kept(disk)).toContain('/a/journal 384 one\ntwo');
});

test('a folder goes with all that is in it, before the call returns, and is kept open no longer', async () => {
  const { disk, durable } = world();
  await durable.replace('/a/b/c/x', 'text', 0o644);
  await durable.replace('/a/y', 'text', 0o644);
  await durable.discard('/a/b');
  expect(disk.key()).not.toContain('/a/b');
  expect(disk.key()).toContain('/a/y');
  await durable.discard('/a/b');
  await durable.discard('/nowhere/b');
  expect(disk.openFolders).toBe(0);
});

test('a draft that cannot be written whole does not stay', async () => {
  const { disk, durable } = world();
  await durable.folder('/a');
  disk.capacity = disk.used + 2;
  await expect(durable.replace('/a/x', 'text', 0o644)).rejects.toMatchObject({ code: 'ENOSPC' });
  expect(disk.key()).not.toContain('.kubenode');
});

test('what is renamed is there under its name after a loss of power', async () => {
  const { disk, durable } = world();
  await durable.replace('/a/x', 'text', 0o644);
  await durable.rename('/a/x', '/a/y');
  expect(kept(disk)).toContain('/a/y 420 text');
  expect(kept(disk)).not.toContain('/a/x');
});

test.each([
  ['the same', 'text', true],
  ['less', 'tex', false],
  ['more', 'text and more', false],
  ['something else', 'texT', false],
  ['nothing', '', false],
])('content is compared whole: %s', async (_what, content, expected) => {
  const { files } = world();
  await files.write('/x', Buffer.from(content), { mode: 0o644 });
  expect(await hasContent(files, '/x', Buffer.from('text'))).toBe(expected);
});
