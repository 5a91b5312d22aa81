import { agentError } from '../errors.ts';
import type { OpenFolder } from '../ports/folders.ts';

/** Each level keeps one descriptor open; archives are less deep. */
const DEEPEST = 256;
/** Over the names of one folder: while some go, others may not be seen. */
const PASSES = 3;

/**
 * Removes what has this name, and what is in it. No link is followed and no other file system entered: each folder is kept open, and what is
 * removed is removed from exactly that folder, even if it is renamed or replaced meanwhile.
 *
 * `name`: bytes, as the folder has them. Errors: `FileFailed`.
 */
export async function discardIn(folder: OpenFolder, name: string, depth = 0): Promise<void> {
  const found = await folder.stat(name);
  if (found === undefined) return;
  if (found.kind !== 'folder') return await folder.unlink(name);
  const inner = await folder.open(name);
  if (inner !== undefined) {
    try {
      const refuse = async (why: string): Promise<never> => {
        throw agentError('FileFailed', `${Buffer.from(await inner.realpath(), 'latin1').toString()} is not removed: ${why}`);
      };
      if (inner.identity !== found.identity) await refuse('another folder replaced it meanwhile');
      if (inner.device !== folder.device) await refuse('it is on another file system');
      if (depth >= DEEPEST) await refuse(`it is more than ${DEEPEST} folders deep`);
      if (inner.stablePath === undefined && !inner.guarded)
        await refuse('others may write to it, and this system cannot keep a folder open by itself');
      await empty(inner, depth);
    } finally {
      await inner.close();
    }
  }
  await folder.rmdir(name);
}

async function empty(folder: OpenFolder, depth: number): Promise<void> {
  for (let pass = 0; pass < PASSES; pass++) {
    let left = false;
    for await (const name of folder.names()) {
      left = true;
      await discardIn(folder, name, depth + 1);
    }
    if (!left) return;
  }
}
