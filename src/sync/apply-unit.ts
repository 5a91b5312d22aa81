import type { InventoryEntry, UnitStatus } from '../api/cluster.ts';
import { messageOf } from '../api/errors.ts';
import { kindNamed } from '../api/kinds.ts';
import { API_VERSION } from '../api/kind.ts';
import { MachineComponents } from '../api/machine-component.ts';
import { MachineSets, type MachineSet } from '../api/machine-set.ts';
import { ANNOTATIONS, LABELS, MANAGERS } from '../api/names.ts';
import type { Resource } from '../api/resource.ts';
import type { KubeObject, Stored } from '../api/wire.ts';
import { hasReason } from '../kube/api-error.ts';
import { applyIfChanged } from '../kube/apply.ts';
import type { Client } from '../kube/client.ts';
import { correctionsOf } from './corrections.ts';
import type { StoredUnit } from './bundles.ts';
import { syncError } from './errors.ts';
import { prepared, settled } from './prepare.ts';
import { isNumberOfSync, leavesReplicasOut, SCALED_BY_OTHERS } from './replicas-owner.ts';

export interface ApplyTarget {
  client: Client;
  /** Where a kind lives in that cluster. */
  resourceOf(object: { apiVersion: string; kind: string }): Promise<Resource>;
}

export function inventoryOf(unit: StoredUnit): InventoryEntry[] {
  return unit.objects.map(({ apiVersion, kind, metadata: { namespace, name } }) => ({
    apiVersion,
    kind,
    name,
    ...(namespace === undefined ? {} : { namespace }),
  }));
}

export const sameObject = (a: InventoryEntry, b: InventoryEntry): boolean =>
  a.apiVersion === b.apiVersion && a.kind === b.kind && a.namespace === b.namespace && a.name === b.name;

/** What sync adds to an object: whose it is, its unit's digest, and the lane by which that comes (docs/protocols.md#e6). */
export interface Stamp {
  digest: string;
  fleet: string;
  lane: 'Forward' | 'Restore';
  /** Of the record of what is begun there. */
  writtenAt?: string | undefined;
}

/**
 * The object as sync applies it: what was rendered, whose it is, where it was made, and its unit's digest.
 * Labels and annotations stay outside the digest, so that moving a line in a file is not a change.
 */
export function stamped(
  object: KubeObject,
  top: boolean,
  { digest, fleet, lane, writtenAt }: Stamp,
  origin: string | undefined,
): KubeObject {
  const kind = kindNamed(object.kind);
  const carries = (field: string): boolean => top && object.apiVersion === API_VERSION && kind?.specFields.has(field) === true;
  // Without `replicas` on its own record a set lets no machine go, but where sync allows it (docs/protocols.md#c8e).
  const scaledBy = leavesReplicasOut(object);
  const annotations = {
    ...(origin === undefined ? {} : { [ANNOTATIONS.origin]: origin }),
    ...(scaledBy ? { [ANNOTATIONS.scaledBy]: SCALED_BY_OTHERS } : {}),
    ...(writtenAt !== undefined && carries('unitDigest') ? { [ANNOTATIONS.writtenAt]: writtenAt } : {}),
  };
  const written = {
    ...(carries('unitDigest') ? { unitDigest: digest } : {}),
    ...(carries('lane') ? { lane: { unitDigest: digest, lane } } : {}),
  };
  return {
    ...object,
    metadata: {
      ...object.metadata,
      labels: { ...object.metadata.labels, [LABELS.fleet]: fleet },
      ...(Object.keys(annotations).length === 0 ? {} : { annotations: { ...object.metadata.annotations, ...annotations } }),
    },
    ...(carries('unitDigest') ? { spec: { ...(object as { spec?: object }).spec, ...written } } : {}),
  };
}

/**
 * Applies a unit's objects in order, writing only what differs. Git wins over other managers' values. Returns the inventory with UIDs, and, to read, what
 * others had changed.
 *
 * `confirm` gives the record of what is begun. It is asked after an object was read and before it is written, and the write is conditioned on what was read: so a hub that sleeps
 * anywhere in between, and was deposed meanwhile, writes over nothing that another has written.
 */
export async function applyUnit(
  target: ApplyTarget,
  unit: StoredUnit,
  stamp: Stamp,
  confirm: () => Promise<Pick<UnitStatus, 'writtenAt' | 'inventory'>>,
  signal: AbortSignal,
): Promise<{ inventory: InventoryEntry[]; changed: boolean; corrections: string[] }> {
  const inventory: InventoryEntry[] = [];
  const corrections: string[] = [];
  let changed = false;
  for (const [index, object] of unit.objects.entries()) {
    const top = index === unit.objects.length - 1;
    const resource = await target.resourceOf(object);
    const key = { name: object.metadata.name, namespace: object.metadata.namespace };
    let stored = await target.client.find(resource, key, { signal });
    const owner = stored?.metadata.labels?.[LABELS.fleet];
    if (owner !== undefined && owner !== stamp.fleet) {
      throw syncError('NotOurs', `${object.kind} "${object.metadata.name}" belongs to fleet "${owner}"`, {
        next: 'declare it in one fleet only',
      });
    }
    const { writtenAt, inventory: before = [] } = top ? await confirm() : {};
    const desired = stamped(object, top, { ...stamp, writtenAt }, unit.origins[index]);
    try {
      const read = stored;
      stored = read === undefined ? undefined : await prepared(target.client, resource, read, desired, signal);
      const applied = await applyIfChanged(target.client, resource, desired, {
        fieldManager: MANAGERS.sync,
        force: true,
        stored,
        asRead: top,
        signal,
      });
      const isWritten = applied.changed || stored !== read;
      changed ||= isWritten;
      if (isWritten) corrections.push(...corrected(desired, read, before));
      await settled(target.client, resource, applied.object, desired, signal);
      inventory.push({ ...inventoryEntry(object), uid: applied.object.metadata.uid });
    } catch (error) {
      if (object.kind === MachineComponents.kind && hasReason(error, 'Invalid') && stored !== undefined) {
        throw syncError('ImmutableChanged', `MachineComponent "${object.metadata.name}" is in the cluster with other content`, {
          cause: error,
          next: 'a version is immutable: give the change a new version',
        });
      }
      throw error;
    }
  }
  return { inventory, changed, corrections };
}

/** What another user had done to it; each text with the object that it is about. `before`: what was there by the record. */
function corrected(desired: KubeObject, stored: Stored<KubeObject> | undefined, before: readonly InventoryEntry[]): string[] {
  const { namespace, name } = desired.metadata;
  const object = [desired.kind, namespace, name].filter((part) => part !== undefined).join('/');
  if (stored === undefined) return [`${object} was deleted, and is made again`];
  const entry = inventoryEntry(desired);
  const uid = before.find((each) => sameObject(each, entry))?.uid;
  const madeAgain = uid !== undefined && uid !== stored.metadata.uid ? ['a user deleted it and made another one'] : [];
  const found = [...madeAgain, ...correctionsOf(stored, desired)];
  return found.length === 0 ? [] : [`${object}: ${found.join('; ')}`];
}

function inventoryEntry({ apiVersion, kind, metadata: { namespace, name } }: KubeObject): InventoryEntry {
  return { apiVersion, kind, name, ...(namespace === undefined ? {} : { namespace }) };
}

/** What a removal left. */
export interface Removal {
  /** What is still there. */
  left: InventoryEntry[];
  /** Nothing is deleted yet: its machines go first. */
  empties: boolean;
}

/**
 * Whether a set has no machine that a deletion would take with it. One whose status was never written has none: names are noted there before machines are
 * made (docs/protocols.md#c8c).
 */
export function isEmptied({ metadata, spec, status }: Stored<MachineSet>): boolean {
  if (status === undefined) return true;
  const { replicas = 0, deletingReplicas = 0, observedGeneration } = status;
  return spec.replicas === 0 && observedGeneration === metadata.generation && replicas === 0 && deletingReplicas === 0;
}

/** Whether sync has asked for no machines: a 0 of another manager lets none go (docs/protocols.md#c8e). */
export const isToEmpty = (set: Stored<MachineSet>): boolean => set.spec.replicas === 0 && isNumberOfSync(set);

/**
 * Deletes what the inventory names, if it is still the very object that was applied: same UID, our label. MachineComponents and
 * Namespaces are never deleted (docs/protocols.md#a7). A MachineSet is to have no machines first, so that they go at its own pace, and can be taken back
 * until they are drained: its deletion would delete all of them at once (docs/protocols.md#e9).
 */
export async function removeUnit(
  target: ApplyTarget,
  inventory: readonly InventoryEntry[],
  fleet: string,
  confirm: () => Promise<void>,
  signal: AbortSignal,
): Promise<Removal> {
  const left: InventoryEntry[] = [];
  for (const entry of inventory.toReversed()) {
    if (entry.kind === MachineComponents.kind || entry.kind === 'Namespace') continue;
    const resource = await target.resourceOf(entry);
    const key = { name: entry.name, namespace: entry.namespace };
    const found = await target.client.find(resource, key, { signal });
    if (found === undefined) continue;
    if (isOthersRemake(entry, found, fleet)) {
      if (found.metadata.deletionTimestamp === undefined) throw syncError('NotOurs', `${entry.kind} "${entry.name}": ${MADE_AGAIN}`);
      left.push(entry);
      continue;
    }
    // Another object under the name, or one that a user took over, is not ours to delete: it leaves the inventory.
    if (!isApplied(entry, found, fleet)) continue;
    left.push({ ...entry, uid: found.metadata.uid });
    if (found.metadata.deletionTimestamp !== undefined) continue;
    const { uid, resourceVersion } = found.metadata;
    if (found.apiVersion === API_VERSION && found.kind === MachineSets.kind) {
      const set = found as Stored<MachineSet>;
      if (!isEmptied(set)) {
        if (!isToEmpty(set)) {
          await confirm();
          // A 0 that another user wrote stays theirs when it is written again: it is taken out first. Without a number no machine goes.
          const replicas = set.spec.replicas === 0 ? null : 0;
          const merge = { metadata: { uid, resourceVersion }, spec: { replicas } };
          await target.client.patch(MachineSets, key, { merge }, { fieldManager: MANAGERS.sync, signal }).catch(unlessChanged(entry));
        }
        return { left: [...inventory], empties: true };
      }
    }
    await confirm();
    await target.client
      .delete(resource, key, { uid, resourceVersion, propagationPolicy: 'Background', signal })
      .catch(unlessChanged(entry));
  }
  return { left, empties: false };
}

/** Why a removal waits: nothing that sync did not apply is deleted, and the unit is not gone while that is there. */
export const MADE_AGAIN = 'a user deleted it in its cell and made another one of its name: delete that one there';

/** Whether a user made it again, with the Fleet's label or, of KubeNode's kinds, with that of none. */
function isOthersRemake({ uid }: InventoryEntry, { apiVersion, metadata }: Stored<KubeObject>, fleet: string): boolean {
  if (uid === undefined || metadata.uid === uid) return false;
  const owner = metadata.labels?.[LABELS.fleet];
  return owner === fleet || (owner === undefined && apiVersion === API_VERSION);
}

/** Whether it is the very object that was applied. One of KubeNode's kinds stays ours where a user only removed the label: only another Fleet takes it over. */
function isApplied(entry: InventoryEntry, found: Stored<KubeObject>, fleet: string): boolean {
  if (entry.uid !== undefined && found.metadata.uid !== entry.uid) return false;
  const owner = found.metadata.labels?.[LABELS.fleet];
  return owner === fleet || (owner === undefined && entry.uid !== undefined && found.apiVersion === API_VERSION);
}

/** What is gone, or was written since it was read, is read again. */
const unlessChanged =
  ({ kind, name }: InventoryEntry) =>
  (error: unknown): void => {
    if (!hasReason(error, 'NotFound', 'Conflict')) throw new Error(`deleting ${kind} "${name}": ${messageOf(error)}`, { cause: error });
  };
