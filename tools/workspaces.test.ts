import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { sourceOf, workspacesOf } from './workspaces.ts';

const ROOT = join(import.meta.dirname, '..');
const workspaces = workspacesOf(ROOT);

it('what the packages export exists', () => {
  expect(workspaces.map(({ name }) => name)).toEqual(['@kubenode/api-machinery', '@kubenode/embedded']);
  const files = workspaces.flatMap(({ exports }) => Object.values(exports)).filter((file) => !file.includes('*'));
  expect(files.length).toBeGreaterThan(0);
  expect(files.filter((file) => !existsSync(join(ROOT, file)))).toEqual([]);
});

it.each([
  ['@kubenode/embedded', 'packages/embedded/src/index.ts'],
  ['@kubenode/embedded/pki', 'packages/embedded/src/pki.ts'],
  ['@kubenode/api-machinery/wire', 'packages/api-machinery/src/wire.ts'],
  ['@kubenode/embedded-else', undefined],
  ['./pki.ts', undefined],
])('%s is %s', (specifier, file) => {
  expect(sourceOf(specifier, workspaces)).toBe(file);
});

it('an entry that is not exported is an error', () => {
  expect(() => sourceOf('@kubenode/embedded/cluster', workspaces)).toThrow('@kubenode/embedded exports no ./cluster');
});
