import { afterEach, expect, test } from 'vitest';
import { openCluster } from '@kubenode/embedded';
import { CustomResourceDefinitions } from '../api/builtin.ts';
import { unitDigest } from '../api/digest.ts';
import { API_VERSION } from '../api/kind.ts';
import { MachineComponentSets } from '../api/machine-component-set.ts';
import { MANAGERS } from '../api/names.ts';
import type { KubeObject } from '../api/wire.ts';
import { systemClock } from '../kube/clock.ts';
import { createClient } from '../kube/http-client.ts';
import { waitFor } from '../kube/testing/wait-for.ts';
import { applyUnit } from './apply-unit.ts';

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).toReversed()) await cleanup();
});

test('E4: what sync applies never takes a ceiling or a rolloutID away, whatever managedFields say of whose they are', async () => {
  const cluster = await openCluster({ name: 'cell', state: 'memory', clock: systemClock({ ref: true }) });
  cleanups.push(() => cluster.close());
  const client = createClient(cluster.asUser(), { fieldManager: 'kubectl' });
  const { signal } = new AbortController();
  await client.create(CustomResourceDefinitions, MachineComponentSets.crd());
  await waitFor(async () => (await client.find(MachineComponentSets, { name: 'x' }).catch(() => 'not served')) === undefined);
  const set = (version: string): KubeObject & { spec: object } => ({
    apiVersion: API_VERSION,
    kind: 'MachineComponentSet',
    metadata: { name: 'comp' },
    spec: { componentName: 'comp', version, maxFailed: 1, pools: ['web'] },
  });
  const key = { name: 'comp' };
  const apply = async (version: string) => {
    const object = set(version);
    const digest = unitDigest([object]);
    const unit = { key: 'MachineComponentSet/comp', objects: [object], origins: [undefined] };
    const target = { client, resourceOf: () => Promise.resolve(MachineComponentSets) };
    return await applyUnit(target, unit, { digest, fleet: 'main', lane: 'Forward' }, () => Promise.resolve({}), signal);
  };
  await apply('1.0.0');
  const held = { ceiling: { unitDigest: 'v1:a', nodes: 0 }, rolloutID: 'again' };
  await client.patch(MachineComponentSets, key, { merge: { spec: held } }, { fieldManager: MANAGERS.rollout });
  // Somebody gives both to sync, and takes the record of who wrote them away.
  const { metadata } = await client.get(MachineComponentSets, key);
  const managedFields = (metadata.managedFields ?? [])
    .filter(({ manager }) => manager !== MANAGERS.rollout)
    .map((each) => {
      const spec = { ...(each.fieldsV1?.['f:spec'] as object), 'f:ceiling': {}, 'f:rolloutID': {} };
      return each.manager === MANAGERS.sync ? { ...each, fieldsV1: { ...each.fieldsV1, 'f:spec': spec } } : each;
    });
  await client.patch(MachineComponentSets, key, { merge: { metadata: { managedFields } } });
  for (const version of ['1.0.0', '1.1.0']) {
    await apply(version);
    expect((await client.get(MachineComponentSets, key)).spec).toMatchObject({ version, ...held });
  }
  expect((await apply('1.1.0')).changed).toBe(false);
});
