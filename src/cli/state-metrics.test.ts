import { afterEach, expect, test } from 'vitest';
import { Nodes } from '../api/builtin.ts';
import type { Resource } from '../api/resource.ts';
import { createCache, type Cache } from '../kube/cache.ts';
import { createClient } from '../kube/http-client.ts';
import { createMetrics } from '../kube/metrics.ts';
import { fakeApiServer, statusResponse } from '../kube/testing/api-server.ts';
import { fakeClock, seededRandom } from '../kube/testing/clock.ts';
import { recordingLog } from '../kube/testing/log.ts';
import { settle } from '../kube/testing/wait-for.ts';
import { countRequests } from './requests.ts';
import { showCell, showHub } from './state-metrics.ts';

const stopped: AbortController[] = [];
afterEach(() => stopped.splice(0).forEach((controller) => controller.abort(new Error('the test is over'))));

function world() {
  const server = fakeApiServer();
  const clock = fakeClock();
  const metrics = createMetrics();
  const controller = new AbortController();
  stopped.push(controller);
  const client = createClient(countRequests(server.transport, 'own', { metrics, clock }));
  const ports = { client, clock, random: seededRandom(1), log: recordingLog(), signal: controller.signal };
  const cache = createCache({ ...ports, metrics });
  const shown = (name: string): string[] =>
    metrics
      .text()
      .split('\n')
      .filter((line) => line.startsWith(name))
      .map((line) => line.slice(name.length));
  return { server, clock, metrics, controller, ports, cache, shown };
}

/** Stores with these objects, by kind; the objects have only the fields that are read. */
const cacheOf = (objects: Record<string, object[]>): Cache =>
  ({ store: ({ kind }: Resource) => ({ list: () => objects[kind] ?? [] }) }) as unknown as Cache;

test('a cell shows its machines, its ledger, whom Defender refuses and how repairs ended, and never a machine by its name', () => {
  const { metrics, shown } = world();
  const refused = (limit: string): object => ({ status: { phase: 'Running', verdict: { allowed: false, limit } } });
  const cache = cacheOf({
    Machine: [
      refused('policy/pool'),
      refused('policy/pool'),
      refused('Freeze/friday'),
      { status: { phase: 'Running', verdict: { allowed: true } } },
      {},
    ],
    DisruptionLedger: [{ status: { reservations: [{ kind: 'Change' }, { kind: 'Change' }, { kind: 'Repair' }] } }],
    RemedyOperationJob: [{ status: { phase: 'Succeeded', outcome: 'Succeeded' } }, { status: { phase: 'NeedsHuman' } }],
  });
  const end = showCell(metrics, cache);
  expect(shown('kubenode_machines{')).toEqual(['phase="Running"} 4', 'phase="Pending"} 1']);
  expect(shown('kubenode_machines_refused')).toEqual(['{limit="policy/pool"} 2', '{limit="Freeze/friday"} 1']);
  expect(shown('kubenode_ledger_reservations')).toEqual(['{kind="Change"} 2', '{kind="Repair"} 1', '_max 500']);
  expect(shown('kubenode_jobs')).toEqual(['{phase="Succeeded"} 1', '{phase="NeedsHuman"} 1', '_ended{outcome="Succeeded"} 1']);
  end();
  expect(shown('kubenode_')).toEqual([]);
});

test('a hub shows how its fleets and clusters are', () => {
  const { metrics, shown } = world();
  const condition = (type: string, reason: string): object => ({
    status: { conditions: [{ type, reason, status: 'False', message: '' }] },
  });
  showHub(
    metrics,
    cacheOf({
      Fleet: [condition('Ready', 'PruneBudget')],
      Cluster: [condition('Reachable', 'CredentialsExpired'), {}],
      Rollout: [{ status: { phase: 'Done' } }],
    }),
  );
  expect(shown('kubenode_fleets')).toEqual(['{reason="PruneBudget"} 1']);
  expect(shown('kubenode_clusters')).toEqual(['{reason="CredentialsExpired"} 1', '{reason="Unknown"} 1']);
  expect(shown('kubenode_rollouts')).toEqual(['{phase="Done"} 1']);
});

test('requests are counted, by whom they go to and how they are answered', async () => {
  const { server, clock, controller, cache, shown } = world();
  let failing = true;
  server.intercept((request) =>
    failing && request.query?.['watch'] === undefined ? statusResponse(503, 'ServiceUnavailable') : undefined,
  );
  cache.store(Nodes);
  await settle();
  failing = false;
  await clock.advance(1500);
  expect(shown('kubenode_api_requests_total')).toEqual([
    '{to="own",method="GET",code="503"} 1',
    '{to="own",method="GET",code="200"} 1',
    '{to="own",method="WATCH",code="200"} 1',
  ]);
  expect(shown('kubenode_api_request_seconds_count')).toEqual(['{to="own",method="GET"} 2']);
  controller.abort(new Error('stop'));
  await cache.done();
});
