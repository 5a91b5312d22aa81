import type { JsonObject } from '@kubenode/api-machinery/wire';
import { isObject, textAt } from '../json.ts';
import type { StoreDisk } from './disk.ts';
import { entryOf, keyOf, parsed, restamped, type Entry, type EntryFacts, type EntryEvent } from './entry.ts';
import { Hub } from './hub.ts';
import { Table } from './table.ts';

type Describe = (resource: string, object: JsonObject) => EntryFacts;

/**
 * All objects of a cluster under one resourceVersion counter. A write reaches the disk first, then memory, then the
 * watchers, in one turn of the event loop: every reader sees all of it or nothing.
 */
export class EmbeddedStore {
  readonly hub = new Hub();
  readonly #disk: StoreDisk;
  readonly #historyLimit: number;
  readonly #tables = new Map<string, Table>();
  readonly #listeners: ((event: EntryEvent) => void)[] = [];
  readonly #loadedAt: number;
  #rv: number;

  constructor(disk: StoreDisk, historyLimit: number) {
    this.#disk = disk;
    this.#historyLimit = historyLimit;
    this.#rv = disk.rv;
    this.#loadedAt = disk.rv;
  }

  get rv(): number {
    return this.#rv;
  }

  table(resource: string): Table {
    let table = this.#tables.get(resource);
    if (table === undefined) this.#tables.set(resource, (table = new Table(this.#loadedAt, this.#historyLimit)));
    return table;
  }

  resources(): Iterable<string> {
    return this.#tables.keys();
  }

  /** Takes over what the disk contains: the objects of `first`, then `between`, then all others. Throws an Error that names what is no object. */
  load(first: string, between: () => void, describe: Describe): void {
    const later: { resource: string; object: JsonObject; rv: number }[] = [];
    const take = (resource: string, object: JsonObject, rv: number) =>
      this.table(resource).put(entryOf(object, rv, describe(resource, object)));
    for (const row of this.#disk.rows()) {
      const object = objectIn(row);
      if (row.resource === first) take(row.resource, object, row.rv);
      else later.push({ resource: row.resource, object, rv: row.rv });
    }
    between();
    for (const { resource, object, rv } of later) take(resource, object, rv);
  }

  /** Called after every commit, before the call that made it returns. Listeners must not mutate the object. */
  onEvent(listener: (event: EntryEvent) => void): void {
    this.#listeners.push(listener);
  }

  /** Creates or replaces. `object` gets its resourceVersion. */
  put(resource: string, object: JsonObject, facts: EntryFacts): Entry {
    const table = this.table(resource);
    const entry = entryOf(object, this.#rv + 1, facts);
    const previous = table.get(entry.key);
    this.#disk.put({ resource, key: entry.key, rv: entry.rv, json: entry.json });
    this.#rv = entry.rv;
    this.#publish(table, { type: previous === undefined ? 'ADDED' : 'MODIFIED', resource, rv: entry.rv, entry, previous });
    return entry;
  }

  remove(resource: string, namespace: string, name: string): Entry | undefined {
    const table = this.table(resource);
    const previous = table.get(keyOf(namespace, name));
    if (previous === undefined) return undefined;
    const rv = this.#rv + 1;
    this.#disk.remove(resource, previous.key, rv);
    this.#rv = rv;
    const entry = restamped(previous, rv);
    this.#publish(table, { type: 'DELETED', resource, rv, entry, previous });
    return entry;
  }

  #publish(table: Table, event: EntryEvent): void {
    table.record(event);
    this.hub.dispatch(event);
    for (const listener of this.#listeners) listener(event);
  }

  /**
   * Shows the objects of a resource as `change` makes them, after their definition has changed: no write, no event, the
   * same resourceVersion.
   */
  renew(resource: string, change: (object: JsonObject) => void, describe: Describe): void {
    const table = this.table(resource);
    for (const entry of Array.from(table.entries())) {
      const object = parsed(entry);
      change(object);
      table.put(entryOf(object, entry.rv, describe(resource, object)));
    }
  }
}

function objectIn({ resource, key, json }: { resource: string; key: string; json: string }): JsonObject {
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch {
    throw new Error(`its content for ${key} of ${resource} is no JSON`);
  }
  const object = isObject(value) && isObject(value['metadata']) ? value : undefined;
  const found =
    object === undefined ? undefined : keyOf(textAt(object, 'metadata', 'namespace') ?? '', textAt(object, 'metadata', 'name') ?? '');
  if (object === undefined || found !== key) throw new Error(`its content for ${key} of ${resource} is no object of that name`);
  return object;
}
