import { randomUUID } from 'node:crypto';
import { dirname } from 'node:path';
import type { Clock } from '../../api/ports.ts';
import { CodedError } from '../../api/errors.ts';
import { markOf } from './agentprocess.ts';
import { replaceFile, type Disk } from './disk.ts';
import { parseHost, type HostFile, type NodeLayout } from './layout.ts';
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

/** An agent of a host that is no more: it should have ended with it, and must have before another begins. */
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

function stillThere(layout: NodeLayout, pids: number[]): CodedError {
  return new CodedError('ProcessesLeft', `processes of ${layout.folder} do not end: ${pids.join(', ')}`);
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
