/** What a stretch of a run costs those who take part in it. */
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { promisify } from 'node:util';
import type { ApiRequest, Transport } from '../src/api/transport.ts';
import { bytesOf } from './load.ts';

/** Linux counts in hundredths of a second on every architecture that Node runs on. */
const TICK_MS = 10;

/** Processor time that a running process has used since it began, in ms; of all its threads. */
export async function cpuMsOf(pid: number): Promise<number> {
  if (process.platform === 'linux') {
    const stat = await readFile(`/proc/${pid}/stat`, 'utf8');
    // The name in brackets may contain anything; user and system time are the 14th and 15th field.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return (Number(fields[11]) + Number(fields[12])) * TICK_MS;
  }
  const { stdout } = await promisify(execFile)('ps', ['-o', 'time=', '-p', String(pid)]);
  return (
    stdout
      .trim()
      .split(':')
      .reduce((sum, part) => sum * 60 + Number(part), 0) * 1000
  );
}

export interface Expense {
  ms: number;
  /** Processor time, ms: this process, and the others. */
  harness: number;
  others: Record<string, number>;
}

export const othersMs = ({ others }: Expense): number => Object.values(others).reduce((sum, ms) => sum + ms, 0);
/** Of one core. */
export const percentOf = (cpuMs: number, { ms }: Expense): number => (cpuMs / ms) * 100;

/** From now until what it returns is called. */
export async function expense(pids: Record<string, number>): Promise<() => Promise<Expense>> {
  const read = async (): Promise<[string, number][]> =>
    await Promise.all(Object.entries(pids).map(async ([name, pid]): Promise<[string, number]> => [name, await cpuMsOf(pid)]));
  const own = process.cpuUsage();
  const before = await read();
  const began = performance.now();
  return async () => {
    const ms = performance.now() - began;
    const { user, system } = process.cpuUsage(own);
    const after = new Map(await read());
    const others = Object.fromEntries(before.map(([name, used]) => [name, (after.get(name) ?? Number.NaN) - used]));
    return { ms, harness: (user + system) / 1000, others };
  };
}

export interface Counting extends Transport {
  readonly count: number;
}

/** Counts requests. */
export function counting(transport: Transport): Counting {
  let count = 0;
  const send = (request: ApiRequest): ReturnType<Transport> => {
    count++;
    return transport(request);
  };
  return Object.defineProperty(send, 'count', { get: () => count }) as Counting;
}

export type Metrics = (name: string, ...labels: string[]) => number;

/** What the API server reports about itself: a metric's sum over all labels, or over those that contain each of these texts. */
export async function metricsOf(transport: Transport): Promise<Metrics> {
  const lines = (await bytesOf(transport, { method: 'GET', path: '/metrics' })).toString().split('\n');
  return (name, ...labels) => {
    let sum = 0;
    for (const line of lines) {
      const after = line[name.length];
      if (!line.startsWith(name) || (after !== '{' && after !== ' ')) continue;
      if (labels.every((label) => line.includes(label))) sum += Number(line.slice(line.lastIndexOf(' ') + 1));
    }
    return sum;
  };
}
