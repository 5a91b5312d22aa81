import { beforeEach, expect, test } from 'vitest';
import type { InfraProvider } from '../../api/provider.ts';
import { systemClock } from '../../kube/clock.ts';
import { recordingLog } from '../../kube/testing/log.ts';
import { memoryDisk } from '../testing/memory-disk.ts';
import { markOf } from './agent-process.ts';
import type { Disk } from './disk.ts';
import { graveyardOf, layoutOf, lockOf, trashOf, type NodeLayout } from './layout.ts';
import { holderOf, takeLock } from './lock.ts';
import { keepNode } from './node.ts';
import { askPower, bootNode, cutPower, cyclesAsked, isKeptOff, noteCycled, noteOff, readHost, takeCuts, writeHost } from './power.ts';
import { hostBoot, processesWith, startOf } from './process.ts';
import { localProvider } from './provider.ts';

/* What the local provider and its host have reported is still true after this machine lost its power. */

const NODES = '/nodes';
const { signal } = new AbortController();
const request = { machineUID: 'u', namespace: 'web', name: 'a', config: {} };
const bootstrap = (token: string) => ({
  server: 's',
  certificateAuthority: 'c',
  token,
  machine: { namespace: 'web', name: 'a', uid: 'u' },
  providerID: 'local://u',
});

let disk: Disk;
let losePower: () => void;
let provider: InfraProvider;
const layout: NodeLayout = layoutOf(NODES, 'u');

beforeEach(async () => {
  ({ disk, losePower } = memoryDisk());
  await disk.makeFolder(NODES);
  await disk.syncFolder('/');
  provider = localProvider({ nodesDir: NODES, disk });
});

async function made(): Promise<void> {
  await provider.ensure(request, bootstrap('first'), signal);
  losePower();
}

const ports = () => ({ disk, clock: systemClock({ ref: true }), stopUnits: () => Promise.resolve() });

test('a node that was made is there, whole, with what it comes up with', async () => {
  await made();
  expect(await provider.get('local://u', signal)).toMatchObject({ state: 'Pending' });
  expect(JSON.parse((await disk.read(layout.bootstrap)) ?? '')).toEqual(bootstrap('first'));
  expect(await disk.list(layout.root)).toEqual([]);
});

test('a new bootstrap replaces the former one', async () => {
  await made();
  await provider.ensure(request, bootstrap('second'), signal);
  losePower();
  expect(JSON.parse((await disk.read(layout.bootstrap)) ?? '')).toEqual(bootstrap('second'));
});

test('a node that is being deleted stays so', async () => {
  await made();
  expect(await provider.delete('local://u', signal)).toBe('deleting');
  losePower();
  expect(await provider.get('local://u', signal)).toMatchObject({ state: 'Deleting' });
});

test('C8: an instance that was reported gone is not made again, also where it never existed', async () => {
  expect(await provider.delete('local://u', signal)).toBe('gone');
  losePower();
  await expect(provider.ensure(request, bootstrap('late'), signal)).rejects.toMatchObject({ code: 'InvalidConfig' });
  expect(await provider.list(signal)).toEqual([]);
});

test('C8: nor is one whose process died just before it could report that', async () => {
  const real = { ...disk };
  let dies = true;
  disk.syncFolder = async (path) => {
    if (path === graveyardOf(NODES) && dies) throw new Error('died');
    await real.syncFolder(path);
  };
  await expect(provider.delete('local://u', signal)).rejects.toThrow('died');
  dies = false;
  expect(await provider.delete('local://u', signal)).toBe('gone');
  losePower();
  await expect(provider.ensure(request, bootstrap('late'), signal)).rejects.toMatchObject({ code: 'InvalidConfig' });
});

test('an instance that was half made and reported gone does not come back', async () => {
  await disk.makeFolder(layout.root);
  await disk.syncFolder(NODES);
  expect(await provider.delete('local://u', signal)).toBe('gone');
  losePower();
  expect(await disk.list(layout.folder)).toBeUndefined();
});

test('the host removes a deleted node permanently', async () => {
  await made();
  await provider.delete('local://u', signal);
  await keepNode(
    { ...ports(), agentCommand: ['/bin/false'], log: recordingLog(), pollMs: 10, turn: () => Promise.resolve() },
    NODES,
    layout,
    signal,
  );
  expect(await disk.list(trashOf(NODES))).toEqual([]);
  losePower();
  expect(await provider.get('local://u', signal)).toBeUndefined();
  await expect(provider.ensure(request, bootstrap('late'), signal)).rejects.toMatchObject({ code: 'InvalidConfig' });
});

test('a power cycle that was asked for is made, and one that was made is not made again', async () => {
  await made();
  await provider.reboot?.('local://u', 'op', signal);
  losePower();
  expect(await cyclesAsked(disk, layout)).toEqual(['op']);
  await noteCycled(disk, layout, ['op']);
  losePower();
  expect(await cyclesAsked(disk, layout)).toEqual([]);
  await askPower(disk, layout, 'op', 'cycle');
  expect(await cyclesAsked(disk, layout)).toEqual([]);
});

test('an operation that was retired has no effect any more', async () => {
  await made();
  await provider.retire?.('local://u', 'op', signal);
  losePower();
  await provider.reboot?.('local://u', 'op', signal);
  await provider.stop?.('local://u', 'op', signal);
  await takeCuts(disk, layout);
  expect(await cyclesAsked(disk, layout)).toEqual([]);
  expect(await isKeptOff(disk, layout)).toBe(false);
});

test('nor has one whose process died during its retirement, just before it could report it', async () => {
  await made();
  const real = { ...disk };
  let dies = true;
  disk.syncFolder = async (path) => {
    if (path === layout.powerAsks && dies) throw new Error('died');
    await real.syncFolder(path);
  };
  await expect(provider.retire?.('local://u', 'op', signal)).rejects.toThrow('died');
  dies = false;
  await provider.retire?.('local://u', 'op', signal);
  losePower();
  await provider.reboot?.('local://u', 'op', signal);
  expect(await cyclesAsked(disk, layout)).toEqual([]);
});

test('a node that was to be off stays off until its power is cycled, and is on from then', async () => {
  await made();
  await provider.stop?.('local://u', 'cut', signal);
  losePower();
  await takeCuts(disk, layout);
  losePower();
  expect(await isKeptOff(disk, layout)).toBe(true);
  await noteOff(disk, layout);
  losePower();
  expect(await provider.get('local://u', signal)).toMatchObject({ state: 'Stopped' });
  await provider.reboot?.('local://u', 'op', signal);
  await noteCycled(disk, layout, ['op']);
  losePower();
  expect(await isKeptOff(disk, layout)).toBe(false);
  // The cut that was taken once is not taken again.
  await takeCuts(disk, layout);
  expect(await isKeptOff(disk, layout)).toBe(false);
});

test('a node has one boot ID for as long as what it is in runs, and another one afterwards', async () => {
  await made();
  const first = await bootNode(ports(), layout);
  expect((await disk.read(layout.bootID))?.trim()).toBe(first);
  expect(await readHost(disk, layout)).toEqual({ bootID: first, hostBoot: await hostBoot() });
  expect(await bootNode(ports(), layout)).toBe(first);
  // As a host that died before it noted anything left it.
  await writeHost(disk, layout, {});
  expect(await bootNode(ports(), layout)).toBe(first);
  await disk.write(`${layout.run}/lock`, '', 0o644);
  await writeHost(disk, layout, { bootID: first, hostBoot: 'before' });
  const second = await bootNode(ports(), layout);
  expect(second).not.toBe(first);
  expect(await disk.read(`${layout.run}/lock`)).toBeUndefined();
  await disk.write(layout.bootID, '\n', 0o644);
  expect(await bootNode(ports(), layout)).not.toBe(second);
});

test('a node runs while its agent does, and not while another process has the number', async () => {
  await made();
  const agentStart = (await startOf(process.pid)) ?? '';
  const state = async () => (await provider.get('local://u', signal))?.state;
  await writeHost(disk, layout, { agentPid: process.pid, agentStart });
  expect(await state()).toBe('Running');
  await writeHost(disk, layout, { agentPid: process.pid, agentStart: 'another' });
  expect(await state()).toBe('Pending');
  await writeHost(disk, layout, { agentPid: process.pid });
  expect(await state()).toBe('Pending');
  // That it is to be off does not make it so.
  await writeHost(disk, layout, { agentPid: process.pid, agentStart, off: true });
  expect(await state()).toBe('Running');
});

test('the power is cut when every unit has ended: until then /run is there, and no file states that the node is off', async () => {
  await made();
  const bootID = await bootNode(ports(), layout);
  const { promise, resolve } = Promise.withResolvers<undefined>();
  const roots: string[] = [];
  const cutting = cutPower({ ...ports(), stopUnits: async (root) => (roots.push(root), await promise) }, layout);
  // As long as the search for other processes of it takes.
  await processesWith(markOf(layout));
  await processesWith(markOf(layout));
  expect((await disk.read(layout.bootID))?.trim()).toBe(bootID);
  expect((await readHost(disk, layout)).bootID).toBe(bootID);
  resolve(undefined);
  await cutting;
  expect(roots).toEqual([layout.root]);
  expect(await disk.list(layout.run)).toBeUndefined();
  expect(await readHost(disk, layout)).toEqual({});
});

test('who runs the nodes of a folder is known by number, start and boot; notes that record less name no process', async () => {
  const start = await startOf(process.pid);
  const boot = await hostBoot();
  const note = async (text: string): Promise<number | undefined> => {
    await disk.write(lockOf(NODES), text, 0o644);
    return await holderOf(disk, NODES);
  };
  expect(await holderOf(disk, NODES)).toBeUndefined();
  expect(await note(JSON.stringify({ pid: process.pid, start, boot }))).toBe(process.pid);
  await expect(takeLock(disk, NODES)).rejects.toMatchObject({ code: 'HostRunning', next: `kill ${process.pid}` });
  const others = [
    { pid: process.pid, start: 'another', boot },
    { pid: process.pid, start, boot: 'another' },
    { pid: String(process.pid), start, boot },
    { pid: process.pid, boot },
    { pid: process.pid, start },
  ];
  for (const each of others) expect(await note(JSON.stringify(each))).toBeUndefined();
  for (const text of ['', '{', 'null']) expect(await note(text)).toBeUndefined();
  const release = await takeLock(disk, NODES);
  losePower();
  expect(await holderOf(disk, NODES)).toBe(process.pid);
  await release();
  expect(await holderOf(disk, NODES)).toBeUndefined();
});
