/** The files of a fleet as they stand in a folder: what the next commit would hold. */
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join, relative } from 'node:path';
import { CodedError } from '../../api/errors.ts';

export interface FleetFolder {
  /** Root of the repository. */
  root: string;
  /** Module that declares the fleet, under the root. */
  entry: string;
  /** Folders that rendering sees, as `spec.include` of the Fleet. */
  include: readonly string[];
}

export const DEFAULT_ENTRY = 'fleet/main.ts';
export const DEFAULT_INCLUDE: readonly string[] = ['fleet', 'rules'];

/** Text by path in the repository. Throws FleetNotFound where the entry is not. */
export function readFleet({ root, entry, include }: FleetFolder): Map<string, string> {
  if (!existsSync(join(root, entry)))
    throw new CodedError('FleetNotFound', `there is no fleet in ${root}: it has no file "${entry}"`, {
      next: 'name the folder of the fleet repository, or its entry: --entry fleet/main.ts',
    });
  const files = new Map<string, string>();
  for (const part of include) {
    const path = join(root, part);
    if (!existsSync(path)) continue;
    const found = statSync(path).isFile()
      ? [path]
      : readdirSync(path, { recursive: true, encoding: 'utf8' }).map((name) => join(path, name));
    for (const file of found.sort())
      if (!/(^|\/)(node_modules|\.[^/]+)(\/|$)/.test(relative(root, file)) && statSync(file).isFile())
        files.set(relative(root, file), readFileSync(file, 'utf8'));
  }
  return files;
}
