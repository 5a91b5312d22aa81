import { execFile } from 'node:child_process';
import { readFile, readdir } from './node-fs.ts';

/**
 * When the process with this ID began, in a form that only this process of this boot of the kernel has; undefined when there is none, or only
 * its remains. IDs are used again: ID and start together name a process.
 */
export async function startOf(pid: number): Promise<string | undefined> {
  if (process.platform === 'linux') {
    const stat = await statOf(pid);
    return stat === undefined || stat.ended ? undefined : `${await kernelBoot()}:${stat.start}`;
  }
  try {
    const [state = '', ...start] = (await ps(['-o', 'stat=,lstart=', '-p', String(pid)])).trim().split(/\s+/);
    return state === '' || state.startsWith('Z') ? undefined : start.join(' ');
  } catch {
    return undefined;
  }
}

function ps(args: string[]): Promise<string> {
  const env = { LC_ALL: 'C', PATH: '/bin:/usr/bin' };
  return new Promise((resolve, reject) => {
    execFile('ps', args, { env }, (error, stdout) => (error === null ? resolve(stdout) : reject(error)));
  });
}

/** Processes of a group whose leader is gone, recognized by what the leader left in their environment. Linux only: elsewhere none are found. */
export async function orphansOf(group: number, mark: string): Promise<number[]> {
  if (process.platform !== 'linux') return [];
  const found: number[] = [];
  for (const name of await readdir('/proc').catch(() => [])) {
    if (!/^\d+$/.test(name)) continue;
    const stat = await statOf(Number(name));
    if (stat?.group !== group || stat.ended) continue;
    const environment = await readFile(`/proc/${name}/environ`, 'utf8').catch(() => '');
    if (environment.split('\0').includes(mark)) found.push(Number(name));
  }
  return found;
}

/** Sends a signal; false when there is no process to receive it. */
export function send(pid: number, signal: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(pid, signal);
  } catch {
    return false;
  }
}

let boot: Promise<string> | undefined;
function kernelBoot(): Promise<string> {
  boot ??= readFile('/proc/sys/kernel/random/boot_id', 'utf8').then(
    (text) => text.trim(),
    () => '',
  );
  return boot;
}

async function statOf(pid: number): Promise<{ ended: boolean; group: number; start: string } | undefined> {
  const text = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => undefined);
  if (text === undefined) return undefined;
  // The name in parentheses may contain any character.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  // proc(5) counts from 1 and has two fields before these: state is 3, the group 5, the start 22.
  const [state, group, start] = [fields[0], fields[2], fields[19]];
  return { ended: state === 'Z' || state === 'X', group: Number(group), start: String(start) };
}
