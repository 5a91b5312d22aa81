import { canonical, sha256Hex } from '../../api/digest.ts';
import type { ComponentEntry } from '../../api/machine.ts';

/*
 * Two functions of src/api that are needed here without the schemas and the validator that stand in the same files (13 MB of
 * memory on every node). content.test.ts holds them equal.
 */

/** Identity of what an entry asks for: `contentOf` of src/api/machine.ts. */
export function contentOf(entry: Pick<ComponentEntry, 'action' | 'version'> & { values?: Record<string, unknown> | undefined }): string {
  return sha256Hex(canonical({ action: entry.action, version: entry.version, values: entry.values ?? {} })).slice(0, 24);
}

/** Name of the MachineComponent of a version: `machineComponentName` of src/api/machine-component.ts. */
export function machineComponentName(component: string, version: string): string {
  return `${component}-${version.toLowerCase().replaceAll(/[^a-z0-9.-]/g, '-')}`;
}
