/** How far one unit is on one cluster, against what a rollout wants there. */
import { isUnitOf } from '../../api/unit.ts';
import { MachineSets } from '../../api/machine-set.ts';
import type { UnitStatus } from '../../api/cluster.ts';
import { plainText } from '../../api/plain-text.ts';
import type { Rollout, RolloutUnit } from '../../api/rollout.ts';
import { MADE_AGAIN } from '../apply-unit.ts';
import { isSoakUnknown, soaksSince } from '../soak.ts';
import { hasTooMany, tooManyText, uncountedMachines } from './machines.ts';
import { canRetry, knownOf, observedRetry, pendingPlacement, type KnownPlacement, type UnitPlacement } from './placement.ts';
import type { LiveUnit, World } from './world.ts';

/** Of an instant of the hub's API server, as the hub estimates it (docs/protocols.md#h5). */
const ERROR_MS = 5000;

export function judge(world: World, rollout: Rollout, unit: string, wanted: RolloutUnit['clusters'][number]): UnitPlacement {
  const known = knownOf(world, unit, wanted.name, wanted.digest);
  const placement = pendingPlacement(world, rollout, unit, wanted, known);
  if (world.members?.has(wanted.name) === false) {
    const left = 'the fleet no longer declares this cluster';
    const message = placement.halt === undefined ? left : `${left}, which halted it: ${placement.halt.message}`;
    return { ...placement, phase: 'Left', blocked: true, message };
  }
  const outdated = isOutdated(world, rollout, placement, known);
  // What is asked for where nothing is recorded is carried out with what begins there.
  const asked = outdated && known.record === undefined ? placement.asked : placement.retry;
  const uncounted =
    known.blocked === undefined ? uncountedMachines(rollout, { ...placement, retry: asked }, known.record, wanted.machines) : undefined;
  const hides = uncounted !== undefined || mayHide(unit, known);
  // What a person asks for in place of content that is not known here has no limits.
  const atMost = asked !== undefined && (hides || outdated) ? undefined : placement.atMost;
  const seen = { ...placement, outdated, retry: asked, atMost };
  const waits = known.blocked === undefined ? waitsFor(rollout, seen, uncounted) : undefined;
  if (wanted.digest === undefined) return judgeRemoval(world, seen, known, waits);
  return judgeTarget(rollout, { ...seen, hides }, known, wanted.digest, waits);
}

/** Whether there may be content there that this hub does not know (docs/protocols.md#e17), and that its placement waits for. */
function mayHide(unit: string, { live, isForeign, blocked, isCurrent }: KnownPlacement): boolean {
  if (isForeign) return false;
  if (blocked !== undefined || live.state === 'Unknown') return isCurrent || isUnitOf(unit, MachineSets);
  return isCurrent && live.state === 'Present' && live.unknown === true;
}

/** Why nothing may begin here yet. */
function waitsFor(rollout: Rollout, placement: UnitPlacement, uncounted: string | undefined): string | undefined {
  const { live, target } = placement;
  if (live.state === 'Unknown' && live.syncs === true) return 'not observed yet';
  if (placement.outdated && placement.retry === undefined && live.state === 'Present')
    return target === undefined ? unknownSince(live.unitDigest) : unknownContent(rollout, live.unitDigest);
  if (uncounted !== undefined && placement.retry === undefined) return uncounted;
  return hasTooMany(placement) ? tooManyText(placement) : undefined;
}

/**
 * Whether its cell was given what it has by a hub that knew more than this one (docs/protocols.md#e17), after this rollout was made: then the rollout was not judged
 * with what the cell has. Both times are of the hub's API server (#h5): it stamps one, and the other was estimated to `ERROR_MS`.
 */
function isOutdated(
  world: World,
  rollout: Rollout,
  { unit, cluster, live, target }: UnitPlacement,
  { stored, knownUntil }: KnownPlacement,
): boolean {
  if (live.state !== 'Present' || (target !== undefined && live.unitDigest === target)) return false;
  const writtenAt = Date.parse(live.writtenAt ?? '');
  // The time of a record is compared with itself; when a Cluster was made, with an estimate.
  const apartMs = stored === undefined ? ERROR_MS : 0;
  if (Number.isNaN(writtenAt) || writtenAt <= Date.parse(knownUntil ?? '') + apartMs) return false;
  // A time to come is of a wrong clock. Without a record nothing takes the restore lane, so a stage at a time gets new content.
  if (stored === undefined && writtenAt > world.now + ERROR_MS) return false;
  const { metadata } = firstOfCommit(world, rollout, { unit, cluster, target });
  return !(Date.parse(metadata.creationTimestamp ?? '') >= writtenAt + ERROR_MS);
}

/** The Rollout by which the commit wanted this here first: one that judges the commit again, by other numbers or limits, is no new commit. */
function firstOfCommit(
  { rollouts }: World,
  rollout: Rollout,
  { unit, cluster, target }: Pick<UnitPlacement, 'unit' | 'cluster' | 'target'>,
): Rollout {
  const { commit, sequence } = rollout.spec;
  let first = rollout;
  for (const each of rollouts.filter(({ spec }) => spec.sequence < sequence).toReversed()) {
    if (each.spec.commit !== commit) break;
    const named = each.spec.units.find((other) => other.unit === unit)?.clusters.find(({ name }) => name === cluster);
    if (named !== undefined && named.digest === target) first = each;
  }
  return first;
}

function judgeRemoval(
  world: World,
  placement: UnitPlacement,
  { isCluster, stored, record, isForeign, blocked, live }: KnownPlacement,
  waits: string | undefined,
): UnitPlacement {
  if (isForeign && record !== undefined && isCluster)
    return { ...placement, moved: false, phase: 'Verified', blocked: false, message: undefined, soaksFrom: takenOverAt(record, world.now) };
  // Of a Cluster that is not there nothing is known; its records went with it.
  const gone = isCluster && (record === undefined || (record.digest === undefined && (record.inventory ?? []).length === 0));
  const emptying = live.state === 'Present' && placement.begun && blocked === undefined ? live.emptying : undefined;
  if (emptying !== undefined) return { ...placement, phase: 'Waiting', message: emptying };
  if (stored !== undefined && stored !== record && stored.fleet === world.fleet) {
    const [soaksFrom, soaksAgain] = [soaksSince(stored, world.now), isSoakUnknown(stored, world.now)];
    return { ...placement, phase: 'Verified', soaksFrom, soaksAgain };
  }
  if (!gone && waits !== undefined) return { ...placement, phase: 'Waiting', message: waits };
  if (!gone && blocked === undefined && live.state === 'Present' && live.notOurs === true)
    return {
      ...placement,
      phase: 'Waiting',
      message: MADE_AGAIN,
    };
  return { ...placement, moved: !gone, phase: gone ? 'Verified' : blocked === undefined ? 'Pending' : 'Blocked' };
}

/** Since when the unit is another fleet's, ms: by then this fleet's was gone. Where no time is recorded, or one that is not reached yet, it is now. */
function takenOverAt({ appliedAt, writtenAt }: UnitStatus, now: number): number {
  const at = Date.parse(appliedAt ?? writtenAt ?? '');
  return at <= now ? at : now;
}

function judgeTarget(
  rollout: Rollout,
  placement: UnitPlacement,
  known: KnownPlacement,
  target: string,
  waits: string | undefined,
): UnitPlacement {
  const { live, blocked, isCurrent, complete } = known;
  const carries = live.state === 'Present' && live.unitDigest === target;
  const { halt, newHalt, halted, newEvidence } = haltsOf(placement, known, carries);
  const isUnknown = blocked === undefined && live.state === 'Present' && live.unknown === true && placement.retry === undefined;
  const drifted = blocked === undefined && !isUnknown && (live.state === 'Absent' || (live.state === 'Present' && live.drifted));
  if (complete && !isUnknown) {
    const lost = live.state === 'Present' ? live.lost : undefined;
    const uncompared = lost === undefined ? undefined : `not compared with what was applied, which could not be rendered again: ${lost}`;
    const message = halted ?? uncompared ?? leftChanged(known) ?? byHandOf(live);
    return { ...placement, phase: 'Verified', drifted, newHalt, newEvidence, haltedAfter: halted, message };
  }
  // A recorded one lasts, also where it cannot be observed now.
  if (halt !== undefined || newHalt !== undefined) return { ...placement, phase: 'Halted', drifted, newHalt, newEvidence, message: halted };
  if (blocked !== undefined) return { ...placement, phase: 'Blocked' };
  if (!isCurrent) return waits === undefined ? placement : { ...placement, phase: 'Waiting', message: waits };
  if (live.state === 'Present' && isUnknown)
    return {
      ...placement,
      phase: 'Waiting',
      verifiedAt: undefined,
      soaksFrom: undefined,
      message: unknownContent(rollout, live.unitDigest),
    };
  if (drifted) return { ...placement, phase: 'Waiting', drifted, message: leftChanged(known) ?? placement.message };
  if (carries && live.evidence) return { ...placement, phase: 'Waiting', newEvidence: true };
  return { ...placement, phase: 'Waiting', message: live.state === 'Present' ? progressOf(live) : 'not observed yet' };
}

/** Why what a user changed in its cell is not put back there. */
function leftChanged({ live, isForeign, blocked, contested }: KnownPlacement): string | undefined {
  const isChanged = live.state === 'Absent' || (live.state === 'Present' && live.drifted);
  const why = blocked ?? contested;
  return isChanged && !isForeign && why !== undefined ? `not put back as Git has it: ${why}` : undefined;
}

const byHandOf = (live: LiveUnit): string | undefined => (live.state === 'Present' ? live.byHand : undefined);

function progressOf({ progress, byHand }: Extract<LiveUnit, { state: 'Present' }>): string | undefined {
  return progress === undefined || byHand === undefined ? (progress ?? byHand) : `${progress}; ${byHand}`;
}

interface Halts {
  /** That is recorded of the target. */
  halt: UnitPlacement['halt'];
  newHalt: UnitPlacement['newHalt'];
  /** Why the target is halted, by its cell or by the record. */
  halted: string | undefined;
  /** The cell has accepted what it had refused. */
  newEvidence: boolean;
}

function haltsOf(placement: UnitPlacement, { record, live, isForeign, blocked, isCurrent }: KnownPlacement, carries: boolean): Halts {
  const halt = isCurrent && !isForeign ? placement.halt : undefined;
  const carrier = carries && live.state === 'Present' ? live : undefined;
  const shown = carrier?.drifted === false ? carrier.halted : undefined;
  const refused = carrier !== undefined && (carrier.refused === true || !canRetry(placement.unit));
  const isNew = isCurrent && !isForeign && shown !== undefined && (halt === undefined || (halt.refused === true && !refused));
  const retried = observedRetry(placement) ?? record?.retried;
  return {
    halt,
    newHalt: isNew ? { message: shown, refused, appliedAt: record?.appliedAt, retried } : undefined,
    halted: shown ?? (halt === undefined ? undefined : hiddenHalt(halt, blocked, live)),
    newEvidence: carrier?.drifted === false && carrier.evidence && carrier.halted === undefined && halt?.refused === true,
  };
}

function unknownContent({ metadata }: Rollout, digest: string | undefined): string {
  return `${restored(digest)}. It stays until a stage gets new content, or a person asks for this one: kubenode rollout retry ${metadata.name}`;
}

/** Of a removal. */
function unknownSince(digest: string | undefined): string {
  return `${restored(digest)}. It stays until a new commit wants it as it is, or in another way; one after that can remove it`;
}

function restored(digest: string | undefined): string {
  return `its cell has content that this hub has no record of (${plainText(digest ?? 'no digest', 19)}): one of them was put back to a backup`;
}

/** A halt that its cell does not show now, and why not. */
function hiddenHalt({ message, since }: NonNullable<UnitStatus['halt']>, blocked: string | undefined, live: LiveUnit): string {
  return `${message} (since ${since}; now: ${blocked ?? hiddenBy(live)})`;
}

function hiddenBy(live: LiveUnit): string {
  if (live.state === 'Unknown') return 'not observed yet';
  if (live.state === 'Absent') return 'it is not there';
  return live.drifted ? 'it was changed by someone else' : 'its cell does not report so any more';
}
