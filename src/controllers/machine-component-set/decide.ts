import { DEFAULT_BATCHES, laneOf, type MachineComponentSet } from '../../api/machine-component-set.ts';
import type { ComponentEntry, Machine } from '../../api/machine.ts';
import type { Stored } from '../../api/wire.ts';
import { rfc3339 } from '../../kube/clock.ts';
import { roomFor, setBatches, type SetBatches } from './batches.ts';
import { contentFrom, idOf, revisionOf, targetsOf, type Content, type CountedContent, type Targets } from './content.ts';
import { entryOf } from './entries.ts';
import { idOfVerified, isVerified, missingEvidence } from './evidence.ts';
import { failuresOf, type FailureRecord } from './failures.ts';
import type { Lane } from './lane.ts';
import { isNew } from './new-machine.ts';
import type { SetView } from './observe.ts';
import { findRequirements, obstacleOf, type MemberObstacle } from './obstacles.ts';
import { MAX_FAILURES, nextRevision } from '../shared/failure.ts';
import { isDeleting } from '../shared/selection.ts';
import { hasAdded, isInFlight, offlineCap, standingsOf, type Standing, type Standings } from './standing.ts';

export interface EntryWrite {
  machine: Stored<Machine>;
  entry: ComponentEntry;
  lane: Lane;
}

/** Why nothing goes forward. */
export interface SetStop {
  reason: 'MaxFailed' | 'FailuresFull' | 'TooManyOffline';
  message: string;
}

/** What the status reports; all of it follows from the view. */
export interface ComponentSetFacts {
  revision: CountedContent;
  standings: Standings;
  batches: SetBatches;
  /** Of this content, also where the Machine is gone. */
  failures: FailureRecord[];
  halted: SetStop | undefined;
  /** Machines that are given something in this pass. */
  writes: number;
  /** Machines that would be written now, were it not for this. */
  obstacles: MemberObstacle[];
  /** Forward writes that only the ceiling delays. */
  overCeiling: number;
  /** Machines whose set of wanted components lacks one that this one requires. */
  requirements: string[];
  /** Whether any component that is asked for requires others. */
  hasRequirements: boolean;
  /** Every batch has passed: the content is verified. */
  isComplete: boolean;
}

export type Decision =
  /** The content of spec is not counted yet: nothing else happens before it is (docs/protocols.md#a1). */
  { step: 'Count'; revision: CountedContent } | { step: 'Write'; writes: EntryWrite[]; facts: ComponentSetFacts };

export function decideSet(view: SetView): Decision {
  const { set, now } = view;
  const { revision, isNew } = revisionOf(set, { floor: view.highestRevision, hasAdded: hasAdded(view), at: rfc3339(now) });
  if (isNew) return { step: 'Count', revision };

  const targets = targetsOf(set);
  const standings = standingsOf(view, revision, targets);
  const all = [...standings.members, ...standings.joiners];
  const batches = setBatches(set.spec.batches ?? DEFAULT_BATCHES, standings, targets.main);
  const failures = failuresOf(set, revision, [...all, ...standings.former], now);
  const halted = stopOf(set, standings, failures);
  // The content of a Machine to which an entry may still be written is unknown.
  const isKnown = view.conflicts.length === 0 && view.open.length === 0;
  const isComplete = halted === undefined && isKnown && hasPassed(view, revision, batches, all);
  const requirements = findRequirements(view, all);
  const facts = {
    revision,
    standings,
    batches,
    failures,
    halted,
    isComplete,
    requirements: requirements.missing,
    hasRequirements: requirements.any,
  };

  if (set.spec.paused === true || view.conflicts.length > 0) {
    return { step: 'Write', writes: [], facts: { ...facts, writes: 0, obstacles: [], overCeiling: 0 } };
  }
  const { writes, obstacles, overCeiling } = planWrites(view, revision, targets, standings, batches, halted !== undefined);
  return { step: 'Write', writes, facts: { ...facts, writes: writes.length, obstacles, overCeiling } };
}

/** docs/protocols.md#b4, #b6. Failures that are reported and not recorded yet count, too: they must stop this very pass. */
function stopOf(set: MachineComponentSet, { members }: Standings, failures: readonly FailureRecord[]): SetStop | undefined {
  const maxFailed = set.spec.maxFailed ?? 1;
  const names = failures.slice(0, 3).map((each) => each.machine);
  if (failures.length >= maxFailed) {
    return { reason: 'MaxFailed', message: `${failures.length} failed, maxFailed is ${maxFailed}: ${names.join(', ')}` };
  }
  if (failures.length >= MAX_FAILURES) {
    return { reason: 'FailuresFull', message: `${failures.length} failed, more cannot be counted: ${names.join(', ')}` };
  }
  const aside = members.filter((each) => each.isAside && !each.isHeld).length;
  const cap = offlineCap(set, members.length);
  if (aside > cap) {
    const message = `${aside} of ${members.length} machines are offline, at most ${cap} may be set aside`;
    return { reason: 'TooManyOffline', message };
  }
  return undefined;
}

/** A set without machines proves nothing, but must not stop a fleet for ever: it has passed after the soak. */
function hasPassed(view: SetView, revision: CountedContent, batches: SetBatches, all: Standing[]): boolean {
  if (all.length > 0) return batches.havePassed;
  return view.now >= Date.parse(revision.startedAt) + soakMs(view.set);
}

export function soakMs(set: MachineComponentSet): number {
  return (set.spec.soakSeconds ?? 60) * 1000;
}

interface Plan {
  writes: EntryWrite[];
  obstacles: MemberObstacle[];
  overCeiling: number;
}

function planWrites(
  view: SetView,
  revision: CountedContent,
  targets: Targets,
  standings: Standings,
  batches: SetBatches,
  isHalted: boolean,
): Plan {
  const plan: Plan = { writes: leaving(standings), obstacles: [], overCeiling: 0 };
  const joining = joiningContent(view.set, targets);
  const proposals = [
    ...standings.members.map((standing) => ({ standing, content: standing.target })),
    ...standings.joiners.map((standing) => ({ standing, content: joining(standing) })),
  ].flatMap(({ standing, content }) => propose(view.set, standing, content));

  const isFree = isNoneInUseWaiting(standings);
  const given = new Map<string, number>();
  let belowCeiling = ceilingRoom(view.set, standings);
  for (const { standing, content, lane } of proposals) {
    const obstacle = obstacleOf(view, standing, content, lane);
    if (obstacle !== undefined) {
      plan.obstacles.push(obstacle);
      continue;
    }
    if (lane === 'Join' && isHalted && standing.entry !== undefined) continue;
    if (lane === 'Forward') {
      const id = idOf(content);
      const givenNow = given.get(id) ?? 0;
      if (isHalted || (!isFree && roomFor(batches, content, standing.cohort) <= givenNow)) continue;
      const counts = isUnverified(view.set, content) || !isNew(standing.machine);
      if (counts && belowCeiling <= 0) {
        plan.overCeiling++;
        continue;
      }
      if (counts) belowCeiling--;
      given.set(id, givenNow + 1);
    }
    plan.writes.push({ machine: standing.machine, lane, entry: nextEntry(view.set, revision, standing, content, lane) });
  }
  return plan;
}

/** docs/protocols.md#b3: batches bound how much of what is in use is put at risk. New machines have nothing to lose, and need not wait for one another. */
function isNoneInUseWaiting({ members, joiners }: Standings): boolean {
  return [...members, ...joiners].every((each) => each.isGiven || isNew(each.machine));
}

/** docs/protocols.md#b5: a machine that comes back later counts as added, though it has an entry. The verdict on the machines inside must not apply to it. */
function leaving({ former }: Standings): EntryWrite[] {
  return former.flatMap(({ machine, entry, hasStayed }) =>
    entry === undefined || !hasStayed || isDeleting(machine)
      ? []
      : [{ machine, lane: 'Leave' as const, entry: entryOf(contentFrom(entry.action, entry), { ...entry, left: true }) }],
  );
}

interface Proposal {
  standing: Standing;
  content: Content;
  lane: Lane;
}

/** What would be written to this machine, if its lane is open. */
function propose(set: MachineComponentSet, standing: Standing, content: Content): Proposal[] {
  const { entry } = standing;
  if (standing.hasFailed) return [];
  const isThere = entry !== undefined && idOf(entry) === idOf(content);
  if (isThere && entry.failed === undefined) {
    // Content that has been proved since needs no lane any more, and is left as it is.
    const isCurrent =
      standing.hasStayed && ((entry.lane === 'Restore') === mayRestore(set, standing, content) || isVerified(standing.machine, entry));
    return isCurrent ? [] : [{ standing, content, lane: 'Adopt' }];
  }
  if (isThere && works(standing)) return [{ standing, content, lane: 'Settle' }];
  if (mayRestore(set, standing, content)) return [{ standing, content, lane: 'Restore' }];
  return [{ standing, content, lane: standing.isJoiner && !isUnverified(set, content) ? 'Join' : 'Forward' }];
}

/** docs/protocols.md#b7: the set declares it for this digest, and the cell's own record shows that this content, which no removal is, was verified on this machine. */
function mayRestore(set: MachineComponentSet, { verified }: Standing, content: Content): boolean {
  const isRecorded = verified.slice(0, 2).some((record) => idOfVerified(record) === idOf(content));
  return laneOf(set.spec) === 'Restore' && isRecorded;
}

function works({ entry, reported, machine, agentFresh }: Standing): boolean {
  return entry !== undefined && missingEvidence({ entry, reported, bootID: machine.status?.agent?.bootID, agentFresh }) === undefined;
}

/** docs/protocols.md#b5: what the set has verified. Once the last batch has passed that is the target, and the joiners follow. A machine that has the target keeps it. */
function joiningContent(set: MachineComponentSet, targets: Targets): (joiner: Standing) => Content {
  const verified = set.status?.verified;
  if (verified === undefined) return (joiner) => joiner.target;
  const content = contentFrom('Install', verified);
  const isLatched = idOf(content) === idOf(targets.main);
  const hasTarget = ({ entry, target }: Standing): boolean => entry !== undefined && idOf(entry) === idOf(target);
  return (joiner) => (isLatched || hasTarget(joiner) ? joiner.target : content);
}

function isUnverified(set: MachineComponentSet, content: Content): boolean {
  const verified = set.status?.verified;
  return content.action !== 'Install' || verified === undefined || idOfVerified(verified) !== idOf(content);
}

/**
 * How many more machines may be given content that is not verified here, or is new to a machine in use (docs/protocols.md#e4): the hub's ceiling for this digest less those that
 * were given it, worked or not: also where the set selects one no more, unless it worked there. For another digest the ceiling is 0; without one there is none.
 */
function ceilingRoom(set: MachineComponentSet, { members, joiners, former }: Standings): number {
  const { ceiling, unitDigest } = set.spec;
  if (ceiling === undefined) return Infinity;
  const nodes = ceiling.unitDigest === unitDigest ? ceiling.nodes : 0;
  const counts = (each: Standing): boolean => isUnverified(set, each.target) || !isNew(each.machine);
  const given = [...members, ...joiners].filter((each) => (each.isGiven || each.hasFailed) && counts(each)).length;
  const left = former.filter((each) => !isDeleting(each.machine) && (each.hasFailed || (each.isGiven && isInFlight(each)))).length;
  return nodes - given - left;
}

function nextEntry(
  set: Stored<MachineComponentSet>,
  { number, since }: CountedContent,
  standing: Standing,
  content: Content,
  lane: Lane,
): ComponentEntry {
  const { entry, reported, isOwn, hasStayed } = standing;
  const isRetry = entry?.failed !== undefined && isOwn && entry.failed.setRevision >= since;
  return entryOf(content, {
    name: set.spec.componentName,
    setUID: set.metadata.uid,
    setRevision: number,
    joinedRevision: hasStayed && entry !== undefined ? entry.joinedRevision : number,
    revision: entry !== undefined && (lane === 'Adopt' || lane === 'Settle') ? entry.revision : nextRevision(entry, reported),
    attempt: isRetry ? entry.attempt + 1 : 1,
    ...(mayRestore(set, standing, content) ? { lane: 'Restore' as const } : {}),
  });
}
