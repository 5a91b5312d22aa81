import { expect, test } from 'vitest';
import type { PodDisruptionBudget } from '../../api/builtin.ts';
import { unending } from './budgets.ts';

const pod = { namespace: 'web', name: 'p', uid: 'p', terminating: false, labels: { app: 'a' } };
const budget = (name: string, desiredHealthy: number, expectedPods: number, app = 'a', observedGeneration = 1): PodDisruptionBudget => ({
  apiVersion: 'policy/v1',
  kind: 'PodDisruptionBudget',
  metadata: { name, namespace: 'web', generation: 1 },
  spec: { selector: { matchLabels: { app } } },
  status: { desiredHealthy, expectedPods, observedGeneration, disruptionsAllowed: 0 },
});

test('a budget that wants all its pods is named; one that only waits for another pod is not', () => {
  expect(unending([budget('all', 2, 2)], [pod])).toEqual(['PodDisruptionBudget web/all never allows it: it wants 2 of 2 pods healthy']);
  expect(unending([budget('some', 1, 2)], [pod])).toEqual([]);
  expect(unending([budget('others', 2, 2, 'b')], [pod])).toEqual([]);
  expect(unending([budget('new', 2, 2, 'a', 0)], [pod])).toEqual([]);
});

test('two budgets of one pod are named: the server evicts no such pod', () => {
  expect(unending([budget('x', 1, 2), budget('y', 1, 2)], [pod])).toEqual([
    'pod web/p has PodDisruptionBudgets x and y: a pod with more than one is never evicted',
  ]);
});
