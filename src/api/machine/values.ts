/** Values of a Machine that need no schema: the agent imports them, and no validator with them. */
import { canonical, sha256Hex } from '../digest.ts';
import type { ComponentEntry } from '../machine.ts';

/** The kind by its names. */
export const MACHINE = { kind: 'Machine', plural: 'machines', namespaced: true } as const;

/** How content goes to a cluster or a machine. Only what was verified there and is not revoked may go as Restore (docs/protocols.md#b7, #e6). */
export const LANES = ['Forward', 'Restore'] as const;

/** What an entry asks for. */
export const ENTRY_ACTIONS = ['Install', 'Remove'] as const;

/** As of the MachineComponent: an agent that reports a longer one could store nothing at all. */
export const LONGEST_COMPONENT_NAME = 63;

/** No revision is above it. So an agent cannot report a revision so high that no entry can exceed it in the numbers of JSON and the schema. */
export const LAST_REVISION = 2_147_483_647;

/** Why an operation is Cancelled. `Released`: an operator gave it up. */
export const CANCEL_CAUSES = ['RequestGone', 'Refused', 'Expired', 'DrainTimeout', 'Released'] as const;

export const OUTCOMES = ['Succeeded', 'TransientFailure', 'PermanentFailure', 'Superseded', 'Cancelled'] as const;

/** What becomes of a machine whose Machine is deleted (docs/protocols.md#c14). Absent: Delete. */
export const DELETION_POLICIES = ['Delete', 'Orphan', 'Reset'] as const;

/** How far the agent is with one component. */
export const COMPONENT_STATES = [
  'Fetching',
  'Waiting',
  'Switching',
  'Probing',
  'Healthy',
  'Unhealthy',
  'Restoring',
  'Removing',
  'Removed',
  'Failed',
] as const;

export const PHASES = ['Pending', 'Provisioning', 'Installing', 'Running', 'Degraded', 'NodeLost', 'Deleting'] as const;

/** Identity of what an entry asks for: two entries with equal content ask for the same. */
export function contentOf(entry: Pick<ComponentEntry, 'action' | 'version'> & { values?: Record<string, unknown> | undefined }): string {
  return sha256Hex(canonical({ action: entry.action, version: entry.version, values: entry.values ?? {} })).slice(0, 24);
}
