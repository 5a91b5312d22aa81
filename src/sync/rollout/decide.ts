import { isOver, type Rollout, type RolloutUnit, type RolloutUnitStatus } from '../../api/rollout.ts';
import { plainText } from '../../api/plain-text.ts';
import { ownersOf } from '../plan.ts';
import { isGone, soaksSince } from '../soak.ts';
import { haltsOfLeft } from './halts.ts';
import { judge } from './judge.ts';
import { isNew, longestSoakMs } from './lane.ts';
import { canRetry } from './placement.ts';
import { advance, begin } from './stages.ts';
import { retry, takeBack, upkeep } from './upkeep.ts';
import type { Step, World } from './world.ts';

type UnitPhase = RolloutUnitStatus['phase'];

export interface Decision {
  steps: Step[];
  /** Status of each rollout, by its name. */
  statuses: Map<string, NonNullable<Rollout['status']>>;
  /** Decide again at this time (ms), if nothing happens before: a soak ends. */
  again: number | undefined;
}

/**
 * Decides the next steps of all rollouts of one fleet. Pure: the same world gives the same decision.
 *
 * Guarantees: a cluster of a later stage is begun only when every cluster of the earlier stages that the fleet still declares has evidence
 * for its own digest and the stage has soaked (docs/protocols.md#e5); a unit that is halted anywhere, or a digest that is paused, begins nowhere; a unit restored
 * to a digest verified there takes the restore lane (#e6), which neither stages nor soak nor pause stop;
 * a newer rollout takes over exactly the units it names.
 */
export function decide(world: World): Decision {
  const steps: Step[] = [];
  const statuses: Decision['statuses'] = new Map();
  let again: number | undefined;
  const owners = ownersOf(world.rollouts);

  for (const rollout of world.rollouts) {
    const units: RolloutUnitStatus[] = [];
    let retrying = false;
    for (const unit of rollout.spec.units) {
      if (owners.get(unit.unit)?.rollout !== rollout) {
        // Its retry goes on in the rollout that took the unit over; each cluster's record has how far.
        retrying = true;
        units.push(supersede(rollout, unit));
        continue;
      }
      const outcome = decideUnit(world, rollout, unit);
      steps.push(...outcome.steps);
      units.push(outcome.status);
      again = earliest([again, outcome.again]);
      retrying ||= outcome.retrying;
    }
    const phase = summary(units.map((unit) => unit.phase));
    const completedAt = isOver(phase) ? (rollout.status?.completedAt ?? new Date(world.now).toISOString()) : undefined;
    const retried = retrying ? rollout.status?.retried : rollout.spec.retry;
    statuses.set(rollout.metadata.name, {
      phase,
      units,
      ...(retried === undefined ? {} : { retried }),
      ...(completedAt === undefined ? {} : { completedAt }),
      ...(rollout.metadata.generation === undefined ? {} : { observedGeneration: rollout.metadata.generation }),
    });
  }
  return { steps, statuses, again };
}

/** What halted it stays to be read: the rollout that follows does not repeat it. */
function haltBefore(before: RolloutUnitStatus | undefined): string {
  if (before?.phase !== 'Halted') return '';
  return before.message === undefined ? ', which was halted' : `, which was halted: ${before.message}`;
}

function supersede(rollout: Rollout, unit: RolloutUnit): RolloutUnitStatus {
  const before = rollout.status?.units?.find((status) => status.unit === unit.unit);
  if (before !== undefined && isOver(before.phase)) return before;
  return {
    unit: unit.unit,
    phase: 'Superseded',
    lane: before?.lane ?? 'Forward',
    reason: 'Superseded',
    message: plainText(`a newer commit changes this unit${haltBefore(before)}`),
  };
}

function decideUnit(world: World, rollout: Rollout, unit: RolloutUnit) {
  const judged = unit.clusters.map((wanted) => judge(world, rollout, unit.unit, wanted));
  // What left the fleet is left alone, and nothing waits for it.
  const placements = judged.filter((placement) => placement.phase !== 'Left');
  const refused = placements.some(({ phase, newEvidence }) => phase === 'Halted' && !newEvidence) && !canRetry(unit.unit);
  const ofLeft = haltsOfLeft(world, unit.unit, judged);
  const steps: Step[] = [
    ...ofLeft.flatMap((halt) => halt.lift ?? []),
    ...placements.flatMap((placement) => [...retry(world, placement, refused), ...upkeep(world, rollout, placement)]),
  ];

  // What a going back leaves is revoked, also when its way is Forward because what it goes back to is revoked itself (docs/protocols.md#e6).
  const back = placements.filter((placement) => placement.goesBack && placement.lane === 'Forward' && placement.phase === 'Pending');
  for (const placement of back) steps.push(...takeBack(world, rollout, placements, placement));

  // Restore: everywhere at once, the newest harm first (docs/protocols.md#e6), and to nothing that these very steps revoke.
  const leaving = new Set(steps.flatMap((step) => (step.do === 'Revoke' ? step.digest : [])));
  const restores = placements.filter((placement) => placement.lane === 'Restore' && placement.phase === 'Pending');
  for (const placement of restores.sort((a, b) => b.currentSince - a.currentSince)) {
    if (placement.target === undefined) {
      steps.push(...begin(placement, 'what was just added is taken back'));
      continue;
    }
    if (leaving.has(placement.target)) continue;
    const left = placement.current === placement.target ? undefined : placement.current;
    if (left !== undefined) leaving.add(left);
    steps.push(...takeBack(world, rollout, placements, placement), ...begin(placement, 'a digest verified here is wanted again'));
  }

  const forward = advance(world, rollout, placements, ofLeft);
  steps.push(...forward.steps);
  const settled = forward.phase === 'Done' ? settle(world, rollout, unit.unit) : { steps: [], again: undefined };
  steps.push(...settled.steps);
  const lanes = new Set(placements.filter((placement) => placement.moved).map((placement) => placement.lane));
  const status: RolloutUnitStatus = {
    unit: unit.unit,
    phase: forward.phase,
    lane: lanes.size === 2 ? 'Mixed' : lanes.has('Restore') ? 'Restore' : 'Forward',
    ...(forward.stage === undefined ? {} : { stage: forward.stage }),
    ...(forward.soakUntil === undefined ? {} : { soakUntil: new Date(forward.soakUntil).toISOString() }),
    ...(forward.pausedBy === undefined ? {} : { pausedBy: forward.pausedBy }),
    ...(placements.some((placement) => placement.revoked) ? { revoked: true } : {}),
    ...(forward.reason === undefined ? {} : { reason: forward.reason }),
    ...(forward.message === undefined ? {} : { message: plainText(forward.message) }),
    ...(forward.cluster === undefined ? {} : { cluster: forward.cluster }),
    clusters: judged.map((placement) => ({
      name: placement.cluster,
      phase: placement.phase,
      lane: placement.lane,
      ...(placement.appliedAt === undefined ? {} : { appliedAt: placement.appliedAt }),
      ...(placement.verifiedAt === undefined ? {} : { verifiedAt: placement.verifiedAt }),
      ...(placement.halt === undefined && placement.haltedAfter === undefined ? {} : { halted: true }),
      ...(placement.message === undefined ? {} : { message: plainText(placement.message) }),
    })),
  };
  return {
    steps,
    status,
    again: earliest([
      forward.soakUntil,
      settled.again,
      ...placements.map(({ live }) => (live.state === 'Present' ? live.againAt : undefined)),
    ]),
    retrying: placements.some((placement) => placement.retry !== undefined) || ofLeft.some((halt) => halt.retrying),
  };
}

function earliest(times: readonly (number | undefined)[]): number | undefined {
  const known = times.filter((each) => each !== undefined);
  return known.length === 0 ? undefined : Math.min(...known);
}

/**
 * What is new to a cluster, or gone, is so no longer once the rollout is complete and it has soaked there: from then on nothing needs the record of it.
 */
function settle(world: World, rollout: Rollout, unit: string): { steps: Step[]; again: number | undefined } {
  const steps: Step[] = [];
  const waits: number[] = [];
  for (const { name: cluster, units } of world.clusters.values()) {
    const record = units.get(unit);
    if (record?.fleet !== world.fleet) continue;
    const since = isGone(record) ? record.removal?.at : record.added?.verifiedAt;
    if (since === undefined) continue;
    const from = isGone(record) ? soaksSince(record, world.now) : Date.parse(since);
    // A time to come was recorded by a wrong clock. What begins here before it must bear a later one (docs/protocols.md#e17).
    const writtenAt = isGone(record) ? Date.parse(record.writtenAt ?? '') || 0 : 0;
    const soakedAt = Math.max((from ?? world.now) + longestSoakMs(rollout), writtenAt);
    if (isGone(record) ? soakedAt <= world.now : !isNew(record, world.now, longestSoakMs(rollout)))
      steps.push({ do: 'Settle', unit, cluster, since, because: 'it is proven on this cluster, and has soaked' });
    else if (soakedAt > world.now) waits.push(soakedAt);
  }
  return { steps, again: earliest(waits) };
}

function summary(phases: UnitPhase[]): UnitPhase {
  for (const phase of ['Halted', 'Progressing', 'Soaking', 'Pending', 'Done'] as const) if (phases.includes(phase)) return phase;
  return 'Superseded';
}
