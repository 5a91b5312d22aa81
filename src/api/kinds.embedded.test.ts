import { afterEach, beforeEach, expect, it } from 'vitest';
import { openCluster, type EmbeddedCluster } from '@kubenode/embedded';
import { systemClock, Api, pick } from '@kubenode/embedded/testing';
import { ALL_KINDS } from './kinds.ts';

let cluster: EmbeddedCluster;
beforeEach(async () => {
  cluster = await openCluster({ name: 'kinds', state: 'memory', clock: systemClock });
});
afterEach(() => cluster.close());

it.each(ALL_KINDS)('the definition of $kind is established as it is', async (kind) => {
  const api = new Api(cluster.asUser());
  const path = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions';
  const made = await api.send('POST', path, JSON.stringify(kind.crd()));
  expect([made.status, made.body['message']]).toEqual([201, undefined]);
  await expect
    .poll(async () => pick((await api.get(`${path}/${kind.plural}.${kind.group}`)).body, 'status.conditions.1'))
    .toMatchObject({ type: 'Established', status: 'True' });
});
