import { execFile } from 'node:child_process';
import { readdir, readFile } from 'node:fs/promises';
import { promisify } from 'node:util';
import type { Clock } from '../../api/ports.ts';
import { sleep } from '../../kube/clock.ts';

/** A process, and no other that is given the same number later. */
export interface ProcessIdentity {
  pid: number;
  start: string;
}

/** When the process with this number began; undefined when there is none, or only what its parent has not collected yet. */
export async function startOf(pid: number): Promise<string | undefined> {
  return process.platform === 'linux' ? startOnLinux(pid) : startByPs(pid);
}

async function startOnLinux(pid: number): Promise<string | undefined> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => undefined);
  if (stat === undefined) return undefined;
  // proc_pid_stat(5): the command, second, is in parentheses and may contain any character; then state is the first and starttime the 20th.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return fields[0] === 'Z' || fields[0] === 'X' ? undefined : fields[19];
}

async function startByPs(pid: number): Promise<string | undefined> {
  try {
    const env = { LC_ALL: 'C', TZ: 'UTC', PATH: '/bin:/usr/bin' };
    const { stdout } = await promisify(execFile)('ps', ['-o', 'stat=', '-o', 'lstart=', '-p', String(pid)], { env });
    const [state = '', ...start] = stdout.trim().split(/\s+/);
    return state === '' || state.startsWith('Z') ? undefined : start.join(' ');
  } catch {
    return undefined;
  }
}

export async function isAlive({ pid, start }: ProcessIdentity): Promise<boolean> {
  return (await startOf(pid)) === start;
}

/** Which boot of this machine it is: numbers and times of processes mean something within one only. */
export async function hostBoot(): Promise<string> {
  if (process.platform === 'linux') return (await readFile('/proc/sys/kernel/random/boot_id', 'utf8')).trim();
  const { stdout } = await promisify(execFile)('/usr/sbin/sysctl', ['-n', 'kern.boottime']);
  return stdout.trim();
}

const AFTER_KILL_MS = 5000;
const POLL_MS = 20;

/** SIGTERM, after the grace SIGKILL, both only while it is this very process. True when it is gone. */
export async function end(identity: ProcessIdentity, graceMs: number, clock: Clock): Promise<boolean> {
  const began = clock.monotonic();
  let sent: 'SIGTERM' | 'SIGKILL' | undefined;
  while (await isAlive(identity)) {
    const waited = clock.monotonic() - began;
    const wanted = waited >= graceMs ? 'SIGKILL' : 'SIGTERM';
    if (waited > graceMs + AFTER_KILL_MS) return false;
    if (sent !== wanted) send(identity.pid, wanted);
    sent = wanted;
    await sleep(clock, POLL_MS);
  }
  return true;
}

function send(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // Gone between the search and the signal.
  }
}

/** Every process that carries this in its environment, as the kernel lists them. Linux only: elsewhere it finds none. */
export async function processesWith(mark: string): Promise<ProcessIdentity[]> {
  if (process.platform !== 'linux') return [];
  const found: ProcessIdentity[] = [];
  for (const name of await readdir('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    const pid = Number(name);
    const start = await startOf(pid);
    const environment = await readFile(`/proc/${name}/environ`, 'utf8').catch(() => '');
    // The start was read first: a process that took the number over since would not match it any more when it is ended.
    if (start !== undefined && environment.split('\0').includes(mark)) found.push({ pid, start });
  }
  return found;
}
