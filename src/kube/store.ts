import type { ObjectKey, Resource } from '../api/resource.ts';
import type { KubeObject, Stored } from '../api/wire.ts';

/**
 * What a reflector has seen of one kind. Objects in it are shared: never change one.
 * Before `synced` it is empty and proves nothing: absence here is not absence there.
 */
export interface Store<T extends KubeObject> {
  readonly resource: Resource<T>;
  /** True after the first complete list; stays true while a later list is under way. */
  readonly synced: boolean;
  /** Newest resourceVersion seen by list, event or bookmark; undefined before the first list. */
  readonly resourceVersion: string | undefined;
  get(key: ObjectKey): Stored<T> | undefined;
  list(): Stored<T>[];
  inNamespace(namespace: string): Stored<T>[];
  /** Objects for which the index function named at creation returned `value`. */
  byIndex(index: string, value: string): Stored<T>[];
  readonly size: number;
}
