import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { NodeBootstrap } from '../../api/provider.ts';
import { systemClock } from '../../kube/clock.ts';
import { recordingLog } from '../../kube/testing/log.ts';
import { waitFor } from '../../kube/testing/waitfor.ts';
import { nodeFolder } from './folder.ts';
import { startLocalHost, type LocalHost } from './host.ts';
import { localProvider } from './provider.ts';

const UID = '3f0a4a0e-0000-4000-8000-000000000001';
const request = { machineUID: UID, namespace: 'web', name: 'web-1', config: {} };
const bootstrap: NodeBootstrap = {
  server: 'https://127.0.0.1:1',
  certificateAuthority: 'pem',
  token: 'secret',
  machine: { namespace: 'web', name: 'web-1', uid: UID },
  providerID: `local://${UID}`,
};
const { signal } = new AbortController();

let dir: string;
let host: LocalHost | undefined;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'kubenode-local-'));
});
afterEach(async () => {
  await host?.stop();
  host = undefined;
  rmSync(dir, { recursive: true, force: true });
});

/** An agent that notes each start with its boot id, and reboots when told to. */
const AGENT = `
const fs = require('node:fs');
const root = process.argv[process.argv.indexOf('--root') + 1];
fs.appendFileSync(root + '/../starts', process.pid + ' ' + fs.readFileSync(root + '/run/kubenode/boot-id', 'utf8'));
process.on('disconnect', () => process.exit(0));
process.on('SIGTERM', () => process.exit(0));
setInterval(() => {}, 1000);
`;
const stopped: string[] = [];

async function startHost(agent = AGENT): Promise<LocalHost> {
  const script = join(dir, 'agent.cjs');
  writeFileSync(script, agent);
  stopped.length = 0;
  host = await startLocalHost({
    nodesDir: join(dir, 'nodes'),
    agentCommand: [process.execPath, script],
    stopUnits: async (root) => void stopped.push(root),
    clock: systemClock(),
    log: recordingLog(),
    signal,
  });
  return host;
}
const provider = () => localProvider({ nodesDir: join(dir, 'nodes') });
const folder = () => nodeFolder(join(dir, 'nodes'), UID);
const starts = (): { pid: number; bootID: string }[] =>
  (existsSync(join(folder().dir, 'starts')) ? readFileSync(join(folder().dir, 'starts'), 'utf8').trim().split('\n') : []).map((line) => {
    const [pid, bootID = ''] = line.split(' ');
    return { pid: Number(pid), bootID };
  });

describe('the provider', () => {
  it('makes one instance for a Machine, however often it is asked', async () => {
    const first = await provider().ensure(request, bootstrap, signal);
    const again = await provider().ensure(request, { ...bootstrap, token: 'other' }, signal);
    expect(again).toEqual(first);
    expect(first.providerID).toBe(provider().providerIDOf(request));
    expect(await provider().list(signal)).toEqual([first]);
    expect(JSON.parse(readFileSync(folder().bootstrap, 'utf8'))).toEqual(bootstrap);
    expect(statSync(folder().bootstrap).mode & 0o077).toBe(0);
  });

  it('goes on after a crash between any two writes', async () => {
    mkdirSync(folder().root, { recursive: true });
    expect(await provider().get(bootstrap.providerID, signal)).toBeUndefined();
    writeFileSync(folder().bootstrap, '{"half":');
    expect(await provider().list(signal)).toEqual([]);
    await provider().ensure(request, bootstrap, signal);
    expect(JSON.parse(readFileSync(folder().bootstrap, 'utf8'))).toEqual(bootstrap);
  });

  it('says gone only when nothing is left, and removes what a crash left', async () => {
    expect(await provider().delete(bootstrap.providerID, signal)).toBe('gone');
    mkdirSync(folder().root, { recursive: true });
    expect(await provider().delete(bootstrap.providerID, signal)).toBe('gone');
    expect(existsSync(folder().dir)).toBe(false);
    await provider().ensure(request, bootstrap, signal);
    expect(await provider().delete(bootstrap.providerID, signal)).toBe('deleting');
    expect((await provider().get(bootstrap.providerID, signal))?.state).toBe('Deleting');
  });

  it('invariant 1: a damaged file is an error, never absence', async () => {
    await provider().ensure(request, bootstrap, signal);
    writeFileSync(folder().instance, '{"machineUID":');
    await expect(provider().get(bootstrap.providerID, signal)).rejects.toMatchObject({ code: 'Unavailable' });
    await expect(provider().list(signal)).rejects.toMatchObject({ code: 'Unavailable' });
    await expect(provider().delete(bootstrap.providerID, signal)).rejects.toMatchObject({ code: 'Unavailable' });
  });

  it('never leaves its folder', async () => {
    await expect(provider().get('local://../../etc', signal)).rejects.toMatchObject({ code: 'InvalidConfig' });
    await expect(provider().ensure({ ...request, machineUID: '..' }, bootstrap, signal)).rejects.toMatchObject({ code: 'InvalidConfig' });
  });
});

describe('the host', () => {
  it('boots what was made before or after it started, and starts a killed agent again in the same boot', async () => {
    await startHost();
    await provider().ensure(request, bootstrap, signal);
    await waitFor(() => starts().length === 1, { deadlineMs: 15_000 });
    process.kill(starts()[0]?.pid ?? 0, 'SIGKILL');
    await waitFor(() => starts().length === 2, { deadlineMs: 15_000 });
    expect(starts()[1]?.bootID).toBe(starts()[0]?.bootID);
    expect(stopped).toEqual([]);
    expect(JSON.parse(readFileSync(folder().host, 'utf8'))).toMatchObject({ agentPid: starts()[1]?.pid, bootID: starts()[0]?.bootID });
  });

  it('gives a rebooted node a new boot id and stops its services first', async () => {
    await startHost();
    await provider().ensure(request, bootstrap, signal);
    await waitFor(() => starts().length === 1, { deadlineMs: 15_000 });
    writeFileSync(folder().rebootRequest, '{}');
    await waitFor(() => starts().length === 2, { deadlineMs: 15_000 });
    expect(starts()[1]?.bootID).not.toBe(starts()[0]?.bootID);
    expect(stopped).toEqual([folder().root]);
  });

  it('powers off when it stops, and boots again with a new boot id', async () => {
    await startHost();
    await provider().ensure(request, bootstrap, signal);
    await waitFor(() => starts().length === 1, { deadlineMs: 15_000 });
    await host?.stop();
    expect(stopped).toEqual([folder().root]);
    expect(() => process.kill(starts()[0]?.pid ?? 0, 0)).toThrow();
    await startHost();
    await waitFor(() => starts().length === 2, { deadlineMs: 15_000 });
    expect(starts()[1]?.bootID).not.toBe(starts()[0]?.bootID);
  });

  it('removes a deleted node only after its processes, so that its absence is proof', async () => {
    await startHost();
    await provider().ensure(request, bootstrap, signal);
    await waitFor(() => starts().length === 1, { deadlineMs: 15_000 });
    const pid = starts()[0]?.pid ?? 0;
    expect(await provider().delete(bootstrap.providerID, signal)).toBe('deleting');
    await waitFor(async () => (await provider().delete(bootstrap.providerID, signal)) === 'gone', { deadlineMs: 15_000 });
    expect(() => process.kill(pid, 0)).toThrow();
    expect(stopped).toEqual([folder().root]);
  });

  it('starts a crashing agent ever more slowly', async () => {
    await startHost("require('node:fs').appendFileSync(process.argv[process.argv.indexOf('--root') + 1] + '/../starts', process.pid + ' x\\n'); process.exit(1);");
    await provider().ensure(request, bootstrap, signal);
    await waitFor(() => starts().length === 3, { deadlineMs: 20_000 });
    expect(starts().length).toBeLessThan(5);
  });
});
