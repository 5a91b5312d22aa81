/** The disruption budgets that keep a drain from ending, now or for ever. */
import { PodDisruptionBudgets, type LabelSelector, type PodDisruptionBudget } from '../../../api/builtin.ts';
import type { DrainBudget } from '../../../api/machine.ts';
import { own } from '../../../api/own.ts';
import type { Client } from '../../../kube/client.ts';
import type { DrainedPod } from '../view.ts';

/** The budgets of these pods, one request a namespace. */
export async function budgetsOf(client: Client, pods: readonly DrainedPod[], signal: AbortSignal): Promise<PodDisruptionBudget[]> {
  const found: PodDisruptionBudget[] = [];
  for (const namespace of new Set(pods.map((pod) => pod.namespace)))
    found.push(...(await client.listAll(PodDisruptionBudgets, { namespace, signal })).items);
  return found;
}

/** The obstacles among them that time will not remove; one text each. Pure. */
export function unending(budgets: readonly PodDisruptionBudget[], pods: readonly DrainedPod[]): string[] {
  const found = new Set<string>();
  for (const pod of pods) {
    const covering = budgets.filter((budget) => covers(budget, pod));
    const names = covering.map(({ metadata }) => metadata.name).toSorted();
    if (covering.length > 1)
      found.add(
        `pod ${pod.namespace}/${pod.name} has PodDisruptionBudgets ${names.join(' and ')}: a pod with more than one is never evicted`,
      );
    for (const budget of covering) {
      if (!isNever(budget)) continue;
      const { desiredHealthy = 0, expectedPods = 0 } = budget.status ?? {};
      const name = `${pod.namespace}/${budget.metadata.name}`;
      found.add(`PodDisruptionBudget ${name} never allows it: it wants ${desiredHealthy} of ${expectedPods} pods healthy`);
    }
  }
  return [...found];
}

const MAX_BUDGETS = 5;
const MAX_PODS = 5;

/** Those that cover pods whose eviction was refused: what never allows it first, then by how many pods wait, then by name. Pure. */
export function keeping(budgets: readonly PodDisruptionBudget[], refused: readonly DrainedPod[]): DrainBudget[] {
  const found = budgets.flatMap((budget): DrainBudget[] => {
    const pods = refused.filter((pod) => covers(budget, pod)).map(({ name }) => name);
    if (pods.length === 0) return [];
    const { disruptionsAllowed, currentHealthy, desiredHealthy, expectedPods } = budget.status ?? {};
    return [
      {
        namespace: budget.metadata.namespace ?? '',
        name: budget.metadata.name,
        ...(disruptionsAllowed === undefined ? {} : { disruptionsAllowed }),
        ...(currentHealthy === undefined ? {} : { currentHealthy }),
        ...(desiredHealthy === undefined ? {} : { desiredHealthy }),
        ...(expectedPods === undefined ? {} : { expectedPods }),
        ...(isNever(budget) ? { never: true } : {}),
        waiting: pods.length,
        pods: pods.toSorted().slice(0, MAX_PODS),
      },
    ];
  });
  const key = ({ namespace, name }: DrainBudget): string => `${namespace}/${name}`;
  const rank = ({ never }: DrainBudget): number => (never === true ? 0 : 1);
  return found.toSorted((a, b) => rank(a) - rank(b) || b.waiting - a.waiting || (key(a) < key(b) ? -1 : 1)).slice(0, MAX_BUDGETS);
}

function isNever({ status, metadata }: PodDisruptionBudget): boolean {
  const { desiredHealthy = 0, expectedPods = 0, observedGeneration = 0 } = status ?? {};
  return expectedPods > 0 && desiredHealthy >= expectedPods && observedGeneration >= (metadata.generation ?? 0);
}

/** As policy/v1 has it: an empty selector is every pod of the namespace, none is no pod. */
function covers({ metadata, spec }: PodDisruptionBudget, pod: DrainedPod): boolean {
  return metadata.namespace === pod.namespace && spec?.selector !== undefined && selects(spec.selector, pod.labels ?? {});
}

function selects({ matchLabels = {}, matchExpressions = [] }: LabelSelector, labels: Readonly<Record<string, string>>): boolean {
  return (
    Object.entries(matchLabels).every(([key, value]) => labels[key] === value) &&
    matchExpressions.every(({ key, operator, values = [] }) => {
      const value = own(labels, key);
      switch (operator) {
        case 'In':
          return value !== undefined && values.includes(value);
        case 'NotIn':
          return value === undefined || !values.includes(value);
        case 'Exists':
          return value !== undefined;
        case 'DoesNotExist':
          return value === undefined;
        default:
          // Of another version: such a budget shows by its refusals alone.
          return false;
      }
    })
  );
}
