import type { ComponentEntry, ComponentStatus, Machine } from '../../api/machine.ts';
import { contentFrom, idOf } from './content.ts';

export interface EvidenceInput {
  entry: ComponentEntry;
  reported: ComponentStatus | undefined;
  /** Boot that the agent runs in. */
  bootID: string | undefined;
  /** The agent's Lease was renewed within its duration. */
  agentFresh: boolean;
}

/**
 * What is still missing until the agent's report proves that an entry is carried out and works; undefined: nothing.
 * A report is evidence only for this revision, this content and this boot (invariant 3), and only from an agent that is alive:
 * `running` names a revision only after the switch to it, and `bootID` only after its probes succeeded since.
 */
export function missingEvidence(input: EvidenceInput): string | undefined {
  const { entry, reported } = input;
  if (!input.agentFresh) return 'the agent does not renew its Lease';
  if (reported === undefined) return 'the agent has reported nothing of it';
  if (reported.running !== entry.revision) return `revision ${entry.revision} is not carried out (${reported.state})`;
  if (entry.action === 'Remove') return reported.state === 'Removed' ? undefined : `it is ${reported.state}`;
  if (reported.content !== idOf(entry)) return 'other content runs';
  if (reported.state !== 'Healthy') return `it is ${reported.state}`;
  if (input.bootID === undefined || reported.bootID !== input.bootID) return 'its probes have not succeeded in this boot';
  return undefined;
}

/** The soak of this entry in this boot that the Machine records; undefined: none. */
export function soakOf(machine: Machine, entry: ComponentEntry): { since: number; done: boolean } | undefined {
  const bootID = entry.action === 'Remove' ? undefined : machine.status?.agent?.bootID;
  const soak = machine.status?.soaks?.find(
    (each) => each.name === entry.name && each.revision === entry.revision && each.bootID === bootID,
  );
  return soak && { since: Date.parse(soak.since), done: soak.done === true };
}

/** Whether this very revision of the entry lasted through its soak. */
export function isVerified(machine: Machine, entry: ComponentEntry): boolean {
  if (entry.action === 'Remove') return soakOf(machine, entry)?.done === true;
  return (machine.status?.verified ?? []).some(
    (record) => record.name === entry.name && record.revision === entry.revision && idOfVerified(record) === idOf(entry),
  );
}

/** Only what was installed is ever recorded as verified. */
export function idOfVerified(record: { version: string; values?: Record<string, unknown> }): string {
  let id = verifiedIDs.get(record);
  if (id === undefined) {
    id = idOf(contentFrom('Install', record));
    verifiedIDs.set(record, id);
  }
  return id;
}
const verifiedIDs = new WeakMap<object, string>();
