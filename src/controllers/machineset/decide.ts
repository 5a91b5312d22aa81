import type { Machine } from '../../api/machine.ts';
import type { MachineSet } from '../../api/machineset.ts';
import type { Stored } from '../../api/wire.ts';
import { isTrue } from '../../kube/conditions.ts';
import { chooseVictims } from './victims.ts';

/** Everything that the decision about one set needs. */
export interface MachineSetView {
  set: Stored<MachineSet>;
  /** Those that it owns, also those being deleted. */
  machines: Stored<Machine>[];
  now: number;
}

export interface MachineSetDecision {
  /** One entry a machine to be made: its failure domain. */
  create: (string | undefined)[];
  /** Bound by UID: another machine of the same name is not meant. */
  remove: Stored<Machine>[];
  /** Machines whose labels, taints and timeouts must be those of the template. */
  sync: Stored<Machine>[];
  /** Wanted, and waiting for `maxInFlight` or for a deletion to end. */
  waiting: number;
}

const DEFAULT_IN_FLIGHT = 10;

export function isAlive(machine: Machine): boolean {
  return machine.metadata.deletionTimestamp === undefined;
}

/** Neither Ready nor ever a Node. */
function isBeingMade(machine: Machine): boolean {
  return machine.status?.nodeRef === undefined && !isTrue(machine.status?.conditions, 'Ready');
}

/**
 * A machine that is being deleted still counts as one: while a remedy replaces machines that come up broken again, there are never
 * more than `replicas`, and one that cannot be drained is not quietly made up for.
 */
export function decideMachineSet({ set, machines }: MachineSetView): MachineSetDecision {
  const alive = machines.filter(isAlive);
  const replicas = set.spec.replicas ?? 1;
  if (set.spec.paused === true) return { create: [], remove: [], sync: [], waiting: 0 };
  const remove = chooseVictims(alive, Math.max(0, alive.length - replicas));
  const gone = new Set(remove);
  const sync = alive.filter((machine) => !gone.has(machine) && machine.spec.paused !== true);

  const missing = Math.max(0, replicas - alive.length);
  const places = Math.max(0, replicas - machines.length);
  const inFlight = alive.filter(isBeingMade).length;
  const count = Math.min(places, Math.max(0, (set.spec.maxInFlight ?? DEFAULT_IN_FLIGHT) - inFlight));
  return { create: spread(set, alive, count), remove, sync, waiting: missing - count };
}

/** Each new machine goes where the fewest are; the first named domain wins a tie. */
function spread(set: MachineSet, alive: readonly Machine[], count: number): (string | undefined)[] {
  const domains = set.spec.failureDomains ?? [];
  if (domains.length === 0) return Array.from({ length: count }, () => set.spec.template?.failureDomain);
  const sizes = new Map(domains.map((domain) => [domain, 0]));
  for (const { spec } of alive) {
    const size = spec.failureDomain === undefined ? undefined : sizes.get(spec.failureDomain);
    if (spec.failureDomain !== undefined && size !== undefined) sizes.set(spec.failureDomain, size + 1);
  }
  return Array.from({ length: count }, () => {
    const [domain, size] = [...sizes].reduce((least, each) => (each[1] < least[1] ? each : least));
    sizes.set(domain, size + 1);
    return domain;
  });
}
