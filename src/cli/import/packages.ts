import { createReadStream, createWriteStream, existsSync } from 'node:fs';
import { mkdir, mkdtemp, rename, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import { buildAgentPackage } from '../agent-package/build.ts';
import { cacheFolder, type Architecture } from '../agent-package/runtime.ts';
import type { PreparedPackage } from './import-one.ts';

/** Packages that are made when the first machine of an architecture wants one; compressed, they are kept in the user's cache folder. */
export async function openPackages(): Promise<{ packageFor(arch: Architecture): Promise<PreparedPackage>; close(): Promise<void> }> {
  const folder = await mkdtemp(join(tmpdir(), 'kubenode-import-'));
  const made = new Map<Architecture, Promise<PreparedPackage>>();
  async function make(arch: Architecture): Promise<PreparedPackage> {
    const path = join(folder, `${arch}.tar`);
    const built = await buildAgentPackage(arch, path);
    const compressed = join(cacheFolder(), `agent-${built.slot}-${built.sha256.slice(0, 16)}.tar.gz`);
    if (!existsSync(compressed)) {
      await mkdir(dirname(compressed), { recursive: true });
      const beside = `${compressed}.${process.pid}.new`;
      await pipeline(createReadStream(path), createGzip(), createWriteStream(beside));
      await rename(beside, compressed);
    }
    await rm(path);
    return { ...built, compressed };
  }
  return {
    packageFor(arch) {
      const found = made.get(arch) ?? make(arch);
      made.set(arch, found);
      return found;
    },
    close: () => rm(folder, { recursive: true, force: true }),
  };
}
