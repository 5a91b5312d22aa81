import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { promisify } from 'node:util';

/** Bytes. What this system does not report is absent. */
export interface Memory {
  resident: number;
  'private-dirty'?: number;
  peak?: number;
}

/** Of a running process. Errors: those of reading what is not there. */
export async function memoryOf(pid: number): Promise<Memory> {
  if (process.platform !== 'linux') {
    const { stdout } = await promisify(execFile)('ps', ['-o', 'rss=', '-p', String(pid)]);
    return { resident: Number(stdout) * 1024 };
  }
  const status = await readFile(`/proc/${pid}/status`, 'utf8');
  const rollup = await readFile(`/proc/${pid}/smaps_rollup`, 'utf8');
  return { resident: kilobytes(status, 'VmRSS'), peak: kilobytes(status, 'VmHWM'), 'private-dirty': kilobytes(rollup, 'Private_Dirty') };
}

function kilobytes(text: string, field: string): number {
  const found = new RegExp(`^${field}:\\s+(\\d+) kB$`, 'm').exec(text)?.[1];
  if (found === undefined) throw new Error(`/proc has no ${field}`);
  return Number(found) * 1024;
}
