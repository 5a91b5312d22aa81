import { isOver, type Rollout, type RolloutUnit, type RolloutUnitStatus } from '../../api/rollout.ts';
import { plainText } from '../../api/plain-text.ts';
import type { ClusterView, Step, World } from './world.ts';
import { ownersOf } from '../plan.ts';
import { haltOf, REMOVAL } from '../records.ts';
import { isGone, soaksSince } from '../soak.ts';
import { canRetry, isNew, judge, longestSoakMs, observedRetry, retryOf, type Place } from './place.ts';

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
 * Guarantees: a cluster of a later stage is begun only when every cluster of the earlier stages that the fleet still declares has evidence
 * for its own digest and the stage has soaked (docs/protocols.md#e5); a unit that is halted anywhere, or a digest that is paused, begins nowhere; a unit restored
 * to a digest verified there takes the restore lane (#e6), which neither stages nor soak nor pause hold back;
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
        // Its retry goes on in the rollout that took the unit over; each cluster's record tells how far.
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

/** What halted it stays to be read: the rollout that follows does not say it. */
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
  const places = judged.filter((place) => place.phase !== 'Left');
  const refused = places.some(({ phase, newEvidence }) => phase === 'Halted' && !newEvidence) && !canRetry(unit.unit);
  const ofLeft = haltsOfLeft(world, unit.unit, judged);
  const steps: Step[] = [
    ...ofLeft.flatMap((halt) => halt.lift ?? []),
    ...places.flatMap((place) => [...retry(world, place, refused), ...upkeep(world, rollout, place)]),
  ];

  // What a going back leaves is revoked, also when its way is Forward because what it goes back to is revoked itself (docs/protocols.md#e6).
  const back = places.filter((place) => place.goesBack && place.lane === 'Forward' && place.phase === 'Pending');
  for (const place of back) steps.push(...takeBack(world, rollout, places, place));

  // Restore: everywhere at once, the newest harm first (docs/protocols.md#e6), and to nothing that these very steps revoke.
  const leaving = new Set(steps.flatMap((step) => (step.do === 'Revoke' ? step.digest : [])));
  const restores = places.filter((place) => place.lane === 'Restore' && place.phase === 'Pending');
  for (const place of restores.sort((a, b) => b.heldSince - a.heldSince)) {
    if (place.target === undefined) {
      steps.push(...begin(place, 'what was just added is taken back'));
      continue;
    }
    if (leaving.has(place.target)) continue;
    const left = place.holds === place.target ? undefined : place.holds;
    if (left !== undefined) leaving.add(left);
    steps.push(...takeBack(world, rollout, places, place), ...begin(place, 'a digest verified here is wanted again'));
  }

  const forward = advance(world, rollout, places, ofLeft);
  steps.push(...forward.steps);
  const settled = forward.phase === 'Done' ? settle(world, rollout, unit.unit) : { steps: [], again: undefined };
  steps.push(...settled.steps);
  const lanes = new Set(places.filter((place) => place.moved).map((place) => place.lane));
  const status: RolloutUnitStatus = {
    unit: unit.unit,
    phase: forward.phase,
    lane: lanes.size === 2 ? 'Mixed' : lanes.has('Restore') ? 'Restore' : 'Forward',
    ...(forward.stage === undefined ? {} : { stage: forward.stage }),
    ...(forward.soakUntil === undefined ? {} : { soakUntil: new Date(forward.soakUntil).toISOString() }),
    ...(forward.pausedBy === undefined ? {} : { pausedBy: forward.pausedBy }),
    ...(places.some((place) => place.revoked) ? { revoked: true } : {}),
    ...(forward.reason === undefined ? {} : { reason: forward.reason }),
    ...(forward.message === undefined ? {} : { message: plainText(forward.message) }),
    ...(forward.cluster === undefined ? {} : { cluster: forward.cluster }),
    clusters: judged.map((place) => ({
      name: place.cluster,
      phase: place.phase,
      lane: place.lane,
      ...(place.appliedAt === undefined ? {} : { appliedAt: place.appliedAt }),
      ...(place.verifiedAt === undefined ? {} : { verifiedAt: place.verifiedAt }),
      ...(place.halt === undefined && place.haltedAfter === undefined ? {} : { halted: true }),
      ...(place.message === undefined ? {} : { message: plainText(place.message) }),
    })),
  };
  return {
    steps,
    status,
    again: earliest([forward.soakUntil, settled.again, ...places.map(({ live }) => (live.state === 'Present' ? live.againAt : undefined))]),
    retrying: places.some((place) => place.retry !== undefined) || ofLeft.some((halt) => halt.retrying),
  };
}

function earliest(times: readonly (number | undefined)[]): number | undefined {
  const known = times.filter((each) => each !== undefined);
  return known.length === 0 ? undefined : Math.min(...known);
}

/** What was halted of one unit somewhere, and what that holds back. */
interface Stop {
  cluster: string;
  digest: string;
  message: string;
  /** A human asked for another try, which is not carried out yet. */
  retrying: boolean;
  lift?: Step;
}

/** Halts that are recorded of clusters which the fleet does not declare any more. Such a cluster is asked nothing: a retry lifts its halt at once. */
function haltsOfLeft(world: World, unit: string, judged: readonly Place[]): Stop[] {
  const stops: Stop[] = [];
  for (const view of world.clusters.values()) {
    const record = view.units.get(unit);
    const halt = record?.fleet === world.fleet ? haltOf(record) : undefined;
    if (record === undefined || halt === undefined) continue;
    if (judged.some((place) => place.cluster === view.name && place.phase !== 'Left')) continue;
    const { digest, since, message } = halt;
    const stop = { cluster: view.name, digest, message: `halted, and left the fleet: ${message}`, retrying: false };
    const wanting = judged.filter((place) => isHeldBy(world, stop, place));
    const retrying = wanting.some(({ asked }) => asked !== undefined && asked !== record.retried);
    const because = retrying ? 'a human asked for another try' : 'what it halted is wanted nowhere any more';
    const lift = { do: 'Lift' as const, unit, cluster: view.name, digest, since, because };
    stops.push({ ...stop, retrying, ...(retrying || wanting.length === 0 ? { lift } : {}) });
  }
  return stops;
}

/** A halt speaks against the same content everywhere, and against what the commit that brought it there brought elsewhere. */
function isHeldBy({ rollouts }: World, { cluster, digest }: Stop, place: Place): boolean {
  if (place.target === digest) return true;
  return rollouts.some(({ spec }) => {
    const clusters = spec.units.find((each) => each.unit === place.unit)?.clusters;
    const there = clusters?.find(({ name }) => name === cluster);
    const here = clusters?.find(({ name }) => name === place.cluster);
    return there?.digest === digest && there.from !== digest && here !== undefined && here.digest === place.target;
  });
}

/**
 * A human's retry: the digest is reinstated in the hub's records at once; where it is under way the cell is asked to try again, and the retry
 * counts as carried out only when the cell shows it. Where the cell's refusal cannot be retried, that is all; it stays refused and revoked.
 */
function retry(world: World, place: Place, refused: boolean): Step[] {
  const { unit, cluster, target, live } = place;
  if (place.retry === undefined || target === undefined) return [];
  const because = 'a human asked for another try';
  const steps: Step[] = [];
  for (const view of place.revoked && !refused ? world.clusters.values() : []) {
    const { retried, revoked = [] } = view.units.get(unit) ?? {};
    if (revoked.includes(target) && retried !== place.retry)
      steps.push({ do: 'Reinstate', unit, cluster: view.name, digest: target, retry: place.retry, because });
  }
  const under = place.begun && (place.phase !== 'Verified' || place.haltedAfter !== undefined) && canRetry(unit);
  // Whether what cannot be tried again is still refused must be seen.
  if (place.halt !== undefined && !canRetry(unit) && (place.blocked || live.state !== 'Present')) return steps;
  const lifts = canRetry(unit) || (live.state === 'Present' && live.halted === undefined);
  const over = world.clusters.get(cluster)?.units.get(unit)?.retried;
  if (!under || observedRetry(place) !== undefined)
    steps.push({ do: 'RecordRetry', unit, cluster, retry: place.retry, over, lifts, because });
  else if (!place.blocked && live.state === 'Present') {
    const seen = { over: place.over, resourceVersion: live.resourceVersion };
    steps.push({ do: 'TryAgain', unit, cluster, rolloutID: place.retry, seen, because });
  }
  return steps;
}

/** What is done wherever a place stands: evidence, drift, ceilings, revocation of what halted. */
function upkeep(world: World, rollout: Rollout, place: Place): Step[] {
  const { unit, cluster, target, live } = place;
  const steps: Step[] = [];
  if (place.soaksAgain)
    steps.push({ do: 'SoakAgain', unit, cluster, digest: target ?? REMOVAL, because: 'the times of its record contradict each other' });
  if (place.newHalt !== undefined && target !== undefined)
    steps.push({ do: 'RecordHalt', unit, cluster, digest: target, halt: place.newHalt, because: place.newHalt.message });
  if (place.phase === 'Halted' && place.lane === 'Forward' && place.retry === undefined)
    steps.push(...revoke(world, rollout, unit, target, place.message ?? 'halted'));
  if (place.blocked || live.state === 'Unknown') return steps;
  if (place.newEvidence && target !== undefined) {
    steps.push({
      do: 'RecordEvidence',
      unit,
      cluster,
      digest: target,
      commit: place.commit,
      appliedAt: place.appliedAt,
      carrier: live.state === 'Present' ? live.carrier : undefined,
      because: 'the cell has evidence for it',
    });
  }
  if (place.drifted && target !== undefined) {
    steps.push({
      do: 'Apply',
      unit,
      cluster,
      digest: target,
      commit: place.commit,
      lane: place.lane,
      proven: isProven(place),
      over: place.over,
      asked: place.asked,
      revoked: place.revoked,
      because:
        place.live.state === 'Present' && place.live.rehearsed === true
          ? 'its rehearsal is over'
          : 'it was changed in the cluster by someone else',
    });
  }
  // Whose ceiling that is, nobody here knows.
  if (live.state === 'Present' && (live.unknown !== true || place.retry !== undefined)) {
    const held =
      place.pausedBy !== undefined && place.lane === 'Forward' && place.begun && place.phase !== 'Verified' && target !== undefined;
    const wanted = held && canRetry(unit) ? { unitDigest: target, nodes: 0 } : undefined;
    if (wanted?.unitDigest !== live.ceiling?.unitDigest || wanted?.nodes !== live.ceiling?.nodes) {
      steps.push({
        do: 'Ceiling',
        unit,
        cluster,
        ceiling: wanted,
        seen: { over: place.over, resourceVersion: live.resourceVersion },
        because: wanted === undefined ? 'nothing holds it back' : 'the rollout is paused',
      });
    }
  }
  return steps;
}

function isProven({ lane, phase }: Place): boolean {
  return lane === 'Restore' || phase === 'Verified';
}

/** Revokes what is left, and upholds it where it is wanted, has evidence, and is not taken back. */
function takeBack(world: World, rollout: Rollout, places: readonly Place[], { unit, holds, target }: Place): Step[] {
  if (holds === undefined || holds === target) return [];
  const keeping = new Set(places.filter((place) => place.target === holds && place.phase === 'Verified').map(({ cluster }) => cluster));
  const steps: Step[] = [];
  for (const cluster of keeping) {
    const { verified, revoked = [] } = world.clusters.get(cluster)?.units.get(unit) ?? {};
    const open = verified?.some((entry) => entry.digest === holds && entry.upheld !== true) === true && !revoked.includes(holds);
    if (open) steps.push({ do: 'Uphold', unit, cluster, digest: holds, because: 'other clusters go back from it, this one does not' });
  }
  return [...steps, ...revoke(world, rollout, unit, holds, `taken back for ${target ?? 'nothing'}`, keeping)];
}

/** A retry of the digest that is not carried out yet anywhere ends with it: a human has to ask again. */
function revoke(
  world: World,
  rollout: Rollout,
  unit: string,
  digest: string | undefined,
  because: string,
  except: ReadonlySet<string> = new Set(),
): Step[] {
  if (digest === undefined) return [];
  const steps: Step[] = [];
  for (const view of world.clusters.values()) {
    if (except.has(view.name)) continue;
    const record = view.units.get(unit);
    if (record?.fleet === world.fleet && !isGone(record) && !(record.revoked ?? []).includes(digest))
      steps.push({ do: 'Revoke', unit, cluster: view.name, digest, retry: retryOf(world, rollout, unit, view.name, digest), because });
  }
  return steps;
}

function begin(place: Place, because: string): Step[] {
  const { unit, cluster, target, commit, lane, over, asked, revoked } = place;
  if (target === undefined) return [{ do: 'Remove', unit, cluster, commit, lane, over, because }];
  return [{ do: 'Apply', unit, cluster, digest: target, commit, lane, proven: isProven(place), over, asked, revoked, because }];
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
    const soakedAt = (from ?? world.now) + longestSoakMs(rollout);
    if (isGone(record) ? soakedAt <= world.now : !isNew(record, world.now, longestSoakMs(rollout)))
      steps.push({ do: 'Settle', unit, cluster, since, because: 'it is proven on this cluster, and has soaked' });
    else if (soakedAt > world.now) waits.push(soakedAt);
  }
  return { steps, again: earliest(waits) };
}

interface Advance {
  steps: Step[];
  phase: UnitPhase;
  stage?: string | undefined;
  soakUntil?: number | undefined;
  pausedBy?: string | undefined;
  reason?: string;
  message?: string | undefined;
  /** Whose message it is. */
  cluster?: string;
}

/** The forward lane: stages in order, inside a stage `maxClusters` at once. Nothing begins while the unit is halted anywhere, also while that is tried again. */
function advance(world: World, rollout: Rollout, places: Place[], ofLeft: readonly Stop[]): Advance {
  const halted =
    places.find((place) => place.phase === 'Halted' && place.retry === undefined) ?? places.find((place) => place.phase === 'Halted');
  if (halted !== undefined) {
    const retrying = halted.retry !== undefined;
    return {
      steps: [],
      phase: retrying ? 'Progressing' : 'Halted',
      stage: stageOf(rollout, halted.cluster)?.name,
      reason: retrying ? 'Retrying' : 'Halted',
      message: `${halted.cluster}: ${halted.message ?? 'halted'}`,
      ...(halted.message === undefined ? {} : { cluster: halted.cluster }),
    };
  }
  const stops = [...ofLeft, ...places.flatMap(lateHalt)];
  const due = places.filter(({ lane, phase, begun }) => lane === 'Forward' && (phase === 'Pending' || (phase === 'Blocked' && !begun)));
  const held = new Map<Place, Stop>();
  for (const place of due) {
    const stop = stops.find((each) => isHeldBy(world, each, place));
    if (stop !== undefined) held.set(place, stop);
  }
  const found = throughStages(world, rollout, places, held);
  const [stop] = held.values();
  if (stop === undefined) return found;
  const { soakUntil: _soakUntil, cluster: _cluster, ...rest } = found;
  const stage = stageOf(rollout, stop.cluster)?.name ?? found.stage;
  const status = stop.retrying ? { phase: 'Progressing' as const, reason: 'Retrying' } : { phase: 'Halted' as const, reason: 'Halted' };
  return { ...rest, ...status, stage, message: `${stop.cluster}: ${stop.message}` };
}

/** What halted after there was evidence. */
function lateHalt({ cluster, target, haltedAfter, retry }: Place): Stop[] {
  if (haltedAfter === undefined || target === undefined) return [];
  return [{ cluster, digest: target, message: `halted after there was evidence: ${haltedAfter}`, retrying: retry !== undefined }];
}

/** `held`: where nothing may begin. */
function throughStages(world: World, rollout: Rollout, places: Place[], held: ReadonlyMap<Place, Stop>): Advance {
  for (const stage of rollout.spec.stages) {
    const members = stage.clusters.flatMap((name) => places.filter((place) => place.cluster === name));
    const open = members.filter((place) => place.phase !== 'Verified');
    if (open.length > 0) return fill(rollout, stage, open, held);
    const soakUntil = soakOf(members, stage);
    const later = places.some((place) => place.phase !== 'Verified' && !members.includes(place));
    if (soakUntil > world.now && later) return { steps: [], phase: 'Soaking', stage: stage.name, soakUntil, reason: 'Soaking' };
  }
  const stray = places.find((place) => place.phase !== 'Verified');
  if (stray !== undefined) return { steps: [], phase: 'Progressing', reason: 'Blocked', message: `${stray.cluster} is in no stage` };
  return { steps: [], phase: 'Done' };
}

/** Soak counts from the evidence of the last cluster, whichever rollout brought the digest there. */
function soakOf(members: Place[], stage: Stage): number {
  return Math.max(0, ...members.map(({ soaksFrom }) => (soaksFrom === undefined ? 0 : soaksFrom + stage.soakSeconds * 1000)));
}

/** A cluster where nothing has begun takes none of the places of `maxClusters`, also when it cannot be reached; what has begun goes on first. */
function fill(rollout: Rollout, stage: Stage, open: Place[], held: ReadonlyMap<Place, Stop>): Advance {
  const forward = open.filter((place) => place.lane === 'Forward');
  const blocked = open.find((place) => place.phase === 'Blocked');
  const waiting = open.find((place) => place.phase === 'Waiting');
  const said = blocked ?? waiting;
  const repeated = said?.message === undefined ? {} : { message: `${said.cluster}: ${said.message}`, cluster: said.cluster };
  const paused = forward.find((place) => place.pausedBy !== undefined);
  const pending = forward.filter((place) => place.phase === 'Pending' && place.pausedBy === undefined && !held.has(place));
  const room = Math.max(0, stage.maxClusters - forward.filter((place) => place.begun).length);
  const next = [...pending.filter((place) => place.begun), ...pending.filter((place) => !place.begun).slice(0, room)];
  const steps = next.flatMap((place) => begin(place, `stage ${stage.name} is open`));
  if (paused?.pausedBy !== undefined) {
    const message =
      paused.pausedBy === rollout.metadata.name ? 'the rollout is paused' : `rollout ${paused.pausedBy} is paused, of the same content`;
    return { steps, phase: 'Progressing', stage: stage.name, reason: 'Paused', pausedBy: paused.pausedBy, message };
  }
  return { steps, phase: 'Progressing', stage: stage.name, ...repeated, reason: blocked === undefined ? 'Progressing' : 'Blocked' };
}

function stageOf(rollout: Rollout, cluster: string): Stage | undefined {
  return rollout.spec.stages.find((stage) => stage.clusters.includes(cluster));
}

function summary(phases: UnitPhase[]): UnitPhase {
  for (const phase of ['Halted', 'Progressing', 'Soaking', 'Pending', 'Done'] as const) if (phases.includes(phase)) return phase;
  return 'Superseded';
}

export type { ClusterView };
