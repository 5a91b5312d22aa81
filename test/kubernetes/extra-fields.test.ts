/** What sync takes out of objects that others wrote into, by the records of a real API server. */
import { afterAll, afterEach, beforeAll, describe, it, vi } from 'vitest';
import { CustomResourceDefinitions, Namespaces } from '../../src/api/builtin.ts';
import { ALL_KINDS } from '../../src/api/kinds.ts';
import type { Client } from '../../src/kube/client.ts';
import { createClient } from '../../src/kube/http-client.ts';
import { waitFor } from '../../src/kube/testing/wait-for.ts';
import { CASES, clear } from '../../src/sync/testing/extra-fields.ts';
import { NAMESPACE } from '../../src/sync/testing/objects.ts';
import { realServer, type RealServer } from './real-server.ts';

vi.setConfig({ testTimeout: 60_000 });

describe('E3: sync takes out what Git does not give, on a real API server', () => {
  let real: RealServer;
  let client: Client;

  beforeAll(async () => {
    const found = realServer();
    if (found === undefined) throw new Error('npm run test:kubernetes starts the server that these tests want');
    real = found;
    client = createClient(real.transport, { fieldManager: 'kubectl-edit' });
    await client.create(Namespaces, Namespaces.parse({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: NAMESPACE } }));
    for (const kind of ALL_KINDS) {
      const definition = CustomResourceDefinitions.parse(kind.crd());
      if ((await client.find(CustomResourceDefinitions, definition.metadata)) === undefined)
        await client.create(CustomResourceDefinitions, definition);
      await waitFor(() => client.list(kind).then(Boolean, () => false), { deadlineMs: 30_000 });
    }
  }, 60_000);
  afterAll(() => real.transport.close());
  afterEach(() => clear(client));

  it.each(CASES)('%s', (_, run) => run(client));
});
