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

test('a budget of which nothing was observed yet is not named', () => {
  const { status: _, ...unobserved } = budget('new', 2, 2);
  expect(unending([unobserved], [pod])).toEqual([]);
  expect(unending([{ ...unobserved, status: {} }], [pod])).toEqual([]);
});

test('a budget of a single pod that wants it is named, also where it has no generation', () => {
  const { metadata, ...one } = budget('one', 1, 1, 'a', 0);
  const { generation: _, ...ungenerated } = metadata;
  expect(unending([{ ...one, metadata: ungenerated }], [pod])).toEqual([
    'PodDisruptionBudget web/one never allows it: it wants 1 of 1 pods healthy',
  ]);
});

test('a selector with expressions is not judged', () => {
  const { spec: _, ...of } = budget('x', 2, 2);
  const selector = { matchLabels: { app: 'a' }, matchExpressions: [{ key: 'app', operator: 'Exists' }] };
  expect(unending([{ ...of, spec: { selector } }], [pod])).toEqual([]);
});

test('two budgets of one pod are named: the server evicts no such pod', () => {
  expect(unending([budget('x', 1, 2), budget('y', 1, 2)], [pod])).toEqual([
    'pod web/p has PodDisruptionBudgets x and y: a pod with more than one is never evicted',
  ]);
});
