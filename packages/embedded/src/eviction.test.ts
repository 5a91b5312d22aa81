import { beforeEach, describe, expect, it } from 'vitest';
import type { JsonObject } from '@kubenode/api-machinery/wire';
import { settled } from './testing/clock.ts';
import { closeRig, openRig, pick, type Rig } from './testing/rig.ts';

let rig: Rig;
const PODS = '/api/v1/namespaces/default/pods';
const BUDGETS = '/apis/policy/v1/namespaces/default/poddisruptionbudgets';

beforeEach(async () => {
  rig = await openRig();
  return () => closeRig(rig);
});

async function pod(name: string, { phase = 'Running', ready = 'True', app = 'x' } = {}): Promise<void> {
  const made = {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, labels: { app } },
    spec: { nodeName: 'n', containers: [{ name: 'c', image: 'i' }] },
  };
  await rig.api.create(PODS, made);
  await rig.api.merge(`${PODS}/${name}/status`, { status: { phase, conditions: [{ type: 'Ready', status: ready }] } });
  await settled();
}

async function budget(spec: JsonObject, name = 'b'): Promise<void> {
  const made = {
    apiVersion: 'policy/v1',
    kind: 'PodDisruptionBudget',
    metadata: { name },
    spec: { selector: { matchLabels: { app: 'x' } }, ...spec },
  };
  expect((await rig.api.create(BUDGETS, made)).status).toBe(201);
  await settled();
}

const state = async (name = 'b') => {
  const status = pick((await rig.api.get(`${BUDGETS}/${name}`)).body, 'status') as JsonObject;
  return [status['expectedPods'], status['currentHealthy'], status['desiredHealthy'], status['disruptionsAllowed']];
};

const evict = (name: string, more: JsonObject = {}) =>
  rig.api.create(`${PODS}/${name}/eviction`, {
    apiVersion: 'policy/v1',
    kind: 'Eviction',
    metadata: { name, namespace: 'default' },
    ...more,
  });

const deleting = async (name: string) => pick((await rig.api.get(`${PODS}/${name}`)).body, 'metadata.deletionTimestamp') !== undefined;

describe('a disruption budget', () => {
  it.each([
    [{ minAvailable: 2 }, [3, 2, 2, 0]],
    [{ minAvailable: 1 }, [3, 2, 1, 1]],
    [{ minAvailable: '50%' }, [3, 2, 2, 0]],
    [{ maxUnavailable: 2 }, [3, 2, 1, 1]],
    [{ maxUnavailable: '34%' }, [3, 2, 1, 1]],
    [{ maxUnavailable: 0 }, [3, 2, 3, 0]],
  ])('%j of three pods, two of them ready, is %j', async (spec, expected) => {
    for (const [name, ready] of [
      ['a', 'True'],
      ['b', 'True'],
      ['c', 'False'],
    ] as const)
      await pod(name, { ready });
    await pod('other', { app: 'y' });
    await budget(spec);
    expect(await state()).toEqual(expected);
    const { body } = await rig.api.get(`${BUDGETS}/b`);
    expect(pick(body, 'status.conditions.0.reason')).toBe(expected[3] === 0 ? 'InsufficientPods' : 'SufficientPods');
    expect(pick(body, 'status.observedGeneration')).toBe(1);
  });

  it('allows nothing while it selects nothing', async () => {
    await budget({ minAvailable: 0 });
    expect(await state()).toEqual([0, 0, 0, 0]);
  });

  it('follows its pods and its own spec', async () => {
    await budget({ minAvailable: 1 });
    await pod('a');
    await pod('b');
    expect(await state()).toEqual([2, 2, 1, 1]);
    await rig.api.merge(`${PODS}/a`, { metadata: { labels: { app: 'y' } } });
    await settled();
    expect(await state()).toEqual([1, 1, 1, 0]);
    await rig.api.merge(`${BUDGETS}/b`, { spec: { minAvailable: 0 } });
    await settled();
    expect(await state()).toEqual([1, 1, 0, 1]);
  });

  it.each([
    [{ minAvailable: 1, maxUnavailable: 1 }],
    [{ minAvailable: -1 }],
    [{ maxUnavailable: '101%' }],
    [{ maxUnavailable: 'few' }],
    [{ unhealthyPodEvictionPolicy: 'Never' }],
  ])('of %j is refused', async (spec) => {
    expect(
      (await rig.api.create(BUDGETS, { apiVersion: 'policy/v1', kind: 'PodDisruptionBudget', metadata: { name: 'b' }, spec })).status,
    ).toBe(422);
  });
});

describe('an eviction', () => {
  it('without a budget deletes the pod and gives the reason in its status', async () => {
    await pod('a');
    const answer = await evict('a');
    expect([answer.status, answer.body['status']]).toEqual([201, 'Success']);
    const { body } = await rig.api.get(`${PODS}/a`);
    expect(await deleting('a')).toBe(true);
    expect(pick(body, 'status.conditions.1')).toMatchObject({ type: 'DisruptionTarget', status: 'True', reason: 'EvictionByEvictionAPI' });
  });

  it('takes from the budget until there is none left, then answers 429 with the reason', async () => {
    await pod('a');
    await pod('b');
    await budget({ minAvailable: 1 });
    expect((await evict('a')).status).toBe(201);
    const { status, body, headers } = await evict('b');
    expect([status, body['reason'], pick(body, 'details.causes.0.reason')]).toEqual([429, 'TooManyRequests', 'DisruptionBudget']);
    expect(headers['retry-after']).toBeUndefined();
    expect(await deleting('b')).toBe(false);
  });

  it('counts a pod as gone that was evicted but is not yet deleted', async () => {
    await pod('a');
    await pod('b');
    await budget({ minAvailable: 1 });
    // Before any controller runs: two evictions at once find one allowed disruption.
    const answers = await Promise.all([evict('a'), evict('b')]);
    expect(answers.map(({ status }) => status)).toEqual([201, 429]);
  });

  it('is put off while the budget has not seen its own spec', async () => {
    await pod('a');
    await pod('b');
    await budget({ minAvailable: 1 });
    const [, answer] = await Promise.all([rig.api.merge(`${BUDGETS}/b`, { spec: { minAvailable: 0 } }), evict('a')]);
    expect([answer?.status, pick(answer?.body, 'details.causes.0.message'), answer?.headers['retry-after']]).toEqual([
      429,
      'The disruption budget b is still being processed by the server.',
      '10',
    ]);
  });

  it.each(['Succeeded', 'Failed', 'Pending'])('of a %s pod asks no budget', async (phase) => {
    await pod('a', { phase });
    await budget({ maxUnavailable: 0 });
    expect((await evict('a')).status).toBe(201);
  });

  it('of a pod under two budgets is refused with 500', async () => {
    await pod('a');
    await budget({ minAvailable: 0 }, 'b');
    await budget({ minAvailable: 0 }, 'c');
    const { status, body } = await evict('a');
    expect([status, body['message']]).toEqual([
      500,
      'This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.',
    ]);
  });

  it.each([
    [{ minAvailable: 2, unhealthyPodEvictionPolicy: 'AlwaysAllow' }, 201],
    [{ minAvailable: 2 }, 429],
    [{ minAvailable: 1 }, 201],
  ])('of an unhealthy pod under %j is answered %i', async (spec, status) => {
    await pod('well');
    await pod('ill', { ready: 'False' });
    await budget(spec);
    const before = await state();
    expect((await evict('ill')).status).toBe(status);
    await settled();
    expect((await state())[3]).toBe(before[3]);
  });

  it('obeys preconditions and dry run', async () => {
    await pod('a');
    expect((await evict('a', { deleteOptions: { preconditions: { uid: 'other' } } })).status).toBe(409);
    expect((await evict('a', { deleteOptions: { dryRun: ['All'] } })).status).toBe(201);
    expect(await deleting('a')).toBe(false);
    expect((await evict('a', { deleteOptions: { gracePeriodSeconds: 0 } })).status).toBe(201);
    expect((await rig.api.get(`${PODS}/a`)).status).toBe(404);
  });

  it('that is malformed is refused', async () => {
    await pod('a');
    expect((await evict('nope')).status).toBe(404);
    expect((await rig.api.create(`${PODS}/a/eviction`, { kind: 'Pod' })).status).toBe(400);
    expect((await evict('a', { metadata: { name: 'b' } })).status).toBe(400);
    expect((await rig.api.get(`${PODS}/a/eviction`)).status).toBe(405);
  });

  it('that never led to a deletion gives its disruption back', async () => {
    await pod('a');
    await pod('b');
    await budget({ minAvailable: 1 });
    await rig.api.merge(`${BUDGETS}/b/status`, { status: { disruptedPods: { a: '2026-11-20T12:00:00Z' } } });
    await settled();
    expect((await state())[3]).toBe(0);
    await rig.clock.advance(121_000);
    expect((await state())[3]).toBe(1);
  });
});
