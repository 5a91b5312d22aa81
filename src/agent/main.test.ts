import { fork, spawn, spawnSync } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { generateKeyPairSync } from 'node:crypto';
import { once } from 'node:events';
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { rolldown } from 'rolldown';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { Leases } from '../api/builtin.ts';
import { keyLine, signComponent } from '../api/component-key.ts';
import { sha256Hex } from '../api/digest.ts';
import type { ComponentEntry, ComponentStatus, Machine } from '../api/machine.ts';
import type { MachineComponent } from '../api/machine-component.ts';
import { seededRandom } from '../kube/testing/clock.ts';
import { waitFor } from '../kube/testing/wait-for.ts';
import { startOf } from './ports/processes.ts';
import { stopAllUnits } from './ports/supervisor.ts';
import type { UnitRecord } from './ports/supervisor.ts';
import { tarGz } from './testing/archive.ts';
import { httpCell } from './testing/http-cell.ts';
import type { HttpCell } from './testing/http-cell.ts';
import { entry } from './testing/world.ts';
import { MachineComponents, Machines } from './cell/wanted.ts';

let build: string;
/** Files from which the bundles were made. */
const modules: string[] = [];
let folder: string;
let root: string;
let cell: HttpCell;
const agents: ChildProcess[] = [];

beforeAll(async () => {
  build = mkdtempSync(join(tmpdir(), 'kubenode-agent-'));
  for (const [input, file] of [
    ['main.ts', 'agent.mjs'],
    ['tool.ts', 'tool.mjs'],
  ] as const) {
    const bundle = await rolldown({ input: join(import.meta.dirname, input), platform: 'node', logLevel: 'silent' });
    const { output } = await bundle.write({ file: join(build, file), format: 'esm', codeSplitting: false });
    modules.push(...output.flatMap((each) => (each.type === 'chunk' ? each.moduleIds : [])));
    await bundle.close();
  }
});

afterAll(() => rmSync(build, { recursive: true }));

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'kubenode-node-'));
  root = join(folder, 'root');
  mkdirSync(join(root, 'run/kubenode'), { recursive: true });
  writeFileSync(join(root, 'run/kubenode/boot-id'), 'boot-1\n');
  cell = await httpCell();
});

afterEach(async () => {
  for (const agent of agents.splice(0)) await kill(agent);
  await stopAllUnits(root);
  await cell.close();
  rmSync(folder, { recursive: true });
});

/** A version whose program is unpacked, prints that it begins, and runs on. */
function release(version: string, spec: object = {}): void {
  const program = `#!/bin/sh\necho "begin ${version}" >> "$KUBENODE_ROOT/begun"\nwhile true; do sleep 0.1; done\n`;
  const bytes = tarGz([{ name: 'app', content: program, mode: 0o755 }]);
  cell.artifacts.set(`app-${version}.tgz`, bytes);
  const component: MachineComponent = {
    apiVersion: 'kubenode.io/v1alpha1',
    kind: 'MachineComponent',
    metadata: { name: `app-${version}` },
    spec: {
      componentName: 'app',
      version,
      platforms: [
        { os: 'any', arch: 'any', artifacts: [{ name: 'bin', url: `app-${version}.tgz`, sha256: sha256Hex(bytes), unpack: 'TarGz' }] },
      ],
      files: [{ path: '/etc/app.conf', content: 'version {{version}} on {{machine.name}}\n' }],
      units: [{ name: 'app', exec: ['{{dir}}/bin/app'], stopTimeoutSeconds: 2 }],
      probes: [{ name: 'runs', unit: 'app', periodSeconds: 1 }],
      ...spec,
    },
  };
  cell.api.put(MachineComponents, component);
}

function change(spec: Machine['spec']): void {
  const [machine] = cell.api.objects(Machines);
  const before = machine ?? { apiVersion: 'kubenode.io/v1alpha1', kind: 'Machine', metadata: { name: 'a', namespace: 'web' }, spec: {} };
  const { metadata } = cell.api.put(Machines, { ...before, spec: { ...before.spec, ...spec } });
  if (machine !== undefined) return;
  writeFileSync(
    join(folder, 'bootstrap.json'),
    JSON.stringify({
      server: cell.server,
      certificateAuthority: cell.certificateAuthority,
      token: 'a-secret-token',
      machine: { namespace: 'web', name: 'a', uid: metadata.uid },
      providerID: 'local://a',
      mirror: cell.mirror,
    }),
  );
}

const want = (...components: ComponentEntry[]): void => change({ components });
const args = (): string[] => ['--bootstrap', join(folder, 'bootstrap.json'), '--root', root, '--host', 'local'];

function start(): ChildProcess {
  const agent = spawn(process.execPath, [join(build, 'agent.mjs'), ...args()], { stdio: ['pipe', 'pipe', 'pipe'] });
  collect(agent);
  agents.push(agent);
  return agent;
}

const output = new WeakMap<ChildProcess, string>();
function collect(agent: ChildProcess): void {
  output.set(agent, '');
  for (const stream of [agent.stdout, agent.stderr]) {
    stream?.on('data', (chunk: Buffer) => output.set(agent, (output.get(agent) ?? '') + chunk.toString()));
  }
}

async function kill(agent: ChildProcess, signal: NodeJS.Signals = 'SIGKILL'): Promise<unknown> {
  if (agent.exitCode !== null || agent.signalCode !== null) return agent.exitCode;
  agent.kill(signal);
  const [code] = (await once(agent, 'exit')) as [number | null];
  return code;
}

const status = (): Machine['status'] => cell.api.objects(Machines)[0]?.status;
const app = (): ComponentStatus | undefined => status()?.components?.find((each) => each.name === 'app');
const healthy = (version: string) => (): boolean => app()?.version === version && app()?.state === 'Healthy';
const begun = (): string[] => (existsSync(join(root, 'begun')) ? readFileSync(join(root, 'begun'), 'utf8').trim().split('\n') : []);
const unit = (): UnitRecord => JSON.parse(readFileSync(join(root, 'var/lib/kubenode/units/app.json'), 'utf8')) as UnitRecord;
const patient = { deadlineMs: 15_000 };

test('a node is installed over the wire, kept, and taken over by the next agent, even without a server to ask', async () => {
  release('1.0.0');
  want(entry('app', '1.0.0', 1));
  const first = start();
  await waitFor(healthy('1.0.0'), patient);
  expect(readFileSync(join(root, 'etc/app.conf'), 'utf8')).toBe('version 1.0.0 on a\n');
  expect(status()?.agent).toMatchObject({ bootID: 'boot-1', apiLevel: 1 });
  expect(cell.api.objects(Leases)).toMatchObject([
    { metadata: { name: 'agent-a', namespace: 'web' }, spec: { leaseDurationSeconds: 180 } },
  ]);
  // The token asks for the certificate, once; all else is asked as the machine.
  expect([...cell.peers]).toEqual(['Bearer a-secret-token', 'kubenode:machine:web:a']);
  expect(cell.api.requests.filter((each) => each.headers?.['authorization'] !== undefined).length).toBe(1);

  writeFileSync(join(root, 'etc/app.conf'), 'drift');
  await waitFor(() => readFileSync(join(root, 'etc/app.conf'), 'utf8') === 'version 1.0.0 on a\n');

  const { invocation, pid } = unit();
  expect(await kill(first, 'SIGTERM')).toBe(0);
  expect(await startOf(pid)).toBeDefined();
  // Keeping what is here needs no server.
  cell.away = true;
  const second = start();
  await waitFor(() => output.get(second)?.includes('the agent begins') === true);
  process.kill(pid, 'SIGKILL');
  await waitFor(() => begun().length === 2, patient);
  expect(unit().invocation).not.toBe(invocation);
  expect(output.get(first)).not.toContain('a-secret-token');
});

test('no node carries the validator of the API or its schemas, which take 13 MB of memory', () => {
  expect(modules.filter((each) => /\/node_modules\/(ajv|typebox)\/|\/src\/api\/(.*\/)?schema\.ts$/.test(each))).toEqual([]);
  expect(modules.some((each) => each.endsWith('/src/api/machine/values.ts'))).toBe(true);
});

test('a node reports what it is and whether it is as it was installed, from its disk alone, and prints no secret', async () => {
  const ask = (command: string) => spawnSync(process.execPath, [join(build, 'tool.mjs'), command, '--root', root], { encoding: 'utf8' });
  expect(ask('status')).toMatchObject({ status: 1, stdout: expect.stringContaining('machine     not known') as string });
  release('1.0.0');
  want(entry('app', '1.0.0', 1));
  const agent = start();
  await waitFor(healthy('1.0.0'), patient);
  await kill(agent);
  cell.away = true;
  mkdirSync(join(root, 'etc/kubenode'), { recursive: true });
  copyFileSync(join(folder, 'bootstrap.json'), join(root, 'etc/kubenode/bootstrap.json'));
  const printed = ask('status');
  expect(printed).toMatchObject({ status: 0, stderr: '' });
  expect(printed.stdout).toMatch(/^machine {5}web\/a \(/);
  expect(printed.stdout).toContain('Certificate, until ');
  expect(printed.stdout).toContain('component   app 1.0.0 (revision 1)\n');
  expect(printed.stdout + ask('journal').stdout).not.toMatch(/a-secret-token|PRIVATE KEY/);
  expect(ask('journal')).toMatchObject({ status: 0, stdout: expect.stringMatching(/^1 (open|state) .*\n(.*\n)*\d+ commit /) as string });
  expect(ask('verify')).toMatchObject({ status: 0, stdout: expect.stringContaining('1 component and') as string });

  writeFileSync(join(root, 'etc/app.conf'), 'drift');
  expect(ask('verify')).toMatchObject({ status: 1, stdout: expect.stringContaining('app: /etc/app.conf has other content') as string });
  const path = join(root, 'var/lib/kubenode/journal');
  const journal = readFileSync(path, 'utf8');
  writeFileSync(path, `x${journal.slice(1)}`);
  for (const command of ['status', 'journal', 'verify']) {
    expect(ask(command)).toMatchObject({ status: 1, stdout: expect.stringContaining('damaged') as string });
  }
  writeFileSync(path, journal);
  expect(ask('reboot')).toMatchObject({ status: 64 });
});

test('G6: a node that was installed with keys runs only what one of them has signed', async () => {
  const { privateKey } = generateKeyPairSync('ed25519');
  const sign = (version: string): void => {
    const component = cell.api.objects(MachineComponents).find(({ metadata }) => metadata.name === `app-${version}`);
    if (component === undefined) throw new Error(`there is no app ${version}`);
    cell.api.put(MachineComponents, { ...component, spec: { ...component.spec, signatures: [signComponent(component.spec, privateKey)] } });
  };
  release('1.0.0', { values: [{ name: 'color', pattern: 'blue' }] });
  sign('1.0.0');
  want(entry('app', '1.0.0', 1));
  const bootstrap = join(folder, 'bootstrap.json');
  const installed = JSON.parse(readFileSync(bootstrap, 'utf8')) as object;
  writeFileSync(bootstrap, JSON.stringify({ ...installed, componentKeys: keyLine(privateKey, 'release') }));
  const first = start();
  await waitFor(healthy('1.0.0'), patient);
  expect(statSync(join(root, 'etc/kubenode/component-keys')).mode & 0o777).toBe(0o644);
  // An intruder who controls the cell gives it another bootstrap, and a component of their own.
  await kill(first, 'SIGTERM');
  writeFileSync(bootstrap, JSON.stringify(installed));
  start();
  release('1.1.0', { hooks: { preInstall: { command: ['/bin/sh', '-c', `echo evil >> ${root}/begun`] } }, disruption: { minor: 'None' } });
  want(entry('app', '1.1.0', 2));
  await waitFor(() => app()?.failed !== undefined, patient);
  expect(app()).toMatchObject({ version: '1.0.0', state: 'Healthy', failed: { reason: 'SignatureRefused', revision: 2 } });
  expect(begun()).toEqual(['begin 1.0.0']);
});

test('an agent goes on when no process reads its log any more', async () => {
  release('1.0.0');
  want();
  const agent = start();
  await waitFor(() => status()?.agent !== undefined, patient);
  agent.stdout?.destroy();
  agent.stderr?.destroy();
  want(entry('app', '1.0.0', 1));
  await waitFor(healthy('1.0.0'), patient);
  expect([agent.exitCode, agent.signalCode]).toEqual([null, null]);
});

test('invariant 5: killed at any moment of an upgrade, it comes to its end, and the unit is restarted once', async () => {
  release('1.0.0');
  want(entry('app', '1.0.0', 1));
  let agent = start();
  await waitFor(healthy('1.0.0'), patient);
  release('1.1.0');
  const operation = {
    id: 'op',
    epoch: 1,
    kind: 'Change' as const,
    components: [{ name: 'app', revision: 2 }],
    notAfter: '2099-01-01T00:00:00Z',
  };
  change({ components: [entry('app', '1.1.0', 2)], operation });
  const random = seededRandom(Number(process.env['KUBENODE_SEED'] ?? 1));
  const rounds = process.env['KUBENODE_THOROUGH'] === '1' ? 200 : 6;
  let kills = 0;
  for (let round = 0; round < rounds && app()?.running !== 2; round++) {
    await delay(random() * 400);
    await kill(agent);
    kills++;
    agent = start();
  }
  await waitFor(() => healthy('1.1.0')() && status()?.operation?.state === 'Done', patient);
  expect(status()?.operation).toMatchObject({ id: 'op', outcome: 'Succeeded' });
  expect(begun()).toEqual(['begin 1.0.0', 'begin 1.1.0']);
  expect(readFileSync(join(root, 'etc/app.conf'), 'utf8')).toBe('version 1.1.0 on a\n');
  process.stdout.write(`agent: a process killed ${kills} times during an upgrade\n`);
}, 300_000);

test('what a human would do by hand is ordered: a unit restarted, a disk cleaned, a reboot asked for, each once', async () => {
  release('1.0.0', { disposable: [{ path: '/var/cache/app', olderThanSeconds: 60 }] });
  want(entry('app', '1.0.0', 1));
  const first = start();
  await waitFor(healthy('1.0.0'), patient);
  const { invocation, pid } = unit();
  const ordered = (id: string, action: string, given: Record<string, unknown> = {}): void =>
    change({ operation: { id, epoch: 1, kind: 'Repair', action, args: given, notAfter: new Date(Date.now() + 600_000).toISOString() } });
  const ended = (id: string) => (): boolean => status()?.operation?.id === id && status()?.operation?.state === 'Done';

  ordered('one', 'RestartComponent', { component: 'app' });
  await waitFor(ended('one'), patient);
  expect(status()?.operation).toMatchObject({ outcome: 'Succeeded', message: 'restarted app; all probes pass' });
  expect(unit().invocation).not.toBe(invocation);
  expect(await startOf(pid)).toBeUndefined();
  expect(begun()).toHaveLength(2);

  mkdirSync(join(root, 'var/cache/app/deep'), { recursive: true });
  for (const name of ['old', 'young']) writeFileSync(join(root, 'var/cache/app/deep', name), 'x');
  utimesSync(join(root, 'var/cache/app/deep/old'), 1, 1);
  // By the clock of this process, which may differ from the kernel's (test/long/dates.ts).
  utimesSync(join(root, 'var/cache/app/deep/young'), Date.now() / 1000, Date.now() / 1000);
  // No disk of a developer is that empty.
  ordered('two', 'CleanDisk', { belowPercent: 1 });
  await waitFor(ended('two'), patient);
  expect(status()?.operation?.outcome).toBe('TransientFailure');
  expect(status()?.operation?.message).toMatch(/^still at [\d.]+ %, nothing left that may go; freed \d+ bytes in 1 files$/);
  expect(readdirSync(join(root, 'var/cache/app/deep'))).toEqual(['young']);

  const request = join(root, 'run/kubenode/reboot-request');
  ordered('three', 'Reboot');
  await waitFor(() => existsSync(request), patient);
  expect(JSON.parse(readFileSync(request, 'utf8'))).toEqual({ operationID: 'three' });
  expect(status()?.operation).toMatchObject({ id: 'three', state: 'Running', bootID: 'boot-1' });
  // What the owner of a local node does.
  await kill(first);
  await stopAllUnits(root);
  rmSync(join(root, 'run'), { recursive: true });
  mkdirSync(join(root, 'run/kubenode'), { recursive: true });
  writeFileSync(join(root, 'run/kubenode/boot-id'), 'boot-2\n');
  start();
  await waitFor(ended('three'), patient);
  expect(status()?.operation).toMatchObject({ outcome: 'Succeeded', bootID: 'boot-2' });
  await waitFor(healthy('1.0.0'), patient);
  expect(begun()).toHaveLength(3);
  expect(existsSync(request)).toBe(false);
}, 40_000);

test('it ends when its parent closes the pipe, and when it disconnects', async () => {
  release('1.0.0');
  want();
  const piped = start();
  await waitFor(() => output.get(piped)?.includes('the agent begins') === true);
  piped.stdin?.end();
  expect(await once(piped, 'exit')).toEqual([0, null]);

  const forked = fork(join(build, 'agent.mjs'), args(), { stdio: ['ignore', 'pipe', 'pipe', 'ipc'], execArgv: [] });
  collect(forked);
  agents.push(forked);
  await waitFor(() => output.get(forked)?.includes('the agent begins') === true);
  forked.disconnect();
  expect(await once(forked, 'exit')).toEqual([0, null]);
});

test.each([
  [['--bootstrap', 'x'], 64, 'usage: kubenode-agent'],
  [['--bootstrap', 'x', '--root', 'y', '--host', 'moon'], 64, '--host must be "local" or "system", got "moon"'],
  [['--bootstrap', 'x', '--root', '/tmp', '--host', 'system'], 64, '--host system needs --root /, got "/tmp"'],
  [['--what'], 64, 'usage: kubenode-agent'],
  [['--bootstrap', '/no/such/file', '--root', '/tmp', '--host', 'local'], 1, '/no/such/file cannot be read'],
])('%j ends with %i', async (argv, code, message) => {
  const agent = spawn(process.execPath, [join(build, 'agent.mjs'), ...argv]);
  collect(agent);
  const [ended] = (await once(agent, 'close')) as [number];
  expect([ended, output.get(agent)]).toEqual([code, expect.stringContaining(message)]);
});

test('a bootstrap file that lacks something is named, and its token is not', async () => {
  want();
  const path = join(folder, 'bootstrap.json');
  const bootstrap = JSON.parse(readFileSync(path, 'utf8')) as { machine: object };
  for (const [changed, message] of [
    [{ machine: { name: 'a', namespace: 'web' } }, '`machine.uid` must be text'],
    [{ mirror: 'https://x/no-slash' }, '`mirror` must be a URL that ends with a slash'],
    [{ server: 7 }, '`server` must be text'],
  ] as const) {
    writeFileSync(path, JSON.stringify({ ...bootstrap, ...changed }));
    const agent = start();
    await once(agent, 'close');
    expect(output.get(agent)).toContain(message);
    expect(output.get(agent)).not.toContain('a-secret-token');
  }
});
