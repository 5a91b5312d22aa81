import { dirname, join } from 'node:path';
import { copyFile, mkdir, open, stat, truncate } from './nodefs.ts';

const ROTATE_BYTES = 8 * 1024 * 1024;

/** Of the node: what its units wrote. */
export const LOG_FOLDER = '/var/log/kubenode';

export const logPath = (root: string, unit: string): string => join(root === '' ? '/' : root, LOG_FOLDER, `${unit}.log`);

/** A descriptor for appending: so that a unit goes on at the new end after its log was cut. */
export async function openLog(root: string, unit: string): Promise<number> {
  const path = logPath(root, unit);
  await mkdir(dirname(path), { recursive: true });
  return await open(path, 'a', 0o640);
}

/**
 * Moves what a unit wrote to `<unit>.log.1` once it is too much. The unit holds its log open and outlives the agent, so its file must
 * stay: what is written between the copy and the cut is lost.
 */
export async function rotateLog(root: string, unit: string, bytes = ROTATE_BYTES): Promise<boolean> {
  const path = logPath(root, unit);
  const size = await stat(path).then(
    (found) => found.size,
    () => 0,
  );
  if (size < bytes) return false;
  await copyFile(path, `${path}.1`);
  await truncate(path, 0);
  return true;
}
