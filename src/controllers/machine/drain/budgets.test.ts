import { describe, expect, test } from 'vitest';
import type { LabelSelector, PodDisruptionBudget } from '../../../api/builtin.ts';
import { keeping, unending } from './budgets.ts';

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

test('a budget about which nothing was observed yet is not named', () => {
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

test.each<[string, LabelSelector | undefined, boolean]>([
  ['labels', { matchLabels: { app: 'a' } }, true],
  ['other labels', { matchLabels: { app: 'b' } }, false],
  ['an empty selector, which is every pod', {}, true],
  ['no selector, which is none', undefined, false],
  ['In', { matchExpressions: [{ key: 'app', operator: 'In', values: ['a', 'b'] }] }, true],
  ['In, of others', { matchExpressions: [{ key: 'app', operator: 'In', values: ['b'] }] }, false],
  ['In, of a key that it lacks', { matchExpressions: [{ key: 'tier', operator: 'In', values: ['a'] }] }, false],
  ['NotIn', { matchExpressions: [{ key: 'app', operator: 'NotIn', values: ['a'] }] }, false],
  ['NotIn, of a key that it lacks', { matchExpressions: [{ key: 'tier', operator: 'NotIn', values: ['a'] }] }, true],
  ['Exists', { matchExpressions: [{ key: 'app', operator: 'Exists' }] }, true],
  ['DoesNotExist', { matchExpressions: [{ key: 'app', operator: 'DoesNotExist' }] }, false],
  ['Exists, of a key that each object has', { matchExpressions: [{ key: 'constructor', operator: 'Exists' }] }, false],
  ['both', { matchLabels: { app: 'a' }, matchExpressions: [{ key: 'app', operator: 'DoesNotExist' }] }, false],
  ['an unknown operator', { matchExpressions: [{ key: 'app', operator: 'Gt', values: ['1'] }] }, false],
])('a pod is covered as Kubernetes has it: %s', (_, selector, isCovered) => {
  const { spec: _spec, ...rest } = budget('x', 2, 2);
  const of = selector === undefined ? rest : { ...rest, spec: { selector } };
  expect(keeping([of], [pod]).length).toBe(isCovered ? 1 : 0);
  expect(unending([of], [pod]).length).toBe(isCovered ? 1 : 0);
});

describe('the budgets that keep pods are reported in fields', () => {
  const pods = (count: number) => Array.from({ length: count }, (_, index) => ({ ...pod, name: `p${index}`, uid: `p${index}` }));

  test('with what they allow, and the pods that wait for them', () => {
    expect(keeping([budget('some', 1, 2), budget('others', 2, 2, 'b')], pods(2))).toEqual([
      { namespace: 'web', name: 'some', disruptionsAllowed: 0, desiredHealthy: 1, expectedPods: 2, waiting: 2, pods: ['p0', 'p1'] },
    ]);
  });

  test('those that never allow it first, and no more of anything than people read', () => {
    const budgets = [...Array.from({ length: 6 }, (_, index) => budget(`a${index}`, 1, 2)), budget('z', 2, 2)];
    const found = keeping(budgets, pods(7));
    expect(found.map(({ name, never }) => [name, never === true])).toEqual([
      ['z', true],
      ['a0', false],
      ['a1', false],
      ['a2', false],
      ['a3', false],
    ]);
    expect(found.map(({ waiting, pods: named }) => [waiting, named.length])).toEqual(found.map(() => [7, 5]));
  });

  test('one about which nothing was observed is named without numbers, and those of another namespace are not', () => {
    const { status: _, ...unobserved } = budget('new', 2, 2);
    expect(keeping([unobserved], [pod])).toEqual([{ namespace: 'web', name: 'new', waiting: 1, pods: ['p'] }]);
    expect(keeping([{ ...unobserved, metadata: { ...unobserved.metadata, namespace: 'db' } }], [pod])).toEqual([]);
  });
});

test('two budgets of one pod are named: the server evicts no such pod', () => {
  expect(unending([budget('x', 1, 2), budget('y', 1, 2)], [pod])).toEqual([
    'pod web/p has PodDisruptionBudgets x and y: a pod with more than one is never evicted',
  ]);
});
