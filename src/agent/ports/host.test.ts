import { mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { localHost } from './host.ts';

let root = '';
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'kubenode-host-'));
  mkdirSync(join(root, 'run/kubenode'), { recursive: true });
  writeFileSync(join(root, 'run/kubenode/boot-id'), 'boot\n');
});
afterEach(() => rmSync(root, { recursive: true }));

const files = (): string[] => readdirSync(join(root, 'run/kubenode')).sort();

test('a reboot is asked for in a file that is whole or not there, and asking twice is asking once', async () => {
  const host = await localHost(root);
  await host.reboot('op');
  await host.reboot('op');
  expect(files()).toEqual(['boot-id', 'reboot-request']);
  expect(JSON.parse(readFileSync(join(root, 'run/kubenode/reboot-request'), 'utf8'))).toEqual({ operationID: 'op' });
});

test('what was asked for one operation is taken back for that one only', async () => {
  const host = await localHost(root);
  await host.keepUp('op');
  await host.reboot('op');
  await host.keepUp('other');
  expect(files()).toEqual(['boot-id', 'reboot-request']);
  await host.keepUp('op');
  expect(files()).toEqual(['boot-id']);
});

test('without a boot ID nothing begins', async () => {
  writeFileSync(join(root, 'run/kubenode/boot-id'), ' \n');
  await expect(localHost(root)).rejects.toMatchObject({ code: 'BootUnknown' });
});
