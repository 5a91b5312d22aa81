import type { Rollout, RolloutUnit, RolloutUnitStatus } from '../../api/rollout.ts';
import type { ClusterView, Step, World } from './world.ts';
import { judge, type Place } from './place.ts';

type Stage = Rollout['spec']['stages'][number];
type UnitPhase = RolloutUnitStatus['phase'];

export interface Decision {
  steps: Step[];
  /** Status of each rollout, by its name. */
  statuses: Map<string, NonNullable<Rollout['status']>>;
  /** Look again at this time (ms), if nothing happens before: a soak ends. */
  again: number | undefined;
}

/**
 * Decides the next steps of all rollouts of one fleet. Pure: the same world gives the same decision.
 *
 * Guarantees: a cluster of a later stage is begun only when every cluster of the earlier stages has evidence for its own
 * digest of this rollout and the stage has soaked (E5); a unit that is halted anywhere begins nowhere; a unit restored
 * to a digest verified there takes the restore lane (E6), which neither stages nor soak nor pause hold back;
 * a newer rollout takes over exactly the units it names.
 */
export function decide(world: World): Decision {
  const steps: Step[] = [];
  const statuses: Decision['statuses'] = new Map();
  let again: number | undefined;
  const owners = new Map<string, Rollout>();
  for (const rollout of world.rollouts) for (const { unit } of rollout.spec.units) owners.set(unit, rollout);

  for (const rollout of world.rollouts) {
    const retry = rollout.spec.retry !== undefined && rollout.spec.retry !== rollout.status?.retried ? rollout.spec.retry : undefined;
    const units: RolloutUnitStatus[] = [];
    for (const unit of rollout.spec.units) {
      if (owners.get(unit.unit) !== rollout) {
        units.push(supersede(rollout, unit));
        continue;
      }
      const outcome = decideUnit(world, rollout, unit, retry);
      steps.push(...outcome.steps);
      units.push(outcome.status);
      if (outcome.again !== undefined) again = Math.min(again ?? Infinity, outcome.again);
    }
    const phase = summary(units.map((unit) => unit.phase));
    const completedAt =
      rollout.status?.completedAt ?? (phase === 'Done' || phase === 'Superseded' ? new Date(world.now).toISOString() : undefined);
    statuses.set(rollout.metadata.name, {
      phase,
      units,
      ...(rollout.spec.retry === undefined ? {} : { retried: rollout.spec.retry }),
      ...(completedAt === undefined || (phase !== 'Done' && phase !== 'Superseded') ? {} : { completedAt }),
      ...(rollout.metadata.generation === undefined ? {} : { observedGeneration: rollout.metadata.generation }),
    });
  }
  return { steps, statuses, again };
}

function supersede(rollout: Rollout, unit: RolloutUnit): RolloutUnitStatus {
  const before = rollout.status?.units?.find((status) => status.unit === unit.unit);
  if (before?.phase === 'Done' || before?.phase === 'Superseded') return before;
  return {
    unit: unit.unit,
    phase: 'Superseded',
    lane: before?.lane ?? 'Forward',
    reason: 'Superseded',
    message: 'a newer commit changes this unit',
  };
}

function decideUnit(world: World, rollout: Rollout, unit: RolloutUnit, retry: string | undefined) {
  const places = unit.clusters.map(({ name, digest }) => judge(world, rollout, unit.unit, name, digest));
  const steps: Step[] = places.flatMap((place) => upkeep(world, rollout, place, retry));

  // Restore: everywhere at once, the newest harm first (E6).
  const restores = places.filter((place) => place.lane === 'Restore' && place.phase === 'Pending');
  for (const place of restores.sort((a, b) => b.heldSince - a.heldSince)) {
    steps.push(
      ...revoke(world, place.unit, place.holds, `restored to ${place.target ?? 'nothing'}`),
      ...begin(rollout, place, 'a digest verified here is wanted again'),
    );
  }

  const forward = advance(world, rollout, places, retry);
  steps.push(...forward.steps);
  const lanes = new Set(places.filter((place) => place.moved).map((place) => place.lane));
  const status: RolloutUnitStatus = {
    unit: unit.unit,
    phase: forward.phase,
    lane: lanes.size === 2 ? 'Mixed' : lanes.has('Restore') ? 'Restore' : 'Forward',
    ...(forward.stage === undefined ? {} : { stage: forward.stage }),
    ...(forward.soakUntil === undefined ? {} : { soakUntil: new Date(forward.soakUntil).toISOString() }),
    ...(forward.reason === undefined ? {} : { reason: forward.reason }),
    ...(forward.message === undefined ? {} : { message: forward.message.slice(0, 1024) }),
    clusters: places.map((place) => ({
      name: place.cluster,
      phase: place.phase,
      lane: place.lane,
      ...(place.appliedAt === undefined ? {} : { appliedAt: place.appliedAt }),
      ...(place.verifiedAt === undefined ? {} : { verifiedAt: place.verifiedAt }),
      ...(place.message === undefined ? {} : { message: place.message.slice(0, 1024) }),
    })),
  };
  return {
    steps,
    status,
    again: earliest([forward.soakUntil, ...places.map(({ live }) => (live.state === 'Present' ? live.againAt : undefined))]),
  };
}

function earliest(times: readonly (number | undefined)[]): number | undefined {
  const known = times.filter((each) => each !== undefined);
  return known.length === 0 ? undefined : Math.min(...known);
}

/** What is done wherever a place stands: evidence, drift, ceilings, revocation of what halted, a human's retry. */
function upkeep(world: World, rollout: Rollout, place: Place, retry: string | undefined): Step[] {
  const { unit, cluster, target, live } = place;
  const steps: Step[] = [];
  if (place.blocked || live.state === 'Unknown') return steps;
  if (place.newEvidence && target !== undefined) {
    steps.push({
      do: 'RecordEvidence',
      unit,
      cluster,
      digest: target,
      commit: rollout.spec.commit,
      because: 'the cell has evidence for it',
    });
  }
  if (place.drifted && target !== undefined) {
    steps.push({
      do: 'Apply',
      unit,
      cluster,
      digest: target,
      commit: rollout.spec.commit,
      lane: place.lane,
      proven: isProven(place),
      because:
        place.live.state === 'Present' && place.live.rehearsed === true
          ? 'its rehearsal is over'
          : 'it was changed in the cluster by someone else',
    });
  }
  if (place.phase === 'Halted' && target !== undefined) {
    if (retry === undefined) {
      if (place.lane === 'Forward') steps.push(...revoke(world, unit, target, place.message ?? 'halted'));
    } else if (unit.startsWith('MachineComponentSet/')) {
      steps.push({ do: 'TryAgain', unit, cluster, rolloutID: retry, because: 'a human asked for another try' });
    }
  }
  if (retry !== undefined && target !== undefined && place.revoked) {
    steps.push({ do: 'Reinstate', unit, cluster, digest: target, because: 'a human asked for another try' });
  }
  if (live.state === 'Present') {
    const held =
      rollout.spec.paused === true &&
      place.lane === 'Forward' &&
      (place.phase === 'Waiting' || place.phase === 'Halted') &&
      target !== undefined;
    const wanted = held && unit.startsWith('MachineComponentSet/') ? { unitDigest: target, nodes: 0 } : undefined;
    if (wanted?.unitDigest !== live.ceiling?.unitDigest || wanted?.nodes !== live.ceiling?.nodes) {
      steps.push({
        do: 'Ceiling',
        unit,
        cluster,
        ceiling: wanted,
        because: wanted === undefined ? 'nothing holds it back' : 'the rollout is paused',
      });
    }
  }
  return steps;
}

function isProven({ lane, phase }: Place): boolean {
  return lane === 'Restore' || phase === 'Verified';
}

function revoke(world: World, unit: string, digest: string | undefined, because: string): Step[] {
  if (digest === undefined) return [];
  const steps: Step[] = [];
  for (const view of world.clusters.values()) {
    const record = view.units.get(unit);
    if (record !== undefined && !(record.revoked ?? []).includes(digest))
      steps.push({ do: 'Revoke', unit, cluster: view.name, digest, because });
  }
  return steps;
}

function begin(rollout: Rollout, place: Place, because: string): Step[] {
  const { unit, cluster, target, lane } = place;
  if (target === undefined) return [{ do: 'Remove', unit, cluster, commit: rollout.spec.commit, because }];
  return [{ do: 'Apply', unit, cluster, digest: target, commit: rollout.spec.commit, lane, proven: isProven(place), because }];
}

interface Advance {
  steps: Step[];
  phase: UnitPhase;
  stage?: string | undefined;
  soakUntil?: number | undefined;
  reason?: string;
  message?: string | undefined;
}

/** The forward lane: stages in order, inside a stage `maxClusters` at once. */
function advance(world: World, rollout: Rollout, places: Place[], retry: string | undefined): Advance {
  const halted = places.find((place) => place.phase === 'Halted');
  if (halted !== undefined && retry === undefined) {
    return {
      steps: [],
      phase: 'Halted',
      stage: stageOf(rollout, halted.cluster)?.name,
      reason: 'Halted',
      message: `${halted.cluster}: ${halted.message ?? 'halted'}`,
    };
  }
  for (const stage of rollout.spec.stages) {
    const members = stage.clusters.flatMap((name) => places.filter((place) => place.cluster === name));
    const open = members.filter((place) => place.phase !== 'Verified');
    if (open.length > 0) return fill(rollout, stage, open);
    const soakUntil = soakOf(members, stage);
    const later = places.some((place) => place.phase !== 'Verified' && !members.includes(place));
    if (soakUntil > world.now && later) return { steps: [], phase: 'Soaking', stage: stage.name, soakUntil, reason: 'Soaking' };
  }
  const stray = places.find((place) => place.phase !== 'Verified');
  if (stray !== undefined) return { steps: [], phase: 'Progressing', reason: 'Blocked', message: `${stray.cluster} is in no stage` };
  return { steps: [], phase: 'Done' };
}

/** Soak counts from the last cluster that this rollout itself verified: what was there before has soaked. */
function soakOf(members: Place[], stage: Stage): number {
  const verified = members
    .filter((place) => place.moved && place.lane === 'Forward' && place.verifiedAt !== undefined)
    .map((place) => Date.parse(place.verifiedAt ?? ''));
  return verified.length === 0 ? 0 : Math.max(...verified) + stage.soakSeconds * 1000;
}

function fill(rollout: Rollout, stage: Stage, open: Place[]): Advance {
  const forward = open.filter((place) => place.lane === 'Forward');
  const blocked = open.find((place) => place.phase === 'Blocked');
  const waiting = open.find((place) => place.phase === 'Waiting');
  const said = blocked ?? waiting;
  const base = { stage: stage.name, ...(said?.message === undefined ? {} : { message: `${said.cluster}: ${said.message}` }) };
  if (rollout.spec.paused === true && forward.length > 0)
    return { steps: [], phase: 'Progressing', ...base, reason: 'Paused', message: 'the rollout is paused' };
  const busy = forward.filter((place) => place.phase !== 'Pending').length;
  const next = forward.filter((place) => place.phase === 'Pending').slice(0, Math.max(0, stage.maxClusters - busy));
  return {
    steps: next.flatMap((place) => begin(rollout, place, `stage ${stage.name} is open`)),
    phase: 'Progressing',
    ...base,
    reason: blocked === undefined ? 'Progressing' : 'Blocked',
  };
}

function stageOf(rollout: Rollout, cluster: string): Stage | undefined {
  return rollout.spec.stages.find((stage) => stage.clusters.includes(cluster));
}

function summary(phases: UnitPhase[]): UnitPhase {
  for (const phase of ['Halted', 'Progressing', 'Soaking', 'Pending', 'Done'] as const) if (phases.includes(phase)) return phase;
  return 'Superseded';
}

export type { ClusterView };
