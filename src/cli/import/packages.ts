import { createReadStream, createWriteStream } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import { buildAgentPackage } from '../agentpackage/build.ts';
import type { Architecture } from '../agentpackage/runtime.ts';
import type { PreparedPackage } from './importone.ts';

/** Packages that are made when the first machine of an architecture wants one, and go when the import ends. */
export async function openPackages(): Promise<{ packageFor(arch: Architecture): Promise<PreparedPackage>; close(): Promise<void> }> {
  const folder = await mkdtemp(join(tmpdir(), 'kubenode-import-'));
  const made = new Map<Architecture, Promise<PreparedPackage>>();
  async function make(arch: Architecture): Promise<PreparedPackage> {
    const path = join(folder, `${arch}.tar`);
    const built = await buildAgentPackage(arch, path);
    await pipeline(createReadStream(path), createGzip({ level: 4 }), createWriteStream(`${path}.gz`));
    return { ...built, compressed: `${path}.gz` };
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
