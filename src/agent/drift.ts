import { join } from 'node:path';
import { messageOf } from '../api/errors.ts';
import type { FileSpec } from './componentspec.ts';
import type { Context } from './context.ts';
import { damagedPaths, loadManifest } from './generation.ts';
import { componentLayout, onNode } from './layout.ts';
import type { Manifest } from './manifest.ts';
import type { Finding } from './observed.ts';
import type { Files } from './ports/files.ts';

/** What of an installed component is not as it was installed. `full`: its artifacts too, which are hashed. */
export async function findDrift(ctx: Context, manifest: Manifest, full: boolean): Promise<Finding[]> {
  const { durable, layout } = ctx;
  const { files } = durable;
  const findings: Finding[] = [];
  for (const file of manifest.files) {
    if (file.onDrift === 'Ignore') continue;
    // What cannot even be looked at is put right like anything else.
    const what = await differenceOf(files, onNode(layout.root, file.path), file).catch(
      (error: unknown) => `cannot be read: ${messageOf(error)}`,
    );
    if (what !== undefined) findings.push({ kind: 'file', path: file.path, what, repair: file.onDrift === 'Repair' });
  }
  const paths = componentLayout(layout, manifest.name);
  if ((await files.readlink(paths.current)) !== manifest.digest) {
    findings.push({ kind: 'link', path: paths.current, what: 'does not lead to what was installed', repair: true });
  }
  if (full) {
    const folder = paths.generation(manifest.digest);
    if ((await loadManifest(durable, layout, manifest.name, manifest.digest)) === undefined) {
      findings.push({ kind: 'tree', path: join(folder, '.kubenode'), what: 'is damaged', repair: true });
    }
    for (const path of await damagedPaths(durable, folder)) {
      findings.push({ kind: 'tree', path: join(folder, path), what: 'is missing or differs', repair: true });
    }
  }
  return findings;
}

async function differenceOf(files: Files, path: string, file: FileSpec): Promise<string | undefined> {
  const found = await files.stat(path);
  if (found === undefined) return 'is missing';
  if (found.kind !== 'file') return `is a ${found.kind}`;
  if (!(await files.read(path))?.equals(Buffer.from(file.content))) return 'has other content';
  return found.mode === file.mode ? undefined : `has mode ${octal(found.mode)}, not ${octal(file.mode)}`;
}

export const describe = ({ path, what }: Finding): string => `${path} ${what}`;

const octal = (mode: number): string => `0${mode.toString(8)}`;
