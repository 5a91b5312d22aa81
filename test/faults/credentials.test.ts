/** Tokens that expire under their user, and are written again beside it. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { ConfigMaps, Namespaces } from '../../src/api/builtin.ts';
import { systemClock } from '../../src/kube/clock.ts';
import { createClient } from '../../src/kube/http-client.ts';
import { nodeHttpsTransport } from '../../src/kube/https-transport.ts';
import { httpTransport } from '../../src/kube/http-transport.ts';
import { loadKubeconfig } from '../../src/kube/kubeconfig.ts';
import { startReflector } from '../../src/kube/reflector.ts';
import { seededRandom } from '../../src/kube/testing/clock.ts';
import { recordingLog } from '../../src/kube/testing/log.ts';
import { configMap } from '../../src/kube/testing/objects.ts';
import { rejection } from '../../src/kube/testing/rejection.ts';
import { waitFor } from '../../src/kube/testing/wait-for.ts';
import { isWrite, startProxy } from './proxy.ts';
import { KINDS, report, type BrokenServer } from './servers.ts';

vi.setConfig({ testTimeout: 60_000, hookTimeout: 180_000 });

const LATE = { deadlineMs: 20_000 };
const clock = systemClock({ ref: true });

describe.each(KINDS)('$name', ({ name: serverName, open }) => {
  let server: BrokenServer;
  beforeAll(async () => {
    server = await open();
  });
  afterAll(() => server.close());

  test.each([
    ['undici', httpTransport],
    ['node:https', nodeHttpsTransport],
  ] as const)('a token that the server no longer takes is read again from its file, by %s', async (how, create) => {
    const folder = await mkdtemp(join(tmpdir(), 'kubenode-faults-'));
    const stopped = new AbortController();
    const direct = httpTransport(server.connection);
    const admin = createClient(direct, { fieldManager: 'a-human' });
    const namespace = `credentials-${how.replaceAll(/\W/g, '')}`;
    await admin.create(Namespaces, { apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } });
    let valid = 'first';
    // The server itself refuses every other one.
    const proxy = await startProxy(server.connection, { token: (given) => (given === valid ? server.connection.token : given) });
    const users = [{ name: 'u', user: { tokenFile: 'token' } }];
    const cluster = { server: proxy.connection.server, 'certificate-authority-data': btoa(proxy.connection.ca ?? '') };
    const contexts = [{ name: 'x', context: { cluster: 'c', user: 'u' } }];
    const kubeconfig = { clusters: [{ name: 'c', cluster }], users, contexts, 'current-context': 'x' };
    await writeFile(join(folder, 'kubeconfig'), JSON.stringify(kubeconfig));
    await writeFile(join(folder, 'token'), 'first\n');
    const transport = create(await loadKubeconfig({ path: join(folder, 'kubeconfig'), env: {}, clock }));
    try {
      const client = createClient(transport, { fieldManager: 'test' });
      const log = recordingLog();
      const ports = { client, clock, random: seededRandom(1), log, signal: stopped.signal };
      const reflector = startReflector({ ...ports, resource: ConfigMaps, namespace, backoff: { baseMs: 5, maxMs: 100 } });
      await reflector.whenSynced();

      valid = 'second';
      proxy.resetAll();
      await admin.create(ConfigMaps, configMap(namespace, 'while-away'));
      await waitFor(() => proxy.seen.filter(({ status }) => status === 401).length >= 3, LATE);
      const refused = await rejection(client.create(ConfigMaps, configMap(namespace, 'refused')));
      expect(refused).toMatchObject({ status: 401, reason: 'Unauthorized' });
      expect(proxy.seen.filter((request) => isWrite(request))).toHaveLength(1);
      expect(reflector.get({ namespace, name: 'while-away' })).toBeUndefined();

      await writeFile(join(folder, 'token'), 'second\n');
      const since = performance.now();
      await waitFor(() => reflector.get({ namespace, name: 'while-away' }) !== undefined, LATE);
      report(serverName, `a new token, by ${how}, until the store was right`, performance.now() - since);
      await client.create(ConfigMaps, configMap(namespace, 'accepted'));
      await waitFor(() => reflector.get({ namespace, name: 'accepted' }) !== undefined, LATE);
      expect(JSON.stringify(log.lines)).not.toMatch(/first|second/);
    } finally {
      stopped.abort(new Error('the test is over'));
      await transport.close();
      await proxy.close();
      await direct.close();
      await rm(folder, { recursive: true });
    }
  });
});
