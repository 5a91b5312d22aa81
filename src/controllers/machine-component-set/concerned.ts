/** Which sets a change leads to: those whose decision it may change. Pure. */
import type { Machine } from '../../api/machine.ts';
import { machineComponentName, type MachineComponent } from '../../api/machine-component.ts';
import type { MachineComponentSet } from '../../api/machine-component-set.ts';
import type { Stored } from '../../api/wire.ts';
import type { Store } from '../../kube/store.ts';
import { selects } from '../shared/selection.ts';

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
