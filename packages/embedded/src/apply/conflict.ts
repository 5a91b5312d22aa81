import type { Status } from '@kubenode/api-machinery/wire';
import { pathTextOf } from './element.ts';
import type { FieldSet } from './field-set.ts';
import { paths } from './field-set.ts';
import { quote } from './go-text.ts';
import type { FieldManager } from './managers.ts';
import type { FieldConflict } from './types.ts';
import { compareStrings } from './value.ts';

/** Fields of each manager in the way, by its identity. */
export type Conflicts = ReadonlyMap<string, { manager: FieldManager; set: FieldSet }>;

/** `"kubectl-edit" with subresource "status" using apps/v1` */
function managerText(manager: FieldManager): string {
  const who = manager.subresource === '' ? quote(manager.name) : `${quote(manager.name)} with subresource ${quote(manager.subresource)}`;
  return manager.operation === 'Update' ? `${who} using ${manager.apiVersion}` : who;
}

/** One entry per manager and field: managers by identity, the fields of each in the server's order. */
export function describeConflicts(conflicts: Conflicts): FieldConflict[] {
  const out: FieldConflict[] = [];
  for (const [, { manager, set }] of [...conflicts].sort(([a], [b]) => compareStrings(a, b))) {
    const message = `conflict with ${managerText(manager)}`;
    for (const path of paths(set)) out.push({ manager: manager.name, field: pathTextOf(path), message });
  }
  return out;
}

/** The message of the 409: one line for one conflict, else the fields listed under each manager. */
export function conflictMessage(conflicts: readonly FieldConflict[]): string {
  const [first] = conflicts;
  if (first !== undefined && conflicts.length === 1) return `Apply failed with 1 conflict: ${first.message}: ${first.field}`;
  const lines: string[] = [];
  let last: FieldConflict | undefined;
  for (const conflict of conflicts) {
    if (conflict.message !== last?.message) lines.push(`${conflict.message.replace(/^conflict with/, 'conflicts with')}:`);
    last = conflict;
    lines.push(`- ${conflict.field}`);
  }
  return `Apply failed with ${conflicts.length} conflicts: ${lines.join('\n')}`;
}

/** The body of the 409, with one cause per field. */
export function conflictStatus(conflicts: readonly FieldConflict[]): Status {
  return {
    kind: 'Status',
    apiVersion: 'v1',
    metadata: {},
    status: 'Failure',
    message: conflictMessage(conflicts),
    reason: 'Conflict',
    details: { causes: conflicts.map(({ message, field }) => ({ reason: 'FieldManagerConflict', message, field })) },
    code: 409,
  };
}
