import { isCoded } from '../../api/errors.ts';
import type { Context } from '../context.ts';
import { removeFile } from './node-files.ts';

/** A file of what is not to run. One that is now where the agent would not put it stays, which an Event says. */
export async function removeOrLeave(ctx: Context, path: string): Promise<void> {
  try {
    await removeFile(ctx.durable, ctx.layout.root, path);
  } catch (error) {
    if (!isCoded(error, 'PathRefused')) throw error;
    ctx.happened({ type: 'Warning', reason: 'FileLeft', message: error.message });
  }
}
