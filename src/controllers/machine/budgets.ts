/** Whose disruption budgets keep a drain from ever ending. */
import { PodDisruptionBudgets, type PodDisruptionBudget } from '../../api/builtin.ts';
import { matchesLabels } from '../../api/selector.ts';
import type { Client } from '../../kube/client.ts';
import type { DrainedPod } from './view.ts';

/** The budgets of these pods, one request a namespace, and what of them no waiting will change; one text each. */
export async function unendingBudgets(client: Client, pods: readonly DrainedPod[], signal: AbortSignal): Promise<string[]> {
  const found: string[] = [];
  for (const namespace of new Set(pods.map((pod) => pod.namespace))) {
    const { items } = await client.listAll(PodDisruptionBudgets, { namespace, signal });
    found.push(
      ...unending(
        items,
        pods.filter((pod) => pod.namespace === namespace),
      ),
    );
  }
  return found;
}

/** Pure. Selectors with expressions are not judged: such a budget is told by its refusals alone. */
export function unending(budgets: readonly PodDisruptionBudget[], pods: readonly DrainedPod[]): string[] {
  const told = new Set<string>();
  for (const pod of pods) {
    const covering = budgets.filter((budget) => covers(budget, pod));
    const names = covering.map(({ metadata }) => metadata.name).toSorted();
    if (covering.length > 1)
      told.add(
        `pod ${pod.namespace}/${pod.name} has PodDisruptionBudgets ${names.join(' and ')}: a pod with more than one is never evicted`,
      );
    for (const budget of covering) {
      const { desiredHealthy = 0, expectedPods = 0, observedGeneration = 0 } = budget.status ?? {};
      if (expectedPods === 0 || desiredHealthy < expectedPods || observedGeneration < (budget.metadata.generation ?? 0)) continue;
      const name = `${pod.namespace}/${budget.metadata.name}`;
      told.add(`PodDisruptionBudget ${name} never allows it: it wants ${desiredHealthy} of ${expectedPods} pods healthy`);
    }
  }
  return [...told];
}

function covers({ spec }: PodDisruptionBudget, pod: DrainedPod): boolean {
  const { matchLabels, ...expressions } = spec?.selector ?? {};
  return Object.keys(expressions).length === 0 && matchesLabels(matchLabels, pod.labels);
}
