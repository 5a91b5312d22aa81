/** What a store costs a real API server when nothing happens (invariant 10). */
import { afterEach, expect, test } from 'vitest';
import { ConfigMaps, Namespaces } from '../../src/api/builtin.ts';
import type { ApiRequest } from '../../src/api/transport.ts';
import { systemClock } from '../../src/kube/clock.ts';
import { createClient } from '../../src/kube/http-client.ts';
import { startReflector } from '../../src/kube/reflector.ts';
import { recordingLog } from '../../src/kube/testing/log.ts';
import { configMap } from '../../src/kube/testing/objects.ts';
import { waitFor } from '../../src/kube/testing/wait-for.ts';
import { realServer } from './real-server.ts';

const NS = 'kubenode-idle';
const LATE = { deadlineMs: 30_000 };
const stopped = new AbortController();
afterEach(() => stopped.abort(new Error('the test is over')));

const isWatch = ({ query }: ApiRequest): boolean => query?.['watch'] !== undefined;

test('a store where nothing happens is not listed again: an idle watch costs one object and a new watch, and what happens then is seen', async () => {
  const real = realServer();
  if (real === undefined) throw new Error('npm run test:kubernetes starts the server that this test wants');
  const admin = createClient(real.transport, { fieldManager: 'a-human' });
  await admin.create(Namespaces, { apiVersion: 'v1', kind: 'Namespace', metadata: { name: NS } });
  for (let i = 0; i < 20; i++) await admin.create(ConfigMaps, configMap(NS, `idle-${i}`));
  const requests: ApiRequest[] = [];
  const client = createClient((request) => {
    requests.push(request);
    return real.transport(request);
  });
  const log = recordingLog();
  // A real server sends its first bookmark after a minute at the earliest: before it everything is as on a kind that gets none.
  const reflector = startReflector({
    client,
    resource: ConfigMaps,
    namespace: NS,
    clock: systemClock({ ref: true }),
    random: () => 0,
    log,
    signal: stopped.signal,
    staleMs: 1500,
    watchTimeoutSeconds: 7,
    pageSize: 5,
  });
  await reflector.whenSynced();
  const lists = requests.length;
  let oldest = 0;
  await waitFor(() => {
    oldest = Math.max(oldest, reflector.ageMs());
    return requests.filter(isWatch).length >= 7;
  }, LATE);
  const later = requests.slice(lists);
  expect(later.filter((request) => !isWatch(request)).every(({ query }) => query?.['limit'] === '1')).toBe(true);
  expect(later.length).toBeLessThanOrEqual(14);
  expect(oldest).toBeLessThan(5000);
  expect(log.lines.filter(({ level }) => level !== 'debug')).toEqual([]);

  await admin.create(ConfigMaps, configMap(NS, 'news'));
  await waitFor(() => reflector.get({ namespace: NS, name: 'news' }) !== undefined, LATE);
  expect(reflector.size).toBe((await admin.list(ConfigMaps, { namespace: NS })).items.length);
  stopped.abort(new Error('stop'));
  await reflector.done;
  await admin.delete(Namespaces, { name: NS });
  await real.transport.close();
}, 60_000);
