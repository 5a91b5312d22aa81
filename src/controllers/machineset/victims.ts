import type { Machine } from '../../api/machine.ts';
import { ANNOTATIONS } from '../../api/names.ts';
import type { Stored } from '../../api/wire.ts';
import { findCondition, isTrue } from '../../kube/conditions.ts';

/**
 * Which machines go: those whose drain is under way, those that someone marked, then those that are not Ready, then the newest; among equals from
 * the failure domain that has the most, so that what stays is spread.
 */
export function chooseVictims(machines: readonly Stored<Machine>[], count: number): Stored<Machine>[] {
  const left = new Set(machines);
  const victims: Stored<Machine>[] = [];
  while (victims.length < count && left.size > 0) {
    const sizes = new Map<string, number>();
    for (const { spec } of left) sizes.set(spec.failureDomain ?? '', (sizes.get(spec.failureDomain ?? '') ?? 0) + 1);
    const crowd = (machine: Machine): number => sizes.get(machine.spec.failureDomain ?? '') ?? 0;
    const victim = [...left].reduce((worst, each) => (comesBefore(each, worst, crowd) ? each : worst));
    left.delete(victim);
    victims.push(victim);
  }
  return victims;
}

function comesBefore(a: Stored<Machine>, b: Stored<Machine>, crowd: (machine: Machine) => number): boolean {
  const order =
    rank(a) - rank(b) ||
    crowd(b) - crowd(a) ||
    Date.parse(b.metadata.creationTimestamp) - Date.parse(a.metadata.creationTimestamp) ||
    (a.metadata.name < b.metadata.name ? -1 : 1);
  return order < 0;
}

function rank({ metadata, status }: Machine): number {
  if (findCondition(status?.conditions, 'Drained') !== undefined) return 0;
  if (metadata.annotations?.[ANNOTATIONS.deleteFirst] !== undefined) return 1;
  return isTrue(status?.conditions, 'Ready') ? 3 : 2;
}
