import { join } from 'node:path';
import type { Context } from './context.ts';
import { damagedPaths, loadManifest } from './generation.ts';
import { componentLayout, onNode } from './layout.ts';
import type { Manifest } from './manifest.ts';
import type { Finding } from './observed.ts';

/** What of an installed component is not as it was installed. `full`: its artifacts too, which are hashed. */
export async function findDrift(ctx: Context, manifest: Manifest, full: boolean): Promise<Finding[]> {
  const { durable, layout } = ctx;
  const { files } = durable;
  const findings: Finding[] = [];
  for (const file of manifest.files) {
    if (file.onDrift === 'Ignore') continue;
    const path = onNode(layout.root, file.path);
    const found = await files.stat(path);
    let what: string | undefined;
    if (found === undefined) what = 'is missing';
    else if (found.kind !== 'file') what = `is a ${found.kind}`;
    else if (!(await files.read(path))?.equals(Buffer.from(file.content))) what = 'has other content';
    else if (found.mode !== file.mode) what = `has mode ${octal(found.mode)}, not ${octal(file.mode)}`;
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
      findings.push({ kind: 'tree', path: join(folder, path), what: 'is missing or has other content', repair: true });
    }
  }
  return findings;
}

export const describe = ({ path, what }: Finding): string => `${path} ${what}`;

const octal = (mode: number): string => `0${mode.toString(8)}`;
