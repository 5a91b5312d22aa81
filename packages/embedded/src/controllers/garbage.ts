import type { Json, JsonObject } from '@kubenode/api-machinery/wire';
import { listAt, metaOf, objectAt, stringsAt, textAt } from '../json.ts';
import type { Served } from '../kinds/served.ts';
import { keyOf, parsed, type Entry, type StoreEvent } from '../store/entry.ts';
import { change, discard, type Context, type Controller } from './controller.ts';

const ORPHAN = 'orphan';
const FOREGROUND = 'foregroundDeletion';

type Standing = 'solid' | 'absent' | 'waiting';

interface Place {
  readonly resource: string;
  readonly key: string;
}

/** Which objects name an owner, by the owner's UID. */
class Dependents {
  readonly #byOwner = new Map<string, Map<string, Place>>();

  follow({ resource, entry, previous, type }: StoreEvent): void {
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

  of(uid: string): Place[] {
    return [...(this.#byOwner.get(uid)?.values() ?? [])];
  }
}

/** Under deletion with a policy that the collector carries out. */
function deletionPending(object: JsonObject): boolean {
  const finalizers = stringsAt(object, 'metadata', 'finalizers');
  return textAt(object, 'metadata', 'deletionTimestamp') !== undefined && (finalizers.includes(ORPHAN) || finalizers.includes(FOREGROUND));
}

/**
 * Deletes what has lost its last owner, and carries out the propagation policies of deletions. An owner is found by kind,
 * namespace and name, and is the owner only if its UID is the one in the reference.
 */
export function garbageController({ world, tasks }: Context): Controller {
  const { store, registry } = world;
  const dependents = new Dependents();

  const look = ({ resource, key }: Place): { served: Served; entry: Entry } | undefined => {
    const served = registry.byStorage(resource);
    const entry = store.table(resource).get(key);
    return served === undefined || entry === undefined || served.strategy.uncollected === true ? undefined : { served, entry };
  };

  function standing(reference: Json, namespace: string): Standing {
    const served = registry.byKind(textAt(reference, 'apiVersion') ?? '', textAt(reference, 'kind') ?? '');
    // What is not served cannot be told to be gone; and a cluster-scoped object cannot belong to a namespaced one.
    if (served === undefined || (served.namespaced && namespace === '')) return 'solid';
    const owner = store.table(served.storageKey).get(keyOf(served.namespaced ? namespace : '', textAt(reference, 'name') ?? ''));
    if (owner === undefined || owner.uid !== textAt(reference, 'uid')) return 'absent';
    const metadata = objectAt(parsed(owner), 'metadata');
    const waits = metadata['deletionTimestamp'] !== undefined && stringsAt(metadata, 'finalizers').includes(FOREGROUND);
    return waits ? 'waiting' : 'solid';
  }

  function withoutOwners(served: Served, entry: Entry, drop: (reference: Json) => boolean): void {
    change(world, served, entry, '', (object) => {
      const metadata = metaOf(object);
      const kept = listAt(metadata, 'ownerReferences').filter((reference) => !drop(reference));
      if (kept.length > 0) metadata['ownerReferences'] = kept;
      else delete metadata['ownerReferences'];
      return object;
    });
  }

  function judge(place: Place): void {
    const found = look(place);
    if (found === undefined) return;
    const { served, entry } = found;
    const object = parsed(entry);
    const metadata = objectAt(object, 'metadata');
    const references = listAt(metadata, 'ownerReferences');
    const deleting = metadata['deletionTimestamp'] !== undefined;
    if (references.length === 0 || (deleting && !stringsAt(metadata, 'finalizers').includes(FOREGROUND))) return;
    const standings = references.map((reference) => standing(reference, entry.namespace));
    if (standings.includes('solid')) {
      if (standings.every((item) => item === 'solid')) return;
      const lost = new Set(references.filter((_, index) => standings[index] !== 'solid').map((reference) => textAt(reference, 'uid')));
      withoutOwners(served, entry, (reference) => lost.has(textAt(reference, 'uid')));
      return;
    }
    if (deleting) return;
    const waiting = standings.includes('waiting') && dependents.of(entry.uid).length > 0;
    const finalizers = stringsAt(metadata, 'finalizers');
    const policy = finalizers.includes(ORPHAN) ? 'Orphan' : waiting || finalizers.includes(FOREGROUND) ? 'Foreground' : 'Background';
    discard(world, served, entry, { propagationPolicy: policy });
  }

  function dropFinalizer(served: Served, entry: Entry, name: string): void {
    change(world, served, entry, '', (object) => {
      metaOf(object)['finalizers'] = stringsAt(object, 'metadata', 'finalizers').filter((item) => item !== name);
      return object;
    });
  }

  function blocks(place: Place, uid: string): boolean {
    const found = look(place);
    if (found === undefined) return false;
    return listAt(parsed(found.entry), 'metadata', 'ownerReferences').some(
      (reference) => textAt(reference, 'uid') === uid && objectAt(reference)['blockOwnerDeletion'] === true,
    );
  }

  /** An owner under deletion whose dependents come first. */
  function settle(place: Place): void {
    const found = look(place);
    if (found === undefined) return;
    const { served, entry } = found;
    const metadata = objectAt(parsed(entry), 'metadata');
    if (metadata['deletionTimestamp'] === undefined) return;
    const finalizers = stringsAt(metadata, 'finalizers');
    const owned = dependents.of(entry.uid);
    if (finalizers.includes(ORPHAN)) {
      for (const place of owned) {
        const dependent = look(place);
        if (dependent !== undefined)
          withoutOwners(dependent.served, dependent.entry, (reference) => textAt(reference, 'uid') === entry.uid);
      }
      dropFinalizer(served, entry, ORPHAN);
    } else if (finalizers.includes(FOREGROUND)) {
      for (const place of owned) queue(place);
      if (!owned.some((place) => blocks(place, entry.uid))) dropFinalizer(served, entry, FOREGROUND);
    }
  }

  const queue = (place: Place) => tasks.add(`garbage ${place.resource} ${place.key}`, () => judge(place));
  const queueOwner = (place: Place) => tasks.add(`owner ${place.resource} ${place.key}`, () => settle(place));

  function ownersOf(entry: Entry): Place[] {
    return listAt(parsed(entry), 'metadata', 'ownerReferences').flatMap((reference) => {
      const served = registry.byKind(textAt(reference, 'apiVersion') ?? '', textAt(reference, 'kind') ?? '');
      if (served === undefined) return [];
      return [{ resource: served.storageKey, key: keyOf(served.namespaced ? entry.namespace : '', textAt(reference, 'name') ?? '') }];
    });
  }

  return {
    start() {
      for (const resource of Array.from(store.resources())) {
        for (const entry of store.table(resource).entries()) {
          const place = { resource, key: entry.key };
          dependents.put(resource, entry);
          if (entry.owners.length > 0) queue(place);
          if (deletionPending(parsed(entry))) queueOwner(place);
        }
      }
    },
    onEvent(event) {
      dependents.follow(event);
      const place = { resource: event.resource, key: event.entry.key };
      if (event.type === 'DELETED') {
        for (const dependent of dependents.of(event.entry.uid)) queue(dependent);
        if (event.entry.owners.length > 0) for (const owner of ownersOf(event.entry)) queueOwner(owner);
        return;
      }
      if (event.entry.owners.length > 0) queue(place);
      // An owner that was let go may have been what a foreground deletion waits for.
      if ((event.previous?.owners.length ?? 0) > event.entry.owners.length && event.previous !== undefined) {
        for (const owner of ownersOf(event.previous)) queueOwner(owner);
      }
      if (event.entry.json.includes('"deletionTimestamp"') && deletionPending(parsed(event.entry))) queueOwner(place);
    },
  };
}
