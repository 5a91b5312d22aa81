/** The next status of a job. Pure: an observation in, the next status out. */
import { canonical } from '../../api/digest.ts';
import type { MachineStatus, Outcome } from '../../api/machine.ts';
import { ANNOTATIONS } from '../../api/names.ts';
import { ACTION_TRAITS } from '../../api/node-remedier/values.ts';
import { isFinished, type JobProof, type RemedyOperationJob, type RemedyOperationJobStatus } from '../../api/remedy-operation-job.ts';
import type { Stored } from '../../api/wire.ts';
import { reportedEnd } from '../../api/machine/operation-end.ts';
import { beforeOf, proofFrom, verify } from '../../rules/heal.ts';
import type { Snapshot } from '../../rules/snapshot.ts';
import type { JobView } from './observe.ts';
import { begin, end, endAll, explain, sameButNumbers, stepsOf } from './steps.ts';

export type Decision =
  /** What is to be decided cannot be taken back, and the stores may be old. */
  | { step: 'Read'; why: string }
  | { step: 'Write'; status: RemedyOperationJobStatus; wakeAtMs: number | undefined }
  | { step: 'Delete'; why: string }
  | { step: 'Wait'; wakeAtMs: number | undefined };

type Status = RemedyOperationJobStatus;
/** As it would be with what was decided so far. */
type View = JobView & { job: { status: Status } };
/** The next status; the same value when there is none. */
type Move = { status: Status; wakeAtMs?: number | undefined } | { read: string };

/** Jobs are the record of what was done to a node. */
const KEPT_MS = 30 * 86_400_000;
const MAX_EXPLANATION = 2048;
/** From none to an end there are fewer moves. */
const MAX_MOVES = 8;

export function decide(view: JobView): Decision {
  const { job } = view;
  const given = job.status ?? {};
  if (isFinished(job)) return collect(view);
  let status = given;
  let wakeAtMs: number | undefined;
  for (let moves = 0; moves < MAX_MOVES; moves += 1) {
    const move = next({ ...view, job: { ...job, status } });
    // What a live read does not show either is waited for: a watch will show it.
    if ('read' in move) return view.isLive ? { step: 'Wait', wakeAtMs: undefined } : { step: 'Read', why: move.read };
    ({ wakeAtMs } = move);
    if (move.status === status) break;
    ({ status } = move);
  }
  if (status === given) return { step: 'Wait', wakeAtMs };
  const { generation } = job.metadata;
  return { step: 'Write', status: { ...status, ...(generation === undefined ? {} : { observedGeneration: generation }) }, wakeAtMs };
}

/** A finished job is kept for its time, and the newest of its rule and machine for as long as the ladder remembers it. */
function collect({ job, nowMs, hasSuccessor, forgetAfterMs, machine }: JobView): Decision {
  const finishedMs = Date.parse(job.status?.finishedAt ?? job.metadata.creationTimestamp);
  const keptMs = hasSuccessor || machine === undefined ? KEPT_MS : Math.max(KEPT_MS, forgetAfterMs);
  if (nowMs < finishedMs + keptMs) return { step: 'Wait', wakeAtMs: finishedMs + keptMs };
  return { step: 'Delete', why: `it ended ${job.status?.finishedAt}` };
}

function next(view: View): Move {
  const phase = view.job.status.phase;
  switch (phase) {
    case undefined:
      return first(view);
    case 'Pending':
      return pending(view);
    case 'Granted':
      return granted(view);
    case 'Running':
    case 'Verifying':
      return underWay(view);
    case 'NeedsHuman':
      return asking(view);
    case 'Succeeded':
    case 'Failed':
    case 'Cancelled':
    case 'Shadow':
      return { status: view.job.status };
    default:
      // A phase of a later version is left as it is.
      phase satisfies never;
      return { status: view.job.status };
  }
}

function first(view: View): Move {
  const { job, nowMs } = view;
  const { spec } = job;
  const at = iso(nowMs);
  if (spec.mode === 'Shadow')
    return { status: { phase: 'Shadow', finishedAt: at, explanation: short(`would ${spec.action}: ${spec.why}`) } };
  if (spec.action === 'Human')
    return {
      status: { phase: 'NeedsHuman', explanation: view.diagnosis[0] ?? spec.why, diagnosis: [...view.diagnosis] },
    };
  return { status: begin({ phase: 'Pending' }, 'Ask', at) };
}

function pending(view: View): Move {
  const { job, machine, reservation, snapshot, nowMs, isLive } = view;
  const status = job.status;
  if (machine === undefined) return isLive ? ended(view, 'Cancelled', 'Cancelled', 'the machine is gone') : { read: 'the machine is gone' };
  const stop = reasonToStop(view);
  // Without `before` no order is written, so nothing can have been ordered yet.
  if (stop !== undefined) return ended(view, 'Cancelled', stop.outcome, stop.why);
  if (reservation !== undefined && snapshot !== undefined) {
    if (!isLive) return { read: 'what the node is like before it is touched' };
    const at = iso(nowMs);
    const asked = end(status, 'Ask', at, 'Succeeded');
    return {
      status: {
        ...prepared(view, asked),
        phase: 'Granted',
        operationID: reservation.id,
        before: beforeOf(snapshot),
        answer: 'Granted',
        explanation: '',
      },
    };
  }
  return { status: withVerdict(status, job, machine.status?.verdict) };
}

/** With the verdict about this job. A machine that asks for something else first gets the verdict about that. */
function withVerdict(status: Status, job: Stored<RemedyOperationJob>, verdict: MachineStatus['verdict']): Status {
  if (verdict === undefined || verdict.allowed) return status;
  if (verdict.requester !== undefined && verdict.requester !== `RemedyOperationJob/${job.metadata.namespace}/${job.metadata.name}`)
    return status;
  if (canonical(status.verdict) === canonical(verdict)) return status;
  const { limit, used, of, wouldPassWhen } = verdict;
  const full = used === undefined || of === undefined ? '' : ` ${used}/${of}`;
  return {
    ...status,
    verdict,
    answer: `${limit ?? 'refused'}${full}`,
    explanation: short(wouldPassWhen === undefined ? 'refused' : `waits until ${wouldPassWhen}`),
  };
}

function granted(view: View): Move {
  const { job, machine, reservation, isLedgerBegun, isLive, nowMs } = view;
  const status = job.status;
  const order = machine?.spec.operation;
  if (order !== undefined && order.id === status.operationID) {
    if (order.kind === 'Repair') return { status: ordered(view) };
    if (order.kind !== 'Cancelled') return ended(view, 'Cancelled', 'Superseded', `its reservation became a ${order.kind} operation`);
    if (status.cancelling === undefined && order.cause === 'DrainTimeout') {
      const failed = ended(view, 'Failed', 'TransientFailure', `the drain did not end in time: ${order.reason}`);
      // It counts as an attempt, so that the ladder climbs instead of draining for ever.
      return { status: { ...failed.status, orderedAt: iso(nowMs) } };
    }
    const { outcome, why } = status.cancelling ?? {
      outcome: 'Cancelled',
      why: `its reservation was cancelled: ${order.reason ?? 'no reason given'}`,
    };
    return ended(view, 'Cancelled', outcome, why);
  }
  if (machine === undefined || reservation?.id !== status.operationID) {
    const why = machine === undefined ? 'the machine is gone' : 'its reservation is gone';
    // docs/protocols.md#d1: a ledger that was deleted, and has no term yet, does not show which reservations it will have.
    const isKnown = isLive && (machine === undefined || isLedgerBegun);
    return isKnown ? ended(view, 'Cancelled', 'Cancelled', `${why}, and no order was written`) : { read: why };
  }
  const stop = status.cancelling === undefined ? reasonToStop(view) : undefined;
  if (stop !== undefined) return { status: { ...status, cancelling: stop, explanation: short(`shall be cancelled: ${stop.why}`) } };
  return { status: prepared(view, status) };
}

/** Why a job that has no order shall not get one. */
function reasonToStop({ machine, superseded, rule, matches, job }: View): NonNullable<Status['cancelling']> | undefined {
  const name = `NodeRemedier ${job.spec.rule}`;
  const cancel = (why: string) => ({ why, outcome: 'Cancelled' as const });
  if (machine?.metadata.deletionTimestamp !== undefined) return cancel('the machine is being deleted');
  if (superseded !== undefined) return { why: superseded, outcome: 'Superseded' };
  if (rule === 'Gone') return cancel(`${name} is gone`);
  if (rule === 'Refused') return cancel(`${name} was edited and is not accepted any more`);
  if (rule === 'Shadow') return cancel(`${name} is in Shadow now`);
  if (matches === 'False') return cancel('the rule does not match any more: it recovered before the order');
  return undefined;
}

/** Cordon and drain as they are seen. */
function prepared({ job, machine, node, nowMs }: View, status: Status): Status {
  const at = iso(nowMs);
  const steps = stepsOf(job.spec.action);
  let noted = status;
  if (steps.includes('Cordon')) {
    noted = begin(noted, 'Cordon', at);
    const id = noted.operationID;
    const isCordoned =
      id !== undefined && node?.spec?.unschedulable === true && node.metadata.annotations?.[ANNOTATIONS.cordonOwner] === id;
    if (!isCordoned) return noted;
    noted = end(noted, 'Cordon', at, 'Succeeded');
  }
  if (steps.includes('Drain')) {
    noted = begin(noted, 'Drain', at);
    const drained = machine?.status?.conditions?.find((each) => each.type === 'Drained');
    if (drained?.status !== 'True') return drained === undefined ? noted : explain(noted, 'Drain', drained.message);
    noted = end(noted, 'Drain', at, 'Succeeded');
  }
  return begin(noted, 'Order', at);
}

function ordered({ job, nowMs }: View): Status {
  const at = iso(nowMs);
  const { cancelling: _tooLate, ...status } = job.status;
  let done: Status = status;
  for (const step of stepsOf(job.spec.action)) {
    if (step === 'Act') break;
    done = end(done, step, at, 'Succeeded');
  }
  return { ...begin(done, 'Act', at), phase: 'Running', orderedAt: at, explanation: '' };
}

function underWay(view: View): Move {
  const { job, machine, snapshot, nowMs, isLive } = view;
  const status = job.status;
  const { action } = job.spec;
  const { proof } = ACTION_TRAITS[action];
  if (machine === undefined || snapshot === undefined) {
    if (!isLive) return { read: 'the machine is gone' };
    return proof === 'Gone'
      ? ended(view, 'Succeeded', 'Succeeded', 'the machine is gone')
      : ended(view, 'Failed', 'PermanentFailure', 'the machine is gone, and the result of the action is unknown');
  }
  const report = status.phase === 'Running' ? reportOf(view) : undefined;
  if (report !== undefined && report.outcome !== 'Succeeded')
    return ended(view, 'Failed', report.outcome, report.message === '' ? `the action ended ${report.outcome}` : report.message);
  if (report !== undefined) {
    // A heartbeat that the store has not shown yet may be from before the end of the action.
    if (!isLive) return { read: 'the heartbeat at the end of the action' };
    const at = iso(nowMs);
    const acted = end(status, 'Act', at, 'Succeeded', report.message);
    if (proof === 'Done')
      return ended({ ...view, job: { ...job, status: { ...acted, actedAt: at } } }, 'Succeeded', 'Succeeded', `${action} is done`);
    const verifying: Status = { ...acted, phase: 'Verifying', actedAt: at, proof: proofFrom(snapshot, job.spec) };
    return { status: stepsOf(action).includes('Verify') ? begin(verifying, 'Verify', at) : verifying };
  }
  const order = machine.spec.operation;
  const isDeparting = proof === 'Gone' && machine.metadata.deletionTimestamp !== undefined;
  if (order?.id === status.operationID && order?.kind === 'Cancelled')
    return ended(view, 'Failed', 'Cancelled', `its order was taken back: ${order.reason ?? 'no reason given'}`);
  if (order?.id !== status.operationID && !isDeparting) {
    if (!isLive) return { read: 'another operation has replaced it' };
    return ended(view, 'Failed', 'Superseded', 'another operation has replaced it on the machine');
  }
  return verified(view, snapshot);
}

/** What is reported of the end of its operation. */
function reportOf({ job, machine }: View): { outcome: Outcome; message: string } | undefined {
  const { operationID } = job.status;
  const end = machine === undefined || operationID === undefined ? undefined : reportedEnd(machine, operationID);
  return end && { outcome: end.outcome, message: end.report.message ?? '' };
}

function verified(view: View, snapshot: Snapshot): Move {
  const { job, matches } = view;
  const { status } = job;
  const found = verify({
    spec: job.spec,
    orderedAtMs: Date.parse(status.orderedAt ?? ''),
    actedAtMs: status.actedAt === undefined ? undefined : Date.parse(status.actedAt),
    before: status.before ?? { bootID: '', conditions: [] },
    proof: status.proof ?? {},
    snapshot,
    matches,
    gone: false,
  });
  // An end cannot be taken back, and a relapse may not have been shown yet.
  if ((found.state === 'Healed' || found.state === 'Failed') && !view.isLive) return { read: 'the node as it is at the end' };
  const learned: Status = sameProof(found.proof, status.proof ?? {}) ? status : { ...status, proof: found.proof };
  const known = { ...view, job: { ...job, status: learned } };
  if (found.state === 'Healed') return ended(known, 'Succeeded', 'Succeeded', found.why);
  if (found.state === 'Failed') return ended(known, 'Failed', 'PermanentFailure', found.why);
  const wakes = [found.nextAtMs, snapshot.staleAtMs].filter((each) => each !== undefined);
  const wakeAtMs = wakes.length === 0 ? undefined : Math.min(...wakes);
  const explanation = short(found.why);
  if (status.phase !== 'Verifying' || sameButNumbers(status.explanation ?? '', explanation)) return { status: learned, wakeAtMs };
  return { status: { ...learned, explanation }, wakeAtMs };
}

function ended(view: View, phase: 'Succeeded' | 'Failed' | 'Cancelled', outcome: Outcome, explanation: string): { status: Status } {
  const at = iso(view.nowMs);
  const status = endAll(view.job.status, at, outcome, explanation);
  return { status: { ...status, phase, outcome, explanation: short(explanation), finishedAt: at } };
}

const sameProof = (a: JobProof, b: JobProof): boolean => canonical(a) === canonical(b);

/** A question to a human ends when the rule is known not to match, or its machine is gone. */
function asking(view: View): Move {
  const { job, machine, rule, matches, nowMs, isLive, snapshot } = view;
  const status = job.status;
  const closed = (why: string): Move => ({ status: { ...status, finishedAt: iso(nowMs), explanation: short(why) } });
  if (machine === undefined) return isLive ? closed('the machine is gone') : { read: 'the machine is gone' };
  if (rule === 'Gone') return closed(`NodeRemedier ${job.spec.rule} is gone`);
  if (matches === 'False') return closed('its rule does not match any more');
  return { status, wakeAtMs: snapshot?.staleAtMs };
}

const iso = (ms: number): string => new Date(ms).toISOString();
const short = (text: string): string => (text.length > MAX_EXPLANATION ? `${text.slice(0, MAX_EXPLANATION - 1)}…` : text);
