import type { Machine } from '../../api/machine.ts';
import type { MachineSet } from '../../api/machine-set.ts';
import type { Stored } from '../../api/wire.ts';
import { isTrue } from '../../kube/conditions.ts';

/** Everything that the decision about one set needs. */
export interface MachineSetView {
  set: Stored<MachineSet>;
  /** Those that it owns, also those being deleted. */
  machines: Stored<Machine>[];
  now: number;
  /** Names that are noted for machines which no list has shown yet (docs/protocols.md#c8c). */
  making?: readonly string[];
  /** What its machines still run of component sets that are gone, in words. */
  left?: string;
}

export interface MachineSetDecision {
  /** One entry a machine to be made: its failure domain. */
  create: (string | undefined)[];
  /** Machines whose labels, taints and timeouts must be those of the template. */
  sync: Stored<Machine>[];
}

const DEFAULT_IN_FLIGHT = 10;
const DEFAULT_READY_SECONDS = 1800;
const DEFAULT_MAX_FAILED = 3;

export function isAlive(machine: Machine): boolean {
  return machine.metadata.deletionTimestamp === undefined;
}

/**
 * How many machines there are to be. Where `replicas` is left out, another manager owns it: the set keeps the machines that it has, replaces those that go, and
 * never removes one (docs/protocols.md#c8a).
 */
export function wantedOf({ set, machines }: Pick<MachineSetView, 'set' | 'machines'>): number {
  return set.spec.replicas ?? Math.max(set.status?.keptReplicas ?? 0, machines.filter(isAlive).length);
}

/** ms until a machine that never was Ready has failed; Infinity where it was. */
export function readyDeadlineMs({ set, now }: Pick<MachineSetView, 'set' | 'now'>, { metadata, status }: Stored<Machine>): number {
  if (status?.firstReadyAt !== undefined || status?.phase === 'Running') return Infinity;
  return Date.parse(metadata.creationTimestamp) + (set.spec.readyWithinSeconds ?? DEFAULT_READY_SECONDS) * 1000 - now;
}

const hasFailed = (view: MachineSetView, machine: Stored<Machine>): boolean => readyDeadlineMs(view, machine) < 0;

/** Those that never were Ready, though they had the time (docs/protocols.md#d7). */
export const failedMachines = (view: MachineSetView): Stored<Machine>[] => view.machines.filter((machine) => hasFailed(view, machine));

export const hasTooManyFailed = (view: MachineSetView): boolean =>
  failedMachines(view).length >= (view.set.spec.maxFailed ?? DEFAULT_MAX_FAILED);

/** Neither Ready nor ever a Node. */
function isBeingMade(machine: Machine): boolean {
  return machine.status?.nodeRef === undefined && !isTrue(machine.status?.conditions, 'Ready');
}

/**
 * A machine that is being deleted still counts. So there are never more than `replicas`, also while a remedy replaces machines that come up broken again, and no
 * machine is made instead of one that cannot be drained.
 */
export function decideMachineSet(view: MachineSetView): MachineSetDecision {
  const { set, machines } = view;
  const alive = machines.filter(isAlive);
  const replicas = wantedOf(view);
  if (set.spec.paused === true) return { create: [], sync: [] };
  const sync = alive.filter((machine) => machine.spec.paused !== true);

  const slots = Math.max(0, replicas - machines.length);
  // A failed machine counts for maxFailed and takes no slot here: with few slots maxFailed could never be reached otherwise.
  const inFlight = alive.filter((machine) => isBeingMade(machine) && !hasFailed(view, machine)).length;
  const room = hasTooManyFailed(view) ? 0 : Math.max(0, (set.spec.maxInFlight ?? DEFAULT_IN_FLIGHT) - inFlight);
  const count = Math.min(slots, room);
  return { create: spread(set, alive, count), sync };
}

/** Each new machine goes where the fewest are; the first named domain wins a tie. */
function spread(set: MachineSet, alive: readonly Machine[], count: number): (string | undefined)[] {
  const domains = set.spec.failureDomains ?? [];
  if (domains.length === 0) return Array.from({ length: count }, () => set.spec.template?.failureDomain);
  const sizes = new Map(domains.map((domain) => [domain, alive.filter(({ spec }) => spec.failureDomain === domain).length]));
  return Array.from({ length: count }, () => {
    const [domain, size] = [...sizes].reduce((least, each) => (each[1] < least[1] ? each : least));
    sizes.set(domain, size + 1);
    return domain;
  });
}
