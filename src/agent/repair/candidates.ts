import type { Files } from '../ports/files.ts';
import { bytesOf } from '../ports/folders.ts';
import type { FoundEntry, OpenFolder } from '../ports/folders.ts';

/** Files that may go: of a folder of the node and of the folders in it. Paths are absolute on the node, and bytes. */
export interface CleaningRule {
  path: string;
  olderThanMs: number;
}

/** What must stay, under any rules. */
export interface Kept {
  /** Real paths, as bytes. */
  files: ReadonlySet<string>;
  /** Folders that are not searched, by `identity`. */
  folders: ReadonlySet<string>;
  /** Absolute on the node: a folder in which only rotated logs may go. */
  logs: string;
}

/** A file that may go. */
export interface CleaningCandidate {
  folder: string[];
  name: string;
  found: FoundEntry;
}

/** Where candidates are searched, and by which rules. */
export interface Search {
  files: Files;
  /** The node's root; `/` is the empty string. */
  root: string;
  rules: readonly CleaningRule[];
  kept: Kept;
  /** Wall time, ms: ages are of this moment. */
  nowMs: number;
  /** What of the rules could not be used, for people. */
  notes: Set<string>;
  /** Files, by `identity`, that were not deleted when their turn came: not tried again. */
  stuck: ReadonlySet<string>;
}

/** Each level keeps one descriptor open. */
const DEEPEST = 64;
const ROTATED = /^.+\.log\.\d+$/;

/** A folder of the node, link by link refused, and where the node's root really is. */
export async function reachFolder(
  { files, root, notes }: Pick<Search, 'files' | 'root' | 'notes'>,
  segments: readonly string[],
  note?: string,
): Promise<{ folder: OpenFolder; base: string } | undefined> {
  let at = await files.open(root === '' ? '/' : root);
  const base = (await at?.realpath()) ?? '';
  for (const segment of segments) {
    if (at === undefined) return undefined;
    const next = await at.open(segment);
    if (next === undefined && note !== undefined && (await at.stat(segment))?.kind === 'link')
      notes.add(`${note} leads through a symbolic link and is left alone`);
    await at.close();
    at = next;
  }
  return at === undefined ? undefined : { folder: at, base };
}

/** Everything that may go; undefined for an entry that may not, so that a search can be interrupted. */
export async function* candidatesOf(search: Search): AsyncGenerator<CleaningCandidate | undefined, void> {
  const { rules, notes } = search;
  const top = await reachFolder(search, []);
  if (top === undefined) return;
  const { base, folder: first } = top;
  const { device } = first;
  await first.close();
  for (const rule of rules) {
    const segments = segmentsOf(rule.path);
    const reached = await reachFolder(search, segments, rule.path);
    if (reached === undefined) continue;
    const { folder } = reached;
    if (folder.device === device) yield* inFolder(search, folder, segments, { rule, device, base, depth: 0 });
    else {
      notes.add(`${rule.path} is on another file system and is left alone`);
      await folder.close();
    }
  }
}

interface Level {
  rule: CleaningRule;
  device: string;
  base: string;
  depth: number;
}

/** Closes the folder. */
async function* inFolder(
  search: Search,
  folder: OpenFolder,
  segments: string[],
  level: Level,
): AsyncGenerator<CleaningCandidate | undefined, void> {
  try {
    if (search.kept.folders.has(folder.identity) || level.depth > DEEPEST) return;
    for await (const name of folder.names()) {
      const found = await folder.stat(name);
      if (found?.kind === 'folder' && found.device === level.device) {
        const inner = await folder.open(name);
        if (inner === undefined) continue;
        yield* inFolder(search, inner, [...segments, name], { ...level, depth: level.depth + 1 });
      } else if (found !== undefined && mayGo(search, segments, name, found, level)) {
        yield { folder: segments, name, found };
        continue;
      }
      yield undefined;
    }
  } finally {
    await folder.close();
  }
}

function mayGo(
  { kept, nowMs, stuck }: Search,
  segments: string[],
  name: string,
  found: FoundEntry,
  { rule, device, base }: Level,
): boolean {
  if (found.kind !== 'file' || found.links !== 1 || found.device !== device || stuck.has(found.identity)) return false;
  if (!(nowMs - found.writtenMs >= rule.olderThanMs)) return false;
  if (`/${segments.join('/')}` === kept.logs && !ROTATED.test(name)) return false;
  return !kept.files.has(pathOf(base, [...segments, name]));
}

const segmentsOf = (path: string): string[] => path.split('/').filter((each) => each !== '');

export const pathOf = (base: string, segments: readonly string[]): string => `${base === '/' ? '' : base}/${segments.join('/')}`;

/** Rules as a MachineComponent has them. */
export function ruleOf({ path, olderThanSeconds }: { path: string; olderThanSeconds: number }): CleaningRule {
  return { path: bytesOf(path), olderThanMs: olderThanSeconds * 1000 };
}
