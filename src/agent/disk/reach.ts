import { basename, isAbsolute, join } from 'node:path';
import { messageOf } from '../../api/errors.ts';
import { OWN_FOLDERS } from '../../api/machine-component/values.ts';
import { agentError, SystemError } from '../errors.ts';
import { onNode } from './layout.ts';
import type { Files } from '../ports/files.ts';
import { bytesOf } from '../ports/folders.ts';
import type { OpenFolder } from '../ports/folders.ts';

/** A folder that is kept open, and where it really is. */
interface Reached {
  folder: OpenFolder;
  path: string;
}

/** On one path, as Linux allows. */
const MOST_LINKS = 40;

/**
 * Goes to the folder of a path of the node, name by name. What the agent does as root it does only where no other user can lead it elsewhere: every
 * folder below the root must be guarded (see `OpenFolder`). A link is followed where root or the agent's own user made it, in such a folder (`/lib`,
 * `/var/run`), and only inside the root. Nothing below the agent's own folders is reached.
 *
 * `make`: makes a folder in one (`above`: a path of that one) unless it is there. Without it, undefined: there is no such folder.
 * The caller closes what it gets. Errors: `PathRefused`, `FileFailed`.
 */
export async function reach(
  files: Files,
  root: string,
  path: string,
  make?: (above: string, path: string) => Promise<void>,
): Promise<Reached | undefined> {
  const base = root === '' ? '/' : root;
  const first = await files.open(base);
  if (first === undefined) throw agentError('FileFailed', `${base} cannot be opened`);
  const stack: Reached[] = [];
  let top: Reached = { folder: first, path: base };
  const up = async (): Promise<boolean> => {
    const above = stack.pop();
    if (above === undefined) return false;
    await top.folder.close();
    top = above;
    return true;
  };
  try {
    const real = Buffer.from(await first.realpath(), 'latin1').toString();
    top.path = real;
    const own = await Promise.all(OWN_FOLDERS.map(async (each) => (await files.realpath(onNode(root, each))) ?? join(real, each)));
    const refused = (why: string): Error => agentError('PathRefused', `${path}: ${why}`);
    const todo = namesOf(path);
    /** How many names at the beginning of `todo` are of a link. */
    let linked = 0;
    for (let links = 0; ;) {
      const name = todo.shift();
      if (name === undefined) break;
      const ofLink = linked > 0;
      linked = Math.max(linked - 1, 0);
      if (name === '..') {
        if (!(await up()) && real !== '/') throw refused(`a symbolic link leads out of ${real}`);
        continue;
      }
      const here = join(top.path, name);
      const into = own.find((each) => within(each, here));
      if (into !== undefined) throw refused(`${here} leads into ${into}, which is the agent's`);
      const found = await top.folder.stat(bytesOf(name));
      if (found?.kind === 'link') {
        if (!found.owned) throw refused(`${here} is a symbolic link of another user; it is not followed`);
        const target = (await top.folder.readlink(bytesOf(name))) ?? '';
        if (target === '' || ++links > MOST_LINKS) throw refused(`${here} is a symbolic link that leads nowhere`);
        let names = namesOf(target);
        if (isAbsolute(target)) {
          const from = [real, base].find((each) => within(each, target));
          if (from === undefined) throw refused(`${here} leads out of ${real}, to ${target}`);
          while (await up());
          names = namesOf(target.slice(from.length));
        }
        todo.unshift(...names);
        linked += names.length;
        continue;
      }
      if (found === undefined && ofLink) throw refused(`${here}, to which a symbolic link leads, is not there`);
      if (found !== undefined && found.kind !== 'folder' && make !== undefined)
        throw agentError('FileFailed', `${here} is in the way: a folder is needed there`);
      if (make !== undefined) await make(top.folder.stablePath ?? top.path, here);
      const inner = await top.folder.open(bytesOf(name));
      if (inner === undefined && make === undefined) return await closeAll();
      if (inner === undefined) throw agentError('FileFailed', `${here} cannot be opened`);
      stack.push(top);
      top = { folder: inner, path: here };
      if (!inner.guarded)
        throw refused(
          `${here} belongs to another user than root, or others may write to it: files of components need folders of root only`,
        );
    }
    for (const { folder } of stack) await folder.close();
    return top;
  } catch (error) {
    await closeAll();
    throw error;
  }

  async function closeAll(): Promise<undefined> {
    for (const { folder } of [...stack, top]) await folder.close();
    return undefined;
  }
}

/** Does something to what has this name in a folder, which is closed afterwards. `at`: a path of it that no other user can lead elsewhere. */
export async function inReached<T>({ folder, path }: Reached, name: string, work: (at: string) => Promise<T>): Promise<T> {
  const stable = folder.stablePath ?? path;
  try {
    return await work(join(stable, basename(name)));
  } catch (error) {
    // People know the folder by its own name.
    const message = messageOf(error).replaceAll(stable, path);
    if (!(error instanceof Error) || message === error.message) throw error;
    throw new SystemError(message, error);
  } finally {
    await folder.close();
  }
}

const namesOf = (path: string): string[] => path.split('/').filter((each) => each !== '' && each !== '.');

function within(folder: string, path: string): boolean {
  return path === folder || path.startsWith(folder === '/' ? '/' : `${folder}/`);
}
