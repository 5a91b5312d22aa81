import { API_VERSION } from '../../api/kind.ts';
import { Machines, type Machine } from '../../api/machine.ts';
import type { MachineSet } from '../../api/machine-set.ts';
import { LABELS } from '../../api/names.ts';
import type { KubeObject, Stored } from '../../api/wire.ts';

interface Fixed {
  provider?: Machine['spec']['provider'];
  failureDomain?: string | undefined;
}

/**
 * All that a set declares of one of its Machines, for server-side apply: what is left out here and was applied before, such as a label that the
 * template no longer has, is removed, and what others wrote stays. `fixed` is what the machine was made with: it is never made again
 * because the set declares otherwise now.
 */
export function desiredMachine(set: Stored<MachineSet>, of: { name: string; uid?: string }, fixed: Fixed): KubeObject & { spec: object } {
  const { metadata, failureDomain: _fixed, ...template } = set.spec.template ?? {};
  const { namespace = '' } = set.metadata;
  return {
    apiVersion: API_VERSION,
    kind: Machines.kind,
    metadata: {
      namespace,
      ...of,
      labels: { ...metadata?.labels, [LABELS.machineSet]: set.metadata.name },
      ownerReferences: [
        {
          apiVersion: API_VERSION,
          kind: 'MachineSet',
          name: set.metadata.name,
          uid: set.metadata.uid,
          controller: true,
          blockOwnerDeletion: true,
        },
      ],
    },
    spec: {
      ...withoutEmptyLabels(template),
      ...(fixed.provider === undefined ? {} : { provider: fixed.provider }),
      ...(fixed.failureDomain === undefined ? {} : { failureDomain: fixed.failureDomain }),
    },
  };
}

/** An apply that takes the last label out of a map and gives it as empty leaves null there, which the schema refuses (docs/protocols.md#e3). */
function withoutEmptyLabels({ labels, ...template }: Pick<Machine['spec'], 'labels'>): object {
  return labels === undefined || Object.keys(labels).length === 0 ? template : { labels, ...template };
}

/** The desired state of a Machine that is there. Its UID keeps an apply from making it again when it is gone. */
export function syncedMachine(set: Stored<MachineSet>, machine: Stored<Machine>): KubeObject {
  const { name, uid } = machine.metadata;
  return desiredMachine(set, { name, uid }, machine.spec);
}
