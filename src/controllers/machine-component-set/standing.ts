import { resolveCount } from '../../api/batches.ts';
import type { ComponentEntry, Machine } from '../../api/machine.ts';
import { SHORTEST_OFFLINE_SECONDS, type MachineComponentSet } from '../../api/machine-component-set.ts';
import { idOf, targetsOf, type Content, type CountedContent, type Targets } from './content.ts';
import { isNew, isUnreported } from './new-machine.ts';
import { isVerified, missingEvidence } from './evidence.ts';
import type { MemberView, SetView } from './observe.ts';
import { inOrder } from './order.ts';
import { exhausted, isInEffect, unrecordedFailure, type Failure } from '../shared/failure.ts';
import { isDeleting } from '../shared/selection.ts';

const DEFAULT_OFFLINE_AFTER_SECONDS = 600;
const DEFAULT_OFFLINE_FRACTION = '20%';

/** Reason of a failure that the machine may still disprove by coming back (docs/protocols.md#b6). */
export const AGENT_STALE = 'AgentStale';

/** How one machine stands to the set's present revision. */
export interface Standing extends MemberView {
  /** The entry is this set's own. */
  isOwn: boolean;
  /** It is, and the set has selected the machine ever since. */
  hasStayed: boolean;
  /** What it should have once its batch has come. */
  target: Content;
  /** It is new, and something verified waits for it (docs/protocols.md#b5). */
  isJoiner: boolean;
  /** 0 for those that were given something before this content came, else the setRevision with which they came. Each goes in its own batches. */
  cohort: number;
  /** Its entry asks for the target, and nothing shows that this failed. */
  isGiven: boolean;
  /** It failed in this revision and is not tried again (docs/protocols.md#a5). */
  hasFailed: boolean;
  /** How, as long as the entry does not record it itself. */
  failure: Failure | undefined;
  /** Stale beyond the policy, or held or paused, so not waited for (docs/protocols.md#b6). */
  isAside: boolean;
  /** It is aside because a human puts the Machine on hold or pauses it. */
  isHeld: boolean;
  /** Has the target and proves it now. */
  proves: boolean;
  /** Proves the target and went through its soak. */
  passes: boolean;
}

/** Members and joiners in the order in which they go. */
export interface Standings {
  members: Standing[];
  joiners: Standing[];
  /** Not given anything any more; what failed there counts, and what is in flight there keeps its slot (docs/protocols.md#b3). */
  former: Standing[];
}

/**
 * Whether a machine may still fail at content that it was given while in use, though the set does not select it any more or wants other content there. No other
 * machine must be tried instead: a change of labels would try them all. Like a member, it is not waited for once it is set aside or deleted.
 */
export function isInFlight(standing: Standing): standing is Standing & { entry: ComponentEntry } {
  const { isOwn, entry, hasFailed, failure, isAside, machine } = standing;
  if (!isOwn || entry === undefined || isAside || isDeleting(machine) || isNew(machine)) return false;
  return !hasFailed && failure === undefined && entry.failed === undefined && !isVerified(machine, entry);
}

/**
 * Machines in use that the set selects and has given nothing, or that were away and lack what it gives. The run that takes them up must know of them
 * before.
 */
export function hasAdded({ set, machines }: SetView): boolean {
  const targets = targetsOf(set);
  const hasReturned = ({ entry, machine }: MemberView): boolean => entry?.left === true && idOf(entry) !== idOf(targets.of(machine));
  const isAdded = (view: MemberView): boolean =>
    (view.entry?.setUID !== set.metadata.uid || hasReturned(view)) &&
    !isNew(view.machine) &&
    !isUnreported(view.machine) &&
    !isSetAside(view, afterMs(set)) &&
    !isStopped(view.machine);
  return machines.some(isAdded);
}

/** `revision`: the set's present one. */
export function standingsOf(view: SetView, revision: CountedContent, targets: Targets): Standings {
  const { set } = view;
  const verified = set.status?.verified !== undefined && targets.main.action === 'Install';
  const all = view.machines.map((machine) => standingOf(machine, set, revision, targets, verified));
  const former = view.former.map((machine) => standingOf(machine, set, revision, targets, verified));
  // With no machine left that was there before, the joiners are all that the revision can be tried on.
  const onlyJoiners = all.every((each) => each.isJoiner);
  const members = onlyJoiners ? all.map((each) => ({ ...each, isJoiner: false })) : all.filter((each) => !each.isJoiner);
  const joiners = onlyJoiners ? [] : all.filter((each) => each.isJoiner);
  return { members: inOrder(set.metadata.uid, members), joiners: inOrder(set.metadata.uid, joiners), former };
}

function afterMs(set: MachineComponentSet): number {
  return Math.max(set.spec.offlinePolicy?.afterSeconds ?? DEFAULT_OFFLINE_AFTER_SECONDS, SHORTEST_OFFLINE_SECONDS) * 1000;
}

/** Nothing new begins there because a human puts it on hold or pauses it: it is not waited for, and no sign of trouble either. */
function isStopped({ spec }: Machine): boolean {
  return spec.hold === true || spec.paused === true;
}

/** docs/protocols.md#b6. Without its agent nothing can be given or proved, also while the kubelet is alive; the node itself reports a hold on it. */
function isSetAside({ machine, agentUnseenMs }: MemberView, limitMs: number): boolean {
  return agentUnseenMs > limitMs || machine.status?.agent?.hold === true;
}

function standingOf(
  view: MemberView,
  set: MachineComponentSet,
  revision: CountedContent,
  targets: Targets,
  anythingVerified: boolean,
): Standing {
  const { machine, entry, reported } = view;
  const isOwn = entry !== undefined && entry.setUID === set.metadata.uid;
  const hasStayed = isOwn && entry.left !== true;
  const target = targets.of(machine);
  const asksTarget = isOwn && idOf(entry) === idOf(target);
  const limitMs = afterMs(set);
  // Also for another content, and without an entry: none can be written.
  const spent = exhausted(entry, reported);
  const failure = spent ?? (isOwn ? (unrecordedFailure(machine, entry, reported) ?? lostBy(view, entry, asksTarget, limitMs)) : undefined);
  const failsNow = failure !== undefined && (spent !== undefined || asksTarget || (entry?.setRevision ?? 0) >= revision.since);
  const hasFailed = failsNow || (isOwn && isInEffect(entry.failed, revision, set.spec.rolloutID));
  const isGiven = asksTarget && !hasFailed && entry.failed === undefined;
  const bootID = machine.status?.agent?.bootID;
  const proves = isGiven && missingEvidence({ entry, reported, bootID, agentFresh: view.agentFresh }) === undefined;
  return {
    ...view,
    isOwn,
    hasStayed,
    target,
    isJoiner: anythingVerified && isNew(machine),
    cohort: hasStayed ? (entry.joinedRevision < revision.since ? 0 : entry.joinedRevision) : revision.number,
    isGiven: isGiven,
    hasFailed,
    failure,
    isAside: !hasFailed && (isSetAside(view, limitMs) || isStopped(machine)),
    isHeld: !hasFailed && isStopped(machine),
    proves,
    passes: proves && isVerified(machine, entry),
  };
}

/**
 * An agent that stopped renewing its Lease under new content, on a node whose kubelet is alive, may have failed by it: that is a failure until it proves
 * otherwise. A node whose kubelet has stopped too is one that died.
 */
function lostBy(view: MemberView, entry: ComponentEntry, asksTarget: boolean, limitMs: number): Failure | undefined {
  const isStaleAlone = view.agentUnseenMs > limitMs && view.unseenMs <= limitMs;
  if (!isStaleAlone || !asksTarget || entry.failed !== undefined || entry.lane === 'Restore' || isVerified(view.machine, entry))
    return undefined;
  return { reason: AGENT_STALE, message: `the agent has not renewed its Lease since it was given ${entry.version}, and the kubelet has` };
}

/** How many machines may be set aside before the set halts. */
export function offlineCap(set: MachineComponentSet, members: number): number {
  return resolveCount(
    set.spec.offlinePolicy?.maxOfflineFraction ?? DEFAULT_OFFLINE_FRACTION,
    members,
    'spec.offlinePolicy.maxOfflineFraction',
  );
}
