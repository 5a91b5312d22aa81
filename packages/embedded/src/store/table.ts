import type { Entry, EntryEvent } from './entry.ts';

/** Index of the first key that is not before `key`. */
function lowerBound(keys: readonly string[], key: string): number {
  let low = 0;
  let high = keys.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((keys[middle] ?? '') < key) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** A resource as it was at one resourceVersion. */
export interface TableSnapshot {
  /** Entries from `start` on, in key order, while their keys have the prefix. */
  range(prefix: string, start: string): Iterable<Entry>;
  get(key: string): Entry | undefined;
}

/**
 * All objects of one resource and its latest events. The past is had by undoing events, so it reaches exactly as far
 * back as the history does.
 */
export class Table {
  readonly #limit: number;
  readonly #entries = new Map<string, Entry>();
  readonly #keys: string[] = [];
  #history: EntryEvent[] = [];
  #compacted: number;

  /** `since`: events up to this resourceVersion are not known. `limit`: events kept. */
  constructor(since: number, limit: number) {
    this.#compacted = since;
    this.#limit = limit;
  }

  /** Newest resourceVersion whose event may be missing; a watch can start from it, and not from before. */
  get compacted(): number {
    return this.#compacted;
  }

  get size(): number {
    return this.#entries.size;
  }

  get(key: string): Entry | undefined {
    return this.#entries.get(key);
  }

  entries(): Iterable<Entry> {
    return this.#entries.values();
  }

  /** For loading: without an event. */
  put(entry: Entry): void {
    if (!this.#entries.has(entry.key)) this.#keys.splice(lowerBound(this.#keys, entry.key), 0, entry.key);
    this.#entries.set(entry.key, entry);
  }

  record(event: EntryEvent): void {
    if (event.type === 'DELETED') {
      this.#entries.delete(event.entry.key);
      this.#keys.splice(lowerBound(this.#keys, event.entry.key), 1);
    } else this.put(event.entry);
    this.#history.push(event);
    // Cut in large pieces, so that a write costs no copy of the history.
    if (this.#history.length > this.#limit * 1.25) {
      const cut = this.#history.length - this.#limit;
      this.#compacted = this.#history[cut - 1]?.rv ?? this.#compacted;
      this.#history = this.#history.slice(cut);
    }
  }

  /** Events after `rv`, oldest first. Only meaningful from `compacted` on. */
  since(rv: number): EntryEvent[] {
    let low = 0;
    let high = this.#history.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#history[middle]?.rv ?? 0) <= rv) low = middle + 1;
      else high = middle;
    }
    return this.#history.slice(low);
  }

  /** The resource at `rv`; undefined when the history does not reach back so far. */
  at(rv: number): TableSnapshot | undefined {
    if (rv < this.#compacted) return undefined;
    const undone = new Map<string, Entry | undefined>();
    for (const event of this.since(rv).toReversed()) undone.set(event.entry.key, event.previous);
    const gone = [...undone].flatMap(([key, entry]) => (entry !== undefined && !this.#entries.has(key) ? [key] : [])).sort();
    const get = (key: string) => (undone.has(key) ? undone.get(key) : this.#entries.get(key));
    const keys = this.#keys;
    return {
      get,
      *range(prefix, start) {
        const from = start > prefix ? start : prefix;
        let index = lowerBound(keys, from);
        let other = lowerBound(gone, from);
        for (;;) {
          const a = keys[index];
          const b = gone[other];
          const key = a === undefined || (b !== undefined && b < a) ? b : a;
          if (key === undefined || !key.startsWith(prefix)) return;
          if (key === a) index++;
          else other++;
          const entry = get(key);
          if (entry !== undefined) yield entry;
        }
      },
    };
  }
}
