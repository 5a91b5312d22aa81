import { CustomResourceDefinitions, Namespaces } from '../../../api/builtin.ts';
import { CELL_KINDS } from '../../../api/kinds.ts';
import { MANAGERS } from '../../../api/names.ts';
import { openCluster, type EmbeddedCluster } from '@kubenode/embedded';
import { createCache, type Cache } from '../../../kube/cache.ts';
import type { Client } from '../../../kube/client.ts';
import { systemClock } from '../../../kube/clock.ts';
import { createClient } from '../../../kube/http-client.ts';
import { createRecorder } from '../../../kube/recorder.ts';
import { seededRandom } from '../../../kube/testing/clock.ts';
import { recordingLog } from '../../../kube/testing/log.ts';

export interface TestCell {
  cluster: EmbeddedCluster;
  client: Client;
  log: ReturnType<typeof recordingLog>;
  /** What controllers are started with; their writes are the system's. */
  ports: {
    client: Client;
    cache: Cache;
    clock: ReturnType<typeof systemClock>;
    random: () => number;
    log: ReturnType<typeof recordingLog>;
    recorder: ReturnType<typeof createRecorder>;
    signal: AbortSignal;
  };
  /** Ends the controllers, then the server. */
  close(controllers: Promise<unknown>[]): Promise<void>;
}

/** An embedded API server with the kinds of a cell and a namespace `web`, and what a controller is started with. */
export async function openCell(): Promise<TestCell> {
  const clock = systemClock({ ref: true });
  const cluster = await openCluster({ name: 'cell', state: 'memory', clock });
  const client = createClient(cluster.asUser(), { fieldManager: 'a-human' });
  for (const kind of CELL_KINDS) await client.create(CustomResourceDefinitions, CustomResourceDefinitions.parse(kind.crd()));
  await client.create(Namespaces, Namespaces.parse({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'web' } }));
  const stopped = new AbortController();
  const { signal } = stopped;
  const log = recordingLog();
  const own = createClient(cluster.asUser(), { userAgent: 'kubenode-controller' });
  const shared = { client: own, clock, random: seededRandom(7), log, signal };
  const cache = createCache({ ...shared, keepManagers: [MANAGERS.machineSet] });
  const recorder = createRecorder({ ...shared, component: 'kubenode-test', instance: 'test' });
  return {
    cluster,
    client,
    log,
    ports: { ...shared, cache, recorder },
    async close(controllers) {
      stopped.abort(new Error('the test is over'));
      await Promise.all(controllers);
      await cluster.close();
    },
  };
}
