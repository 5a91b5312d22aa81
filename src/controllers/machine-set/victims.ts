import type { Machine } from '../../api/machine.ts';
import { ANNOTATIONS } from '../../api/names.ts';
import type { Stored } from '../../api/wire.ts';
import { findCondition, isTrue } from '../../kube/conditions.ts';

interface Candidate {
  machine: Stored<Machine>;
  /** How many of those that are left are in its failure domain. */
  crowd: number;
}

/**
 * Which machines go: those whose drain is under way, those that a person marked, then those that are not Ready, then the newest; among equals from
 * the failure domain that has the most, so that what stays is spread.
 */
export function chooseVictims(machines: readonly Stored<Machine>[], count: number): Stored<Machine>[] {
  const left = new Set(machines);
  const victims: Stored<Machine>[] = [];
  while (victims.length < count && left.size > 0) {
    const domains = [...Map.groupBy(left, ({ spec }) => spec.failureDomain).values()];
    const candidates = domains.flatMap((domain) => domain.map((machine): Candidate => ({ machine, crowd: domain.length })));
    const { machine } = candidates.reduce((worst, each) => (comesBefore(each, worst) ? each : worst));
    left.delete(machine);
    victims.push(machine);
  }
  return victims;
}

function comesBefore({ machine: a, crowd: crowdOfA }: Candidate, { machine: b, crowd: crowdOfB }: Candidate): boolean {
  const order =
    rank(a) - rank(b) || crowdOfB - crowdOfA || Date.parse(b.metadata.creationTimestamp) - Date.parse(a.metadata.creationTimestamp);
  return order < 0 || (order === 0 && a.metadata.name < b.metadata.name);
}

function rank({ metadata, status }: Machine): number {
  if (findCondition(status?.conditions, 'Drained') !== undefined) return 0;
  if (metadata.annotations?.[ANNOTATIONS.deleteFirst] !== undefined) return 1;
  return isTrue(status?.conditions, 'Ready') ? 3 : 2;
}
