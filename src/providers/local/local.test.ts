import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { NodeBootstrap } from '../../api/provider.ts';
import { systemClock } from '../../kube/clock.ts';
import { recordingLog } from '../../kube/testing/log.ts';
import { waitFor } from '../../kube/testing/wait-for.ts';
import { startLocalHost, shutdownNodes, type LocalHost } from './host.ts';
import { layoutOf, parseHost } from './layout.ts';
import { end, hostBoot, isAlive, processesWith, startOf, type ProcessIdentity } from './process.ts';
import { localProvider } from './provider.ts';

const { signal } = new AbortController();
const clock = systemClock({ ref: true });
const UID = 'uid-0';
const LATE = { deadlineMs: 15_000 };

let dir: string;
let nodesDir: string;
let host: LocalHost | undefined;
let others: ChildProcess[];
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'kubenode-local-'));
  nodesDir = join(dir, 'nodes');
  mkdirSync(nodesDir);
  host = undefined;
  others = [];
});
afterEach(async () => {
  await host?.stop();
  for (const other of others) other.kill('SIGKILL');
  await shutdownNodes(nodesDir, { stopUnits, clock });
  rmSync(dir, { recursive: true, force: true });
});

/**
 * An agent that notes each start with its boot ID, starts one service that outlives it, and notes its process as the real supervisor does.
 * `unresponsive` ones do not end with their host.
 */
function agentScript(options: { unresponsive?: boolean; crashes?: boolean } = {}): string {
  const script = join(dir, `agent${options.unresponsive === true ? '-unresponsive' : ''}.cjs`);
  writeFileSync(
    script,
    `
const fs = require('node:fs');
const { spawn } = require('node:child_process');
const root = process.argv[process.argv.indexOf('--root') + 1];
if (!${options.crashes === true} && !fs.existsSync(root + '/run/service')) {
  const service = spawn('/bin/sleep', ['1000'], { detached: true, stdio: 'ignore', env: { KUBENODE_ROOT: root } });
  service.unref();
  fs.writeFileSync(root + '/run/service', String(service.pid));
}
// Last, since the test goes on then.
fs.appendFileSync(root + '/../starts', process.pid + ' ' + fs.readFileSync(root + '/run/kubenode/boot-id', 'utf8'));
if (${options.crashes === true}) process.exit(1);
if (!${options.unresponsive === true}) process.on('disconnect', () => process.exit(0));
process.on('SIGTERM', () => process.exit(0));
setInterval(() => {}, 1000);
`,
  );
  return script;
}

const stoppedRoots: string[] = [];
/** As the agent's: the process of the node's service, by number and start. */
async function stopUnits(root: string): Promise<void> {
  stoppedRoots.push(root);
  if (!existsSync(join(root, 'run/service'))) return;
  const pid = Number(readFileSync(join(root, 'run/service'), 'utf8'));
  const start = await startOf(pid);
  if (start !== undefined) await end({ pid, start }, 500, clock);
}

async function startHost(script = agentScript(), pollMs = 30): Promise<LocalHost> {
  stoppedRoots.length = 0;
  host = await startLocalHost({
    nodesDir,
    agentCommand: [process.execPath, script],
    stopUnits,
    clock,
    log: recordingLog(),
    signal,
    pollMs,
  });
  return host;
}

const provider = () => localProvider({ nodesDir });

function bootstrapOf(uid: string): NodeBootstrap {
  const machine = { namespace: 'web', name: uid, uid };
  return { server: 'https://127.0.0.1:1', certificateAuthority: 'pem', token: 'secret', machine, providerID: `local://${uid}` };
}

async function make(uid = UID): Promise<void> {
  await provider().ensure({ machineUID: uid, namespace: 'web', name: uid, config: {} }, bootstrapOf(uid), signal);
}

function starts(uid = UID): { pid: number; bootID: string }[] {
  const path = join(layoutOf(nodesDir, uid).folder, 'starts');
  // An agent makes the file before it writes into it.
  const lines = existsSync(path)
    ? readFileSync(path, 'utf8')
        .split('\n')
        .filter((line) => line !== '')
    : [];
  return lines.map((line) => {
    const [pid, bootID = ''] = line.split(' ');
    return { pid: Number(pid), bootID };
  });
}

async function startedTimes(count: number, uid = UID): Promise<void> {
  await waitFor(() => starts(uid).length >= count && existsSync(join(layoutOf(nodesDir, uid).run, 'service')), LATE);
}

const stateOf = async (uid = UID): Promise<string | undefined> => (await provider().get(`local://${uid}`, signal))?.state;

async function identityOf(pid: number): Promise<ProcessIdentity> {
  return { pid, start: (await startOf(pid)) ?? '' };
}

async function serviceOf(uid = UID): Promise<ProcessIdentity> {
  return identityOf(Number(readFileSync(join(layoutOf(nodesDir, uid).run, 'service'), 'utf8')));
}

function moduleAt(name: string): string {
  return JSON.stringify(join(import.meta.dirname, name));
}

/** A host in a process of its own, to be killed. */
async function hostElsewhere(script: string): Promise<ChildProcess> {
  const main = join(dir, 'host.mjs');
  writeFileSync(
    main,
    `
import { startLocalHost } from ${moduleAt('host.ts')};
import { systemClock } from ${moduleAt('../../kube/clock.ts')};
const log = { debug() {}, info() {}, warn() {}, error() {} };
await startLocalHost({ nodesDir: ${JSON.stringify(nodesDir)}, agentCommand: [process.execPath, ${JSON.stringify(script)}], stopUnits: async () => {}, clock: systemClock({ ref: true }), log, signal: new AbortController().signal, pollMs: 30 });
`,
  );
  const child = spawn(process.execPath, [main], { stdio: 'ignore' });
  others.push(child);
  await waitFor(() => existsSync(join(nodesDir, '.host.json')), LATE);
  return child;
}

async function kill(child: ChildProcess): Promise<void> {
  const ended = once(child, 'exit');
  child.kill('SIGKILL');
  await ended;
}

describe('the host', () => {
  it('boots what was made before and after it started', async () => {
    await startHost();
    await make('uid-1');
    await startedTimes(1, 'uid-1');
    await host?.stop();
    await make('uid-2');
    await startHost();
    await startedTimes(1, 'uid-2');
    await startedTimes(2, 'uid-1');
    await waitFor(async () => (await stateOf('uid-1')) === 'Running', LATE);
    await waitFor(async () => (await stateOf('uid-2')) === 'Running', LATE);
    expect((await provider().list(signal)).map((each) => each.state)).toEqual(['Running', 'Running']);
  });

  it('boots a node when it is made, and not at the next reconciliation', async () => {
    await startHost(agentScript(), 3_600_000);
    for (const uid of ['uid-1', 'uid-2', 'uid-3']) {
      await make(uid);
      await startedTimes(1, uid);
    }
  });

  it('starts a killed agent again in the same boot, and leaves services alone', async () => {
    await startHost();
    await make();
    await startedTimes(1);
    const service = await serviceOf();
    process.kill(starts()[0]?.pid ?? 0, 'SIGKILL');
    await startedTimes(2);
    expect(starts()[1]?.bootID).toBe(starts()[0]?.bootID);
    expect(await isAlive(service)).toBe(true);
    expect(stoppedRoots).toEqual([]);
  });

  it('starts a crashing agent ever more slowly', async () => {
    await startHost(agentScript({ crashes: true }));
    await make();
    const began = clock.monotonic();
    await waitFor(() => starts().length === 3, LATE);
    // Half a second after the first, one second after the second.
    expect(clock.monotonic() - began).toBeGreaterThan(1400);
  });

  it('reboots a node when its agent asks: processes end, /run is empty, and the boot ID is another', async () => {
    await startHost();
    await make();
    await startedTimes(1);
    const service = await serviceOf();
    writeFileSync(layoutOf(nodesDir, UID).rebootRequest, '{"operationID":"op-1"}');
    await startedTimes(2);
    expect(starts()[1]?.bootID).not.toBe(starts()[0]?.bootID);
    expect(await isAlive(service)).toBe(false);
    expect(stoppedRoots).toEqual([layoutOf(nodesDir, UID).root]);
    expect(existsSync(layoutOf(nodesDir, UID).rebootRequest)).toBe(false);
  });

  it('cycles the power when the provider asks, once', async () => {
    await startHost();
    await make();
    await startedTimes(1);
    await provider().reboot?.(`local://${UID}`, 'op-1', signal);
    await startedTimes(2);
    expect(starts()[1]?.bootID).not.toBe(starts()[0]?.bootID);
    // A slow caller asks again, and so does one that had read the state before it was done.
    await provider().reboot?.(`local://${UID}`, 'op-1', signal);
    writeFileSync(join(layoutOf(nodesDir, UID).powerAsks, 'op-1'), '');
    await provider().reboot?.(`local://${UID}`, 'op-2', signal);
    await startedTimes(3);
    expect(starts()).toHaveLength(3);
  });

  it('C9: cycles the power of a node that hangs', async () => {
    await startHost();
    await make();
    await startedTimes(1);
    const [agent, service] = [await identityOf(starts()[0]?.pid ?? 0), await serviceOf()];
    for (const { pid } of [agent, service]) process.kill(pid, 'SIGSTOP');
    await provider().reboot?.(`local://${UID}`, 'op-1', signal);
    await startedTimes(2);
    expect([await isAlive(agent), await isAlive(service)]).toEqual([false, false]);
    expect(starts()[1]?.bootID).not.toBe(starts()[0]?.bootID);
  }, 20_000);

  it('reports Stopped only when no process of the node runs, keeps it off over its own restarts, and turns it on by a power cycle', async () => {
    await startHost();
    await make();
    await startedTimes(1);
    const [agent, service] = [await identityOf(starts()[0]?.pid ?? 0), await serviceOf()];
    await provider().stop?.(`local://${UID}`, 'op-0', signal);
    expect(await stateOf()).not.toBe('Stopped');
    await waitFor(async () => (await stateOf()) === 'Stopped', LATE);
    expect([await isAlive(agent), await isAlive(service)]).toEqual([false, false]);
    await host?.stop();
    await startHost();
    await waitFor(async () => (await stateOf()) === 'Stopped', LATE);
    expect(starts()).toHaveLength(1);
    await provider().reboot?.(`local://${UID}`, 'op-1', signal);
    await startedTimes(2);
    expect(await stateOf()).not.toBe('Stopped');
  });

  it('removes a deleted node only after its processes, so that its absence is proof', async () => {
    await startHost();
    await make();
    await startedTimes(1);
    const [agent, service] = [await identityOf(starts()[0]?.pid ?? 0), await serviceOf()];
    expect(await provider().delete(`local://${UID}`, signal)).toBe('deleting');
    await waitFor(async () => (await provider().delete(`local://${UID}`, signal)) === 'gone', LATE);
    expect([await isAlive(agent), await isAlive(service)]).toEqual([false, false]);
    expect(existsSync(layoutOf(nodesDir, UID).folder)).toBe(false);
  });

  it('leaves no process after it stopped, and boots the nodes again the next time', async () => {
    await startHost();
    await make();
    await startedTimes(1);
    const [agent, service] = [await identityOf(starts()[0]?.pid ?? 0), await serviceOf()];
    await host?.stop();
    expect([await isAlive(agent), await isAlive(service)]).toEqual([false, false]);
    expect(await processesWith(`KUBENODE_ROOT=${layoutOf(nodesDir, UID).root}`)).toEqual([]);
    await startHost();
    await startedTimes(2);
    expect(starts()[1]?.bootID).not.toBe(starts()[0]?.bootID);
  });

  it('starts eight nodes at once, each with one agent', async () => {
    const uids = Array.from({ length: 8 }, (_each, index) => `uid-${index}`);
    for (const uid of uids) await make(uid);
    await startHost();
    for (const uid of uids) await startedTimes(1, uid);
    expect(uids.map((uid) => starts(uid).length)).toEqual(uids.map(() => 1));
    expect(new Set(uids.map((uid) => starts(uid)[0]?.bootID)).size).toBe(8);
    if (process.platform !== 'linux') return;
    // One after the other, in hundredths of a second: what all nodes of a machine do at their start is spread.
    const began = await Promise.all(uids.map(async (uid) => Number(await startOf(starts(uid)[0]?.pid ?? 0))));
    expect(Math.max(...began) - Math.min(...began)).toBeGreaterThan(60);
  });

  it('goes on beside a node whose files are damaged', async () => {
    await make('uid-1');
    await make('uid-2');
    writeFileSync(layoutOf(nodesDir, 'uid-1').instance, '{');
    await startHost();
    await startedTimes(1, 'uid-2');
    expect(starts('uid-1')).toEqual([]);
  });

  it('is alone: a second one for the same folder is refused', async () => {
    await hostElsewhere(agentScript());
    await expect(startHost()).rejects.toMatchObject({ code: 'HostRunning' });
    await expect(shutdownNodes(nodesDir, { stopUnits, clock })).rejects.toMatchObject({ code: 'HostRunning' });
    for (const other of others) await kill(other);
  });
});

describe('H1: a host that was killed', () => {
  it('takes its agents with it; services live, and the next host goes on in the same boot', async () => {
    const former = await hostElsewhere(agentScript());
    await make();
    await startedTimes(1);
    const [agent, service] = [await identityOf(starts()[0]?.pid ?? 0), await serviceOf()];
    await kill(former);
    await waitFor(async () => !(await isAlive(agent)), LATE);
    expect(await isAlive(service)).toBe(true);
    await startHost();
    await startedTimes(2);
    expect(starts()[1]?.bootID).toBe(starts()[0]?.bootID);
    expect(await isAlive(service)).toBe(true);
  });

  it('an agent that did not end with it is ended before another begins', async () => {
    const former = await hostElsewhere(agentScript({ unresponsive: true }));
    await make();
    await startedTimes(1);
    const agent = await identityOf(starts()[0]?.pid ?? 0);
    await waitFor(() => parseHost(readFileSync(layoutOf(nodesDir, UID).host, 'utf8')).agentPid === agent.pid, LATE);
    await kill(former);
    expect(await isAlive(agent)).toBe(true);
    await startHost();
    await startedTimes(2);
    expect(await isAlive(agent)).toBe(false);
  });

  it('shutdownNodes leaves none of its processes', async () => {
    const former = await hostElsewhere(agentScript({ unresponsive: true }));
    await make();
    await startedTimes(1);
    const [agent, service] = [await identityOf(starts()[0]?.pid ?? 0), await serviceOf()];
    await waitFor(() => parseHost(readFileSync(layoutOf(nodesDir, UID).host, 'utf8')).agentPid === agent.pid, LATE);
    await kill(former);
    await shutdownNodes(nodesDir, { stopUnits, clock });
    expect([await isAlive(agent), await isAlive(service)]).toEqual([false, false]);
    expect(existsSync(layoutOf(nodesDir, UID).instance)).toBe(true);
  });

  it('a process that was given the number of its agent since is left alone', async () => {
    const stranger = spawn('/bin/sleep', ['1000'], { stdio: 'ignore' });
    others.push(stranger);
    await make();
    writeFileSync(layoutOf(nodesDir, UID).host, JSON.stringify({ hostBoot: await hostBoot(), agentPid: stranger.pid, agentStart: '1' }));
    await startHost();
    await startedTimes(1);
    await host?.stop();
    expect(await startOf(stranger.pid ?? 0)).toBeDefined();
  });

  it('after this machine itself was rebooted, every node is in a new boot', async () => {
    const layout = layoutOf(nodesDir, UID);
    await make();
    mkdirSync(join(layout.run, 'kubenode'), { recursive: true });
    writeFileSync(layout.bootID, 'boot-before\n');
    writeFileSync(layout.host, JSON.stringify({ bootID: 'boot-before', hostBoot: 'another boot of this machine' }));
    await startHost();
    await startedTimes(1);
    expect(starts()[0]?.bootID).not.toBe('boot-before');
  });
});
