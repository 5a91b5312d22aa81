/**
 * The availability index of a cell's machines, kept by the events of its stores.
 *
 * Guarantees: what `current` gives is what counting everybody again from the stores would give at that moment, also after a store was listed
 * again and in the middle of being told what that changed. What an event costs does not grow with the number of machines. Only where the
 * sets' membership has changed, and in the middle of such a telling, everybody is counted again.
 *
 * Caveat: of one event whoever listens to a store before this does hears first, and must not ask then.
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

  /** By what the store holds now, whatever was told of it. */
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

  const heard = [
    hearing(stores.machines, (object) => recount(object.metadata)),
    hearing(stores.nodes, (object) => recountNamed(object.metadata.name)),
    hearing(stores.leases, () => undefined),
  ];
  countAll();

  return {
    current() {
      const turned = kubelets.turned();
      if (heard.every((each) => each.isAll()) && membership === sets().membership) turned.forEach(recountNamed);
      else countAll();
      return availabilityIndex;
    },
    stop: () => heard.forEach((each) => each.stop()),
  };
}

interface Hearing {
  /** Whether everything that the store holds has been told. */
  isAll(): boolean;
  stop(): void;
}

/** Where a store was listed again it tells what that changed one by one, and is ahead of what was told until the last of it. */
function hearing<T extends KubeObject>(store: Reflector<T>, changed: (object: Stored<T>) => void): Hearing {
  const isDone = (list: number): boolean => store.hasPassed({ name: '' }, undefined, list - 1);
  /** The last list all of whose changes were told, or need not be: it was complete before anybody listened. */
  let told = isDone(store.mark()) ? store.mark() : store.mark() - 1;
  const stop = store.subscribe((event: StoreEvent<T>) => {
    if (event.type === 'listed') told = store.mark();
    else if (event.type !== 'bookmark') changed(event.object);
  });
  return { isAll: () => !isDone(told + 1), stop };
}
