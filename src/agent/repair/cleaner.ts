import { codeOf } from '../errors.ts';
import { bytesOf } from '../ports/folders.ts';
import type { Found, OpenFolder } from '../ports/folders.ts';
import type { Files } from '../ports/files.ts';

/** Files that may go: of a folder of the node and of the folders in it. Paths are absolute on the node, and bytes. */
export interface Rule {
  path: string;
  olderThanMs: number;
}

/** What must stay, whatever a rule says. */
export interface Kept {
  /** Real paths, as bytes. */
  files: ReadonlySet<string>;
  /** Folders that are not looked into, by `identity`. */
  folders: ReadonlySet<string>;
  /** Absolute on the node: a folder in which only rotated logs may go. */
  logs: string;
}

export interface Freed {
  files: number;
  bytes: number;
}

export interface CleanerOptions {
  files: Files;
  /** The node's root; `/` is the empty string. */
  root: string;
  rules: readonly Rule[];
  kept: Kept;
  /** Wall time, ms: ages are of this moment. */
  nowMs: number;
  /** Asked before each file: whether enough was deleted. */
  enough: () => Promise<boolean>;
  /** How many of the oldest files are remembered of one pass over all folders; for more there is another pass. */
  remembered?: number;
}

/**
 * Deletes the oldest files that may go, until enough are gone.
 *
 * Guarantees: nothing outside the folders of the rules, nothing through a symbolic link, nothing on another file system than the root's, nothing
 * with a second name, only regular files. What is deleted is the file that was looked at: its folder is reached again from the root, link by link
 * refused, and the file compared with the one that was seen.
 *
 * Caveat: between the last look at a file and its deletion another one could get its name, in the same folder; it would be deleted.
 */
export interface Cleaner {
  /** A bounded piece of work. `enough`: that was said; `nothing`: nothing is left that may go. */
  step(): Promise<'more' | 'enough' | 'nothing'>;
  readonly freed: Readonly<Freed>;
  /** What of the rules could not be used, for people. */
  readonly notes: ReadonlySet<string>;
  close(): Promise<void>;
}

/** Entries looked at, and files deleted, in one step. */
export const LOOKED_A_STEP = 1000;
export const DELETED_A_STEP = 50;
/** Some 2 MB. */
const REMEMBERED = 5000;
/** Each level holds a descriptor. */
const DEEPEST = 64;
const ROTATED = /^.+\.log\.\d+$/;

interface Candidate {
  folder: string[];
  name: string;
  found: Found;
}

export function createCleaner({ files, root, rules, kept, nowMs, enough, remembered = REMEMBERED }: CleanerOptions): Cleaner {
  const freed: Freed = { files: 0, bytes: 0 };
  const notes = new Set<string>();
  /** Not deleted when its turn came: not tried again. */
  const stuck = new Set<string>();
  let oldest: Candidate[] = [];
  let overflow = false;
  let queue: Candidate[] = [];
  let pass: AsyncGenerator<Candidate | undefined, void> | undefined;
  let complete = false;

  /** A folder of the node, link by link refused, and where the node's root really is. */
  async function reach(segments: readonly string[], note?: string): Promise<{ folder: OpenFolder; base: string } | undefined> {
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

  async function* walk(): AsyncGenerator<Candidate | undefined, void> {
    const top = await reach([]);
    if (top === undefined) return;
    const { base, folder: first } = top;
    const { device } = first;
    await first.close();
    for (const rule of rules) {
      const segments = segmentsOf(rule.path);
      const reached = await reach(segments, rule.path);
      if (reached === undefined) continue;
      const { folder } = reached;
      if (folder.device === device) yield* walkFolder(folder, segments, { rule, device, base, depth: 0 });
      else {
        notes.add(`${rule.path} is on another file system and is left alone`);
        await folder.close();
      }
    }
  }

  /** Closes the folder. */
  async function* walkFolder(
    folder: OpenFolder,
    segments: string[],
    context: { rule: Rule; device: string; base: string; depth: number },
  ): AsyncGenerator<Candidate | undefined, void> {
    try {
      if (kept.folders.has(folder.identity) || context.depth > DEEPEST) return;
      for await (const name of folder.names()) {
        const found = await folder.stat(name);
        if (found?.kind === 'folder' && found.device === context.device) {
          const inner = await folder.open(name);
          if (inner === undefined) continue;
          yield* walkFolder(inner, [...segments, name], { ...context, depth: context.depth + 1 });
        } else if (found !== undefined && mayGo(segments, name, found, context)) {
          yield { folder: segments, name, found };
          continue;
        }
        yield undefined;
      }
    } finally {
      await folder.close();
    }
  }

  function mayGo(segments: string[], name: string, found: Found, { rule, device, base }: { rule: Rule; device: string; base: string }) {
    if (found.kind !== 'file' || found.links !== 1 || found.device !== device || stuck.has(found.identity)) return false;
    if (!(nowMs - found.writtenMs >= rule.olderThanMs)) return false;
    if (`/${segments.join('/')}` === kept.logs && !ROTATED.test(name)) return false;
    return !kept.files.has(pathOf(base, [...segments, name]));
  }

  async function look(): Promise<void> {
    pass ??= walk();
    for (let count = 0; count < LOOKED_A_STEP; count++) {
      const { value, done } = await pass.next();
      if (done === true) {
        pass = undefined;
        complete = !overflow;
        oldest.sort(byAge);
        // What comes after was not compared with what was dropped.
        queue = overflow ? oldest.slice(0, remembered) : oldest;
        oldest = [];
        overflow = false;
        return;
      }
      if (value === undefined) continue;
      oldest.push(value);
      if (oldest.length < 2 * remembered) continue;
      oldest = oldest.sort(byAge).slice(0, remembered);
      overflow = true;
    }
  }

  /** False: it is not what was looked at, or not where. */
  async function remove({ folder: segments, name, found }: Candidate): Promise<boolean> {
    const reached = await reach(segments);
    if (reached === undefined) return false;
    const { folder, base } = reached;
    try {
      // Moved away while it was being reached.
      if ((await folder.realpath()) !== pathOf(base, segments)) return false;
      const now = await folder.stat(name);
      const same = now?.kind === 'file' && now.identity === found.identity && now.writtenMs === found.writtenMs && now.links === 1;
      if (!same || kept.files.has(pathOf(base, [...segments, name]))) return false;
      await folder.unlink(name);
      freed.files++;
      freed.bytes += now.bytes;
      return true;
    } catch (error) {
      notes.add(`not every file could be deleted (${codeOf(error)})`);
      return false;
    } finally {
      await folder.close();
    }
  }

  return {
    freed,
    notes,

    async step() {
      if (await enough()) return 'enough';
      if (queue.length === 0) {
        if (complete) return 'nothing';
        await look();
        // A pass that found nothing is the last one.
        if (pass === undefined && queue.length === 0) complete = true;
        return 'more';
      }
      for (const candidate of queue.splice(0, DELETED_A_STEP)) {
        if (await enough()) return 'enough';
        if (!(await remove(candidate))) stuck.add(candidate.found.identity);
      }
      return 'more';
    },

    async close() {
      await pass?.return();
      pass = undefined;
    },
  };
}

const byAge = (a: Candidate, b: Candidate): number => a.found.writtenMs - b.found.writtenMs;
const segmentsOf = (path: string): string[] => path.split('/').filter((each) => each !== '');
const pathOf = (base: string, segments: readonly string[]): string => `${base === '/' ? '' : base}/${segments.join('/')}`;

/** Rules as a MachineComponent has them. */
export function ruleOf({ path, olderThanSeconds }: { path: string; olderThanSeconds: number }): Rule {
  return { path: bytesOf(path), olderThanMs: olderThanSeconds * 1000 };
}
