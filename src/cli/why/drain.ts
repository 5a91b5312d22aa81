/** What keeps the pods of a node that is to be drained. */
import type { DrainBudget, Machine } from '../../api/machine.ts';

export function drainLines({ spec, status }: Machine): string[] {
  const { drain } = status ?? {};
  const { operation } = spec;
  const budgets = drain?.budgets ?? [];
  return [
    ...(drain === undefined ? [] : [`its drain waits for ${counted(drain.podsLeft, 'pod')}`]),
    ...budgets.map((budget) => `  ${keeps(budget)}`),
    ...(operation?.kind === 'Cancelled' && operation.cause === 'DrainTimeout'
      ? [`its last drain was given up: ${operation.reason ?? 'pods were left'}`]
      : []),
  ];
}

/** What a person can do about it. */
export const drainActions = ({ status }: Machine): string[] =>
  (status?.drain?.budgets ?? []).map(({ namespace, name, never }) =>
    never === true
      ? `PodDisruptionBudget ${namespace}/${name} asks for less than all of its pods: kubectl edit pdb ${name} -n ${namespace}`
      : `PodDisruptionBudget ${namespace}/${name} allows a disruption, when more of its pods are healthy: kubectl describe pdb ${name} -n ${namespace}`,
  );

function keeps(budget: DrainBudget): string {
  const { namespace, name, disruptionsAllowed, currentHealthy, desiredHealthy, expectedPods, never, waiting, pods } = budget;
  const allows = disruptionsAllowed === undefined ? ' has no status yet' : ` allows ${counted(disruptionsAllowed, 'disruption')}`;
  const healthy =
    currentHealthy === undefined || desiredHealthy === undefined
      ? ''
      : ` (healthy are ${currentHealthy} of ${expectedPods ?? 'its'} pods, ${desiredHealthy} must be)`;
  const ever = never === true ? ', and never will as it stands' : '';
  const more = waiting > pods.length ? ` and ${waiting - pods.length} more` : '';
  return `PodDisruptionBudget ${namespace}/${name}${allows}${healthy}${ever}; ${counted(waiting, 'pod')} here: ${pods.join(', ')}${more}`;
}

const counted = (count: number, what: string): string => `${count} ${what}${count === 1 ? '' : 's'}`;
