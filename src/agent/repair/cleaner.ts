import { codeOf } from '../errors.ts';
import { candidatesOf, pathOf, reachFolder } from './candidates.ts';
import type { CleaningCandidate, Search } from './candidates.ts';

export interface Freed {
  files: number;
  bytes: number;
}

export interface CleanerOptions extends Omit<Search, 'notes' | 'stuck'> {
  /** Asked before each file: whether enough was deleted. */
  enough: () => Promise<boolean>;
  /** How many of the oldest files are remembered of one pass over all folders; for more there is another pass. */
  remembered?: number;
}

/**
 * Deletes the oldest files that may go, until enough are gone.
 *
 * Guarantees: nothing outside the folders of the rules, nothing through a symbolic link, nothing on another file system than the root's, nothing
 * with a second name, only regular files. What is deleted is the file that was observed: its folder is reached again from the root, link by link
 * refused, and the file compared with the one that was observed.
 *
 * Caveat: between the last check of a file and its deletion another one could get its name, in the same folder; it would be deleted.
 */
export interface Cleaner {
  /** A bounded piece of work. `enough`: `enough()` returned true; `nothing`: no file is left that may go. */
  step(): Promise<'more' | 'enough' | 'nothing'>;
  readonly freed: Readonly<Freed>;
  /** What of the rules could not be used, for people. */
  readonly notes: ReadonlySet<string>;
  close(): Promise<void>;
}

/** Entries checked, and files deleted, in one step. */
export const CHECKED_A_STEP = 1000;
export const DELETED_A_STEP = 50;
/** Some 2 MB. */
const REMEMBERED = 5000;

/** How far the deleting is. */
interface Cleaning {
  readonly search: Search & { stuck: Set<string> };
  readonly enough: () => Promise<boolean>;
  readonly remembered: number;
  readonly freed: Freed;
  oldest: CleaningCandidate[];
  /** More may go than is remembered. */
  overflow: boolean;
  queue: CleaningCandidate[];
  pass: AsyncGenerator<CleaningCandidate | undefined, void> | undefined;
  complete: boolean;
}

export function createCleaner({ enough, remembered = REMEMBERED, ...search }: CleanerOptions): Cleaner {
  const cleaning: Cleaning = {
    search: { ...search, notes: new Set(), stuck: new Set() },
    enough,
    remembered,
    freed: { files: 0, bytes: 0 },
    oldest: [],
    overflow: false,
    queue: [],
    pass: undefined,
    complete: false,
  };
  return {
    freed: cleaning.freed,
    notes: cleaning.search.notes,
    step: () => step(cleaning),
    async close() {
      await cleaning.pass?.return();
      cleaning.pass = undefined;
    },
  };
}

async function step(cleaning: Cleaning): ReturnType<Cleaner['step']> {
  const { search, enough } = cleaning;
  if (await enough()) return 'enough';
  if (cleaning.queue.length === 0) {
    if (cleaning.complete) return 'nothing';
    await collect(cleaning);
    // A pass that found nothing is the last one.
    if (cleaning.pass === undefined && cleaning.queue.length === 0) cleaning.complete = true;
    return 'more';
  }
  for (const candidate of cleaning.queue.splice(0, DELETED_A_STEP)) {
    if (await enough()) return 'enough';
    if (!(await remove(cleaning, candidate))) search.stuck.add(candidate.found.identity);
  }
  return 'more';
}

/** A piece of a pass over all folders; at its end it queues the oldest files that it found. */
async function collect(cleaning: Cleaning): Promise<void> {
  const { remembered } = cleaning;
  cleaning.pass ??= candidatesOf(cleaning.search);
  for (let count = 0; count < CHECKED_A_STEP; count++) {
    const { value, done } = await cleaning.pass.next();
    if (done === true) return queueOldest(cleaning);
    if (value === undefined) continue;
    cleaning.oldest.push(value);
    if (cleaning.oldest.length < 2 * remembered) continue;
    cleaning.oldest = cleaning.oldest.sort(byAge).slice(0, remembered);
    cleaning.overflow = true;
  }
}

function queueOldest(cleaning: Cleaning): void {
  const { oldest, overflow, remembered } = cleaning;
  cleaning.pass = undefined;
  cleaning.complete = !overflow;
  oldest.sort(byAge);
  // What comes after was not compared with what was dropped.
  cleaning.queue = overflow ? oldest.slice(0, remembered) : oldest;
  cleaning.oldest = [];
  cleaning.overflow = false;
}

/** False: it is not the file that was observed, or not where it was. */
async function remove({ search, freed }: Cleaning, { folder: segments, name, found }: CleaningCandidate): Promise<boolean> {
  const { kept, notes } = search;
  const reached = await reachFolder(search, segments);
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

const byAge = (a: CleaningCandidate, b: CleaningCandidate): number => a.found.writtenMs - b.found.writtenMs;
