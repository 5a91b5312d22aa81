/** Which walls a hub accepts, by the real program on a machine that can make no namespaces. */
import { spawn, type ChildProcess } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { openCluster, serve } from '@kubenode/embedded';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { CustomResourceDefinitions } from '../../api/builtin.ts';
import { Fleets } from '../../api/fleet.ts';
import { API_VERSION } from '../../api/kind.ts';
import { ALL_KINDS } from '../../api/kinds.ts';
import type { Client } from '../../kube/client.ts';
import { systemClock } from '../../kube/clock.ts';
import { createClient } from '../../kube/http-client.ts';
import { waitFor } from '../../kube/testing/wait-for.ts';
import { hasGit, testRepository } from '../../sync/git/testing/repository.ts';
import { walls } from '../../sync/render/wall.ts';

const ENTRY = fileURLToPath(new URL('../../../bin/kubenode.js', import.meta.url));
const MAIN = `import { fleet, DefenderPolicy } from 'kubenode/constructs';
fleet.cluster('a', { labels: { stage: 'all' } });
fleet.allClusters((cluster) => void new DefenderPolicy(cluster, 'default', { limits: [{ name: 'cell', scope: 'Cluster', maxUnavailable: 1 }] }));
`;
/** In namespaces that allow no more of them. */
const WEAK = 'for kind in user mnt pid net; do echo 0 > /proc/sys/user/max_${kind}_namespaces || exit 9; done; exec "$@"';

let dir: string;
let client: Client;
let close: () => Promise<void>;
const hubs: ChildProcess[] = [];

beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), 'kubenode-hub-wall-'));
  const clock = systemClock();
  const cluster = await openCluster({ name: 'hub', state: 'memory', clock });
  const server = await serve({ clusters: [cluster], listen: '127.0.0.1:0', state: 'memory', clock });
  close = async () => {
    await server.close();
    await cluster.close();
  };
  client = createClient(cluster.asUser());
  for (const kind of ALL_KINDS) await client.create(CustomResourceDefinitions, kind.crd());
  await waitFor(async () => await client.list(Fleets).then(Boolean, () => false), { deadlineMs: 30_000 });
  writeFileSync(join(dir, 'kubeconfig'), server.kubeconfig('hub'));
});
afterEach(async () => {
  for (const hub of hubs.splice(0)) hub.kill('SIGKILL');
  await close();
  rmSync(dir, { recursive: true, force: true });
});

async function startHub(...flags: string[]): Promise<ChildProcess> {
  const weaken = (await walls())[0]?.isolation === 'namespaces' ? ['unshare', '--user', '--map-root-user', 'sh', '-c', WEAK, 'sh'] : [];
  const cache = ['--leader-elect', 'false', '--cache', join(dir, 'cache'), '--kubeconfig', join(dir, 'kubeconfig')];
  const [command = '', ...args] = [...weaken, process.execPath, ...process.execArgv, ENTRY, 'controller', '--hub', ...cache, ...flags];
  const hub = spawn(command, args, { stdio: 'ignore' });
  hubs.push(hub);
  return hub;
}

it.skipIf(!hasGit)(
  'security 1, I2: a hub without --isolation renders nothing where namespaces are not available (skipped without git)',
  async () => {
    const repository = testRepository(join(dir, 'fleet'));
    const commit = repository.commit('First', { 'fleet/main.ts': MAIN });
    const spec = { source: { path: repository.dir }, stages: [{ name: 'all', clusterSelector: { stage: 'all' } }] };
    await client.create(Fleets, { apiVersion: API_VERSION, kind: 'Fleet', metadata: { name: 'main' }, spec });
    const status = async () => (await client.get(Fleets, { name: 'main' })).status;
    const careful = await startHub();
    const ready = await waitFor(async () => (await status())?.conditions?.find(({ type }) => type === 'Ready'), { deadlineMs: 60_000 });
    expect(ready).toMatchObject({ status: 'False', reason: 'RenderIsolation' });
    expect((await status())?.commit).toBeUndefined();
    careful.kill('SIGKILL');
    await startHub('--isolation', 'process');
    await waitFor(async () => (await status())?.commit === commit, { deadlineMs: 60_000 });
    expect((await status())?.isolation).toBe('process');
  },
  150_000,
);
