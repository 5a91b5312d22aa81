/** Why a set of machines, or of a component, is where it is. */
import type { MachineComponentSet } from '../../api/machine-component-set.ts';
import { wantedReplicas, type MachineSet } from '../../api/machine-set.ts';
import type { Condition, Stored } from '../../api/wire.ts';
import { age } from '../output.ts';
import { ago, because, conditionLines } from './words.ts';

/** Which comes first where several are true; the first of a list is the answer. */
const SET_ANSWERS: readonly (readonly [type: string, status: Condition['status']])[] = [
  ['WriteFailed', 'True'],
  ['ScaleDownBlocked', 'True'],
  // Also where it has made all that it wants: some are not available since.
  ['Available', 'False'],
  ['Progressing', 'False'],
  ['Progressing', 'True'],
];
const COMPONENT_ANSWERS: readonly (readonly [type: string, status: Condition['status']])[] = [
  ['Conflict', 'True'],
  ['Halted', 'True'],
  ['RequirementsMet', 'False'],
  ['Progressing', 'False'],
  ['Progressing', 'True'],
];

export function machineSetLines(set: Stored<MachineSet>, nowMs: number): string[] {
  const { metadata, spec, status } = set;
  const { replicas = 0, readyReplicas = 0, retiringReplicas = 0, deletingReplicas = 0, createFailure, making = [] } = status ?? {};
  const wanted = wantedReplicas(set);
  const under = [
    making.length === 0 ? '' : `${making.length} being made`,
    retiringReplicas === 0 ? '' : `${retiringReplicas} marked to go`,
    deletingReplicas === 0 ? '' : `${deletingReplicas} being deleted`,
  ].filter((part) => part !== '');
  return [
    `machineset/${metadata.namespace}/${metadata.name}  ${replicas} of ${wanted} machines, ${readyReplicas} ready${
      spec.paused === true ? ' (paused)' : ''
    }`,
    `  ${answerOf(set, SET_ANSWERS)}`,
    ...(under.length === 0 ? [] : [`  ${under.join(', ')}`]),
    ...(createFailure === undefined ? [] : [`  no machine can be made: ${createFailure}`]),
    ...conditionLines(status?.conditions, nowMs),
    '',
    `its machines: kubectl get machines -n ${metadata.namespace}; one of them: kubenode why machine/${metadata.namespace}/NAME`,
  ];
}

export function componentSetLines(set: Stored<MachineComponentSet>, nowMs: number): string[] {
  const { metadata, spec, status } = set;
  const { desired = 0, updated = 0, failed = 0, offline = 0, waiting = 0, batch = 0, batches, soakUntil, failures = [] } = status ?? {};
  const counts = [
    batch === 0 || batches === undefined ? '' : `batch ${batch} of ${batches}`,
    waiting === 0 ? '' : `${waiting} wait for Defender`,
    failed === 0 ? '' : `${failed} failed`,
    offline === 0 ? '' : `${offline} set aside (offline or held)`,
    soakUntil === undefined || Date.parse(soakUntil) <= nowMs ? '' : `soaks for ${age(Date.parse(soakUntil) - nowMs)} more`,
  ].filter((part) => part !== '');
  const waits = waiting > 0 && failures.length === 0;
  return [
    `machinecomponentset/${metadata.name}  ${spec.action === 'Remove' ? 'removal of ' : ''}${spec.componentName} ${spec.version}, on ${updated} of ${desired} machines${
      spec.paused === true ? ' (paused)' : ''
    }`,
    `  ${answerOf(set, COMPONENT_ANSWERS)}`,
    ...(counts.length === 0 ? [] : [`  ${counts.join(', ')}`]),
    ...(failures.length === 0 ? [] : ['', 'FAILED']),
    ...failures.map(
      ({ machine, reason, message, at }) => `  ${machine}  ${reason}: ${message}${at === undefined ? '' : `; ${ago(at, nowMs)}`}`,
    ),
    ...conditionLines(status?.conditions, nowMs),
    ...(waits ? ['', 'what a machine waits for: kubenode why machine/POOL/NAME (kubectl get machines -A)'] : []),
  ];
}

/** One sentence: the controller's last report on what matters most. */
function answerOf(
  { metadata, status }: { metadata: { generation?: number }; status?: { observedGeneration?: number; conditions?: Condition[] } },
  order: readonly (readonly [type: string, status: Condition['status']])[],
): string {
  if (status?.observedGeneration === undefined) return 'no controller has reported on it yet: do the cell controllers run here?';
  const stale = metadata.generation !== undefined && status.observedGeneration < metadata.generation;
  for (const [type, wanted] of order) {
    const found = status.conditions?.find((condition) => condition.type === type && condition.status === wanted);
    if (found !== undefined) return `${because(found)}${stale ? ' (of the spec before)' : ''}`;
  }
  return stale ? 'its controller has not reported on this spec yet' : 'its controller reports nothing that keeps it';
}
