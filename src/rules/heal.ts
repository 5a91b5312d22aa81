/**
 * Whether a repair helped. Pure: what has been seen of the proof goes in and out as `RemedyOperationJob.status.proof`.
 *
 * Guarantees (docs/protocols.md#f4)
 * - Only a heartbeat that came after the action counts. It is recognized by a new value, not by its time.
 * - A Reboot, and `onNewBoot`, need another boot ID than the order has.
 * - A detector that restarted proves nothing: a condition that only a restart or a boot can clear needs a boot, and another one if it came
 *   back in that; one that is probed has to stay
 *   healthy again, beginning with the heartbeat after the restart.
 * - The proof must stay true without a transition for `forSeconds`; and the rule must be known not to match.
 * - A proof that is unknown when its time is over has failed.
 */
import { clearingOf, KUBELET_CONDITIONS } from '../api/node-condition.ts';
import { ACTION_TRAITS } from '../api/node-remedier/values.ts';
import type { JobBefore, JobProof, RemedyOperationJobSpec } from '../api/remedy-operation-job.ts';
import type { Truth } from './evaluate.ts';
import type { ConditionFacts, Snapshot } from './snapshot.ts';

export interface VerifyInput {
  spec: Pick<RemedyOperationJobSpec, 'action' | 'healedWhen' | 'timeoutSeconds'>;
  orderedAtMs: number;
  /** When the action had ended well; undefined while that is not reported. */
  actedAtMs: number | undefined;
  before: JobBefore;
  proof: JobProof;
  snapshot: Snapshot;
  /** Truth of the rule's conditions now; undefined when the rule is gone. */
  matches: Truth | undefined;
  /** Replace: the provider has proved that the machine is gone. */
  gone: boolean;
}

export interface Verification {
  state: 'Waiting' | 'Confirming' | 'Healed' | 'Failed';
  why: string;
  /** To be kept; the same value when nothing was learned. */
  proof: JobProof;
  /** When it is verified again, though nothing has changed, ms; undefined at the end. */
  nextAtMs: number | undefined;
}

/** What to keep of a node when the order is written. */
export function beforeOf(snapshot: Snapshot): JobBefore {
  return {
    bootID: snapshot.machine.status?.agent?.bootID ?? '',
    conditions: [...(snapshot.node?.conditions ?? [])]
      .slice(0, 64)
      .map(([type, { status, transition, heartbeat }]) => ({ type, status, transition, heartbeat })),
  };
}

/** What to keep when the action has ended. */
export function proofFrom(snapshot: Snapshot, { healedWhen }: Pick<RemedyOperationJobSpec, 'healedWhen'>): JobProof {
  const heartbeat = healedWhen.of === 'Machine' ? undefined : snapshot.node?.conditions.get(healedWhen.condition)?.heartbeat;
  return heartbeat === undefined ? {} : { heartbeat };
}

export function verify(input: VerifyInput): Verification {
  const { spec, snapshot, orderedAtMs, actedAtMs } = input;
  const nowMs = snapshot.atMs;
  const deadlineMs = orderedAtMs + spec.timeoutSeconds * 1000;
  const kind = ACTION_TRAITS[spec.action].proof;
  const waiting = (why: string, proof: JobProof): Verification => {
    if (nowMs < deadlineMs) return { state: 'Waiting', why, proof, nextAtMs: deadlineMs };
    return { state: 'Failed', why: `not proved within ${spec.timeoutSeconds} s: ${why}`, proof, nextAtMs: undefined };
  };
  const healed = (why: string): Verification => ({ state: 'Healed', why, proof: input.proof, nextAtMs: undefined });
  if (kind === 'Gone')
    return input.gone ? healed('the provider has proved that the machine is gone') : waiting('the machine is still there', input.proof);
  if (actedAtMs === undefined) return waiting(`${spec.action} is not reported as done yet`, input.proof);
  if (kind === 'Done') return healed(`${spec.action} is done; it repairs nothing by itself`);
  if (kind === 'Nothing') return waiting('a human ends it', input.proof);

  const boot = bootOf(input);
  const reset = boot.isNew ? undefined : resetOf(input);
  const relapsed = relapsedIn(input, boot);
  const doubt = boot.doubt ?? doubtOf(input, boot.isNew && relapsed !== boot.id, reset);
  const learned = { ...(reset === undefined ? {} : { reset }), ...(relapsed === undefined ? {} : { relapsed }) };
  // A proof that began before a relapse or a restart of the detector does not count.
  if (doubt !== undefined) return waiting(doubt, { ...without(input.proof), ...learned });
  const { transition } = provingCondition(input) ?? { transition: '' };
  const begun = input.proof.since !== undefined && input.proof.transition === transition && input.proof.bootID === boot.id;
  const sinceMs = begun ? Date.parse(input.proof.since ?? '') : nowMs;
  const proof: JobProof = begun
    ? input.proof
    : {
        ...without(input.proof),
        ...learned,
        since: new Date(nowMs).toISOString(),
        transition,
        bootID: boot.id,
      };
  if (!begun && nowMs >= deadlineMs)
    return {
      state: 'Failed',
      why: `not proved within ${spec.timeoutSeconds} s: it became healthy only then`,
      proof,
      nextAtMs: undefined,
    };
  const { condition, is, forSeconds } = spec.healedWhen;
  const doneMs = sinceMs + forSeconds * 1000;
  if (nowMs >= doneMs) return { state: 'Healed', why: `${condition} has been ${is} for ${forSeconds} s`, proof, nextAtMs: undefined };
  return { state: 'Confirming', why: `${condition} is ${is}; it must stay so for ${forSeconds} s`, proof, nextAtMs: doneMs };
}

function without({ since: _since, transition: _transition, bootID: _bootID, ...rest }: JobProof): JobProof {
  return rest;
}

function provingCondition({ spec, snapshot }: VerifyInput): ConditionFacts | undefined {
  const { condition, of } = spec.healedWhen;
  return of === 'Machine' ? snapshot.machineConditions.get(condition) : snapshot.node?.conditions.get(condition);
}

/** The agent names the boot it runs in; only its fresh report shows that another one has begun. */
function bootOf({ spec, snapshot, before }: VerifyInput): { id: string; isNew: boolean; doubt: string | undefined } {
  const id = snapshot.machine.status?.agent?.bootID ?? '';
  const isNew = snapshot.agent === 'Fresh' && before.bootID !== '' && id !== '' && id !== before.bootID;
  const needed = spec.action === 'Reboot' || spec.healedWhen.onNewBoot === true;
  if (!needed || isNew) return { id, isNew, doubt: undefined };
  if (before.bootID === '') return { id, isNew, doubt: 'the boot before the order is not known' };
  return { id, isNew, doubt: snapshot.agent === 'Fresh' ? `it is still boot ${before.bootID}` : 'the agent has not reported since' };
}

/** The last boot since the order in which a condition that latches was found bad: only a restart of its detector clears it there. */
function relapsedIn(input: VerifyInput, boot: { id: string; isNew: boolean }): string | undefined {
  const { condition, is, of } = input.spec.healedWhen;
  const { relapsed, heartbeat } = input.proof;
  if (!boot.isNew || of === 'Machine' || clearingOf(condition) !== 'Latched') return relapsed;
  const found = provingCondition(input);
  const isBad = found !== undefined && found.status !== 'Unknown' && found.status !== is && found.heartbeat !== heartbeat;
  return isBad ? boot.id : relapsed;
}

/**
 * The heartbeat that came with a restart of the detector, in the same boot: Node Problem Detector sets all its conditions to False with a new
 * transition when it starts, also those that were False already, and only a restart moves a transition without a status.
 */
function resetOf({ spec, snapshot, before, proof }: VerifyInput): string | undefined {
  const { condition, of } = spec.healedWhen;
  if (of === 'Machine' || KUBELET_CONDITIONS.has(condition) || proof.reset !== undefined) return proof.reset;
  const moved = before.conditions.some(({ type, status, transition }) => {
    const now = snapshot.node?.conditions.get(type);
    return (
      now !== undefined && !KUBELET_CONDITIONS.has(type) && now.status === status && now.transition !== transition && status !== 'True'
    );
  });
  return moved ? (snapshot.node?.conditions.get(condition)?.heartbeat ?? '') : undefined;
}

/** Why it is not certain that the node is healthy now. */
function doubtOf(input: VerifyInput, newBoot: boolean, reset: string | undefined): string | undefined {
  const { spec, snapshot, proof, matches } = input;
  const { condition: type, is, of } = spec.healedWhen;
  const found = provingCondition(input);
  if (found === undefined)
    return of === 'Machine' ? `the Machine has no condition ${type}` : snapshot.nodeMissing || `the Node has no condition ${type}`;
  if (found.status === 'Unknown') return `${type} is Unknown: ${found.doubt ?? 'its detector does not know'}`;
  if (found.status !== is) return `${type} is ${found.status}, ${found.reason}`;
  if (of !== 'Machine') {
    if (found.heartbeat === proof.heartbeat) return `${type} is ${is}, by a heartbeat from before the action had ended`;
    if (!newBoot && clearingOf(type) === 'Latched') return `${type} is ${is} in the same boot: only a restart of its detector does that`;
    if (reset !== undefined && clearingOf(type) !== 'Probed')
      return `${type} is ${is} because its detector restarted, which proves nothing`;
    if (reset !== undefined && found.heartbeat === reset)
      return `${type} is ${is} since its detector restarted; its next heartbeat is awaited`;
  }
  if (spec.action === 'Reboot' && snapshot.node?.conditions.get('Ready')?.status !== 'True') return 'the node is not Ready again';
  if (matches === 'True') return 'its rule still matches';
  if (matches === 'Unknown') return 'whether its rule matches is not known';
  return undefined;
}
