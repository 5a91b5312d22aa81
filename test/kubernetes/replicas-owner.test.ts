/** Who sets the number of a set's machines, by the records of a real API server. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, it, vi } from 'vitest';
import { CustomResourceDefinitions, Namespaces } from '../../src/api/builtin.ts';
import { ALL_KINDS } from '../../src/api/kinds.ts';
import { Machines } from '../../src/api/machine.ts';
import { MachineSets } from '../../src/api/machine-set.ts';
import { MANAGERS } from '../../src/api/names.ts';
import type { KubeObject } from '../../src/api/wire.ts';
import { runMachineSetController } from '../../src/controllers/machine-set/controller.ts';
import { hasReason } from '../../src/kube/api-error.ts';
import { createCache } from '../../src/kube/cache.ts';
import type { Client } from '../../src/kube/client.ts';
import { systemClock } from '../../src/kube/clock.ts';
import { createClient } from '../../src/kube/http-client.ts';
import { createRecorder } from '../../src/kube/recorder.ts';
import { seededRandom } from '../../src/kube/testing/clock.ts';
import { recordingLog } from '../../src/kube/testing/log.ts';
import { waitFor } from '../../src/kube/testing/wait-for.ts';
import { CASES, scaledSet } from '../scale/replicas-owner.ts';
import { realServer, type RealServer } from './real-server.ts';

const unlessGone = (error: unknown): void => {
  if (!hasReason(error, 'NotFound')) throw error;
};
vi.setConfig({ testTimeout: 120_000 });
const LATE = { deadlineMs: 30_000 };
const NS = 'kubenode-scale';

describe('C8e: machines go by a commit alone, on a real API server', () => {
  let real: RealServer;
  let client: Client;
  let stopped: AbortController;
  let running: Promise<unknown>[];

  beforeAll(async () => {
    const found = realServer();
    if (found === undefined) throw new Error('npm run test:kubernetes starts the server that these tests want');
    real = found;
    client = createClient(real.transport, { fieldManager: 'a-human' });
    await client.create(Namespaces, Namespaces.parse({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: NS } }));
    for (const kind of ALL_KINDS) {
      const definition = CustomResourceDefinitions.parse(kind.crd());
      if ((await client.find(CustomResourceDefinitions, definition.metadata)) === undefined)
        await client.create(CustomResourceDefinitions, definition);
      await waitFor(() => client.list(kind).then(Boolean, () => false), LATE);
    }
  }, 60_000);
  afterAll(() => real.transport.close());
  beforeEach(() => {
    stopped = new AbortController();
    const shared = {
      client: createClient(real.transport, { userAgent: 'kubenode-controller' }),
      clock: systemClock({ ref: true }),
      random: seededRandom(7),
      log: recordingLog(),
      signal: stopped.signal,
    };
    const cache = createCache({ ...shared, keepManagers: [MANAGERS.machineSet] });
    const recorder = createRecorder({ ...shared, component: 'kubenode-test', instance: 'test' });
    const providers = new Map([['fake', { validate: () => [] }]]);
    running = [runMachineSetController({ ...shared, cache, recorder, providers, term: Promise.resolve(1) }), cache.done()];
  });
  afterEach(async () => {
    stopped.abort(new Error('the test is over'));
    await Promise.all(running);
    for (const kind of [MachineSets, Machines])
      for (const { metadata } of (await client.listAll<KubeObject>(kind, { namespace: NS })).items)
        await client.delete(kind, metadata).catch(unlessGone);
  });

  it.each(CASES)('%s', (_, run) => run(scaledSet(client, NS)));
});
