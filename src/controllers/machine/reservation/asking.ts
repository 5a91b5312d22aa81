import type { Machine } from '../../../api/machine.ts';
import type { RemedyOperationJob } from '../../../api/remedy-operation-job.ts';
import type { Stored } from '../../../api/wire.ts';
import type { Reflector } from '../../../kube/reflector.ts';
import { asksByItself } from '../order/components.ts';
import { mayWaitForReservation } from '../repair/repair.ts';

/** Those that may ask Defender for something; found without reading the others. */
export interface Asking {
  /** Every machine for which `mayAsk` is true, and perhaps others; each once. */
  machines(): Stored<Machine>[];
}

const ASKS = 'machine/asks';
const YES = 'yes';
const machineAsks = (machine: Stored<Machine>): string[] => (asksByItself(machine) ? [YES] : []);
const jobAsks = (job: Stored<RemedyOperationJob>): string[] => (mayWaitForReservation(job) ? [YES] : []);

export function findAsking(stores: { machines: Reflector<Machine>; jobs: Reflector<RemedyOperationJob> }): Asking {
  stores.machines.addIndex(ASKS, machineAsks);
  stores.jobs.addIndex(ASKS, jobAsks);
  return {
    machines() {
      const found = new Set(stores.machines.byIndex(ASKS, YES));
      for (const { metadata, spec } of stores.jobs.byIndex(ASKS, YES)) {
        const machine = stores.machines.get({ namespace: metadata.namespace, name: spec.machine.name });
        if (machine !== undefined) found.add(machine);
      }
      return [...found];
    },
  };
}
