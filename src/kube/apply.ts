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
  /**
   * `stored` is a live copy, and the write is conditioned on it, or on that there is none: a Conflict is thrown where another has written, made or
   * removed the object since. It is not read again: what the caller asked between its read and the write must be true for the object that it writes over.
   */
  asRead?: boolean;
}

/** No object has this resourceVersion: etcd begins to count with it. An apply that names it only makes what is not there. */
const BEFORE_ALL = '1';

export interface Applied<T extends KubeObject> {
  /** Whether the object is another than `stored` (or the live copy) was. */
  changed: boolean;
  object: Stored<T>;
}

/**
 * Server-side apply, only when something would differ: a desired field, or one that this manager owns and no longer desires.
 * Costs no request where the store shows that nothing differs, one GET where only a live copy can.
 *
 * `desired` contains all fields that this manager wants to own: one that is left out is given up.
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
  if (differs === undefined && asRead !== true) {
    const { signal } = applyOptions;
    current = await client.find(resource, desired.metadata, signal === undefined ? {} : { signal });
    // No entry on the live object: this manager owns no field yet.
    differs = current === undefined || (wouldChange(desired, current, applyOptions) ?? true);
  }
  // Where a live copy does not show it, this manager owns no field of it yet.
  if (differs === false && current !== undefined) return { changed: false, object: current };
  const sent = asRead === true ? { ...desired, metadata: { ...desired.metadata, ...conditionOf(current) } } : desired;
  const object = await client.apply(resource, sent, applyOptions);
  return { changed: object.metadata.resourceVersion !== current?.metadata.resourceVersion, object };
}

/** Without the UID an apply would create an object again that is gone, with any version in it. */
function conditionOf(current: Stored<KubeObject> | undefined): { uid?: string; resourceVersion: string } {
  if (current === undefined) return { resourceVersion: BEFORE_ALL };
  const { uid, resourceVersion } = current.metadata;
  return { uid, resourceVersion };
}
