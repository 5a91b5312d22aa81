/** Halts, and what they stop (docs/protocols.md#e13). Pure. */
import { haltOf } from '../records.ts';
import type { UnitPlacement } from './placement.ts';
import type { Step, World } from './world.ts';

/** What was halted of one unit somewhere, and what that stops. */
export interface Stop {
  cluster: string;
  digest: string;
  message: string;
  /** A human asked for another try, which is not carried out yet. */
  retrying: boolean;
  lift?: Step;
}

/** Halts that are recorded of clusters which the fleet does not declare any more. Such a cluster is asked nothing: a retry lifts its halt at once. */
export function haltsOfLeft(world: World, unit: string, judged: readonly UnitPlacement[]): Stop[] {
  const stops: Stop[] = [];
  for (const view of world.clusters.values()) {
    const record = view.units.get(unit);
    const halt = record?.fleet === world.fleet ? haltOf(record) : undefined;
    if (record === undefined || halt === undefined) continue;
    if (judged.some((placement) => placement.cluster === view.name && placement.phase !== 'Left')) continue;
    const { digest, since, message } = halt;
    const stop = { cluster: view.name, digest, message: `halted, and left the fleet: ${message}`, retrying: false };
    const wanting = judged.filter((placement) => isStoppedBy(world, stop, placement));
    const retrying = wanting.some(({ asked }) => asked !== undefined && asked !== record.retried);
    const because = retrying ? 'a human asked for another try' : 'what it halted is wanted nowhere any more';
    const lift = { do: 'Lift' as const, unit, cluster: view.name, digest, since, because };
    stops.push({ ...stop, retrying, ...(retrying || wanting.length === 0 ? { lift } : {}) });
  }
  return stops;
}

/** A halt speaks against the same content everywhere, and against what the commit that brought it there brought elsewhere. */
export function isStoppedBy({ rollouts }: World, { cluster, digest }: Stop, placement: UnitPlacement): boolean {
  if (placement.target === digest) return true;
  return rollouts.some(({ spec }) => {
    const clusters = spec.units.find((each) => each.unit === placement.unit)?.clusters;
    const there = clusters?.find(({ name }) => name === cluster);
    const here = clusters?.find(({ name }) => name === placement.cluster);
    return there?.digest === digest && there.from !== digest && here !== undefined && here.digest === placement.target;
  });
}

/** What halted after there was evidence. */
export function lateHalt({ cluster, target, haltedAfter, retry }: UnitPlacement): Stop[] {
  if (haltedAfter === undefined || target === undefined) return [];
  return [{ cluster, digest: target, message: `halted after there was evidence: ${haltedAfter}`, retrying: retry !== undefined }];
}
