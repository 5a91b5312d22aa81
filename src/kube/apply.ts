import type { Resource } from '../api/resource.ts';
import type { KubeObject, Stored } from '../api/wire.ts';
import type { ApplyOptions, Client } from './client.ts';
import { wouldChange } from './ownership.ts';

export { wouldChange } from './ownership.ts';

export interface ApplyIfChangedOptions<T extends KubeObject> extends ApplyOptions {
  /**
   * The object as a synced store has it; undefined when it has none. Where the store dropped the manager's entry of managedFields
   * (see `keepManagers`), a live copy is read first.
   */
  stored: Stored<T> | undefined;
  /** Conditions the write on the object as it was read; a Conflict is thrown where another has written since. */
  asRead?: boolean;
}

export interface Applied<T extends KubeObject> {
  /** Whether the object is another than `stored` (or the live copy) was. */
  changed: boolean;
  object: Stored<T>;
}

/**
 * Server-side apply, only when something would differ: a desired field, or one that this manager owns and no longer desires.
 * Costs no request where the store shows that nothing differs, one GET where only a live copy can.
 *
 * `desired` holds all fields that this manager wants to own: one that is left out is given up.
 */
export async function applyIfChanged<T extends KubeObject>(
  client: Client,
  resource: Resource<T>,
  desired: KubeObject,
  options: ApplyIfChangedOptions<T>,
): Promise<Applied<T>> {
  const { stored, asRead, ...applyOptions } = options;
  let current = stored;
  let differs = current === undefined ? true : wouldChange(desired, current, applyOptions);
  if (differs === undefined) {
    const { signal } = applyOptions;
    current = await client.find(resource, desired.metadata, signal === undefined ? {} : { signal });
    // No entry on the live object: nothing is owned yet.
    differs = current === undefined || (wouldChange(desired, current, applyOptions) ?? true);
  }
  if (!differs && current !== undefined) return { changed: false, object: current };
  const resourceVersion = asRead === true ? current?.metadata.resourceVersion : undefined;
  const sent = resourceVersion === undefined ? desired : { ...desired, metadata: { ...desired.metadata, resourceVersion } };
  const object = await client.apply(resource, sent, applyOptions);
  return { changed: object.metadata.resourceVersion !== current?.metadata.resourceVersion, object };
}
