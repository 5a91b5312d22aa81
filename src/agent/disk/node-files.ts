import { agentErrorCodes } from '../errors.ts';
import { dirname } from 'node:path';
import { isCoded } from '../../api/errors.ts';
import type { AgentContext } from '../context.ts';
import type { Durable } from './durable.ts';
import { inReached, reach } from './reach.ts';

/* Files that components have on the node, outside the agent’s own folders. */

/** Puts a file at an absolute path of the node. Returns whether anything differed. Errors: `PathRefused`, `FileFailed`. */
export async function writeNodeFile(
  durable: Durable,
  root: string,
  file: { path: string; content: string; mode: number },
): Promise<boolean> {
  const reached = await reach(durable.files, root, dirname(file.path), (above, path) => durable.folderIn(above, path));
  if (reached === undefined) return false;
  return await inReached(reached, file.path, (at) => durable.put(at, file.content, file.mode));
}

/** Errors: `PathRefused`. */
export async function removeFile(durable: Durable, root: string, path: string): Promise<void> {
  const reached = await reach(durable.files, root, dirname(path));
  if (reached !== undefined) await inReached(reached, path, (at) => durable.remove(at));
}

/** Removes a file of a component that is not to run. A file at a path where the agent would not put it stays, and an Event reports that. */
export async function removeOrLeave(ctx: AgentContext, path: string): Promise<void> {
  try {
    await removeFile(ctx.durable, ctx.layout.root, path);
  } catch (error) {
    if (!isCoded(error, agentErrorCodes, 'PathRefused')) throw error;
    ctx.happened({ type: 'Warning', reason: 'FileLeft', message: error.message });
  }
}
