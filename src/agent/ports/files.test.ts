import { chmodSync, mkdirSync, mkdtempSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { nodeFiles } from './files.ts';

const files = nodeFiles();
let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'kubenode-files-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const mode = (path: string): number => statSync(path).mode & 0o7777;

test('a folder has the mode that is listed for it; one that is there is left as it is', async () => {
  await files.mkdir(join(folder, 'a'));
  expect(mode(join(folder, 'a'))).toBe(0o755);
  chmodSync(join(folder, 'a'), 0o700);
  await files.mkdir(join(folder, 'a'));
  expect(mode(join(folder, 'a'))).toBe(0o700);
  await files.chmodFolder(join(folder, 'a'), 0o755);
  expect(mode(join(folder, 'a'))).toBe(0o755);
  chmodSync(join(folder, 'a'), 0);
  await files.chmodFolder(join(folder, 'a'), 0o750);
  expect(mode(join(folder, 'a'))).toBe(0o750);
});

test('no link is followed: not for a mode, not for bytes that are hashed, not at the end of what is written', async () => {
  mkdirSync(join(folder, 'target'), { mode: 0o700 });
  writeFileSync(join(folder, 'secret'), 'secret', { mode: 0o600 });
  symlinkSync('target', join(folder, 'link'));
  symlinkSync('secret', join(folder, 'file'));
  await expect(files.chmodFolder(join(folder, 'link'), 0o777)).rejects.toMatchObject({ code: expect.stringMatching(/ENOTDIR|ELOOP/) });
  expect(mode(join(folder, 'target'))).toBe(0o700);
  const read = async (): Promise<void> => {
    for await (const chunk of files.chunks(join(folder, 'file'))) void chunk;
  };
  await expect(read()).rejects.toMatchObject({ code: 'ELOOP' });
  await expect(files.write(join(folder, 'file'), Buffer.from('x'), { mode: 0o644 })).rejects.toMatchObject({ code: 'ELOOP' });
});

test.runIf(process.platform === 'linux')('a watch reports what changed in its folder', async () => {
  const changed = new Set<string | undefined>();
  const end = files.watch(folder, (name) => changed.add(name));
  try {
    writeFileSync(join(folder, 'one'), 'x');
    chmodSync(join(folder, 'one'), 0o600);
    await vi.waitFor(() => expect([...changed]).toEqual(['one']), 5_000);
  } finally {
    end();
  }
});
