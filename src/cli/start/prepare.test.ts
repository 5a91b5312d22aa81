import { expect, test } from 'vitest';
import { openCluster } from '@kubenode/embedded';
import { CustomResourceDefinitions } from '../../api/builtin.ts';
import { Fleets } from '../../api/fleet.ts';
import { systemClock } from '../../kube/clock.ts';
import { createClient } from '../../kube/http-client.ts';
import { putFleet } from './prepare.ts';

test('another start keeps edits of the stages, and follows the repository', async () => {
  const cluster = await openCluster({ name: 'hub', state: 'memory', clock: systemClock({ ref: true }) });
  try {
    const hub = createClient(cluster.asUser(), { fieldManager: 'a-test' });
    await hub.create(CustomResourceDefinitions, CustomResourceDefinitions.parse(Fleets.crd()));
    await putFleet(hub, { repository: '/a' });
    const { metadata, spec } = await hub.get(Fleets, { name: 'main' });
    expect(spec.stages.length).toBeGreaterThan(1);
    const stages = spec.stages.map((stage) => ({ ...stage, soakSeconds: 600, prune: { maxMachines: '60%' } }));
    await hub.patch(Fleets, { name: metadata.name }, { merge: { spec: { stages } } });
    await putFleet(hub, { repository: '/b', branch: 'main' });
    expect((await hub.get(Fleets, { name: 'main' })).spec).toMatchObject({ source: { path: '/b', branch: 'main' }, stages });
  } finally {
    await cluster.close();
  }
});
