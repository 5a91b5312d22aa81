import { DEFAULT_BATCHES, type MachineComponentSet } from '../../api/machinecomponentset.ts';
import type { ComponentEntry, Machine } from '../../api/machine.ts';
import { keyOf } from '../../api/resource.ts';
import type { Stored } from '../../api/wire.ts';
import { rfc3339 } from '../../kube/clock.ts';
import { batchState, type BatchState } from './batches.ts';
import { contentFrom, idOf, revisionOf, targetsOf, type Content, type Targets } from './content.ts';
import { entryOf, nextRevision } from './entries.ts';
import { idOfVerified, missingEvidence } from './evidence.ts';
import type { Lane } from './lane.ts';
import { isNew } from './newmachine.ts';
import type { SetView } from './observe.ts';
import { findRequirements, obstacleOf, type Obstacle } from './obstacles.ts';
import { offlineCap, standingsOf, type Standing, type Standings } from './standing.ts';

export type Revision = NonNullable<NonNullable<MachineComponentSet['status']>['revision']>;

export interface EntryWrite {
  machine: Stored<Machine>;
  entry: ComponentEntry;
  lane: Lane;
}

/** Why nothing goes forward. */
export interface Stop {
  reason: 'MaxFailed' | 'TooManyOffline';
  message: string;
}

/** What the status tells; all of it follows from the view. */
export interface Facts {
  revision: Revision;
  standings: Standings;
  batches: BatchState;
  halted: Stop | undefined;
  /** Machines that are given something in this pass. */
  writes: number;
  /** Machines that would be written now, were it not for this. */
  obstacles: Obstacle[];
  /** Forward writes that only the ceiling holds back. */
  overCeiling: number;
  /** Machines whose set of wanted components lacks one that this one requires. */
  requirements: string[];
  /** Whether any component that is asked for requires others. */
  hasRequirements: boolean;
  /** Every batch has passed: the content is verified. */
  isComplete: boolean;
}

export type Decision =
  /** The content of spec is not counted yet: nothing else happens before it is (A1). */
  { step: 'Count'; revision: Revision } | { step: 'Roll'; writes: EntryWrite[]; facts: Facts };

export function decideSet(view: SetView): Decision {
  const { set, now } = view;
  const { revision, isNew } = revisionOf(set, view.highestRevision, rfc3339(now));
  if (isNew) return { step: 'Count', revision };

  const targets = targetsOf(set);
  const standings = standingsOf(view, revision.number, targets);
  const all = [...standings.members, ...standings.joiners];
  const batches = batchState(set.spec.batches ?? DEFAULT_BATCHES, standings.members);
  const halted = stopOf(set, standings);
  const isComplete = halted === undefined && view.conflicts.length === 0 && hasPassed(view, revision, batches, all);
  const requirements = findRequirements(view, all);
  const facts = { revision, standings, batches, halted, isComplete, requirements: requirements.missing, hasRequirements: requirements.any };

  if (set.spec.paused === true || view.conflicts.length > 0) {
    return { step: 'Roll', writes: [], facts: { ...facts, writes: 0, obstacles: [], overCeiling: 0 } };
  }
  const { writes, obstacles, overCeiling } = planWrites(view, revision, targets, standings, batches, halted !== undefined);
  return { step: 'Roll', writes, facts: { ...facts, writes: writes.length, obstacles, overCeiling } };
}

/** B4, B6. Also judged by failures that are reported and not yet written down: they must stop this very pass. */
function stopOf(set: MachineComponentSet, { members, joiners }: Standings): Stop | undefined {
  const failed = [...members, ...joiners].filter((each) => each.hasFailed);
  const maxFailed = set.spec.maxFailed ?? 1;
  if (failed.length >= maxFailed) {
    const names = failed.slice(0, 3).map((each) => keyOf(each.machine.metadata));
    return { reason: 'MaxFailed', message: `${failed.length} failed, maxFailed is ${maxFailed}: ${names.join(', ')}` };
  }
  const aside = members.filter((each) => each.isAside).length;
  const cap = offlineCap(set, members.length);
  if (aside > cap) {
    const message = `${aside} of ${members.length} machines are offline, at most ${cap} may be set aside`;
    return { reason: 'TooManyOffline', message };
  }
  return undefined;
}

/** A set without machines proves nothing, but must not hold up a fleet for ever: it has passed after the soak. */
function hasPassed(view: SetView, revision: Revision, batches: BatchState, all: Standing[]): boolean {
  if (all.length > 0) return batches.current === undefined;
  return view.now >= Date.parse(revision.startedAt) + soakMs(view.set);
}

export function soakMs(set: MachineComponentSet): number {
  return (set.spec.soakSeconds ?? 60) * 1000;
}

interface Plan {
  writes: EntryWrite[];
  obstacles: Obstacle[];
  overCeiling: number;
}

function planWrites(
  view: SetView,
  revision: Revision,
  targets: Targets,
  standings: Standings,
  batches: BatchState,
  isHalted: boolean,
): Plan {
  const plan: Plan = { writes: [], obstacles: [], overCeiling: 0 };
  const joining = joiningContent(view.set, targets);
  const proposals = [
    ...standings.members.map((standing) => ({ standing, content: standing.target })),
    ...standings.joiners.map((standing) => ({ standing, content: joining(standing) })),
  ].flatMap(({ standing, content }) => propose(view.set, standing, content));

  let room = isHalted ? 0 : isNobodyInUseWaiting(standings) ? Infinity : batches.room;
  let belowCeiling = ceilingRoom(view.set, standings);
  for (const { standing, content, lane } of proposals) {
    const obstacle = obstacleOf(view, standing, content, lane);
    if (obstacle !== undefined) {
      plan.obstacles.push(obstacle);
      continue;
    }
    if (lane === 'Join' && isHalted && standing.entry !== undefined) continue;
    if (lane === 'Forward') {
      if (room <= 0) continue;
      const counts = isUnverified(view.set, content);
      if (counts && belowCeiling <= 0) {
        plan.overCeiling++;
        continue;
      }
      room--;
      if (counts) belowCeiling--;
    }
    plan.writes.push({ machine: standing.machine, lane, entry: nextEntry(view.set, revision.number, standing, content, lane) });
  }
  return plan;
}

/** B3: batches bound how much of what is in use is put at risk. New machines have nothing to lose, and need not wait for one another. */
function isNobodyInUseWaiting({ members, joiners }: Standings): boolean {
  return [...members, ...joiners].every((each) => each.holds || isNew(each.machine, each.entry));
}

interface Proposal {
  standing: Standing;
  content: Content;
  lane: Lane;
}

/** What would be written to this machine, if its lane is open. */
function propose(set: MachineComponentSet, standing: Standing, content: Content): Proposal[] {
  const { entry, isOwn, verified } = standing;
  if (standing.hasFailed) return [];
  const isThere = entry !== undefined && idOf(entry) === idOf(content);
  if (isThere && isOwn && entry.failed === undefined) return [];
  if (isThere && !isOwn && entry.failed === undefined) return [{ standing, content, lane: 'Adopt' }];
  if (isThere && works(standing)) return [{ standing, content, lane: 'Settle' }];
  if (content.action === 'Install' && verified.some((record) => idOfVerified(record) === idOf(content)))
    return [{ standing, content, lane: 'Restore' }];
  return [{ standing, content, lane: standing.isJoiner && !isUnverified(set, content) ? 'Join' : 'Forward' }];
}

function works({ entry, reported, machine, agentFresh }: Standing): boolean {
  return entry !== undefined && missingEvidence({ entry, reported, bootID: machine.status?.agent?.bootID, agentFresh }) === undefined;
}

/** B5: what the set has verified. Once the last batch has passed that is the target, and the joiners follow. What has the target keeps it. */
function joiningContent(set: MachineComponentSet, targets: Targets): (joiner: Standing) => Content {
  const { verified } = set.status ?? {};
  if (verified === undefined) return (joiner) => joiner.target;
  const content = contentFrom('Install', verified);
  const isLatched = idOf(content) === idOf(targets.main);
  const hasTarget = ({ entry, target }: Standing): boolean => entry !== undefined && idOf(entry) === idOf(target);
  return (joiner) => (isLatched || hasTarget(joiner) ? joiner.target : content);
}

function isUnverified(set: MachineComponentSet, content: Content): boolean {
  const { verified } = set.status ?? {};
  return content.action !== 'Install' || verified === undefined || idOfVerified(verified) !== idOf(content);
}

/**
 * How many more machines may be given content that is not verified here (E4): the hub's ceiling for this digest less those that
 * were given it, worked or not. For another digest the ceiling is 0; without one there is none.
 */
function ceilingRoom(set: MachineComponentSet, { members, joiners }: Standings): number {
  const { ceiling, unitDigest } = set.spec;
  if (ceiling === undefined) return Infinity;
  const nodes = ceiling.unitDigest === unitDigest ? ceiling.nodes : 0;
  const given = [...members, ...joiners].filter((each) => (each.holds || each.hasFailed) && isUnverified(set, each.target)).length;
  return nodes - given;
}

function nextEntry(set: Stored<MachineComponentSet>, number: number, standing: Standing, content: Content, lane: Lane): ComponentEntry {
  const { entry, reported, isOwn } = standing;
  const isRetry = entry?.failed !== undefined && isOwn && entry.failed.setRevision === number;
  return entryOf(content, {
    name: set.spec.componentName,
    setUID: set.metadata.uid,
    setRevision: number,
    joinedRevision: isOwn && entry !== undefined ? entry.joinedRevision : standing.isJoiner ? number : number - 1,
    revision: entry !== undefined && (lane === 'Adopt' || lane === 'Settle') ? entry.revision : nextRevision(entry, reported),
    attempt: isRetry ? entry.attempt + 1 : 1,
  });
}
