import { dirname } from 'node:path';
import type { Durable } from './durable.ts';
import { agentError } from './errors.ts';
import { onNode } from './layout.ts';

/** Folders of a node that no component may write to: the agent's own. */
export const OWN_FOLDERS = ['/var/lib/kubenode', '/etc/kubenode', '/run/kubenode'];

/** Puts a file at an absolute path of the node. Returns whether anything differed. Errors: `PathRefused`, `FileFailed`. */
export async function placeFile(durable: Durable, root: string, file: { path: string; content: string; mode: number }): Promise<boolean> {
  await refuseEscape(durable, root, file.path);
  return await durable.replace(onNode(root, file.path), file.content, file.mode);
}

/** Errors: `PathRefused`. */
export async function removeFile(durable: Durable, root: string, path: string): Promise<void> {
  await refuseEscape(durable, root, path);
  await durable.remove(onNode(root, path));
}

/**
 * A folder on the way that is a symbolic link may lead out of the root, or into what is the agent's; the plain path says nothing of it.
 * What is not there yet cannot lead anywhere.
 */
async function refuseEscape({ files }: Durable, root: string, path: string): Promise<void> {
  const real = async (each: string): Promise<string> => (await files.realpath(each)) ?? each;
  const base = await real(root === '' ? '/' : root);
  let folder = dirname(onNode(root, path));
  while ((await files.realpath(folder)) === undefined && folder !== dirname(folder)) {
    // There, and yet without a real path: a link to nothing, which a write would follow.
    if ((await files.stat(folder)) !== undefined)
      throw agentError('PathRefused', `${path}: ${folder} is a symbolic link that leads nowhere`);
    folder = dirname(folder);
  }
  const found = await real(folder);
  if (!within(base, found)) throw agentError('PathRefused', `${path}: ${folder} leads out of ${base}, to ${found}`);
  for (const own of OWN_FOLDERS) {
    if (within(await real(onNode(root, own)), found))
      throw agentError('PathRefused', `${path}: ${folder} leads into ${own}, which is the agent's`);
  }
}

function within(folder: string, path: string): boolean {
  return path === folder || path.startsWith(folder === '/' ? '/' : `${folder}/`);
}
