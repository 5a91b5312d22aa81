/** The files of a fleet as they are in a folder: what the next commit would contain. */
import { posix } from 'node:path';
import { listTree, readTreeFile, treeEntry } from '../tree-files.ts';
import { cliError } from '../errors.ts';

export interface FleetFolder {
  /** Root of the repository. */
  root: string;
  /** Module that declares the fleet, under the root. */
  entry: string;
  /** Folders that rendering sees, as `spec.include` of the Fleet. */
  include: readonly string[];
}

/** Text by path in the repository. Throws FleetNotFound where the entry is not, TreeSymlink and TreeMode as the hub does for a commit. */
export function readFleet({ root, entry, include }: FleetFolder): Map<string, string> {
  if (treeEntry(root, posix.normalize(entry)) === undefined)
    throw cliError('FleetNotFound', `there is no fleet in ${root}: it has no file "${entry}"`, {
      next: 'name the folder of the fleet repository, or its entry: --entry fleet/main.ts',
    });
  const files = new Map<string, string>();
  for (const part of include)
    for (const path of listTree(root, posix.normalize(part).replace(/\/$/, ''), isLeftOut)) files.set(path, readTreeFile(root, path));
  return files;
}

/** What an editor or npm puts beside a fleet, and people do not commit. */
const isLeftOut = (path: string): boolean => /(^|\/)(node_modules|\.[^/]+)$/.test(path);
