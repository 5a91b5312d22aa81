import { dirname, join } from 'node:path';
import { agentError, codeOf } from '../errors.ts';
import { close, fs, fstat, ftruncate, mkdir, open, read, unlink, write } from './node-fs.ts';

const ROTATE_BYTES = 8 * 1024 * 1024;

/** Logs of the node: what its units wrote. */
export const LOG_FOLDER = '/var/log/kubenode';

export const logPath = (root: string, unit: string): string => join(root === '' ? '/' : root, LOG_FOLDER, `${unit}.log`);

const { O_APPEND, O_CREAT, O_EXCL, O_NOFOLLOW, O_NONBLOCK, O_RDWR, O_WRONLY } = fs.constants;

/** A descriptor for appending: so that a unit goes on at the new end after its log was cut. */
export async function openLog(root: string, unit: string): Promise<number> {
  const path = logPath(root, unit);
  await mkdir(dirname(path), { recursive: true });
  // Who may write the folder must not lead root elsewhere.
  const file = await open(path, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK, 0o640);
  try {
    await plainSize(file, path);
    return file;
  } catch (error) {
    await close(file);
    throw error;
  }
}

/** Errors: `FileFailed` where it is no regular file, or has other names. */
async function plainSize(file: number, path: string): Promise<number> {
  const found = await fstat(file);
  if (!found.isFile() || found.nlink > 1) throw agentError('FileFailed', `${path} is no log: it is no regular file, or has other names`);
  return found.size;
}

/**
 * Moves what a unit wrote to `<unit>.log.1` once it is too much. The unit keeps its log open and outlives the agent, so its file must
 * stay: what is written between the copy and the cut is lost.
 */
export async function rotateLog(root: string, unit: string, bytes = ROTATE_BYTES): Promise<boolean> {
  const path = logPath(root, unit);
  let file: number;
  try {
    file = await open(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK);
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return false;
    throw error;
  }
  try {
    const size = await plainSize(file, path);
    if (size < bytes) return false;
    await unlink(`${path}.1`).catch((error: unknown) => {
      if (codeOf(error) !== 'ENOENT') throw error;
    });
    const copy = await open(`${path}.1`, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o640);
    try {
      await copyTo(copy, file, size);
    } finally {
      await close(copy);
    }
    await ftruncate(file, 0);
    return true;
  } finally {
    await close(file);
  }
}

async function copyTo(copy: number, file: number, size: number): Promise<void> {
  const buffer = Buffer.allocUnsafe(64 * 1024);
  // A unit that writes all the time must not keep it going.
  for (let done = 0; done < size;) {
    const { bytesRead } = await read(file, buffer, 0, buffer.length, done);
    if (bytesRead === 0) return;
    for (let put = 0; put < bytesRead;) put += (await write(copy, buffer, put, bytesRead - put, null)).bytesWritten;
    done += bytesRead;
  }
}
