import { mkdtemp, readdir, rm, stat, utimes } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { unitDigest } from '../api/digest.ts';
import { openBundles, type StoredUnit } from './bundles.ts';

let dir: string;
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'kubenode-bundles-'));
});
afterEach(() => rm(dir, { recursive: true }));

const unit = (name: string): StoredUnit => ({
  key: `ConfigMap/web/${name}`,
  objects: [{ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name, namespace: 'web' } }],
  origins: [undefined],
});
const put = async (name: string, daysOld: number): Promise<string> => {
  const digest = unitDigest(unit(name).objects);
  await openBundles(dir).put(digest, unit(name));
  const file = join(dir, `${digest.replace(':', '-')}.json`);
  const at = new Date((await stat(file)).mtimeMs - daysOld * 86_400_000);
  await utimes(file, at, at);
  return digest;
};

it('H5: sweeps what is old by the clock of its file system, and keeps what is wanted', async () => {
  const [old, wanted, young] = [await put('old', 8), await put('wanted', 8), await put('young', 6)];
  const bundles = openBundles(dir);
  await bundles.sweep(new Set([wanted]), 7 * 86_400_000);
  expect(await bundles.get(old)).toBeUndefined();
  expect([await bundles.get(wanted), await bundles.get(young)]).toMatchObject([
    { key: 'ConfigMap/web/wanted' },
    { key: 'ConfigMap/web/young' },
  ]);
});

it('sweeps a folder that is not there yet, and one twice', async () => {
  await openBundles(join(dir, 'none')).sweep(new Set(), 0);
  const bundles = openBundles(dir);
  await bundles.sweep(new Set(), 1000);
  await bundles.sweep(new Set(), 1000);
  expect((await readdir(dir)).filter((name) => name.endsWith('.json'))).toEqual([]);
});
