import type { MachineComponentSet } from '../../api/machinecomponentset.ts';
import { resolveCount } from '../../api/batches.ts';
import { idOf, type Content, type Targets } from './content.ts';
import { isInEffect, unrecordedFailure, type Failure } from './entries.ts';
import { isVerified, missingEvidence } from './evidence.ts';
import type { MachineView, SetView } from './observe.ts';
import { inOrder } from './order.ts';

const DEFAULT_OFFLINE_AFTER_SECONDS = 600;
const DEFAULT_OFFLINE_FRACTION = '20%';

/** How one machine stands to the set's present revision. */
export interface Standing extends MachineView {
  /** The entry is this set's own. */
  isOwn: boolean;
  /** What it should hold once its batch has come. */
  target: Content;
  /** It came after this revision began, and something verified waits for it (PROTOCOLS B5). */
  isJoiner: boolean;
  /** Its entry asks for the target, and nothing says that this failed. */
  holds: boolean;
  /** It failed in this revision and is not tried again (A5). */
  hasFailed: boolean;
  /** How, as long as the entry does not say so itself. */
  failure: Failure | undefined;
  /** Silent beyond the policy, so not waited for (B6). */
  isAside: boolean;
  /** Holds the target and proves it now. */
  proves: boolean;
  /** Proves the target and went through its soak. */
  passes: boolean;
}

/** Members and joiners in the order in which they go. */
export interface Standings {
  members: Standing[];
  joiners: Standing[];
}

/** `revision`: the set's present one. */
export function standingsOf(view: SetView, revision: number, targets: Targets): Standings {
  const { set } = view;
  const verified = set.status?.verified !== undefined && targets.main.action === 'Install';
  const all = view.machines.map((machine) => standingOf(machine, set, revision, targets, verified));
  // With nobody left who was there before, the joiners are all that the revision can be tried on.
  const onlyJoiners = all.every((each) => each.isJoiner);
  const members = onlyJoiners ? all.map((each) => ({ ...each, isJoiner: false })) : all.filter((each) => !each.isJoiner);
  const joiners = onlyJoiners ? [] : all.filter((each) => each.isJoiner);
  return { members: inOrder(set.metadata.uid, members), joiners: inOrder(set.metadata.uid, joiners) };
}

function standingOf(view: MachineView, set: MachineComponentSet, revision: number, targets: Targets, anythingVerified: boolean): Standing {
  const { machine, entry, reported } = view;
  const isOwn = entry !== undefined && entry.setUID === set.metadata.uid;
  const target = targets.of(machine);
  const asksTarget = isOwn && idOf(entry) === idOf(target);
  const failure = isOwn ? unrecordedFailure(machine, entry, reported) : undefined;
  const failsNow = failure !== undefined && (asksTarget || entry?.setRevision === revision);
  const hasFailed = failsNow || (isOwn && isInEffect(entry.failed, revision, set.spec.rolloutID));
  const holds = asksTarget && !hasFailed && entry.failed === undefined;
  const afterMs = (set.spec.offlinePolicy?.afterSeconds ?? DEFAULT_OFFLINE_AFTER_SECONDS) * 1000;
  const bootID = machine.status?.agent?.bootID;
  const proves = holds && missingEvidence({ entry, reported, bootID, agentFresh: view.agentFresh }) === undefined;
  return {
    ...view,
    isOwn,
    target,
    isJoiner: anythingVerified && (!isOwn || entry.joinedRevision >= revision),
    holds,
    hasFailed,
    failure,
    isAside: !hasFailed && view.silentMs > afterMs,
    proves,
    passes: proves && isVerified(machine, entry),
  };
}

/** How many machines may be set aside before the set halts. */
export function offlineCap(set: MachineComponentSet, members: number): number {
  return resolveCount(
    set.spec.offlinePolicy?.maxOfflineFraction ?? DEFAULT_OFFLINE_FRACTION,
    members,
    'spec.offlinePolicy.maxOfflineFraction',
  );
}
