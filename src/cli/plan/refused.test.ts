/** What the hub refuses by a verdict a plan refuses with the same code. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { planHub, type PlanHub } from './testing/hub.ts';

let hub: PlanHub;
beforeEach(async () => {
  hub = await planHub();
});
afterEach(async () => await hub.close());

const objectsOf = (objects: readonly object[]): string => `import { fleet } from 'kubenode/constructs';
import { ApiObject } from 'cdk8s';
fleet.cluster('p', { labels: { stage: 'prod' } });
fleet.allClusters((cluster) => {
  const web = cluster.pool('web');
  ${JSON.stringify(objects)}.forEach((object, index) => new ApiObject(web, 'o' + index, object));
});`;
const objectOf = (apiVersion: string, kind: string, name = 'w') => ({ apiVersion, kind, metadata: { name, namespace: 'web' } });

describe('a plan and the hub', { timeout: 120_000 }, () => {
  it.each([
    ['E1: a kind of KubeNode of another group', 'KindRefused', [objectOf('cluster.x-k8s.io/v1beta1', 'MachineSet')]],
    ['E1: one kind and name in two groups', 'Duplicate', [objectOf('a.example.com/v1', 'Widget'), objectOf('b.example.com/v1', 'Widget')]],
    ['E1: another group than the existing objects have', 'GroupChanged', [objectOf('b.example.com/v1', 'Former')]],
    ['E18: 501 units', 'CommitTooLarge', Array.from({ length: 501 }, (_, index) => objectOf('v1', 'ConfigMap', `c${index}`))],
  ])('refuse %s', async (_what, code, objects) => {
    const first = await hub.commit(objectsOf([objectOf('a.example.com/v1', 'Former')]));
    await hub.judged(first);
    hub.prove();
    const kept = code === 'GroupChanged' ? [] : [objectOf('a.example.com/v1', 'Former')];
    const text = objectsOf([...kept, ...objects]);
    hub.write(text);
    const made = await hub.plan();
    const head = await hub.commit(text);
    await hub.judged(head);
    expect(hub.ready()).toMatchObject({ status: 'False', reason: code });
    expect(hub.ready()?.message).not.toContain('tried again');
    expect(made.result).toMatchObject({ state: 'Refused', code });
    expect(hub.fleet().status?.commit).toBe(first);
  });
});
