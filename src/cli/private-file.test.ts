import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { writePrivateFile } from './private-file.ts';

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'kubenode-private-'));
});
afterEach(() => rmSync(dir, { recursive: true }));

it('security 9: writes a kubeconfig through no link that another user made at a name that can be guessed', async () => {
  const victim = join(dir, 'victim');
  writeFileSync(victim, 'mine');
  const file = join(dir, 'kubeconfig');
  for (const name of [`${file}.${process.pid}`, `${file}.new`, file]) symlinkSync(victim, name);
  await writePrivateFile(file, 'secret');
  expect(readFileSync(victim, 'utf8')).toBe('mine');
  expect(readFileSync(file, 'utf8')).toBe('secret');
  expect(statSync(file).mode & 0o777).toBe(0o600);
  expect(readdirSync(dir).filter((name) => name.startsWith('.'))).toEqual([]);
});

it('leaves nothing behind where it cannot write', async () => {
  const file = join(dir, 'folder');
  await writePrivateFile(join(dir, 'other'), '');
  rmSync(join(dir, 'other'));
  const taken = join(file, 'x');
  await expect(writePrivateFile(taken, 'secret')).rejects.toMatchObject({ code: 'ENOENT' });
  expect(readdirSync(dir)).toEqual([]);
});
