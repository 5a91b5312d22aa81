import { afterEach, describe, test } from 'vitest';
import { openCluster } from '@kubenode/embedded';
import { CustomResourceDefinitions, Namespaces } from '../api/builtin.ts';
import { CELL_KINDS } from '../api/kinds.ts';
import { systemClock } from '../kube/clock.ts';
import { createClient } from '../kube/http-client.ts';
import { waitFor } from '../kube/testing/wait-for.ts';
import { CASES } from './testing/extra-fields.ts';
import { KINDS, NAMESPACE } from './testing/objects.ts';

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).toReversed()) await cleanup();
});

describe('E3: sync takes out what Git does not give', () => {
  test.each(CASES)('%s', async (_what, run) => {
    const cluster = await openCluster({ name: 'cell', state: 'memory', clock: systemClock({ ref: true }) });
    cleanups.push(() => cluster.close());
    const client = createClient(cluster.asUser(), { fieldManager: 'kubectl-edit' });
    for (const kind of CELL_KINDS) await client.create(CustomResourceDefinitions, CustomResourceDefinitions.parse(kind.crd()));
    await client.create(Namespaces, Namespaces.parse({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: NAMESPACE } }));
    for (const kind of KINDS) await waitFor(() => client.list(kind).then(Boolean, () => false));
    await run(client);
  });
});
