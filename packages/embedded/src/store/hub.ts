import type { EntryEvent } from './entry.ts';

/** Something that wants the events of a resource. Empty `namespace` and `name` mean all. */
export interface Watcher {
  readonly resource: string;
  readonly namespace: string;
  readonly name: string;
  deliver(event: EntryEvent): void;
  /** The resource is no longer served as it was: the watch is to end. */
  end(): void;
}

const NONE: ReadonlySet<Watcher> = new Set();

/**
 * Finds the watchers of an event by resource, namespace and name, so that an event of one object costs the same however
 * many watchers there are of others.
 */
export class Hub {
  readonly #watchers = new Map<string, Set<Watcher>>();

  static #slot(resource: string, namespace: string, name: string): string {
    return `${resource}\n${namespace}\n${name}`;
  }

  add(watcher: Watcher): () => void {
    const slot = Hub.#slot(watcher.resource, watcher.namespace, watcher.name);
    let set = this.#watchers.get(slot);
    if (set === undefined) this.#watchers.set(slot, (set = new Set()));
    set.add(watcher);
    return () => {
      set.delete(watcher);
      if (set.size === 0 && this.#watchers.get(slot) === set) this.#watchers.delete(slot);
    };
  }

  dispatch(event: EntryEvent): void {
    const { namespace, name } = event.entry;
    const slots = new Set([
      Hub.#slot(event.resource, namespace, name),
      Hub.#slot(event.resource, namespace, ''),
      Hub.#slot(event.resource, '', name),
      Hub.#slot(event.resource, '', ''),
    ]);
    for (const slot of slots) for (const watcher of this.#watchers.get(slot) ?? NONE) watcher.deliver(event);
  }

  /** Ends the watches of one resource, or of all. */
  end(resource?: string): void {
    for (const set of Array.from(this.#watchers.values())) {
      for (const watcher of Array.from(set)) if (resource === undefined || watcher.resource === resource) watcher.end();
    }
  }

  get size(): number {
    let size = 0;
    for (const set of this.#watchers.values()) size += set.size;
    return size;
  }
}
