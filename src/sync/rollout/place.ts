import type { Rollout, RolloutUnit, CLUSTER_PHASES } from '../../api/rollout.ts';
import type { UnitStatus } from '../../api/cluster.ts';
import { MachineSets } from '../../api/machine-set.ts';
import { plainText } from '../../api/plain-text.ts';
import { haltOf, laneHeld, REMOVAL, stands, type Over, type SeenHalt } from '../records.ts';
import { isGone, isSoakUnknown, isYoung, soaksSince } from '../soak.ts';
import type { LiveUnit, World } from './world.ts';

/** One unit on one cluster, judged against what a rollout wants there. Soak, pause, retry and evidence are those of this digest here, whichever rollout brought it. */
export interface Place {
  unit: string;
  cluster: string;
  /** Wanted digest; undefined: the unit is to be removed. */
  target: string | undefined;
  /** That renders the target, or removes it. */
  commit: string;
  /** Digest that is there, wholly or in part. */
  holds: string | undefined;
  /** The target is older here than what it holds: what it holds is taken back. */
  goesBack: boolean;
  heldSince: number;
  lane: 'Forward' | 'Restore';
  phase: (typeof CLUSTER_PHASES)[number];
  /** This rollout changed something here, or is about to. */
  moved: boolean;
  /** The target is there, or on its way there: nothing else can be said of a write that has begun. */
  begun: boolean;
  over: Over;
  revoked: boolean;
  blocked: boolean;
  drifted: boolean;
  newEvidence: boolean;
  /** Why its cell halted the target after there was evidence for it. */
  haltedAfter: string | undefined;
  /** A halt that its cell shows, and its record does not. */
  newHalt: SeenHalt | undefined;
  /** A halt is recorded here of what is there. */
  halt: UnitStatus['halt'];
  live: LiveUnit;
  appliedAt: string | undefined;
  verifiedAt: string | undefined;
  /** With evidence since, ms, moved back by what was held with evidence before; undefined without. */
  soaksFrom: number | undefined;
  /** Since when is not known: its times contradict each other. */
  soaksAgain: boolean;
  /** Rollout whose pause holds the target. */
  pausedBy: string | undefined;
  /** A human's retry of the target that was not carried out here yet. */
  retry: string | undefined;
  /** That retry, carried out here or not. */
  asked: string | undefined;
  message: string | undefined;
}

export function judge(
  world: World,
  rollout: Rollout,
  unit: string,
  { name: cluster, digest: target, commit = rollout.spec.commit, machines }: RolloutUnit['clusters'][number],
): Place {
  const view = world.clusters.get(cluster);
  const known = view?.units.get(unit);
  const record = isGone(known) ? undefined : known;
  const live = view?.live(unit) ?? { state: 'Unknown' };
  const verified = target === undefined ? undefined : record?.verified?.find((entry) => entry.digest === target);
  const revoked = target !== undefined && isRevoked(world, unit, record, target);
  const foreign = record !== undefined && record.fleet !== world.fleet ? `belongs to fleet "${record.fleet}"` : undefined;
  const blocked = view === undefined ? 'no such Cluster on the hub' : (foreign ?? view.blocked ?? view.failing(unit));
  const held = record?.begun === undefined && target !== undefined && record?.digest === target;
  const complete = held && record?.evidence === target;
  const asked = retryOf(world, rollout, unit, cluster, target);
  const place: Place = {
    unit,
    cluster,
    target,
    commit,
    holds: heldBy(record),
    goesBack: goesBack(record, target),
    heldSince: Date.parse(record?.appliedAt ?? '') || 0,
    lane: target === undefined ? laneOfRemoval(world, rollout, record) : laneOf(record, target, verified !== undefined && !revoked),
    phase: 'Pending',
    moved: !held || record.commit === rollout.spec.commit,
    begun: stands(record, { to: target ?? REMOVAL, lane: 'Forward' }),
    over: { digest: record?.digest, begun: record?.begun },
    revoked,
    blocked: blocked !== undefined,
    drifted: false,
    newEvidence: false,
    haltedAfter: undefined,
    newHalt: undefined,
    halt: record === undefined || foreign !== undefined ? undefined : haltOf(record),
    live,
    appliedAt: held ? record.appliedAt : undefined,
    verifiedAt: complete ? verified?.at : undefined,
    soaksFrom: complete ? soaksSince(record, world.now) : undefined,
    soaksAgain: complete && foreign === undefined && isSoakUnknown(record, world.now),
    pausedBy: pauseOf(world, rollout, unit, target),
    retry: record === undefined || asked === record.retried ? undefined : asked,
    asked,
    message: blocked,
  };

  if (world.members?.has(cluster) === false) {
    const left = 'the fleet no longer declares this cluster';
    const message = place.halt === undefined ? left : `${left}, which halted it: ${place.halt.message}`;
    return { ...place, phase: 'Left', blocked: true, message };
  }
  const uncounted = blocked === undefined ? uncountedMachines(rollout, place, record, machines) : undefined;
  if (target === undefined) {
    // Of a Cluster that is not there nothing is known; its records went with it.
    const gone = view !== undefined && (record === undefined || (record.digest === undefined && (record.inventory ?? []).length === 0));
    const emptying = live.state === 'Present' && place.begun && blocked === undefined ? live.emptying : undefined;
    if (emptying !== undefined) return { ...place, phase: 'Waiting', message: emptying };
    if (known !== undefined && known !== record && known.fleet === world.fleet) {
      const [soaksFrom, soaksAgain] = [soaksSince(known, world.now), isSoakUnknown(known, world.now)];
      return { ...place, phase: 'Verified', soaksFrom, soaksAgain };
    }
    if (!gone && uncounted !== undefined) return { ...place, phase: 'Waiting', message: uncounted };
    return { ...place, moved: !gone, phase: gone ? 'Verified' : blocked === undefined ? 'Pending' : 'Blocked' };
  }
  const carries = live.state === 'Present' && live.unitDigest === target;
  const shown = carries && !live.drifted ? live.halted : undefined;
  const halt = held && foreign === undefined ? place.halt : undefined;
  const refused = carries && (live.refused === true || !canRetry(unit));
  const isNews = held && foreign === undefined && shown !== undefined && (halt === undefined || (halt.refused === true && !refused));
  const retried = observedRetry(place) ?? record?.retried;
  const newHalt = isNews ? { message: shown, refused, appliedAt: record?.appliedAt, retried } : undefined;
  const isAccepted = carries && !live.drifted && live.evidence && live.halted === undefined && halt?.refused === true;
  const halted = shown ?? (halt === undefined ? undefined : hiddenHalt(halt, blocked, live));
  const isUnknown = blocked === undefined && live.state === 'Present' && live.unknown === true && place.retry === undefined;
  const drifted = blocked === undefined && !isUnknown && (live.state === 'Absent' || (live.state === 'Present' && live.drifted));
  if (complete && !isUnknown) {
    const lost = live.state === 'Present' ? live.lost : undefined;
    const uncompared = lost === undefined ? undefined : `not compared with what was applied, which could not be rendered again: ${lost}`;
    return { ...place, phase: 'Verified', drifted, newHalt, newEvidence: isAccepted, haltedAfter: halted, message: halted ?? uncompared };
  }
  // One that is recorded lasts, whatever hides it now.
  if (halt !== undefined || newHalt !== undefined)
    return { ...place, phase: 'Halted', drifted, newHalt, newEvidence: isAccepted, message: halted };
  if (blocked !== undefined) return { ...place, phase: 'Blocked' };
  if (!held) return uncounted === undefined ? place : { ...place, phase: 'Waiting', message: uncounted };
  if (live.state === 'Present' && isUnknown)
    return { ...place, phase: 'Waiting', verifiedAt: undefined, soaksFrom: undefined, message: unknownContent(rollout, live.unitDigest) };
  if (drifted) return { ...place, phase: 'Waiting', drifted };
  if (carries && live.evidence) return { ...place, phase: 'Waiting', newEvidence: true };
  return { ...place, phase: 'Waiting', message: live.state === 'Present' ? live.progress : 'not observed yet' };
}

function unknownContent({ metadata }: Rollout, digest: string | undefined): string {
  return `its cell has content that this hub has no record of (${plainText(digest ?? '', 19)}): one of them was put back to a backup. It stays until a stage gets new content, or a person asks for this one: kubenode rollout retry ${metadata.name}`;
}

/**
 * Why a set must not be changed yet: its cell is to have more machines than were counted when the commit was judged, by content that the hub did not give it as
 * far as it knows, such as after a restore (docs/protocols.md#e9). A Rollout of an earlier version has counted none.
 */
function uncountedMachines(
  { metadata }: Rollout,
  { unit, target, live, retry }: Place,
  record: UnitStatus | undefined,
  counted = 0,
): string | undefined {
  if (!unit.startsWith(`${MachineSets.kind}/`) || retry !== undefined) return undefined;
  if (live.state === 'Unknown') return 'not observed yet';
  if (live.state === 'Absent' || live.machines === undefined || live.machines <= counted) return undefined;
  const { unitDigest } = live;
  if (unitDigest !== undefined && [record?.digest, record?.begun, target].includes(unitDigest)) return undefined;
  const asked = target === undefined ? '' : `, or a person asks for this one: kubenode rollout retry ${metadata.name}`;
  return `its cell has content that is not on record here, with ${live.machines} machines; ${counted} were counted when the commit was judged. It stays until a commit says other \`replicas\` of it${asked}`;
}

/** Whether cells have a way to try again what they halted of this kind: `spec.rolloutID`. */
export function canRetry(unit: string): boolean {
  return unit.startsWith('MachineComponentSet/');
}

/** The retry that the cell has observed, and that is not recorded yet. */
export function observedRetry({ live, retry }: Place): string | undefined {
  return live.state === 'Present' && live.rolloutID === retry ? retry : undefined;
}

/** A halt that its cell does not show now, and why not. */
function hiddenHalt({ message, since }: NonNullable<UnitStatus['halt']>, blocked: string | undefined, live: LiveUnit): string {
  return `${message} (since ${since}; now: ${blocked ?? hiddenBy(live)})`;
}

function hiddenBy(live: LiveUnit): string {
  if (live.state === 'Unknown') return 'not observed yet';
  if (live.state === 'Absent') return 'it is not there';
  return live.drifted ? 'it was changed by someone else' : 'its cell does not say so any more';
}

/** One record is enough: a hub may have died between two. Unless this cluster had it verified and wanted it as others went back from it. */
function isRevoked(world: World, unit: string, record: UnitStatus | undefined, target: string): boolean {
  if ((record?.revoked ?? []).includes(target)) return true;
  if (record?.verified?.some(({ digest, upheld }) => digest === target && upheld === true) === true) return false;
  return [...world.clusters.values()].some((each) => (each.units.get(unit)?.revoked ?? []).includes(target));
}

/** By which of the two had evidence here first; what never had is newer than all that did. */
function goesBack(record: UnitStatus | undefined, target: string | undefined): boolean {
  const holds = heldBy(record);
  if (holds === undefined || target === undefined || holds === target) return false;
  const orderOf = (digest: string): number | undefined => {
    const found = record?.verified?.find((entry) => entry.digest === digest);
    return found === undefined ? undefined : (found.order ?? 0);
  };
  const to = orderOf(target);
  return to !== undefined && to <= (orderOf(holds) ?? Infinity);
}

/** Digest that is there, wholly or in part. */
function heldBy(record: UnitStatus | undefined): string | undefined {
  return record?.begun === undefined || record.begun === REMOVAL ? record?.digest : record.begun;
}

/** What is there keeps the lane it came by; what is to come takes the restore lane when it was verified here. */
function laneOf(record: UnitStatus | undefined, target: string | undefined, restorable: boolean): Place['lane'] {
  if (record?.digest === undefined) return 'Forward';
  if (record.digest === target && record.begun === undefined) return laneHeld(record);
  return restorable ? 'Restore' : 'Forward';
}

/**
 * A removal goes back where what is there is new to this cluster: then nobody relies on it here yet, and it is the way back from what a commit began. How far
 * that commit came elsewhere says nothing of it. One that has begun keeps its lane. What an earlier version recorded says nothing, so that is a change like any other.
 */
function laneOfRemoval(world: World, rollout: Rollout, record: UnitStatus | undefined): Place['lane'] {
  if (record?.begun === REMOVAL) return record.removal?.lane ?? 'Forward';
  return record !== undefined && isNew(record, world.now, longestSoakMs(rollout)) ? 'Restore' : 'Forward';
}

/** Whether what came to this cluster with some commit was never proven here, or not longer ago than this. */
export function isNew({ added }: UnitStatus, now: number, soakMs: number): boolean {
  return added !== undefined && (added.verifiedAt === undefined || isYoung(added.verifiedAt, now, soakMs));
}

export function longestSoakMs({ spec }: Rollout): number {
  return 1000 * Math.max(0, ...spec.stages.map(({ soakSeconds }) => soakSeconds));
}

/** The rollout whose pause holds a digest of a unit: a pause is of what it paused, whatever commits come after. */
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

export function isProven({ lane, phase }: Place): boolean {
  return lane === 'Restore' || phase === 'Verified';
}
