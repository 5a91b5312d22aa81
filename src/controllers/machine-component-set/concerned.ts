/** The sets and Machines for which a change of an object may change the decision. Pure. */
import type { Machine } from '../../api/machine.ts';
import type { MachineComponent } from '../../api/machine-component.ts';
import { machineComponentName } from '../../api/machine-component/values.ts';
import type { MachineComponentSet } from '../../api/machine-component-set.ts';
import { keyOf } from '../../api/resource.ts';
import type { Stored } from '../../api/wire.ts';
import type { KeyFunction } from '../../kube/controller.ts';
import type { Store } from '../../kube/store.ts';
import { selects } from '../shared/selection.ts';
import { isNew, isUnreported } from './new-machine.ts';

type Sets = Pick<Store<MachineComponentSet>, 'list'>;

/** All sets of one component: a change of one may begin or end a conflict of another. */
export function setsOfComponent(sets: Sets, set: Stored<MachineComponentSet>): string[] {
  const { componentName } = set.spec;
  const others = sets.list().filter((other) => other.spec.componentName === componentName);
  return [...new Set([set.metadata.name, ...others.map((other) => other.metadata.name)])];
}

export function setsNaming(sets: Sets, component: Stored<MachineComponent>): string[] {
  const { componentName } = component.spec;
  return sets
    .list()
    .filter(
      ({ spec }) =>
        [spec.version, spec.canary?.version].some(
          (version) => version !== undefined && machineComponentName(spec.componentName, version) === component.metadata.name,
        ) || spec.componentName === componentName,
    )
    .map((set) => set.metadata.name);
}

export function setsAbout(sets: Sets, machine: Stored<Machine>): string[] {
  const owners = new Set((machine.spec.components ?? []).map((entry) => entry.setUID));
  return sets
    .list()
    .filter((set) => owners.has(set.metadata.uid) || selects(set, machine))
    .map((set) => set.metadata.name);
}

/** Those that have an entry which the set wrote. */
export function machinesOf(machines: Pick<Store<Machine>, 'list'>, set: Stored<MachineComponentSet>): string[] {
  return machines
    .list()
    .filter((machine) => (machine.spec.components ?? []).some((entry) => entry.setUID === set.metadata.uid))
    .map((machine) => keyOf(machine.metadata));
}

/** Machines read only the soak of their set. All else comes to them as an entry. */
export function ifSoakChanged(keys: (set: Stored<MachineComponentSet>) => string[]): KeyFunction<MachineComponentSet> {
  return (set, old) => (old !== undefined && old.spec.soakSeconds === set.spec.soakSeconds ? [] : keys(set));
}

/** An agent's progress and heartbeat fields change often. Only fields by which a set decides lead to it. */
export function ifRelevant(keys: KeyFunction<Machine>): KeyFunction<Machine> {
  return (machine, old) => (old !== undefined && relevant(machine) === relevant(old) ? [] : keys(machine, old));
}

function relevant(machine: Machine): string {
  const { metadata, spec, status } = machine;
  const { components, hold, paused, failureDomain, labels } = spec;
  return JSON.stringify([
    [metadata.labels, metadata.deletionTimestamp, metadata.uid],
    [components, hold, paused, failureDomain, labels],
    [status?.agent, status?.components, status?.verified, status?.nodeRef?.name, isNew(machine), isUnreported(machine), status?.soaks],
    [status?.verdict?.allowed, status?.verdict?.limit, status?.verdict?.wouldPassWhen, status?.underWay],
  ]);
}
