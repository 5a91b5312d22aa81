/** Kubeconfigs that point nowhere or are no longer good, given to the real program. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { CustomResourceDefinitions, Leases, Namespaces, ServiceAccounts } from '../../src/api/builtin.ts';
import { CELL_KINDS } from '../../src/api/kinds.ts';
import { SYSTEM_NAMESPACE } from '../../src/api/names.ts';
import { pathOf } from '../../src/api/resource.ts';
import type { Client } from '../../src/kube/client.ts';
import { createClient } from '../../src/kube/http-client.ts';
import { httpTransport } from '../../src/kube/http-transport.ts';
import { createAuthority } from '../../src/kube/testing/tls.ts';
import { waitFor } from '../../src/kube/testing/wait-for.ts';
import { kubenode, startController, writeKubeconfig } from './kubenode.ts';
import { startProxy } from './proxy.ts';
import { KINDS, type BrokenServer } from './servers.ts';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 180_000 });

const LATE = { deadlineMs: 30_000 };
const expired = `e30.${Buffer.from('{"exp":1000000000}').toString('base64url')}.hunter2`;

describe.each(KINDS)('$name', ({ name: serverName, open }) => {
  let server: BrokenServer;
  let folder: string;
  let admin: Client;
  let close: () => Promise<void>;
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'kubenode-kubeconfig-'));
    server = await open();
    const transport = httpTransport(server.connection);
    close = () => transport.close();
    admin = createClient(transport, { fieldManager: 'a-human' });
    await admin.create(Namespaces, { apiVersion: 'v1', kind: 'Namespace', metadata: { name: SYSTEM_NAMESPACE } });
  });
  afterAll(async () => {
    await close();
    await server.close();
    rmSync(folder, { recursive: true });
  });

  const file = (name: string): string => join(folder, name);
  const good = (name: string, over: Parameters<typeof writeKubeconfig>[2] = {}): string =>
    writeKubeconfig(file(name), server.connection, over);

  test('each gives one message that names what, where and what to do, and no secret', async () => {
    const other = await createAuthority();
    writeFileSync(file('broken'), 'users:\n- {name: u, user: {token: "hunter2\n');
    const cases: [string, string | RegExp, string][] = [
      [file('absent'), `there is no kubeconfig: ${file('absent')} does not exist`, 'name one with --kubeconfig or $KUBECONFIG'],
      [file('broken'), `${file('broken')}:3 is no YAML (`, 'correct it'],
      [
        good('nowhere', { more: { 'current-context': '' } }),
        `${file('nowhere')} names no current-context; known: x`,
        'kubectl config use-context',
      ],
      [good('other', { more: { 'current-context': 'y' } }), `there is no context "y" in ${file('other')}; known: x`, 'correct it'],
      [good('nouser', { more: { users: [] } }), 'names user "u", which does not exist; known: none', 'correct it'],
      [good('old', { user: { token: expired } }), 'its token expired on 2001-09-09', 'fetch a new kubeconfig'],
      [
        good('closed', { cluster: { server: 'https://127.0.0.1:1' } }),
        'https://127.0.0.1:1: nothing listens there (ECONNREFUSED)',
        'is that the server',
      ],
      [
        good('authority', { cluster: { 'certificate-authority-data': Buffer.from(other.ca).toString('base64') } }),
        `${new URL(server.connection.server).origin}: its certificate is not of the authority that the kubeconfig names`,
        'is that the server',
      ],
      [
        good('token', { user: { token: 'hunter2' } }),
        'Unauthorized: the server does not accept these credentials',
        'fetch a new kubeconfig',
      ],
      [good('kinds'), /this API server does not serve (fleets|clusters|rollouts) of kubenode\.io\/v1alpha1/, 'kubenode install --hub'],
    ];
    for (const [path, message, next] of cases) {
      const { code, stdout, stderr } = await kubenode('status', '--kubeconfig', path);
      expect([code, stdout], path).toEqual([1, '']);
      const lines = stderr.trimEnd().split('\n');
      expect(lines, path).toHaveLength(2);
      expect(lines[0]).toEqual(typeof message === 'string' ? expect.stringContaining(message) : expect.stringMatching(message));
      expect(lines[1]).toMatch(/^next: /);
      expect(lines[1]).toContain(next);
      expect(stderr).not.toContain('hunter2');
    }
  });

  test.runIf(serverName === 'kube-apiserver')(
    'one that may not gets a message with what it may not, and who could change that',
    async () => {
      const key = { namespace: SYSTEM_NAMESPACE, name: 'nobody' };
      await admin.create(ServiceAccounts, { apiVersion: 'v1', kind: 'ServiceAccount', metadata: key });
      const request = { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec: { expirationSeconds: 600 } };
      const answer = (await admin.post(pathOf(ServiceAccounts, key.namespace, key.name, 'token'), request)) as {
        status: { token: string };
      };
      const { code, stderr } = await kubenode('status', '--kubeconfig', good('nobody', { user: { token: answer.status.token } }));
      expect(code).toBe(1);
      expect(stderr).toMatch(
        /User "system:serviceaccount:kubenode-system:nobody" cannot list resource "(?:fleets|clusters|rollouts)" in API group "kubenode.io"[^]*next: ask its administrator/,
      );
    },
  );

  test('a controller waits for its server, for its kinds and for credentials, reports each once, and goes on by itself', async () => {
    let valid = 'first';
    const proxy = await startProxy(server.connection, { token: (given) => (given === valid ? server.connection.token : given) });
    proxy.accept('none');
    const path = writeKubeconfig(file('controller'), { ...proxy.connection, token: 'first' });
    const args = ['--cell', '--kubeconfig', path, '--lease-seconds', '3', '--server', 'https://cell:6443'];
    const controller = await startController(file('log'), ...args);
    const holder = async (): Promise<string> =>
      (await admin.find(Leases, { namespace: SYSTEM_NAMESPACE, name: 'kubenode-cell' }))?.spec?.holderIdentity ?? '';
    try {
      await controller.waitForLog('no answer from the API server');
      proxy.accept('all');
      expect(await controller.waitForLog('KindsAbsent')).toMatchObject({
        msg: 'KindsAbsent: this API server has no kinds of kubenode.io',
        next: 'kubenode install --cell | kubectl apply --server-side -f -',
      });
      expect(await holder()).toBe('');
      for (const kind of CELL_KINDS) await admin.create(CustomResourceDefinitions, kind.crd());
      await controller.waitForLog('leads');
      await controller.waitForLog('a term begins');

      valid = 'second';
      const before = controller.lines().length;
      proxy.resetAll();
      await controller.waitForLog(/the Lease cannot be acquired .*Unauthorized: the server does not accept these credentials/, before);
      const later = controller.lines().length;
      writeKubeconfig(path, { ...proxy.connection, token: 'second' });
      await controller.waitForLog('the kubeconfig has changed; going on with it', later);
      await controller.waitForLog('a term begins', later);
      await waitFor(async () => (await holder()) !== '', LATE);

      const logged = controller
        .lines()
        .filter(({ msg }) => /KindsAbsent|^GET/.test(msg))
        .map(({ msg }) => msg);
      expect(logged).toEqual([...new Set(logged)]);
      expect(JSON.stringify(controller.lines())).not.toMatch(/first|second/);
    } finally {
      await controller.kill();
      await proxy.close();
    }
  });
});
