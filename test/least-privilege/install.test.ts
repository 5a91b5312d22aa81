/** `kubenode install | kubectl apply --server-side -f -` on a real server, as in docs/install.md. */
import { execFileSync, spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { manifests } from '../../deploy/main.ts';
import type { KubeObject } from '../../src/api/wire.ts';
import { httpTransport } from '../../src/kube/http-transport.ts';
import { loadKubeconfig } from '../../src/kube/kubeconfig.ts';
import { systemClock } from '../../src/kube/clock.ts';
import { install } from './installed.ts';
import { attempt, everything, OPTIONS, pathOfObject, until, WHO, write, type Rig } from './rig.ts';

const ENTRY = fileURLToPath(new URL('../../bin/kubenode.js', import.meta.url));
const KUBECTL = process.env['KUBENODE_TEST_KUBECTL'] ?? 'kubectl';
const hasKubectl = spawnSync(KUBECTL, ['version', '--client']).status === 0;

let rig: Rig & { remove: () => Promise<void> };
const roles = [['--cell', '--server', OPTIONS.server], ['--hub']] as const;

beforeAll(async () => {
  rig = await install();
}, 120_000);
afterAll(async () => {
  for (const name of ['kubenode-cell', 'kubenode-hub'])
    await attempt(
      write(rig.admin, 'DELETE', `/apis/apps/v1/namespaces/${OPTIONS.namespace}/deployments/${name}`, { propagationPolicy: 'Foreground' }),
    );
  await rig.remove();
});

function apply(args: readonly string[]): string {
  const printed = execFileSync(process.execPath, [...process.execArgv, ENTRY, 'install', ...args, '--image', OPTIONS.image], {
    encoding: 'utf8',
  });
  const result = spawnSync(KUBECTL, ['--kubeconfig', process.env['KUBENODE_TEST_KUBECONFIG'] ?? '', 'apply', '--server-side', '-f', '-'], {
    input: printed,
    encoding: 'utf8',
  });
  // Not one warning either, of deprecation, pod security or a value that means nothing.
  expect([result.status, result.stderr.replaceAll(/^.*version difference.*\n/gm, '')]).toEqual([0, '']);
  return result.stdout;
}

const versions = async (): Promise<string[]> =>
  await Promise.all(
    everything().map(async (object) => {
      const found = (await rig.admin.request({ method: 'GET', path: pathOfObject(object) })) as KubeObject;
      // A Deployment's status goes on changing: its generation is what an apply would raise.
      const version = object.kind === 'Deployment' ? `generation ${found.metadata.generation}` : found.metadata.resourceVersion;
      return `${object.kind} ${object.metadata.name} ${version}`;
    }),
  );

describe.skipIf(!hasKubectl)('kubectl', () => {
  test('applies all of it, and a second time changes nothing', async () => {
    for (const args of roles) {
      const count = manifests({ ...OPTIONS, role: args[0] === '--hub' ? 'hub' : 'cell' }).length;
      expect(apply(args).trim().split('\n')).toHaveLength(count);
    }
    // What controllers add to it in their own time: rules of aggregated roles, the type check of policies.
    let before: string[] = [];
    await until('nothing changes any more', async () => {
      const now = await versions();
      const settled = now.join() === before.join();
      before = now;
      await new Promise((resolve) => setTimeout(resolve, 500));
      return settled;
    });
    for (const args of roles) apply(args);
    expect(await versions()).toEqual(before);
  }, 120_000);
});

test('the server finds nothing wrong with the types of any policy', async () => {
  for (const { kind, metadata } of everything()) {
    if (kind !== 'ValidatingAdmissionPolicy') continue;
    const path = `/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/${metadata.name}`;
    type Checked = { metadata: { generation: number }; status?: { observedGeneration?: number; typeChecking?: object } };
    await until(`the check of ${metadata.name}`, async () => {
      const found = (await rig.admin.request({ method: 'GET', path })) as Checked;
      return found.status?.observedGeneration === found.metadata.generation;
    });
    const { status } = (await rig.admin.request({ method: 'GET', path })) as Checked;
    expect([metadata.name, status?.typeChecking]).toEqual([metadata.name, {}]);
  }
});

test('agents queue in a level of their own', async () => {
  const level = (await rig.admin.request({
    method: 'GET',
    path: '/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations/kubenode-agents',
  })) as KubeObject;
  const {
    server,
    ca = '',
    token,
  } = await loadKubeconfig({ path: process.env['KUBENODE_TEST_KUBECONFIG'] ?? '', env: {}, clock: systemClock() });
  const transport = httpTransport({ server, ca, ...(token === undefined ? {} : { token }) });
  try {
    const levelOf = async (user: string, group: string): Promise<string | undefined> => {
      const headers = { 'impersonate-user': user, 'impersonate-group': group };
      const { headers: answer, body } = await transport({ method: 'GET', path: '/api/v1/nodes/none', headers });
      for await (const _ of body);
      return answer['x-kubernetes-pf-prioritylevel-uid'];
    };
    const { agent, operator } = WHO;
    await until('the level', async () => (await levelOf(agent.user, agent.group)) === level.metadata.uid);
    expect(await levelOf(operator.user, operator.group)).not.toBe(level.metadata.uid);
  } finally {
    await transport.close();
  }
});
