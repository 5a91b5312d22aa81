import { existsSync, mkdirSync, mkdtempSync, readdirSync, realpathSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { createDurable } from './durable.ts';
import { buildGeneration } from '../generation/generation.ts';
import { componentLayout, layoutOf } from './layout.ts';
import { nodeFiles } from '../ports/files.ts';
import type { Files } from '../ports/files.ts';
import type { OpenFolder } from '../ports/folders.ts';
import type { ArtifactStore } from '../generation/store.ts';
import { tarGz } from '../testing/archive.ts';
import { manifestOf } from '../testing/manifest.ts';

let root: string;
let victim: string;

beforeEach(() => {
  root = realpathSync(mkdtempSync(join(tmpdir(), 'kubenode-removal-')));
  victim = join(root, 'etc');
  mkdirSync(join(root, 'mine'));
  mkdirSync(victim);
  for (const name of ['passwd', 'shadow', 'other']) writeFileSync(join(victim, name), 'root only');
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

/** Real files, with another user that acts at once after a folder's names were read. */
function disturbed(names: (path: string) => void, change: (folder: OpenFolder) => Partial<OpenFolder> = () => ({})): Files {
  const files = nodeFiles();
  const wrap = (folder: OpenFolder | undefined): OpenFolder | undefined =>
    folder === undefined
      ? undefined
      : {
          ...folder,
          open: async (name) => wrap(await folder.open(name)),
          async *names() {
            const path = await folder.realpath();
            const found: string[] = [];
            for await (const name of folder.names()) found.push(name);
            names(path);
            yield* found;
          },
          ...change(folder),
        };
  return {
    ...files,
    open: async (path) => wrap(await files.open(path)),
    async list(path) {
      const found = await files.list(path);
      names(path);
      return found;
    },
  };
}

/** A folder with the names of the files that another user aims at, and its exchange for a link to where they are. */
function bait(folder: string): (path: string) => void {
  mkdirSync(join(folder, 'x'));
  for (const name of ['a', 'passwd', 'shadow']) writeFileSync(join(folder, 'x', name), '');
  let swapped = false;
  return (path) => {
    if (swapped || !path.endsWith('/x')) return;
    swapped = true;
    renameSync(join(folder, 'x'), join(folder, 'y'));
    symlinkSync(victim, join(folder, 'x'));
  };
}

test('A8: a folder that is exchanged for a link while it is removed loses nothing of what the link leads to', async () => {
  const durable = createDurable(disturbed(bait(join(root, 'mine'))), root);
  await durable.discard(join(root, 'mine/x')).catch(() => undefined);
  expect(existsSync(join(root, 'mine/y'))).toBe(true);
  expect(readdirSync(victim).sort()).toEqual(['other', 'passwd', 'shadow']);
});

test('A8: nor does one that was exchanged for another folder', async () => {
  mkdirSync(join(root, 'mine/x/inner'), { recursive: true });
  let swapped = false;
  const files = disturbed(
    () => undefined,
    (folder) => ({
      async stat(name) {
        const found = await folder.stat(name);
        if (name === 'inner' && !swapped) {
          swapped = true;
          renameSync(join(root, 'mine/x/inner'), join(root, 'mine/away'));
          renameSync(victim, join(root, 'mine/x/inner'));
        }
        return found;
      },
    }),
  );
  await expect(createDurable(files, root).discard(join(root, 'mine/x'))).rejects.toMatchObject({ code: 'FileFailed' });
  expect(swapped).toBe(true);
  expect(readdirSync(join(root, 'mine/x/inner')).sort()).toEqual(['other', 'passwd', 'shadow']);
});

test('A8: where a folder cannot be kept open, the agent does not enter one that others may write', async () => {
  mkdirSync(join(root, 'mine/x'));
  writeFileSync(join(root, 'mine/x/file'), '');
  const files = (guarded: boolean): Files =>
    disturbed(
      () => undefined,
      () => ({ stablePath: undefined, guarded }),
    );
  await expect(createDurable(files(false), root).discard(join(root, 'mine/x'))).rejects.toMatchObject({ code: 'FileFailed' });
  expect(existsSync(join(root, 'mine/x/file'))).toBe(true);
  await createDurable(files(true), root).discard(join(root, 'mine/x'));
  expect(readdirSync(join(root, 'mine'))).toEqual([]);
});

test('a folder is removed with all that is in it; a link in it goes, not what it leads to', async () => {
  mkdirSync(join(root, 'mine/x/a/b/c'), { recursive: true });
  for (let index = 0; index < 300; index++) writeFileSync(join(root, `mine/x/a/${index}`), '');
  writeFileSync(join(root, 'mine/x/a/b/ä'), '');
  symlinkSync(victim, join(root, 'mine/x/a/link'));
  const durable = createDurable(nodeFiles(), root);
  const openBefore = process.platform === 'linux' ? readdirSync('/proc/self/fd').length : 0;
  await durable.discard(join(root, 'mine/x'));
  await durable.discard(join(root, 'mine/x'));
  await durable.discard(join(root, 'nowhere/x'));
  expect(readdirSync(join(root, 'mine'))).toEqual([]);
  expect(readdirSync(victim)).toHaveLength(3);
  if (process.platform === 'linux') expect(readdirSync('/proc/self/fd')).toHaveLength(openBefore);
});

/** A generation with `app/share/x`, and its repair. */
async function generation(files: Files): Promise<{ share: string; repair: () => Promise<void> }> {
  const layout = layoutOf(root);
  const archive = tarGz([
    { name: 'share/', type: '5' },
    { name: 'share/x', content: 'data' },
  ]);
  const store: Pick<ArtifactStore, 'use'> = {
    use: async (_sha256, consume) =>
      await consume(
        (async function* () {
          yield archive;
        })(),
      ),
  };
  const manifest = manifestOf({
    digest: 'd'.repeat(24),
    name: 'app',
    version: '1',
    artifacts: [{ name: 'app', url: 'u', sha256: 'a'.repeat(64), unpack: 'TarGz', mode: 0o755 }],
  });
  const build = async (with_: Files): Promise<void> =>
    await buildGeneration(createDurable(with_, root), layout, store as ArtifactStore, manifest);
  await build(nodeFiles());
  return { share: join(componentLayout(layout, 'app').generation(manifest.digest), 'app/share'), repair: () => build(files) };
}

test('A8: the repair of a generation removes nothing through a link that replaces a folder in it', async () => {
  let swap: (path: string) => void = () => undefined;
  const { share, repair } = await generation(disturbed((path) => swap(path)));
  rmSync(join(share, 'x'));
  swap = bait(share);
  await repair().catch(() => undefined);
  expect(readdirSync(victim).sort()).toEqual(['other', 'passwd', 'shadow']);
});

test('A8: nor does it write through one, whichever folder on the way it replaces', async () => {
  const files = nodeFiles();
  let swapped = false;
  let checks = 0;
  // The folder is exchanged after the check that found the file damaged, before the file is written.
  const swapping: Files = {
    ...files,
    async stat(path) {
      const found = await files.stat(path);
      // Both checks, then the repair.
      if (path.endsWith('/x') && !path.includes('.new-') && existsSync(join(root, 'armed')) && ++checks === 3) {
        swapped = true;
        renameSync(share, `${share}.old`);
        symlinkSync(victim, share);
      }
      return found;
    },
  };
  const { share, repair } = await generation(swapping);
  writeFileSync(join(share, 'x'), 'damaged');
  writeFileSync(join(root, 'armed'), '');
  await repair().catch(() => undefined);
  expect(swapped).toBe(true);
  expect(readdirSync(victim).sort()).toEqual(['other', 'passwd', 'shadow']);
});
