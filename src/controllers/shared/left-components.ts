/** What machines still run though the set that installed it is gone: deleting a set uninstalls nothing (docs/protocols.md#a6). Pure. */
import type { Machine } from '../../api/machine.ts';
import type { MachineComponentSet } from '../../api/machine-component-set.ts';
import type { Stored } from '../../api/wire.ts';
import { isDeleting, selects } from './selection.ts';

export interface LeftComponent {
  name: string;
  version: string;
}

type Sets = readonly Stored<MachineComponentSet>[];

/**
 * Entries that no set owns: the one that wrote them is gone, and none selects this machine for the component. No set upgrades or removes what they name
 * until one declares the removal. Of a machine that is being deleted nothing stays.
 */
export function leftComponents(machine: Machine, sets: Sets): LeftComponent[] {
  return leftOf(machine, sets, uidsOf(sets));
}

const uidsOf = (sets: Sets): ReadonlySet<string> => new Set(sets.map(({ metadata }) => metadata.uid));

function leftOf(machine: Machine, sets: Sets, uids: ReadonlySet<string>): LeftComponent[] {
  if (isDeleting(machine)) return [];
  return (machine.spec.components ?? []).flatMap(({ name, version, action, setUID }) => {
    if (action === 'Remove' || uids.has(setUID)) return [];
    // It takes the entry over in its batches.
    const isTakenOver = sets.some((set) => set.spec.componentName === name && selects(set, machine));
    return isTakenOver ? [] : [{ name, version }];
  });
}

/** The same for many machines, in one sentence; undefined where nothing is left. Names are in one order, so that it changes seldom. */
export function leftText(machines: readonly Machine[], sets: Sets): string | undefined {
  const uids = uidsOf(sets);
  const counts = new Map<string, number>();
  for (const machine of machines)
    for (const { name, version } of leftOf(machine, sets, uids)) {
      const what = `${name} ${version}`;
      counts.set(what, (counts.get(what) ?? 0) + 1);
    }
  const found = [...counts].toSorted(([a], [b]) => (a < b ? -1 : 1));
  if (found.length === 0) return undefined;
  const named = found
    .slice(0, MOST_NAMED)
    .map(([what, count]) => (count === 1 ? `1 machine still runs ${what}` : `${count} machines still run ${what}`));
  const more = found.length > MOST_NAMED ? ` and ${found.length - MOST_NAMED} more components` : '';
  return `${named.join(', ')}${more}, which no set owns; ${TO_REMOVE}`;
}

/** A Cluster has room for 256 characters of it. */
const MOST_NAMED = 2;
export const TO_REMOVE = 'to remove it declare it with action Remove';
