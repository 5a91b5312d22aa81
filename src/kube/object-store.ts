import { kubeError } from './errors.ts';
import { canonical } from '../api/digest.ts';
import { keyOf } from '../api/resource.ts';
import type { ObjectKey } from '../api/resource.ts';
import type { KubeObject, Stored } from '../api/wire.ts';

export type IndexFunction<T extends KubeObject> = (object: Stored<T>) => string[];

/** How one object differs between two states of a store. */
export type Difference<T extends KubeObject> =
  | { type: 'added'; object: Stored<T> }
  | { type: 'updated'; object: Stored<T>; old: Stored<T> }
  | { type: 'deleted'; object: Stored<T> };

interface Index<T extends KubeObject> {
  values: IndexFunction<T>;
  buckets: Map<string, Map<string, Stored<T>>>;
}

/** Objects by key, with indexes that are always in step with them. The writing half of a Store. */
export interface ObjectStore<T extends KubeObject> {
  readonly size: number;
  get(key: ObjectKey): Stored<T> | undefined;
  list(): Stored<T>[];
  byIndex(index: string, value: string): Stored<T>[];
  addIndex(name: string, values: IndexFunction<T>): void;
  set(object: Stored<T>): Difference<T>[];
  remove(object: Stored<T>): Difference<T>[];
  /**
   * Swaps the whole content and returns what that changed. Objects of unchanged resourceVersion stay the same in memory; with `again` those that
   * differ nevertheless are changes, too.
   */
  replace(objects: Stored<T>[], again?: boolean): Difference<T>[];
}

export function createObjectStore<T extends KubeObject>(): ObjectStore<T> {
  let objects = new Map<string, Stored<T>>();
  const indexes = new Map<string, Index<T>>();

  return {
    get size() {
      return objects.size;
    },
    get: (key) => objects.get(keyOf(key)),
    list: () => [...objects.values()],

    byIndex(name, value) {
      const index = indexes.get(name);
      if (index === undefined) throw kubeError('UnknownIndex', `there is no index "${name}"; there are: ${[...indexes.keys()].join(', ')}`);
      return [...(index.buckets.get(value)?.values() ?? [])];
    },

    addIndex(name, values) {
      const existing = indexes.get(name);
      if (existing?.values === values) return;
      if (existing !== undefined) throw kubeError('IndexTaken', `index "${name}" exists with another function`);
      const index: Index<T> = { values, buckets: new Map() };
      fill(index, objects);
      indexes.set(name, index);
    },

    set(object) {
      const key = keyOf(object.metadata);
      const old = objects.get(key);
      objects.set(key, object);
      for (const index of indexes.values()) {
        if (old !== undefined) leave(index, key, old);
        enter(index, key, object);
      }
      return difference(old, object);
    },

    remove(object) {
      const key = keyOf(object.metadata);
      const old = objects.get(key);
      if (old === undefined || old.metadata.uid !== object.metadata.uid) return [];
      objects.delete(key);
      for (const index of indexes.values()) leave(index, key, old);
      return [{ type: 'deleted', object }];
    },

    replace(listed, again = false) {
      const before = objects;
      const differences: Difference<T>[] = [];
      objects = new Map();
      for (const object of listed) {
        const key = keyOf(object.metadata);
        const old = before.get(key);
        const same =
          old?.metadata.uid === object.metadata.uid &&
          old.metadata.resourceVersion === object.metadata.resourceVersion &&
          (!again || canonical(old) === canonical(object));
        objects.set(key, same ? old : object);
        if (!same) differences.push(...difference(old, object));
      }
      for (const [key, object] of before) if (!objects.has(key)) differences.push({ type: 'deleted', object });
      for (const index of indexes.values()) fill(index, objects);
      return differences;
    },
  };
}

function enter<T extends KubeObject>(index: Index<T>, key: string, object: Stored<T>): void {
  for (const value of index.values(object)) {
    const bucket = index.buckets.get(value);
    if (bucket === undefined) index.buckets.set(value, new Map([[key, object]]));
    else bucket.set(key, object);
  }
}

function leave<T extends KubeObject>(index: Index<T>, key: string, object: Stored<T>): void {
  for (const value of index.values(object)) {
    const bucket = index.buckets.get(value);
    bucket?.delete(key);
    if (bucket?.size === 0) index.buckets.delete(value);
  }
}

function fill<T extends KubeObject>(index: Index<T>, objects: ReadonlyMap<string, Stored<T>>): void {
  index.buckets.clear();
  for (const [key, object] of objects) enter(index, key, object);
}

/** A new UID under one name is another object: the old one is gone. */
function difference<T extends KubeObject>(old: Stored<T> | undefined, object: Stored<T>): Difference<T>[] {
  if (old === undefined) return [{ type: 'added', object }];
  if (old.metadata.uid === object.metadata.uid) return [{ type: 'updated', object, old }];
  return [
    { type: 'deleted', object: old },
    { type: 'added', object },
  ];
}
