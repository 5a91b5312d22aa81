import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, open, readFile, rename } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { sha256Hex } from '../../api/digest.ts';
import { bundleFor } from '../bundles.ts';
import { version } from '../program.ts';
import { archiveOf, type ArchiveFile } from './archive.ts';
import { runtimeOf, type Architecture, type RuntimeLock } from './runtime.ts';

export interface AgentPackage {
  path: string;
  arch: Architecture;
  version: string;
  /** Of the archive's bytes, hexadecimal. */
  sha256: string;
  bytes: number;
  /** Name of its folder below /opt/kubenode/agent on a node: version and a digest of its content. */
  slot: string;
}

const PROGRAMS = ['install', 'uninstall', 'kubenode-agent'];

/** Folder with what the package contains besides bundle and Node. */
function filesFolder(): URL {
  const shipped = new URL('../../agent-package/', import.meta.url);
  return existsSync(fileURLToPath(shipped)) ? shipped : new URL('../../../deploy/agent/', import.meta.url);
}

/**
 * Writes the agent's package for one architecture: a plain tar whose bytes follow from the sources and the pinned Node, wherever it is made.
 * Errors: `RuntimeUnavailable`.
 */
export async function buildAgentPackage(arch: Architecture, path: string): Promise<AgentPackage> {
  const folder = filesFolder();
  const text = (name: string): Promise<Buffer> => readFile(new URL(name, folder));
  const lock = JSON.parse((await text('runtime.json')).toString()) as RuntimeLock;
  const runtime = await runtimeOf(lock, arch);
  const files: ArchiveFile[] = [
    { name: 'LICENSE.node', mode: 0o644, content: runtime.license },
    { name: 'VERSION', mode: 0o644, content: Buffer.from(`${version()}\n`) },
    { name: 'agent.mjs', mode: 0o644, content: await readFile(await bundleFor('agent')) },
    { name: 'tool.mjs', mode: 0o644, content: await readFile(await bundleFor('agenttool')) },
    { name: 'kubenode-agent.service', mode: 0o644, content: await text('kubenode-agent.service') },
    { name: 'node', mode: 0o755, content: runtime.node },
    ...(await Promise.all(PROGRAMS.map(async (name) => ({ name, mode: 0o755, content: await text(name) })))),
  ];
  const sums = files
    .map(({ name, content }) => `${sha256Hex(content)}  ${name}\n`)
    .toSorted()
    .join('');
  const pieces = archiveOf([...files, { name: 'SHA256SUMS', mode: 0o644, content: Buffer.from(sums) }]);
  const sha256 = createHash('sha256');
  let bytes = 0;
  await mkdir(dirname(resolve(path)), { recursive: true });
  const beside = `${path}.${process.pid}.new`;
  const file = await open(beside, 'w', 0o644);
  try {
    for (const piece of pieces) {
      sha256.update(piece);
      bytes += piece.length;
      await file.writeFile(piece);
    }
    await file.sync();
  } finally {
    await file.close();
  }
  await rename(beside, path);
  return { path, arch, version: version(), sha256: sha256.digest('hex'), bytes, slot: `${version()}-${sha256Hex(sums).slice(0, 16)}` };
}
