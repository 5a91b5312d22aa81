import type { Json, JsonObject } from '@kubenode/api-machinery/wire';
import { listAt, metaOf, objectAt, stringsAt, textAt } from '../json.ts';
import type { Served } from '../kinds/served.ts';
import { keyOf, parsed, type Entry, type EntryEvent } from '../store/entry.ts';
import type { World } from '../world.ts';
import { change, discard, type Context, type EmbeddedController } from './controller.ts';

const ORPHAN = 'orphan';
const FOREGROUND = 'foregroundDeletion';

type Standing = 'solid' | 'absent' | 'waiting';

/** Where an object is stored. */
interface ObjectKey {
  readonly resource: string;
  readonly key: string;
}

/** Which objects name an owner, by the owner's UID. */
class Dependents {
  readonly #byOwner = new Map<string, Map<string, ObjectKey>>();

  follow({ resource, entry, previous, type }: EntryEvent): void {
    const id = `${resource}\n${entry.key}`;
    for (const uid of previous?.owners ?? []) {
      const map = this.#byOwner.get(uid);
      map?.delete(id);
      if (map?.size === 0) this.#byOwner.delete(uid);
    }
    if (type !== 'DELETED') this.put(resource, entry);
  }

  put(resource: string, entry: Entry): void {
    for (const uid of entry.owners) {
      let map = this.#byOwner.get(uid);
      if (map === undefined) this.#byOwner.set(uid, (map = new Map()));
      map.set(`${resource}\n${entry.key}`, { resource, key: entry.key });
    }
  }

  of(uid: string): ObjectKey[] {
    return [...(this.#byOwner.get(uid)?.values() ?? [])];
  }
}

/** Under deletion with a policy that the collector carries out. */
function deletionPending(object: JsonObject): boolean {
  const finalizers = stringsAt(object, 'metadata', 'finalizers');
  return textAt(object, 'metadata', 'deletionTimestamp') !== undefined && (finalizers.includes(ORPHAN) || finalizers.includes(FOREGROUND));
}

interface Found {
  readonly served: Served;
  readonly entry: Entry;
}

function find({ registry, store }: World, { resource, key }: ObjectKey): Found | undefined {
  const served = registry.byStorage(resource);
  const entry = store.table(resource).get(key);
  return served === undefined || entry === undefined || served.strategy.uncollected === true ? undefined : { served, entry };
}

function standing({ registry, store }: World, reference: Json, namespace: string): Standing {
  const served = registry.byKind(textAt(reference, 'apiVersion') ?? '', textAt(reference, 'kind') ?? '');
  // If its kind is not served, it is not known whether an object is gone; and a cluster-scoped object cannot belong to a namespaced one.
  if (served === undefined || (served.namespaced && namespace === '')) return 'solid';
  const owner = store.table(served.storageKey).get(keyOf(served.namespaced ? namespace : '', textAt(reference, 'name') ?? ''));
  if (owner === undefined || owner.uid !== textAt(reference, 'uid')) return 'absent';
  const metadata = objectAt(parsed(owner), 'metadata');
  const waits = metadata['deletionTimestamp'] !== undefined && stringsAt(metadata, 'finalizers').includes(FOREGROUND);
  return waits ? 'waiting' : 'solid';
}

function ownersOf({ registry }: World, entry: Entry): ObjectKey[] {
  return listAt(parsed(entry), 'metadata', 'ownerReferences').flatMap((reference) => {
    const served = registry.byKind(textAt(reference, 'apiVersion') ?? '', textAt(reference, 'kind') ?? '');
    if (served === undefined) return [];
    return [{ resource: served.storageKey, key: keyOf(served.namespaced ? entry.namespace : '', textAt(reference, 'name') ?? '') }];
  });
}

function withoutOwners(world: World, { served, entry }: Found, drop: (reference: Json) => boolean): void {
  change(world, served, entry, '', (object) => {
    const metadata = metaOf(object);
    const kept = listAt(metadata, 'ownerReferences').filter((reference) => !drop(reference));
    if (kept.length > 0) metadata['ownerReferences'] = kept;
    else delete metadata['ownerReferences'];
    return object;
  });
}

function dropFinalizer(world: World, { served, entry }: Found, name: string): void {
  change(world, served, entry, '', (object) => {
    metaOf(object)['finalizers'] = stringsAt(object, 'metadata', 'finalizers').filter((item) => item !== name);
    return object;
  });
}

/** Handles an object with owners: drops references to owners that are gone, or deletes it with the last of them. */
function collect(world: World, dependents: Dependents, key: ObjectKey): void {
  const found = find(world, key);
  if (found === undefined) return;
  const { served, entry } = found;
  const metadata = objectAt(parsed(entry), 'metadata');
  const references = listAt(metadata, 'ownerReferences');
  const deleting = metadata['deletionTimestamp'] !== undefined;
  if (references.length === 0 || (deleting && !stringsAt(metadata, 'finalizers').includes(FOREGROUND))) return;
  const standings = references.map((reference) => standing(world, reference, entry.namespace));
  if (standings.includes('solid')) {
    if (standings.every((item) => item === 'solid')) return;
    const lost = new Set(references.filter((_, index) => standings[index] !== 'solid').map((reference) => textAt(reference, 'uid')));
    withoutOwners(world, found, (reference) => lost.has(textAt(reference, 'uid')));
    return;
  }
  if (deleting) return;
  const waiting = standings.includes('waiting') && dependents.of(entry.uid).length > 0;
  const finalizers = stringsAt(metadata, 'finalizers');
  const policy = finalizers.includes(ORPHAN) ? 'Orphan' : waiting || finalizers.includes(FOREGROUND) ? 'Foreground' : 'Background';
  discard(world, served, entry, { propagationPolicy: policy });
}

function blocks(world: World, key: ObjectKey, uid: string): boolean {
  const found = find(world, key);
  if (found === undefined) return false;
  return listAt(parsed(found.entry), 'metadata', 'ownerReferences').some(
    (reference) => textAt(reference, 'uid') === uid && objectAt(reference)['blockOwnerDeletion'] === true,
  );
}

/** Handles an owner under deletion: orphans its dependents, or has them `queue`d and waits for those that block it. */
function finalize(world: World, dependents: Dependents, key: ObjectKey, queue: (dependent: ObjectKey) => void): void {
  const found = find(world, key);
  if (found === undefined) return;
  const { entry } = found;
  const metadata = objectAt(parsed(entry), 'metadata');
  if (metadata['deletionTimestamp'] === undefined) return;
  const finalizers = stringsAt(metadata, 'finalizers');
  const owned = dependents.of(entry.uid);
  if (finalizers.includes(ORPHAN)) {
    for (const each of owned) {
      const dependent = find(world, each);
      if (dependent !== undefined) withoutOwners(world, dependent, (reference) => textAt(reference, 'uid') === entry.uid);
    }
    dropFinalizer(world, found, ORPHAN);
  } else if (finalizers.includes(FOREGROUND)) {
    for (const each of owned) queue(each);
    if (!owned.some((each) => blocks(world, each, entry.uid))) dropFinalizer(world, found, FOREGROUND);
  }
}

/**
 * Deletes what has lost its last owner, and carries out the propagation policies of deletions. An owner is found by kind,
 * namespace and name, and is the owner only if its UID is the one in the reference.
 */
export function garbageController({ world, tasks }: Context): EmbeddedController {
  const { store } = world;
  const dependents = new Dependents();
  const queue = (key: ObjectKey) => tasks.add(`garbage ${key.resource} ${key.key}`, () => collect(world, dependents, key));
  const queueOwner = (key: ObjectKey) => tasks.add(`owner ${key.resource} ${key.key}`, () => finalize(world, dependents, key, queue));

  return {
    start() {
      for (const resource of Array.from(store.resources())) {
        for (const entry of store.table(resource).entries()) {
          const object = { resource, key: entry.key };
          dependents.put(resource, entry);
          if (entry.owners.length > 0) queue(object);
          if (deletionPending(parsed(entry))) queueOwner(object);
        }
      }
    },
    onEvent(event) {
      dependents.follow(event);
      const object = { resource: event.resource, key: event.entry.key };
      if (event.type === 'DELETED') {
        for (const dependent of dependents.of(event.entry.uid)) queue(dependent);
        if (event.entry.owners.length > 0) for (const owner of ownersOf(world, event.entry)) queueOwner(owner);
        return;
      }
      if (event.entry.owners.length > 0) queue(object);
      // An owner reference that was removed may have been what a foreground deletion waits for.
      if ((event.previous?.owners.length ?? 0) > event.entry.owners.length && event.previous !== undefined) {
        for (const owner of ownersOf(world, event.previous)) queueOwner(owner);
      }
      if (event.entry.json.includes('"deletionTimestamp"') && deletionPending(parsed(event.entry))) queueOwner(object);
    },
  };
}
