import { MachineComponentSets } from '../../api/machine-component-set.ts';
import { isUnitOf } from '../../api/unit.ts';
import type { Rollout, RolloutUnit, CLUSTER_PHASES } from '../../api/rollout.ts';
import type { UnitStatus } from '../../api/cluster.ts';
import { haltOf, REMOVAL, stands, type Over, type SeenHalt } from '../records.ts';
import { isGone, isSoakUnknown, soaksSince } from '../soak.ts';
import { goesBack, currentDigest, laneOf, laneOfRemoval } from './lane.ts';
import type { LiveUnit, World } from './world.ts';

/** One unit on one cluster, judged against what a rollout wants there. Soak, pause, retry and evidence are those of this digest here, whichever rollout brought it. */
export interface UnitPlacement {
  unit: string;
  cluster: string;
  /** Wanted digest; undefined: the unit is to be removed. */
  target: string | undefined;
  /** That renders the target, or removes it. */
  commit: string;
  /** Digest that is there, wholly or in part. */
  current: string | undefined;
  /** The target is older here than what is there, which is taken back. */
  goesBack: boolean;
  currentSince: number;
  lane: 'Forward' | 'Restore';
  phase: (typeof CLUSTER_PHASES)[number];
  /** This rollout changed something here, or is about to. */
  moved: boolean;
  /** The target is there, or on its way there: nothing else is known of a write that has begun. */
  begun: boolean;
  over: Over;
  revoked: boolean;
  blocked: boolean;
  drifted: boolean;
  /** Why what drifted is not put back yet: it is changed again each time. */
  contested: string | undefined;
  /** There may be content here that this hub does not know, which only a retry, or another commit, replaces. */
  hides: boolean;
  newEvidence: boolean;
  /** Why its cell halted the target after there was evidence for it. */
  haltedAfter: string | undefined;
  /** A halt that its cell shows, and its record does not. */
  newHalt: SeenHalt | undefined;
  /** A hub that knew more gave its cell what is there, after the rollout was made: nothing of it changes there, save by a human's retry. */
  outdated: boolean;
  /** A halt is recorded here of what is there. */
  halt: UnitStatus['halt'];
  live: LiveUnit;
  /** A MachineSet that has more machines stays as it is, for the limits of deletions; undefined: however many it has. */
  atMost: number | undefined;
  appliedAt: string | undefined;
  verifiedAt: string | undefined;
  /** With evidence since, ms, moved back by the time that it was there with evidence before; undefined without. */
  soaksFrom: number | undefined;
  /** Since when is not known: its times contradict each other. */
  soaksAgain: boolean;
  /** Rollout whose pause is for the target. */
  pausedBy: string | undefined;
  /** A human's retry of the target that was not carried out here yet. */
  retry: string | undefined;
  /** That retry, carried out here or not. */
  asked: string | undefined;
  message: string | undefined;
}

/** What is known of one unit on one cluster, where a rollout wants a digest of it there, or its removal. */
export interface KnownPlacement {
  /** The Cluster is there. */
  isCluster: boolean;
  /** As it is on the hub, also of a unit that is gone. */
  stored: UnitStatus | undefined;
  /** Of what is there, wholly or in part. */
  record: UnitStatus | undefined;
  /** Up to when the hub knows what it gave the cluster: as recorded, or as the Cluster was made where nothing is. */
  knownUntil: string | undefined;
  live: LiveUnit;
  /** The record is another fleet's. */
  isForeign: boolean;
  /** Why nothing can be done there. */
  blocked: string | undefined;
  /** Why what was changed there is not put back yet. */
  contested: string | undefined;
  /** The target is there as a whole. */
  isCurrent: boolean;
  /** And has evidence. */
  complete: boolean;
}

export function knownOf(world: World, unit: string, cluster: string, target: string | undefined): KnownPlacement {
  const view = world.clusters.get(cluster);
  const stored = view?.units.get(unit);
  const record = isGone(stored) ? undefined : stored;
  const foreign = record !== undefined && record.fleet !== world.fleet ? ownerText(world, record.fleet) : undefined;
  const isCurrent = record?.begun === undefined && target !== undefined && record?.digest === target;
  return {
    isCluster: view !== undefined,
    stored,
    record,
    knownUntil: stored === undefined ? view?.createdAt : stored.writtenAt,
    live: view?.live(unit) ?? { state: 'Unknown' },
    isForeign: foreign !== undefined,
    contested: view?.contested?.(unit),
    blocked: view === undefined ? 'no such Cluster on the hub' : (foreign ?? view.blocked ?? view.failing(unit)),
    isCurrent,
    complete: isCurrent && record?.evidence === target,
  };
}

/** Why what another Fleet applied is left alone, and what to do where that Fleet was deleted. */
function ownerText({ fleets }: World, owner: string): string {
  const text = `belongs to fleet "${owner}"`;
  if (fleets?.has(owner) !== false) return text;
  return `${text}, which does not exist: create that Fleet again with its source, and let a commit of it remove the unit; a MachineSet loses its machines by that`;
}

/** Before its phase is judged. */
export function pendingPlacement(
  world: World,
  rollout: Rollout,
  unit: string,
  { name: cluster, digest: target, commit = rollout.spec.commit, atMost }: RolloutUnit['clusters'][number],
  { record, live, isForeign, blocked, contested, isCurrent, complete }: KnownPlacement,
): UnitPlacement {
  const verified = target === undefined ? undefined : record?.verified?.find((entry) => entry.digest === target);
  const revoked = target !== undefined && isRevoked(world, unit, record, target);
  const asked = retryOf(world, rollout, unit, cluster, target);
  return {
    unit,
    cluster,
    target,
    commit,
    current: currentDigest(record),
    goesBack: goesBack(record, target),
    currentSince: Date.parse(record?.appliedAt ?? '') || 0,
    lane: target === undefined ? laneOfRemoval(world, rollout, record) : laneOf(record, target, verified !== undefined && !revoked),
    phase: 'Pending',
    moved: !isCurrent || record?.commit === rollout.spec.commit,
    begun: stands(record, { to: target ?? REMOVAL, lane: 'Forward' }),
    over: { digest: record?.digest, begun: record?.begun },
    revoked,
    blocked: blocked !== undefined,
    drifted: false,
    contested,
    hides: false,
    newEvidence: false,
    haltedAfter: undefined,
    newHalt: undefined,
    outdated: false,
    halt: record === undefined || isForeign ? undefined : haltOf(record),
    live,
    atMost,
    appliedAt: isCurrent ? record?.appliedAt : undefined,
    verifiedAt: complete ? verified?.at : undefined,
    soaksFrom: complete && record !== undefined ? soaksSince(record, world.now) : undefined,
    soaksAgain: complete && !isForeign && record !== undefined && isSoakUnknown(record, world.now),
    pausedBy: pauseOf(world, rollout, unit, target),
    retry: record === undefined || asked === record.retried ? undefined : asked,
    asked,
    message: blocked,
  };
}

/** One record is enough: a hub may have died between two. Unless this cluster had it verified and wanted it as others went back from it. */
function isRevoked(world: World, unit: string, record: UnitStatus | undefined, target: string): boolean {
  if ((record?.revoked ?? []).includes(target)) return true;
  if (record?.verified?.some(({ digest, upheld }) => digest === target && upheld === true) === true) return false;
  return [...world.clusters.values()].some((each) => (each.units.get(unit)?.revoked ?? []).includes(target));
}

/** The rollout whose pause is for a digest of a unit: a pause is of what it paused, also when other commits come after. */
function pauseOf(world: World, owner: Rollout, unit: string, target: string | undefined): string | undefined {
  const pauses = [owner, ...world.rollouts.toReversed()].find(
    ({ spec }) =>
      spec.paused === true && spec.units.some((each) => each.unit === unit && each.clusters.some(({ digest }) => digest === target)),
  );
  return pauses?.metadata.name;
}

/** A retry is of the digest that it was asked for: a newer rollout takes it over with the unchanged digest, and not with another. */
export function retryOf(world: World, owner: Rollout, unit: string, cluster: string, target: string | undefined): string | undefined {
  if (target === undefined) return undefined;
  for (const rollout of world.rollouts.toReversed()) {
    const named = rollout.spec.sequence > owner.spec.sequence ? undefined : rollout.spec.units.find((each) => each.unit === unit);
    if (named === undefined) continue;
    if (named.clusters.find((each) => each.name === cluster)?.digest !== target) return undefined;
    const { retry } = rollout.spec;
    if (retry !== undefined) return retry === rollout.status?.retried ? undefined : retry;
  }
  return undefined;
}

/** Whether cells have a way to try again what they halted of this kind: `spec.rolloutID`. */
export function canRetry(unit: string): boolean {
  return isUnitOf(unit, MachineComponentSets);
}

/** The retry that the cell has observed, and that is not recorded yet. */
export function observedRetry({ live, retry }: UnitPlacement): string | undefined {
  return live.state === 'Present' && live.rolloutID === retry ? retry : undefined;
}

export function isProven({ lane, phase }: UnitPlacement): boolean {
  return lane === 'Restore' || phase === 'Verified';
}
