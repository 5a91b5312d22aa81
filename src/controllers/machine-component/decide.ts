/** Which MachineComponents no Machine or set names any more, and since when (docs/protocols.md#a7). Pure. */
import type { Machine } from '../../api/machine.ts';
import type { MachineComponent } from '../../api/machine-component.ts';
import { machineComponentName } from '../../api/machine-component/values.ts';
import type { MachineComponentSet } from '../../api/machine-component-set.ts';
import type { Stored } from '../../api/wire.ts';
import { findCondition } from '../../kube/conditions.ts';

/** Long enough for a change to be reverted after a holiday: what goes back needs the old version. */
export const KEEP_MS = 30 * 24 * 3_600_000;
export const IN_USE = 'InUse';

/** Names of the MachineComponents that machines want, run, ran before or could go back to, and that sets name. */
export function namedComponents(machines: readonly Machine[], sets: readonly MachineComponentSet[]): Set<string> {
  const names = new Set<string>();
  const name = (component: string, version: string | undefined): void => {
    if (version !== undefined && version !== '') names.add(machineComponentName(component, version));
  };
  for (const { spec, status } of machines) {
    for (const entry of spec.components ?? []) name(entry.name, entry.version);
    for (const found of status?.components ?? []) {
      name(found.name, found.version);
      name(found.name, found.previous);
    }
    for (const verified of status?.verified ?? []) name(verified.name, verified.version);
  }
  for (const { spec, status } of sets)
    for (const version of [spec.version, spec.canary?.version, status?.revision?.version, status?.verified?.version])
      name(spec.componentName, version);
  return names;
}

export type Fate =
  | { do: 'Nothing' }
  /** Its condition reports something else. */
  | { do: 'Report'; inUse: boolean }
  | { do: 'Delete'; since: string };

export function fateOf(component: Stored<MachineComponent>, named: ReadonlySet<string>, nowMs: number): Fate {
  const reported = findCondition(component.status?.conditions, IN_USE);
  const inUse = named.has(component.metadata.name);
  if (reported?.status !== (inUse ? 'True' : 'False')) return { do: 'Report', inUse };
  if (inUse || !(nowMs - Date.parse(reported.lastTransitionTime) >= KEEP_MS)) return { do: 'Nothing' };
  return { do: 'Delete', since: reported.lastTransitionTime };
}
