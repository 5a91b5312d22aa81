import type { MachineComponentSet } from '../../api/machine-component-set.ts';
import { keyOf } from '../../api/resource.ts';
import { rfc3339 } from '../../kube/clock.ts';
import { removeCondition, setConditions, type ConditionInput } from '../../kube/conditions.ts';
import { contentFrom, idOf } from './content.ts';
import { soakMs, type ComponentSetFacts } from './decide.ts';
import { idOfVerified, soakOf } from './evidence.ts';
import type { SetView } from './observe.ts';
import { isInFlight, type Standing } from './standing.ts';

export type SetStatus = NonNullable<MachineComponentSet['status']>;
type Reported = Omit<ConditionInput, 'observedGeneration' | 'type'>;

const CANARIES = 50;
const MESSAGE = 256;

/**
 * The status that the facts make. Everything in it is derived again each time, save `revision` (which counts), and `evidence` and
 * `verified`, which latch: they record what was once proved, and Machines no longer show it. Since when a machine soaks is kept on the
 * Machine itself; `soakUntil` only repeats it.
 */
export function statusOf(view: SetView, facts: ComponentSetFacts): SetStatus {
  const { set, now } = view;
  const { members, joiners } = facts.standings;
  const all = [...members, ...joiners];
  const count = (is: (each: Standing) => boolean): number => all.filter(is).length;
  const updated = count((each) => each.proves);
  const soakUntil = soakEnd(set, members);
  const evidence = evidenceFor(view, facts, all.length);
  const verified = verifiedFor(view, facts, all);
  const { failures } = facts;
  const canary = set.spec.canary === undefined ? [] : canaryOf(all, facts);
  return {
    revision: facts.isComplete ? { ...facts.revision, completedAt: facts.revision.completedAt ?? rfc3339(now) } : facts.revision,
    desired: all.length,
    updated,
    failed: failures.length,
    offline: count((each) => each.isAside),
    waiting: count((each) => each.isOwn && each.reported?.state === 'Waiting' && each.reported.needs !== undefined),
    batch: facts.batches.shown.current === undefined ? 0 : facts.batches.shown.current + 1,
    batches: facts.batches.shown.sizes.length,
    progress: `${updated}/${all.length}`,
    ...(soakUntil === undefined ? {} : { soakUntil: rfc3339(soakUntil) }),
    ...(evidence === undefined ? {} : { evidence }),
    ...(verified === undefined ? {} : { verified }),
    ...(failures.length === 0 ? {} : { failures }),
    ...(canary.length === 0 ? {} : { canary }),
    ...(set.metadata.generation === undefined ? {} : { observedGeneration: set.metadata.generation }),
    conditions: conditionsOf(view, facts, all, now),
  };
}

/** When the last soak that is under way ends, if nothing breaks it. */
function soakEnd(set: MachineComponentSet, members: readonly Standing[]): number | undefined {
  const starts = members.flatMap((each) =>
    each.proves && !each.passes && each.entry !== undefined ? (soakOf(each.machine, each.entry)?.since ?? []) : [],
  );
  return starts.length === 0 ? undefined : starts.reduce((a, b) => Math.max(a, b)) + soakMs(set);
}

/**
 * docs/protocols.md#e2. Latches for its digest; a change to another digest and back has to be proved again. The evidence of a set without machines counts only as
 * long as there are none: the first machine that comes must prove it.
 */
function evidenceFor({ set, now }: SetView, facts: ComponentSetFacts, machines: number): SetStatus['evidence'] {
  const { unitDigest } = set.spec;
  const old = set.status?.evidence;
  if (unitDigest === undefined) return undefined;
  const isProved = machines === 0 || facts.revision.action === 'Remove' || set.status?.verified?.unitDigest === unitDigest;
  if (old?.unitDigest === unitDigest && (isProved || facts.isComplete)) return old;
  return facts.isComplete ? { unitDigest, at: rfc3339(now) } : undefined;
}

/** docs/protocols.md#e3. What was verified stays until something else is; after a removal nothing is. */
function verifiedFor({ set, now }: SetView, facts: ComponentSetFacts, all: readonly Standing[]): SetStatus['verified'] {
  const old = set.status?.verified;
  if (!facts.isComplete || all.length === 0) return old;
  if (facts.revision.action === 'Remove') return undefined;
  const { unitDigest } = set.spec;
  const content = contentFrom('Install', facts.revision);
  if (old !== undefined && old.unitDigest === unitDigest && idOfVerified(old) === idOf(content)) return old;
  // A canary proves nothing about the content that all others get.
  if (!all.some((each) => each.passes && idOf(each.target) === idOf(content))) return old;
  const { version, values } = content;
  return { ...(unitDigest === undefined ? {} : { unitDigest }), version, ...(values === undefined ? {} : { values }), at: rfc3339(now) };
}

function canaryOf(all: readonly Standing[], facts: ComponentSetFacts): NonNullable<SetStatus['canary']> {
  const main = idOf(contentFrom(facts.revision.action, facts.revision));
  return all
    .filter((each) => idOf(each.target) !== main)
    .map((each) => {
      const state = each.hasFailed ? 'Failed' : each.passes ? 'Verified' : each.proves ? 'Soaking' : each.isGiven ? 'Updating' : 'Pending';
      const message = each.hasFailed ? (each.entry?.failed?.message ?? each.failure?.message) : undefined;
      return { machine: keyOf(each.machine.metadata), state, ...(message === undefined ? {} : { message: message.slice(0, MESSAGE) }) };
    })
    .toSorted(byMachine)
    .slice(0, CANARIES);
}

function byMachine(a: { machine: string }, b: { machine: string }): number {
  return a.machine < b.machine ? -1 : 1;
}

function conditionsOf(
  view: SetView,
  facts: ComponentSetFacts,
  all: readonly Standing[],
  now: number,
): NonNullable<SetStatus['conditions']> {
  const { set } = view;
  const reported: Record<string, Reported> = {
    Progressing: progressing(view, facts, all),
    Available: available(all),
    Halted:
      facts.halted === undefined
        ? { status: 'False', reason: 'WithinLimits', message: '' }
        : { status: 'True', reason: facts.halted.reason, message: facts.halted.message },
    Paused:
      set.spec.paused === true
        ? { status: 'True', reason: 'Paused', message: 'spec.paused: no machine is given new content' }
        : { status: 'False', reason: 'NotPaused', message: '' },
    Conflict: conflict(view),
  };
  if (facts.hasRequirements) reported['RequirementsMet'] = requirements(facts.requirements);
  const inputs = Object.entries(reported).map(([type, each]) => ({
    type,
    ...each,
    ...(set.metadata.generation === undefined ? {} : { observedGeneration: set.metadata.generation }),
  }));
  const conditions = setConditions(set.status?.conditions, inputs, now);
  return facts.hasRequirements ? conditions : removeCondition(conditions, 'RequirementsMet');
}

function conflict({ conflicts, set }: SetView): Reported {
  const [first] = conflicts;
  if (first === undefined) return { status: 'False', reason: 'NoConflict', message: '' };
  const others = conflicts.length === 1 ? '' : ` and ${conflicts.length - 1} more`;
  const message = `set ${first.set}${others} also selects ${first.machine} for ${set.spec.componentName}: neither writes`;
  return { status: 'True', reason: 'SameMachines', message };
}

function requirements(missing: readonly string[]): Reported {
  if (missing.length === 0) return { status: 'True', reason: 'Met', message: '' };
  const rest = missing.length > 3 ? ` and ${missing.length - 3} more` : '';
  return { status: 'False', reason: 'NotWanted', message: `${missing.slice(0, 3).join('; ')}${rest}` };
}

function available(all: readonly Standing[]): Reported {
  if (all.length === 0) return { status: 'Unknown', reason: 'NoMachines', message: 'the set selects no machine' };
  const behind = all.filter((each) => !each.proves && !each.hasFailed && !each.isAside).length;
  if (behind > 0) return { status: 'False', reason: 'Behind', message: 'not every machine runs the content of this revision' };
  if (!all.some((each) => each.proves))
    return { status: 'False', reason: 'NoneUpdated', message: 'no machine runs the content of this revision' };
  const without = all.some((each) => !each.proves);
  return without
    ? { status: 'True', reason: 'UpdatedWithExceptions', message: 'every machine that neither failed nor is set aside (offline or held)' }
    : { status: 'True', reason: 'Updated', message: '' };
}

/** The first thing that a person who waits should know. Counts are in fields of their own, so that this changes seldom. */
function progressing(view: SetView, facts: ComponentSetFacts, all: readonly Standing[]): Reported {
  const { set } = view;
  const { halted, obstacles } = facts;
  const batches = facts.batches.shown;
  if (view.conflicts.length > 0) return { status: 'False', reason: 'Conflict', message: 'another set selects the same machines' };
  if (halted !== undefined) return { status: 'False', reason: 'Halted', message: halted.message };
  if (all.length === 0) return { status: 'False', reason: 'NoMachines', message: 'the set selects no machine' };
  const isDone = facts.isComplete && all.every((each) => each.isGiven || each.hasFailed || each.isAside);
  if (isDone) return { status: 'False', reason: 'Complete', message: `${set.spec.componentName} ${facts.revision.version}` };
  if (set.spec.paused === true) return { status: 'False', reason: 'Paused', message: 'spec.paused' };

  const found = obstacles.find((each) => each.reason === 'ComponentMissing' || each.reason === 'NoPlatform') ?? obstacles[0];
  const others = obstacles.length > 1 ? ` and ${obstacles.length - 1} more` : '';
  const at = batches.current === undefined ? 'machines that came later follow' : `batch ${batches.current + 1} of ${batches.sizes.length}`;
  const isMoving = facts.writes > 0 || all.some((each) => each.isGiven && !each.passes && !each.isAside);
  if (found !== undefined && (!isMoving || found.reason === 'ComponentMissing' || found.reason === 'NoPlatform')) {
    return { status: 'False', reason: found.reason, message: `${at}: ${found.message}${others}` };
  }
  if (facts.overCeiling > 0 && all.every((each) => !each.isGiven || each.passes || each.isAside)) {
    return { status: 'False', reason: 'Ceiling', message: `${at}: spec.ceiling lets no more machines go` };
  }
  const left = isMoving ? undefined : facts.standings.former.find((each) => each.isGiven && isInFlight(each));
  const leftText = left === undefined ? '' : `; ${keyOf(left.machine.metadata)} was given this content and is selected no more`;
  const waiting = found === undefined ? `${delayOf(all)}${leftText}` : `; ${found.message}${others}`;
  const soaking = all.some((each) => each.proves && !each.passes) && !all.some((each) => each.isGiven && !each.proves && !each.isAside);
  return { status: 'True', reason: soaking ? 'Soaking' : 'RollingOut', message: `${at}${waiting}` };
}

/**
 * Why a machine does not go on, so that a person who asks why a rollout stands still need not read each machine. One of them is named, and no counts, so that this
 * changes seldom.
 */
function delayOf(all: readonly Standing[]): string {
  for (const { machine, isOwn, isAside, passes, reported } of all) {
    if (!isOwn) continue;
    const key = keyOf(machine.metadata);
    const { verdict, agent, underWay } = machine.status ?? {};
    if (reported?.state === 'Waiting' && verdict?.allowed === false) {
      const until = verdict.wouldPassWhen === undefined ? '' : `, which lets it pass when ${verdict.wouldPassWhen}`;
      return `; ${key} waits for ${verdict.limit ?? 'a limit'}${until}`;
    }
    if (passes || isAside) continue;
    if (agent?.hold === true) return `; ${key} is held by the file /etc/kubenode/hold`;
    if (underWay === 'Repair') return `; ${key} is under repair`;
    if (underWay === 'Delete') return `; ${key} is being deleted`;
  }
  return '';
}
