/**
 * What a run of nodes has made on this machine, known by its id alone: its folder in the temporary folder, network links and cgroups named by it,
 * mounts below its folder. So what a run that was killed has left is found and removed by the next one, and nothing else is.
 */
import { randomBytes } from 'node:crypto';
import { existsSync, mkdtempSync, readFileSync, readdirSync, renameSync, rmSync, rmdirSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { startOf } from '../../src/agent/ports/processes.ts';
import { ended } from './command.ts';

const PREFIX = 'kubenode-nodes-';
const CGROUPS = '/sys/fs/cgroup';
const GONE_WITHIN_MS = 20_000;

export interface Owner {
  /** Six hex digits. */
  readonly id: string;
  readonly folder: string;
  /** Second and third byte of the run's network, 10.X.Y.0/24. */
  readonly network: readonly [number, number];
}

/** Of machines, links and cgroups of a run: short, since a link's name has at most 15 characters. */
export const prefixOf = (id: string): string => `kn${id}`;

/** Makes the folder of this run. Removes what runs that were killed have left. */
export async function own(): Promise<Owner> {
  for (const name of readdirSync(tmpdir())) {
    const id = new RegExp(`^${PREFIX}([0-9a-f]{6})$`).exec(name)?.[1];
    if (id !== undefined && !(await isAlive(join(tmpdir(), name)))) await remove(id);
  }
  const bytes = randomBytes(3);
  const id = bytes.toString('hex');
  const folder = join(tmpdir(), `${PREFIX}${id}`);
  // It gets its name when its owner is known: one without an owner has no name.
  const making = mkdtempSync(join(tmpdir(), '.kubenode-nodes-'));
  writeFileSync(join(making, 'owner'), `${process.pid} ${(await startOf(process.pid)) ?? ''}`);
  renameSync(making, folder);
  // By the id: two runs side by side have different ones but for one in 16,000.
  return { id, folder, network: [64 + ((bytes[0] ?? 0) % 64), bytes[1] ?? 0] };
}

async function isAlive(folder: string): Promise<boolean> {
  let text: string;
  try {
    text = readFileSync(join(folder, 'owner'), 'utf8');
  } catch {
    return false;
  }
  const [pid = '', start = ''] = text.split(' ');
  return start !== '' && (await startOf(Number(pid))) === start;
}

/** Ends and removes all that has this id. Throws when something of it stays. */
export async function remove(id: string): Promise<void> {
  const prefix = prefixOf(id);
  const folder = join(tmpdir(), `${PREFIX}${id}`);
  const hierarchies = readdirSync(CGROUPS).map((name) => join(CGROUPS, name));
  const groups = (): string[] =>
    hierarchies.flatMap((hierarchy) =>
      (existsSync(hierarchy) ? readdirSync(hierarchy) : [])
        .filter((name) => name.startsWith(`${prefix}-`))
        .map((name) => join(hierarchy, name)),
    );
  const deadline = performance.now() + GONE_WITHIN_MS;
  for (;;) {
    const pids = new Set(groups().flatMap(pidsBelow));
    if (pids.size === 0) break;
    if (performance.now() > deadline) throw new Error(`processes of ${prefix} do not end: ${[...pids].join(', ')}`);
    for (const pid of pids) {
      try {
        process.kill(pid, 'SIGKILL');
      } catch {
        // Ended meanwhile.
      }
    }
    await delay(50);
  }
  for (const group of groups()) removeGroup(group);
  for (const link of readdirSync('/sys/class/net').filter((name) => name === prefix || name.startsWith(`vb-${prefix}-`))) {
    await ended(['ip', 'link', 'delete', link]);
  }
  const mounts = readFileSync('/proc/self/mountinfo', 'utf8')
    .split('\n')
    .map((line) => line.split(' ')[4] ?? '')
    .filter((path) => path.startsWith(`${folder}/`));
  for (const path of mounts.toSorted((a, b) => b.length - a.length)) await ended(['umount', '--lazy', path]);
  const left = readFileSync('/proc/self/mountinfo', 'utf8').includes(` ${folder}/`);
  // A removal through a mount would remove what is mounted.
  if (left) throw new Error(`something is still mounted below ${folder}`);
  rmSync(folder, { recursive: true, force: true });
}

/** The processes of a cgroup and of those below it. */
export function pidsBelow(group: string): number[] {
  let names;
  try {
    names = readdirSync(group, { withFileTypes: true });
  } catch {
    return [];
  }
  let own = '';
  try {
    own = readFileSync(join(group, 'cgroup.procs'), 'utf8');
  } catch {
    // Removed meanwhile.
  }
  const pids = own
    .split('\n')
    .filter((line) => line !== '')
    .map(Number)
    // 0 is a process outside of this one's namespace.
    .filter((pid) => pid > 1);
  return pids.concat(names.filter((each) => each.isDirectory()).flatMap((each) => pidsBelow(join(group, each.name))));
}

function removeGroup(group: string): void {
  for (const each of readdirSync(group, { withFileTypes: true })) if (each.isDirectory()) removeGroup(join(group, each.name));
  rmdirSync(group);
}
