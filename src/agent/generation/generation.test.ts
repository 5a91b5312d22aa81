import { expect, test } from 'vitest';
import { sha256Hex } from '../../api/digest.ts';
import { fakeClock } from '../../kube/testing/clock.ts';
import { createDurable } from '../disk/durable.ts';
import { buildGeneration, loadManifest } from './generation.ts';
import { layoutOf } from '../disk/layout.ts';
import { createStore } from './store.ts';
import { simulatedFiles } from '../testing/disk.ts';
import { tarGz } from '../testing/archive.ts';
import { Disk } from '../testing/inodes.ts';
import type { Item } from '../testing/archive.ts';
import { damagedPaths, readTree } from './tree.ts';
import { manifestOf } from '../testing/manifest.ts';

const DIGEST = 'd'.repeat(24);
const FOLDER = `/var/lib/kubenode/components/app/${DIGEST}`;

/** A disk with a store that has these bytes, and a manifest that unpacks them. */
async function prepared(bytes: Buffer, stored = bytes) {
  const disk = new Disk();
  const files = simulatedFiles(disk, { lags: true });
  const durable = createDurable(files, '');
  const layout = layoutOf('');
  const sha256 = sha256Hex(bytes);
  await durable.folder(layout.store);
  await files.write(`${layout.store}/${sha256}`, stored, { mode: 0o600 });
  const network = { status: () => Promise.resolve(0), download: () => Promise.reject(new Error('there is no network')) };
  const store = createStore({ files, folder: layout.store, network, mirror: undefined, clock: fakeClock() });
  const manifest = manifestOf({
    digest: DIGEST,
    name: 'app',
    version: '1',
    artifacts: [{ name: 'it', url: 'x', sha256, unpack: 'TarGz', mode: 0o644 }],
  });
  return {
    disk,
    files,
    build: () => buildGeneration(durable, layout, store, manifest),
    load: () => loadManifest(durable, layout, 'app', DIGEST),
  };
}

test('every file and folder is listed with type and mode, those too that only a path names', async () => {
  const { files, build, load } = await prepared(
    tarGz([
      { name: 'a/b/run', content: 'x', mode: 0o700 },
      { name: 'empty/', type: '5' },
    ]),
  );
  await build();
  expect(await readTree(files, FOLDER, DIGEST)).toEqual([
    { kind: 'folder', path: 'it', mode: 0o755 },
    { kind: 'folder', path: 'it/a', mode: 0o755 },
    { kind: 'folder', path: 'it/a/b', mode: 0o755 },
    { kind: 'file', path: 'it/a/b/run', mode: 0o755, sha256: sha256Hex('x') },
    { kind: 'folder', path: 'it/empty', mode: 0o755 },
  ]);
  expect(await damagedPaths(files, FOLDER, DIGEST)).toEqual([]);
  expect((await load())?.digest).toBe(DIGEST);
});

test('security 7: an artifact that has zeros behind it in the store makes no generation', async () => {
  const bytes = tarGz([{ name: 'run', content: 'x' }]);
  const { disk, build } = await prepared(bytes, Buffer.concat([bytes, Buffer.alloc(4096)]));
  await expect(build()).rejects.toMatchObject({ code: 'DigestMismatch' });
  expect(disk.key()).not.toContain(`${FOLDER}/`);
});

test('an artifact that was damaged in the store is no invalid archive: it can be fetched again', async () => {
  const { build } = await prepared(tarGz([{ name: 'run', content: 'x' }]), Buffer.from('damaged'));
  await expect(build()).rejects.toMatchObject({ code: 'DigestMismatch' });
});

test.each<[string, Item[]]>([
  ['a file twice', [{ name: 'a' }, { name: 'a' }]],
  ['a file and then a folder of its name', [{ name: 'a' }, { name: 'a/b' }]],
  ['a folder and then a file of its name', [{ name: 'a/b' }, { name: 'a' }]],
])('an archive that contains %s is invalid permanently', async (_what, items) => {
  const { build } = await prepared(tarGz(items));
  await expect(build()).rejects.toMatchObject({ code: 'ArchiveInvalid' });
});

test.each([
  ['another manifest', 'manifest.json', (text: string) => text.replace('"version":"1"', '"version":"2"')],
  ['a manifest without its checksum', 'manifest.json', (text: string) => text.slice(text.indexOf('\n') + 1)],
  ['another list', 'tree.json', (text: string) => text.replace(sha256Hex('x'), sha256Hex('y'))],
  ['a list that is cut', 'tree.json', (text: string) => text.slice(0, 20)],
])('the agent finds %s instead of what was written, and writes it again', async (_what, name, change) => {
  const { files, build } = await prepared(tarGz([{ name: 'run', content: 'x' }]));
  await build();
  const path = `${FOLDER}/.kubenode/${name}`;
  const before = (await files.read(path))?.toString() ?? '';
  expect(change(before)).not.toBe(before);
  await files.write(path, Buffer.from(change(before)), { mode: 0o600 });
  expect(await damagedPaths(files, FOLDER, DIGEST)).toContain(`.kubenode/${name}`);
  await build();
  expect((await files.read(path))?.toString()).toBe(before);
  expect(await damagedPaths(files, FOLDER, DIGEST)).toEqual([]);
});

test('only what was touched is hashed; folders are compared in any case', async () => {
  const { files, build } = await prepared(
    tarGz([
      { name: 'a/one', content: '1' },
      { name: 'a/two', content: '2' },
      { name: 'b/three', content: '3' },
    ]),
  );
  await build();
  for (const path of ['a/one', 'a/two', 'b/three']) await files.write(`${FOLDER}/it/${path}`, Buffer.from('x'), { mode: 0o644 });
  await files.chmodFolder(`${FOLDER}/it/b`, 0o700);
  const found = (...touched: string[]) => damagedPaths(files, FOLDER, DIGEST, new Set(touched));
  expect(await found('it/a/one')).toEqual(['it/a/one', 'it/b']);
  expect(await found('it/a')).toEqual(['it/a/one', 'it/a/two', 'it/b']);
  expect(await found('it/elsewhere')).toEqual(['it/b']);
  expect(await found('')).toEqual(['it/a/one', 'it/a/two', 'it/b', 'it/b/three']);
});

const ARCHIVE = tarGz([
  { name: 'a/one', content: '1' },
  { name: 'a/deep/er/two', content: '2' },
  { name: 'b/three', content: '3' },
]);

test('a generation that is whole is not written again, and is there after a loss of power', async () => {
  const { disk, build } = await prepared(ARCHIVE);
  await build();
  const own = (each: Disk) =>
    each
      .key()
      .split('\n')
      .filter((line) => line.startsWith(FOLDER));
  expect(own(disk).length).toBeGreaterThan(8);
  expect(own(disk.darkest())).toEqual(own(disk));
  disk.settleAll();
  disk.pending = [];
  await build();
  expect(disk.pending).toEqual([]);
  expect(disk.openFolders).toBe(0);
});

test('of a damaged generation only what is damaged is replaced, since it may be the one that runs', async () => {
  const { disk, files, build } = await prepared(ARCHIVE);
  await build();
  const inode = async (path: string) => (await files.stat(`${FOLDER}/it/${path}`))?.inode;
  const [one, three] = [await inode('a/one'), await inode('b/three')];
  const before = disk.key();
  await files.write(`${FOLDER}/it/a/one`, Buffer.from('x'), { mode: 0o644 });
  await build();
  expect(disk.key()).toBe(before);
  expect([(await inode('a/one')) === one, await inode('b/three')]).toEqual([false, three]);
  expect(disk.openFolders).toBe(0);
});

test.each<[string, (files: Awaited<ReturnType<typeof prepared>>['files']) => Promise<void>]>([
  [
    'a file instead of a folder',
    async (files) => {
      await files.unlink(`${FOLDER}/it/a/deep/er/two`);
      await files.rmdir(`${FOLDER}/it/a/deep/er`);
      await files.write(`${FOLDER}/it/a/deep/er`, Buffer.from('x'), { mode: 0o644 });
    },
  ],
  [
    'a folder instead of a file',
    async (files) => {
      await files.unlink(`${FOLDER}/it/a/one`);
      await files.mkdir(`${FOLDER}/it/a/one`);
      await files.write(`${FOLDER}/it/a/one/more`, Buffer.from('x'), { mode: 0o644 });
    },
  ],
  [
    'a link instead of a folder',
    async (files) => {
      await files.unlink(`${FOLDER}/it/b/three`);
      await files.rmdir(`${FOLDER}/it/b`);
      await files.symlink('/', `${FOLDER}/it/b`);
    },
  ],
  ['another mode of a folder', (files) => files.chmodFolder(`${FOLDER}/it/a/deep`, 0o700)],
  ['another mode of its own folder', (files) => files.chmodFolder(`${FOLDER}/.kubenode`, 0o700)],
  [
    'a file instead of all of it',
    async (files) => {
      await files.rename(FOLDER, '/var/lib/kubenode/components/app/elsewhere');
      await files.write(FOLDER, Buffer.from('x'), { mode: 0o644 });
    },
  ],
])('%s is found and put right, with all that was below', async (_what, damage) => {
  const { disk, files, build } = await prepared(ARCHIVE);
  await build();
  const tree = await readTree(files, FOLDER, DIGEST);
  await damage(files);
  expect(await damagedPaths(files, FOLDER, DIGEST)).not.toEqual([]);
  await build();
  expect(await damagedPaths(files, FOLDER, DIGEST)).toEqual([]);
  expect(await readTree(files, FOLDER, DIGEST)).toEqual(tree);
  expect((await files.read(`${FOLDER}/it/a/deep/er/two`))?.toString()).toBe('2');
  expect(disk.openFolders).toBe(0);
});

test('below what is no folder the agent checks nothing: all of it counts as damaged', async () => {
  const { files, build } = await prepared(ARCHIVE);
  await build();
  await files.rename(`${FOLDER}/it/a`, '/elsewhere');
  await files.symlink('/elsewhere', `${FOLDER}/it/a`);
  expect(await damagedPaths(files, FOLDER, DIGEST)).toEqual(['it/a', 'it/a/one', 'it/a/deep', 'it/a/deep/er', 'it/a/deep/er/two']);
  await files.chmodFolder(`${FOLDER}/.kubenode`, 0o700);
  expect(await damagedPaths(files, FOLDER, DIGEST, new Set())).toContain('.kubenode');
});
