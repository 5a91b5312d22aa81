import { dirname } from 'node:path';
import type { Durable } from './durable.ts';
import { inReached, reach } from './reach.ts';

/** Puts a file at an absolute path of the node. Returns whether anything differed. Errors: `PathRefused`, `FileFailed`. */
export async function placeFile(durable: Durable, root: string, file: { path: string; content: string; mode: number }): Promise<boolean> {
  const reached = await reach(durable.files, root, dirname(file.path), (above, path) => durable.folderIn(above, path));
  if (reached === undefined) return false;
  return await inReached(reached, file.path, (at) => durable.put(at, file.content, file.mode));
}

/** Errors: `PathRefused`. */
export async function removeFile(durable: Durable, root: string, path: string): Promise<void> {
  const reached = await reach(durable.files, root, dirname(path));
  if (reached !== undefined) await inReached(reached, path, (at) => durable.remove(at));
}
