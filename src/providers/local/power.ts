import { localError } from '../errors.ts';
import { randomUUID } from 'node:crypto';
import { dirname, join } from 'node:path';
import type { Clock } from '../../api/ports.ts';
import type { CodedError } from '../../api/errors.ts';
import { markOf } from './agent-process.ts';
import { replaceFile, type Disk } from './disk.ts';
import { isUID, parseHost, type HostFile, type NodeLayout } from './layout.ts';
import { end, hostBoot, processesWith } from './process.ts';

export interface PowerPorts {
  disk: Disk;
  clock: Clock;
  /** Ends every supervised unit of the node with this root, each by process ID and start time. */
  stopUnits: (root: string) => Promise<void>;
}

/** For what outlived its time: hooks of a killed agent, services that left their group. */
const STRAY_GRACE_MS = 500;

export async function readHost(disk: Disk, layout: NodeLayout): Promise<HostFile> {
  return parseHost(await disk.read(layout.host));
}

export async function writeHost(disk: Disk, layout: NodeLayout, file: HostFile): Promise<void> {
  await replaceFile(disk, layout.host, `${JSON.stringify(file)}\n`, 0o644);
}

/** An agent of a host process that is gone: it should have ended with it, and must have ended before another begins. */
export async function endFormerAgent({ disk, clock }: PowerPorts, layout: NodeLayout): Promise<void> {
  const { agentPid, agentStart, hostBoot: boot } = await readHost(disk, layout);
  if (agentPid === undefined || agentStart === undefined || boot !== (await hostBoot())) return;
  if (!(await end({ pid: agentPid, start: agentStart }, 3000, clock))) throw stillThere(layout, [agentPid]);
}

/**
 * What cutting the power takes from a node: every process, and what is under /run. The agent must have ended. Its folder stays, so the next
 * boot finds its disk as it was.
 */
export async function cutPower(ports: PowerPorts, layout: NodeLayout): Promise<void> {
  await ports.stopUnits(layout.root);
  const strays = await processesWith(markOf(layout));
  const gone = await Promise.all(strays.map((stray) => end(stray, STRAY_GRACE_MS, ports.clock)));
  const left = strays.filter((_stray, index) => gone[index] === false);
  if (left.length > 0)
    throw stillThere(
      layout,
      left.map((stray) => stray.pid),
    );
  await ports.disk.remove(layout.run);
  await writeHost(ports.disk, layout, {});
}

const DONE = '.done';
const OFF = '.off';
const askOf = (layout: NodeLayout, operation: string, kind: '' | typeof OFF | typeof DONE): string =>
  join(layout.powerAsks, `${operation}${kind}`);

/** Whether the power is not changed any more for this operation. */
export async function isSpent(disk: Disk, layout: NodeLayout, operation: string): Promise<boolean> {
  return (await disk.read(askOf(layout, operation, DONE))) !== undefined;
}

/** Asks for a power cycle, or for a cut that lasts. The host is the one that knows whether it has happened, by its note of it. */
export async function askPower(disk: Disk, layout: NodeLayout, operation: string, kind: 'cycle' | 'cut'): Promise<void> {
  if (await isSpent(disk, layout, operation)) return;
  await disk.makeFolder(layout.powerAsks);
  await disk.syncFolder(layout.folder);
  await replaceFile(disk, askOf(layout, operation, kind === 'cycle' ? '' : OFF), '', 0o644);
}

/** What is asked for this operation later has no effect, nor has what was asked and is not done yet. */
export async function retirePower(disk: Disk, layout: NodeLayout, operation: string): Promise<void> {
  // Who wrote it may have died before it was on the disk.
  if (await isSpent(disk, layout, operation)) return await disk.syncFolder(layout.powerAsks);
  await disk.makeFolder(layout.powerAsks);
  await disk.syncFolder(layout.folder);
  await replaceFile(disk, askOf(layout, operation, DONE), '', 0o644);
}

async function asked(disk: Disk, layout: NodeLayout, kind: '' | typeof OFF): Promise<string[]> {
  const names = ((await disk.list(layout.powerAsks)) ?? []).filter((name) => name.endsWith(kind));
  const operations = names.map((name) => name.slice(0, name.length - kind.length)).filter(isUID);
  const spent = await Promise.all(operations.map((operation) => isSpent(disk, layout, operation)));
  return operations.filter((_, index) => spent[index] === false);
}

/** Operations that a power cycle was asked for and that none was made for. */
export const cyclesAsked = (disk: Disk, layout: NodeLayout): Promise<string[]> => asked(disk, layout, '');

/** Writes down that the power is to stay off, where that was asked for. Dying in here only means that it is written down once more. */
export async function takeCuts(disk: Disk, layout: NodeLayout): Promise<void> {
  for (const operation of await asked(disk, layout, OFF)) {
    await replaceFile(disk, layout.powerOff, '', 0o644);
    await disk.remove(askOf(layout, operation, OFF));
    await disk.syncFolder(layout.powerAsks);
  }
}

/**
 * Notes, while the power is cut, that these operations have their cycle: the boot that follows is the only one they get. One cycle serves all that
 * were asked for before it. Dying in here only means that the power, which is off, is cut once more.
 */
export async function noteCycled(disk: Disk, layout: NodeLayout, operations: readonly string[]): Promise<void> {
  await disk.remove(layout.powerOff);
  await disk.syncFolder(layout.folder);
  for (const operation of operations) await disk.rename(askOf(layout, operation, ''), askOf(layout, operation, DONE));
  if (operations.length > 0) await disk.syncFolder(layout.powerAsks);
}

/** Whether the node is to stay off. */
export async function isKeptOff(disk: Disk, layout: NodeLayout): Promise<boolean> {
  return (await disk.read(layout.powerOff)) !== undefined;
}

/**
 * Notes that the power is off and stays off; it must have been cut. What boots a node cuts the power first, which takes this back, and only then lifts
 * the wish to keep it off: so wish and note together prove that nothing runs.
 */
export async function noteOff(disk: Disk, layout: NodeLayout): Promise<void> {
  await writeHost(disk, layout, { off: true });
}

function stillThere(layout: NodeLayout, pids: number[]): CodedError {
  return localError('ProcessesLeft', `processes of ${layout.folder} do not end: ${pids.join(', ')}`);
}

/**
 * The boot ID of a node that is on: the one it has, or, where /run is empty or this machine itself was rebooted, a new one. What was
 * started in that boot then still runs, and only then.
 */
export async function bootNode({ disk }: PowerPorts, layout: NodeLayout): Promise<string> {
  const boot = await hostBoot();
  const noted = await readHost(disk, layout);
  const found = (await disk.read(layout.bootID))?.trim();
  if (found !== undefined && found !== '' && (noted.hostBoot === undefined || noted.hostBoot === boot)) return found;
  await disk.remove(layout.run);
  await disk.makeFolder(dirname(layout.bootID));
  const bootID = randomUUID();
  await writeHost(disk, layout, { bootID, hostBoot: boot });
  await replaceFile(disk, layout.bootID, `${bootID}\n`, 0o644);
  return bootID;
}
