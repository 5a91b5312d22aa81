import type { Resource } from '../api/resource.ts';
import type { KubeObject, Stored } from '../api/wire.ts';
import type { ApplyOptions, Client } from './client.ts';

export interface ApplyIfChangedOptions<T extends KubeObject> extends ApplyOptions {
  /**
   * The object as the store has it; undefined when the (synced) store has none. Without the manager's entry in managedFields
   * (see `keepManagers`) a live copy is read first.
   */
  stored: Stored<T> | undefined;
}

/** Server-side apply only when a desired field differs, or the manager owns a field that is no longer desired. */
export declare function applyIfChanged<T extends KubeObject>(
  client: Client,
  resource: Resource<T>,
  desired: KubeObject,
  options: ApplyIfChangedOptions<T>,
): Promise<{ changed: boolean; object: Stored<T> }>;

/** Whether applying `desired` as `fieldManager` would leave `stored` as it is; undefined when `stored` does not say what the manager owns. */
export declare function wouldChange(
  desired: KubeObject,
  stored: KubeObject,
  manager: { fieldManager: string; subresource?: string },
): boolean | undefined;
