import { localError } from '../errors.ts';
import type { CodedError } from '../../api/errors.ts';
import { replaceFile, type Disk } from './disk.ts';
import { lockOf } from './layout.ts';
import { hostBoot, isAlive, startOf } from './process.ts';

interface Holder {
  pid: number;
  start: string;
  boot: string;
}

/** The process that runs the nodes of this folder now; undefined: none, or one that died. */
export async function holderOf(disk: Disk, nodesDir: string): Promise<number | undefined> {
  const text = await disk.read(lockOf(nodesDir));
  if (text === undefined) return undefined;
  const holder = parse(text);
  if (holder === undefined || holder.boot !== (await hostBoot())) return undefined;
  return (await isAlive(holder)) ? holder.pid : undefined;
}

/** Two hosts would start two agents for one node. Errors: `HostRunning`. */
export async function takeLock(disk: Disk, nodesDir: string): Promise<() => Promise<void>> {
  const pid = await holderOf(disk, nodesDir);
  if (pid !== undefined) throw hostRunning(nodesDir, pid);
  const mine: Holder = { pid: process.pid, start: (await startOf(process.pid)) ?? '', boot: await hostBoot() };
  await replaceFile(disk, lockOf(nodesDir), JSON.stringify(mine), 0o644);
  return () => disk.remove(lockOf(nodesDir));
}

export function hostRunning(nodesDir: string, pid: number): CodedError {
  return localError('HostRunning', `process ${pid} runs the nodes in ${nodesDir}`, { next: `kill ${pid}` });
}

function parse(text: string): Holder | undefined {
  try {
    const value = JSON.parse(text) as Partial<Holder>;
    const { pid, start, boot } = value;
    return typeof pid === 'number' && typeof start === 'string' && typeof boot === 'string' ? { pid, start, boot } : undefined;
  } catch {
    return undefined;
  }
}
