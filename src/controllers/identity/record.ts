import { ADMITTED } from '../../api/admission.ts';
import { Machines, type Bootstrap, type Machine } from '../../api/machine.ts';
import { MANAGERS } from '../../api/names.ts';
import type { Stored } from '../../api/wire.ts';
import { machinePatch } from '../../defender/guarded-patch.ts';
import type { Client } from '../../kube/client.ts';
import { setCondition, type ConditionInput } from '../../kube/conditions.ts';
import { patchIfSame } from '../shared/send-patch.ts';

export interface Report {
  condition: Omit<ConditionInput, 'type'>;
  nowMs: number;
}

/**
 * Writes what is known of a machine's admission, if its spec and the record of its admission are still as they were read. The faster writer wins, and the other
 * decides again. No decision depends on what the agent writes (docs/protocols.md#c4a). Errors: those of the API, `Conflict` above all.
 */
export async function recordBootstrap(
  client: Client,
  machine: Stored<Machine>,
  bootstrap: Bootstrap | undefined,
  report: Report | undefined,
  signal: AbortSignal,
): Promise<Stored<Machine>> {
  const before = machine.status?.conditions;
  const conditions = report === undefined ? before : setCondition(before, { type: ADMITTED, ...report.condition }, report.nowMs);
  const status = {
    ...machine.status,
    ...(bootstrap === undefined ? {} : { bootstrap }),
    ...(conditions === undefined ? {} : { conditions }),
  };
  const json = machinePatch(machine, { ...machine, status }, { known: false, on: [['status', 'bootstrap']] }, true);
  return await patchIfSame(client, Machines, machine, json, { fieldManager: MANAGERS.identity, subresource: 'status', signal });
}

export const TOKEN = 'ServiceAccountToken';

/** The condition Admitted of a record. */
export function conditionFor(record: Bootstrap, machine: Stored<Machine>) {
  const before = machine.status?.conditions?.find(({ type }) => type === 'Admitted');
  if (record.by === 'Token') return { status: 'True', reason: TOKEN, message: before?.message ?? 'the agent is a ServiceAccount' } as const;
  const message = `the agent was admitted in epoch ${record.epoch}; its newest certificate ends by ${record.until ?? ''}`;
  return { status: 'True', reason: 'ClientCertificate', message } as const;
}
