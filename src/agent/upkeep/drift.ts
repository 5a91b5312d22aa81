import { agentErrorCodes } from '../errors.ts';
import { dirname, join, relative } from 'node:path';
import { isCoded, messageOf } from '../../api/errors.ts';
import type { FileSpec } from '../generation/spec.ts';
import type { AgentContext } from '../context.ts';
import { hasContent } from '../disk/durable.ts';
import { componentLayout } from '../disk/layout.ts';
import type { Manifest } from '../generation/manifest.ts';
import type { DriftFinding } from './memory.ts';
import type { Files } from '../ports/files.ts';
import { inReached, reach } from '../disk/reach.ts';
import { receiptText } from '../records/receipts.ts';
import type { Receipt } from '../records/receipts.ts';
import { damagedPaths, isTouched } from '../generation/tree.ts';

export interface DriftCheck {
  /** Findings of the check before. */
  before: readonly DriftFinding[];
  /** What of the generation's folder is checked; relative to it, the empty path is all of it. Absent: all. */
  touched: ReadonlySet<string> | undefined;
}

/** What of an installed component is not as it was installed. What is not checked stays as it was found before. */
export async function findDrift(
  ctx: Pick<AgentContext, 'durable' | 'layout'>,
  manifest: Manifest,
  receipt: Receipt,
  { before, touched }: DriftCheck,
): Promise<DriftFinding[]> {
  const { durable, layout } = ctx;
  const { files } = durable;
  const findings: DriftFinding[] = [];
  for (const file of manifest.files) {
    if (file.onDrift === 'Ignore') continue;
    try {
      const what = await differenceOf(files, layout.root, file);
      if (what !== undefined) findings.push({ kind: 'file', path: file.path, what, repair: file.onDrift === 'Repair' });
    } catch (error) {
      // A file that cannot even be read is repaired like any other, unless a folder on the way to it belongs to another user.
      const repair = file.onDrift === 'Repair' && !isCoded(error, agentErrorCodes, 'PathRefused');
      findings.push({ kind: 'file', path: file.path, what: `cannot be read: ${messageOf(error)}`, repair });
    }
  }
  const paths = componentLayout(layout, manifest.name);
  if ((await files.readlink(paths.current).catch(() => undefined)) !== manifest.digest) {
    findings.push({ kind: 'link', path: paths.current, what: 'does not lead to what was installed', repair: true });
  }
  if ((await files.read(paths.receipt))?.toString() !== receiptText(receipt)) {
    findings.push({ kind: 'receipt', path: paths.receipt, what: 'is missing or differs', repair: true });
  }
  const folder = paths.generation(manifest.digest);
  const known = before.filter((each) => each.kind === 'tree');
  if (touched?.size === 0) return [...findings, ...known];
  for (const path of await damagedPaths(files, folder, manifest.digest, touched)) {
    findings.push({ kind: 'tree', path: join(folder, path), what: 'is missing or differs', repair: true });
  }
  for (const finding of known) {
    if (touched === undefined || isTouched(touched, relative(folder, finding.path))) continue;
    if (!findings.some((each) => each.path === finding.path)) findings.push(finding);
  }
  return findings;
}

/** undefined: it is as it was written. Reads no more bytes than were written. Errors: `PathRefused`, `FileFailed`, those of the system. */
export async function differenceOf(files: Files, root: string, file: FileSpec): Promise<string | undefined> {
  const reached = await reach(files, root, dirname(file.path));
  if (reached === undefined) return 'is missing';
  return await inReached(reached, file.path, async (at) => {
    const found = await files.stat(at);
    if (found === undefined) return 'is missing';
    if (found.kind !== 'file') return `is a ${found.kind}`;
    const content = Buffer.from(file.content);
    if (found.size !== content.length || !(await hasContent(files, at, content))) return 'has other content';
    return found.mode === file.mode ? undefined : `has mode ${octal(found.mode)}, not ${octal(file.mode)}`;
  });
}

export const describe = ({ path, what }: DriftFinding): string => `${path} ${what}`;

const octal = (mode: number): string => `0${mode.toString(8)}`;
