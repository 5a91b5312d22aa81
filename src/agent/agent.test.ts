import { readFileSync } from 'node:fs';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { Events, Leases } from '../api/builtin.ts';
import type { Machine } from '../api/machine.ts';
import { fakeApiServer, statusResponse } from '../kube/testing/api-server.ts';
import type { FakeApiServer } from '../kube/testing/api-server.ts';
import { fakeClock, seededRandom } from '../kube/testing/clock.ts';
import type { FakeClock } from '../kube/testing/clock.ts';
import { recordingLog } from '../kube/testing/log.ts';
import { settle } from '../kube/testing/wait-for.ts';
import { AGENT_VERSION, runAgent } from './agent.ts';
import type { AgentOptions } from './agent.ts';
import { Disk } from './testing/inodes.ts';
import { simulatedFiles } from './testing/disk.ts';
import { entry } from './testing/world.ts';
import { MachineComponents, Machines } from './cell/wanted.ts';

let api: FakeApiServer;
let clock: FakeClock;
let disk: Disk;
let ended: AbortController;
let running: Promise<void> = Promise.resolve();

const ports = (): AgentOptions['ports'] => ({
  files: simulatedFiles(disk),
  units: {
    list: () => Promise.resolve([]),
    start: () => Promise.reject(new Error('there are no units')),
    stop: () => Promise.resolve(),
    reload: () => Promise.resolve(),
    onExit: () => () => undefined,
  },
  network: { download: () => Promise.reject(new Error('nothing to fetch')), status: () => Promise.resolve(200) },
  runner: () => Promise.resolve({ ok: true, how: 'exit code 0', output: '' }),
  host: {
    bootID: 'boot',
    os: 'linux',
    arch: 'amd64',
    reboot: () => Promise.resolve(),
    keepUp: () => Promise.resolve(),
    takeAgentAway: () => Promise.resolve(),
  },
});

function put(spec: Machine['spec']): Machine {
  return api.put(Machines, { apiVersion: 'kubenode.io/v1alpha1', kind: 'Machine', metadata: { name: 'a', namespace: 'web' }, spec });
}

function start(uid: string): void {
  running = runAgent({
    bootstrap: { server: '', certificateAuthority: '', token: '', machine: { namespace: 'web', name: 'a', uid }, providerID: 'local://a' },
    bootstrapPath: '/bootstrap.json',
    root: '',
    transport: api.transport,
    ports: ports(),
    clock,
    random: seededRandom(1),
    log: recordingLog(),
    signal: ended.signal,
  });
}

/** Time passes, with a bookmark each minute. */
async function minutes(count: number): Promise<void> {
  for (let minute = 0; minute < count; minute++) {
    await clock.advance(60_000);
    api.bookmark();
    await settle();
  }
}

const status = (): Machine['status'] => api.objects(Machines)[0]?.status;
const leases = (from: number): number => api.requests.slice(from).filter((each) => each.path.includes('/leases')).length;

beforeEach(() => {
  api = fakeApiServer();
  clock = fakeClock();
  disk = new Disk();
  for (const path of ['/etc', '/var', '/var/lib']) {
    disk.change(path, [[path.slice(path.lastIndexOf('/') + 1), disk.add({ kind: 'folder', names: new Map(), durable: new Map() })]]);
  }
  ended = new AbortController();
  api.put(MachineComponents, {
    apiVersion: 'kubenode.io/v1alpha1',
    kind: 'MachineComponent',
    metadata: { name: 'app-1.0.0' },
    spec: {
      componentName: 'app',
      version: '1.0.0',
      platforms: [{ os: 'any', arch: 'any', artifacts: [] }],
      files: [{ path: '/etc/app', content: 'x' }],
    },
  });
});

afterEach(async () => {
  ended.abort(new Error('ended'));
  await clock.advance(60_000);
  await running;
});

test('a healthy hour costs sixty renewals of the Lease, and one watch that is begun again', async () => {
  const machine = put({ components: [entry('app', '1.0.0', 1)] });
  start(machine.metadata.uid ?? '');
  await minutes(5);
  expect(status()?.components).toMatchObject([{ name: 'app', state: 'Healthy', running: 1 }]);
  const before = api.requests.length;
  await minutes(60);
  const others = api.requests.slice(before).filter((each) => !each.path.includes('/leases'));
  expect(leases(before)).toBeGreaterThanOrEqual(55);
  expect(leases(before)).toBeLessThanOrEqual(65);
  expect(others.filter((each) => each.query?.['watch'] === undefined)).toEqual([]);
  expect(others.length).toBeLessThanOrEqual(2);
  process.stdout.write(`agent: an idle hour costs ${leases(before)} renewals and ${others.length} other requests\n`);
});

test('the agent reports the version of the package', () => {
  const file = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as { version: string };
  expect(AGENT_VERSION).toBe(file.version);
});

test('the Lease is made where there is none, and belongs to the Machine', async () => {
  const { metadata } = put({});
  start(metadata.uid ?? '');
  await minutes(1);
  expect(api.objects(Leases)).toMatchObject([
    {
      metadata: { name: 'agent-a', namespace: 'web', ownerReferences: [{ kind: 'Machine', name: 'a', uid: metadata.uid }] },
      spec: { holderIdentity: 'a', leaseDurationSeconds: 180 },
    },
  ]);
  const times = new Set<string | undefined>();
  for (let minute = 0; minute < 5; minute++) {
    await minutes(1);
    times.add(api.objects(Leases)[0]?.spec?.renewTime);
  }
  expect(times.size).toBeGreaterThan(3);
});

test('what happened is reported in Events of the Machine', async () => {
  const { metadata } = put({ components: [entry('app', '1.0.0', 1)] });
  start(metadata.uid ?? '');
  await minutes(1);
  const id = disk.find('/etc/app', true) ?? 0;
  const file = disk.inodes.get(id);
  if (file?.kind === 'file') file.data = Buffer.from('drift');
  disk.notify('/etc');
  await minutes(1);
  expect(api.objects(Events).map(({ reason, involvedObject }) => [reason, involvedObject.uid])).toEqual([
    ['Installed', metadata.uid],
    ['DriftFound', metadata.uid],
    ['DriftRepaired', metadata.uid],
  ]);
});

test('another Machine of the same name is not this node’s: the agent does nothing for it, and does not make it seem alive', async () => {
  put({ components: [entry('app', '1.0.0', 1)] });
  start('the uid this node was installed with');
  await minutes(2);
  const before = api.requests.length;
  await minutes(10);
  expect(status()).toBeUndefined();
  expect(disk.find('/etc/app', true)).toBeUndefined();
  expect(leases(before)).toBe(0);
});

test('a server that was put back to a backup is followed, though its versions begin again lower', async () => {
  const { metadata } = put({ components: [entry('app', '1.0.0', 1)] });
  for (let change = 0; change < 20; change++) put({ components: [entry('app', '1.0.0', 1)], labels: { change: String(change) } });
  start(metadata.uid ?? '');
  await minutes(2);
  api.watches.end();
  api.rewind(50);
  await minutes(3);
  put({ components: [entry('app', '1.0.0', 5)] });
  await minutes(3);
  expect(status()?.components).toMatchObject([{ revision: 5, running: 5 }]);
});

test.each([
  ['is away', () => Promise.reject(new Error('connection refused'))],
  ['takes its rights away', () => statusResponse(403, 'Forbidden')],
  ['finds its token out of date', () => statusResponse(401, 'Unauthorized')],
])('a server that %s for hours finds the node as it was, and gets the reports that it missed', async (_what, answer) => {
  const { metadata } = put({ components: [entry('app', '1.0.0', 1)] });
  start(metadata.uid ?? '');
  await minutes(2);
  expect(api.watches.open).toBe(1);
  const stop = api.intercept(answer);
  api.watches.reset();
  const inode = disk.inodes.get(disk.find('/etc/app', true) ?? 0);
  if (inode?.kind === 'file') inode.data = Buffer.from('drift');
  const before = api.requests.length;
  await minutes(60);
  // Retries are as rare as they may be.
  expect(api.requests.length - before).toBeLessThan(300);
  stop();
  await minutes(3);
  expect(status()?.components).toMatchObject([{ state: 'Healthy', driftRepairs: 1 }]);
});
