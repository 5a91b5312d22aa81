/**
 * The availability index of a cell's machines, kept by the events of its stores.
 *
 * Guarantees: `current` always gives what a new count of all machines in the stores would give, also after a store was listed again and in the middle of the
 * events of that list. The cost of an event does not grow with the number of machines. All machines are counted again only where the sets' membership has
 * changed, and in the middle of the events of a list.
 *
 * Caveat: a listener that subscribed to a store before this one gets each event first, and must not call `current` then.
 */
import type { Lease, Node } from '../../../api/builtin.ts';
import type { Machine } from '../../../api/machine.ts';
import { keyOf, type ObjectKey } from '../../../api/resource.ts';
import type { KubeObject, Stored } from '../../../api/wire.ts';
import { createAvailabilityIndex, type AvailabilityIndex } from '../../../defender/availability-index.ts';
import type { Reflector, StoreEvent } from '../../../kube/reflector.ts';
import type { CellSets } from './cell-sets.ts';
import { countedAs } from './counted.ts';
import type { Kubelets } from './kubelets.ts';

export interface CellAvailabilityOptions {
  stores: { machines: Reflector<Machine>; nodes: Reflector<Node>; leases: Reflector<Lease> };
  kubelets: Kubelets;
  sets: () => CellSets;
}

export interface CellAvailability {
  current(): AvailabilityIndex;
  stop(): void;
}

const BY_NAME = 'machine/name';
const byName = (machine: Stored<Machine>): string[] => [machine.metadata.name];

/** Machines of all pools by their name, which is their Node's. */
export function machinesNamed(store: Reflector<Machine>): (name: string) => Stored<Machine>[] {
  store.addIndex(BY_NAME, byName);
  return (name) => store.byIndex(BY_NAME, name);
}

export function keepAvailability({ stores, kubelets, sets }: CellAvailabilityOptions): CellAvailability {
  const availabilityIndex = createAvailabilityIndex();
  /** UIDs by the key of their machine. */
  const uids = new Map<string, string>();
  const named = machinesNamed(stores.machines);
  let membership = '';

  function count(machine: Stored<Machine>): void {
    const { name } = machine.metadata;
    uids.set(keyOf(machine.metadata), machine.metadata.uid);
    availabilityIndex.put(countedAs(machine, stores.nodes.get({ name }), kubelets.answers(name), sets().facts));
  }

  /** By the content of the store now: its events may be behind. */
  function recount(key: ObjectKey): void {
    const machine = stores.machines.get(key);
    const before = uids.get(keyOf(key));
    if (before !== undefined && before !== machine?.metadata.uid) {
      availabilityIndex.remove(before);
      uids.delete(keyOf(key));
    }
    if (machine !== undefined) count(machine);
  }

  const recountNamed = (name: string): void => named(name).forEach(count);

  function countAll(): void {
    availabilityIndex.clear();
    uids.clear();
    ({ membership } = sets());
    stores.machines.list().forEach(count);
  }

  const followed = [
    follow(stores.machines, (object) => recount(object.metadata)),
    follow(stores.nodes, (object) => recountNamed(object.metadata.name)),
    follow(stores.leases, () => undefined),
  ];
  countAll();

  return {
    current() {
      const turned = kubelets.turned();
      if (followed.every((each) => each.isCurrent()) && membership === sets().membership) turned.forEach(recountNamed);
      else countAll();
      return availabilityIndex;
    },
    stop: () => followed.forEach((each) => each.stop()),
  };
}

interface Following {
  /** Whether there was an event for everything in the store. */
  isCurrent(): boolean;
  stop(): void;
}

/** After a list a store sends its differences event by event. Until the last of them the store is ahead of its events. */
function follow<T extends KubeObject>(store: Reflector<T>, changed: (object: Stored<T>) => void): Following {
  const isDone = (list: number): boolean => store.hasPassed({ name: '' }, undefined, list - 1);
  /** The last list all of whose events came, or need not come: it was complete before this subscribed. */
  let notified = isDone(store.mark()) ? store.mark() : store.mark() - 1;
  const stop = store.subscribe((event: StoreEvent<T>) => {
    if (event.type === 'listed') notified = store.mark();
    else if (event.type !== 'bookmark') changed(event.object);
  });
  return { isCurrent: () => !isDone(notified + 1), stop };
}
