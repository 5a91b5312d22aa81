/** What hubs do to a fleet: they observe, carry out one request after the other, and report. */
import { syncErrorCodes } from '../../errors.ts';
import type { UnitStatus } from '../../../api/cluster.ts';
import { API_VERSION } from '../../../api/kind.ts';
import { isCoded } from '../../../api/errors.ts';
import { REMOVAL, stands } from '../../records.ts';
import { isGone } from '../../soak.ts';
import { needsCurrent, type Step } from '../world.ts';
import { brokenByDecision, brokenByRecord, heldIn, standsIn } from './promises.ts';
import {
  isHubLate,
  NO_ACCOUNT,
  ownerIn,
  wantedOn,
  withCell,
  withStores,
  withStoresOfCells,
  worldOf,
  type Account,
  type FleetState,
  type Hub,
  type Request,
  type Seams,
  type Task,
} from './state.ts';

/** The one object of the unit. */
const ENTRY = { apiVersion: API_VERSION, kind: 'MachineComponentSet', name: 'runtime' };

export interface Outcome {
  state: FleetState;
  hub: Hub;
  /** The promise that this breaks. */
  broken: string | undefined;
}

/** A hub decides on what it sees now: what its stores show, and, where that leads to what needs it, what its API server has. */
export function observeAndDecide(
  state: FleetState,
  seams: Seams,
): { hub: Hub; steps: readonly Step[]; over: boolean; broken: string | undefined } {
  const isLate = isHubLate(state);
  const first = isLate ? seams.decide(worldOf(withStores(state))) : undefined;
  const isAgain = first === undefined || (seams.decidesAgain && first.steps.some(needsCurrent));
  const { steps, statuses } = isAgain ? seams.decide(worldOf(withStoresOfCells(state))) : first;
  const seen = isAgain ? state : withStores(state);
  const byCluster = Map.groupBy(
    steps.filter((step) => step.do !== 'RecordEvidence' || !seams.readsEvidence || isCarried(state, step)),
    (step) => step.cluster,
  );
  const tasks = [...byCluster].map(([cluster, its]) => ({ cluster, todo: requestsOf(its) }));
  const hub = {
    tasks: tasks.sort((a, b) => (a.cluster < b.cluster ? -1 : 1)),
    saw: seen.rollouts,
    retried: new Map([...statuses].map(([name, status]) => [name, status.retried])),
    asked: seen.asked,
  };
  const over = [...statuses.values()].every(({ phase }) => phase === 'Done' || phase === 'Superseded');
  // What is written must be right by what is recorded; only what cells reported may be late.
  return { hub, steps, over, broken: brokenByDecision(withStoresOfCells(state), steps, isAgain) };
}

/**
 * Evidence counts only where it was seen on what is there, and is there still. It is read as the hub decides, though it may be later: what another changes
 * until then may as well come after it was read.
 */
function isCarried({ cells }: FleetState, { cluster, carrier }: Extract<Step, { do: 'RecordEvidence' }>): boolean {
  return cells[cluster]?.evidence === true && cells[cluster].version === carrier?.generation;
}

/** In the order of act.ts: records are written, in one write, then the cell, then records again. */
function requestsOf(steps: readonly Step[]): Request[] {
  const before = steps.filter((step) => step.do !== 'Ceiling' && step.do !== 'TryAgain' && step.do !== 'KeepMachines');
  const applied = steps.filter((step) => step.do === 'Apply');
  const there = steps.flatMap((step): Request[] => {
    if (step.do === 'Remove') return (['Find', 'ConfirmRemoval', 'Delete', 'Removed'] as const).map((what) => ({ do: what, step }));
    if (step.do === 'Apply') return (['Read', 'Confirm', 'Write'] as const).map((what) => ({ do: what, step }));
    return step.do === 'Ceiling' || step.do === 'TryAgain' ? (['Check', 'Patch'] as const).map((what) => ({ do: what, step })) : [];
  });
  return [
    ...(before.length === 0 ? [] : [{ do: 'Record' as const, steps: before }]),
    ...there,
    ...(applied.length === 0 ? [] : [{ do: 'Applied' as const, steps: applied }]),
  ];
}

/** What is left when a step has failed: the others go on. */
function without(todo: readonly Request[], failed: ReadonlySet<Step>): Request[] {
  return todo.flatMap((request): Request[] => {
    if ('step' in request) return failed.has(request.step) ? [] : [request];
    if (request.do === 'Record') return [request];
    const steps = request.steps.filter((step) => !failed.has(step));
    return steps.length === 0 ? [] : [{ ...request, steps }];
  });
}

/** One hub carries out the next request for one cluster. `wrongMs`: by how much the clock is ahead from which evidence and what was applied get their times. */
export function perform(state: FleetState, hub: Hub, cluster: string, seams: Seams, wrongMs = 0): Outcome {
  const task = hub.tasks.find((each) => each.cluster === cluster);
  const [request, ...rest] = task?.todo ?? [];
  if (task === undefined || request === undefined) return { state, hub, broken: undefined };
  const next = (after: FleetState, change: Partial<Task> = {}, broken?: string): Outcome => {
    const left = { ...task, todo: rest, ...change };
    const tasks = hub.tasks.flatMap((each) => (each === task ? (left.todo.length === 0 ? [] : [left]) : [each]));
    return { state: after, hub: { ...hub, tasks }, broken };
  };
  const live = state.cells[cluster];
  const isAway = state.away.includes(cluster);
  switch (request.do) {
    case 'Record': {
      const { after, failed, broken } = recordAll(state, hub, cluster, request.steps, seams, wrongMs);
      const left = without(rest, failed);
      // What is applied at the same time is another object then; the next decision does it.
      const isApplied = left.some((each) => each.do === 'Write');
      return next(after, { todo: isApplied ? left.filter((each) => each.do !== 'Check' && each.do !== 'Patch') : left }, broken);
    }
    case 'Read':
      return isAway ? next(state, { todo: without(rest, new Set([request.step])) }) : next(state, { read: live?.version });
    case 'Confirm': {
      const { digest, lane } = request.step;
      const record = state.recorded[cluster];
      if (seams.confirms && !stands(record, { to: digest, lane })) return next(state, { todo: without(rest, new Set([request.step])) });
      return next(state, { stood: standsIn(record, digest) });
    }
    case 'Write': {
      const { digest } = request.step;
      const { read: _, stood, ...plain } = task;
      const isOther = live?.version !== task.read;
      const isRefused =
        isOther && (task.read === undefined ? seams.conditionedOnNothing : live === undefined ? seams.conditionedOnUID : seams.conditioned);
      if (isAway || isRefused) return next(state, { todo: without(rest, new Set([request.step])) });
      const broken = isOther
        ? `E14: ${digest} is written on ${cluster} ${live === undefined ? 'where it was removed since it was read' : 'over what another wrote'}`
        : stood === true
          ? undefined
          : `E14: ${digest} is written on ${cluster} over what another has begun`;
      const version = state.version + 1;
      const same = live?.unitDigest === digest ? live : undefined;
      const written = {
        unitDigest: digest,
        version,
        evidence: same?.evidence ?? false,
        halted: same?.halted,
        drifted: false,
        ceiling: live?.ceiling,
        rolloutID: live?.rolloutID,
      };
      const outcome = next({ ...state, version, cells: { ...state.cells, [cluster]: written } }, {}, broken);
      const tasks = outcome.hub.tasks.map((each) => (each.cluster === cluster ? { ...plain, todo: each.todo } : each));
      return { ...outcome, hub: { ...outcome.hub, tasks } };
    }
    case 'Find': {
      if (isAway) return next(state, { todo: [] });
      return next(state, live === undefined ? { todo: rest.slice(-1), read: undefined } : { read: live.version });
    }
    case 'ConfirmRemoval': {
      const record = state.recorded[cluster];
      if (seams.confirms && !stands(record, { to: REMOVAL, lane: request.step.lane })) return next(state, { todo: [] });
      return next(state, { stood: standsIn(record, REMOVAL) });
    }
    case 'Delete': {
      if (isAway) return next(state, { todo: [] });
      const isOther = live?.version !== task.read;
      // Gone, or written since: the next pass reads it again.
      if (live === undefined || (isOther && seams.conditioned)) return next(state);
      const broken = isOther
        ? `E14: it is deleted on ${cluster} over what another wrote`
        : task.stood === true
          ? undefined
          : `E14: it is deleted on ${cluster} where another has begun`;
      const { [cluster]: _live, ...cells } = state.cells;
      return next({ ...state, cells }, {}, broken);
    }
    case 'Removed':
      return next(removedFrom(state, cluster, task.read !== undefined, seams));
    case 'Check': {
      const { over } = request.step.seen;
      const record = state.recorded[cluster];
      const stood = record?.digest === over.digest && record?.begun === over.begun;
      if (seams.checksBeforePatch && !stood) return next(state, { todo: without(rest, new Set([request.step])) });
      return next(state, { stood });
    }
    case 'Patch': {
      const { step } = request;
      const isOther = live === undefined || String(live.version) !== step.seen.resourceVersion;
      // Where nothing is there, nothing can be patched.
      if (isAway || live === undefined || (isOther && seams.conditionsPatch)) return next(state);
      const change = step.do === 'Ceiling' ? { ceiling: step.ceiling } : { rolloutID: step.rolloutID, halted: undefined };
      const what = step.do === 'Ceiling' ? 'a ceiling' : 'a retry';
      const broken = isOther
        ? `E14: ${what} is written on ${cluster} over what another wrote`
        : task.stood === true
          ? undefined
          : `E14: ${what} is written on ${cluster} where another has begun`;
      const version = state.version + 1;
      return next(withCell({ ...state, version }, cluster, { ...change, version }), {}, broken);
    }
    case 'Applied': {
      let after = state;
      for (const step of request.steps) after = appliedTo(after, step, seams, wrongMs);
      return next(after);
    }
    default:
      return request satisfies never;
  }
}

function recordAll(state: FleetState, hub: Hub, cluster: string, steps: readonly Step[], seams: Seams, wrongMs: number) {
  let after = state;
  let broken: string | undefined;
  const failed = new Set<Step>();
  for (const step of steps) {
    const before = after.recorded[cluster];
    const record = changed(before, changeOf(step, after, seams, wrongMs));
    if (record === 'Overtaken') {
      failed.add(step);
      continue;
    }
    if (record === before) continue;
    if (record === undefined) {
      // What soaked as gone is forgotten.
      const { [cluster]: _record, ...recorded } = after.recorded;
      after = { ...after, recorded };
      continue;
    }
    broken ??= brokenByRecord(after, step, before);
    if (hub.fenced === true && (step.do === 'Apply' || step.do === 'Remove'))
      broken ??= `E14: ${step.do === 'Apply' ? step.digest : 'the removal'} begins on ${cluster} by a hub whose successor decides already`;
    after = { ...after, recorded: { ...after.recorded, [cluster]: { ...record, unit: state.unit } } };
    const { goneAt: _goneAt, added, ...account } = after.accounts[cluster] ?? NO_ACCOUNT;
    // What begins there is not gone any more.
    if (step.do === 'Apply') {
      const isNews = state.additions && (before === undefined || isGone(before));
      const from = isNews ? { commit: step.commit } : added;
      after = withAccount(after, cluster, { ...account, ...(from === undefined ? {} : { added: from }) });
    }
    if (step.do === 'RecordEvidence') {
      const verified = [...new Set([...account.verified, step.digest])];
      const first = added === undefined ? {} : { added: { at: after.now, ...added } };
      after = withAccount(after, cluster, { ...account, ...first, verified, since: { digest: step.digest, at: after.now } });
    }
    if (step.do === 'Settle') after = withAccount(after, cluster, account);
    after = { ...after, stopped: stoppedAfter(after, hub, step) };
    const exempt = `${cluster} ${step.do === 'Uphold' || step.do === 'Revoke' ? step.digest : ''}`;
    if (step.do === 'Uphold' && wantsWithEvidence(after, cluster, step.digest))
      after = { ...after, upheld: [...new Set([...after.upheld, exempt])].sort() };
    if (step.do === 'Revoke') after = { ...after, upheld: after.upheld.filter((each) => each !== exempt) };
    const leaves = step.do === 'Revoke' ? step.digest : leftByRestore(step, before);
    // What was decided before a human asked for another try only tightens.
    if (leaves !== undefined && hub.asked[leaves] === after.asked[leaves]) after = revokedIn(after, leaves);
  }
  return { after, failed, broken };
}

/** What halted, by the model's own account: it ends by what a human asked for, and where other content comes. */
function stoppedAfter(state: FleetState, hub: Hub, step: Step): readonly string[] {
  const { stopped, asked, unit, rollouts } = state;
  const { cluster } = step;
  const isWanted = (digest: string): boolean => ownerIn(state)?.spec.units[0]?.clusters.some((each) => each.digest === digest) === true;
  const here = (each: string): boolean => each.startsWith(`${cluster} `);
  switch (step.do) {
    case 'RecordHalt':
      // What was seen before a human asked for another try may be lifted by it, and what is wanted nowhere by the next decision.
      return hub.asked[step.digest] === asked[step.digest] && isWanted(step.digest)
        ? [...new Set([...stopped, `${cluster} ${step.digest}`])].sort()
        : stopped;
    case 'Remove':
      return stopped.filter((each) => !here(each));
    case 'Apply':
      return stopped.filter((each) => !here(each) || each === `${cluster} ${step.digest}`);
    case 'RecordEvidence':
      return unit.startsWith('MachineComponentSet/') ? stopped : stopped.filter((each) => each !== `${cluster} ${step.digest}`);
    case 'RecordRetry':
      return stopped.filter((each) => !here(each) || asked[each.split(' ')[1] ?? ''] !== step.retry);
    case 'Lift': {
      const isAsked = asked[step.digest] !== undefined && rollouts.at(-1)?.status?.retried !== asked[step.digest];
      return isAsked ? stopped.filter((each) => each !== `${cluster} ${step.digest}`) : stopped;
    }
    case 'SoakAgain':
    case 'Settle':
    case 'Revoke':
    case 'Uphold':
    case 'Reinstate':
    case 'Ceiling':
    case 'TryAgain':
    case 'KeepMachines':
      return stopped;
    default:
      return step satisfies never;
  }
}

/** A restore revokes what it leaves. */
function leftByRestore(step: Step, before: UnitStatus | undefined): string | undefined {
  if (step.do !== 'Apply' || step.lane !== 'Restore') return undefined;
  const held = heldIn(before);
  return held === step.digest ? undefined : held;
}

function changeOf(step: Step, state: FleetState, { records }: Seams, wrongMs: number) {
  const at = new Date(state.now).toISOString();
  switch (step.do) {
    case 'Apply': {
      const from = state.additions ? { commit: step.commit } : {};
      const aim = { to: step.digest, lane: step.lane, asked: step.asked, revoked: step.revoked, found: step.found, ...from };
      return records.begin('main', aim, step.over, [ENTRY], () => true);
    }
    case 'RecordEvidence':
      return records.verified(step.digest, step.commit, new Date(state.now + wrongMs).toISOString(), step.appliedAt);
    case 'SoakAgain':
      return records.soaksAgain(step.digest, at);
    case 'Revoke':
      return records.revoked(step.digest, step.retry);
    case 'Uphold':
      return records.upheld(step.digest);
    case 'Reinstate':
      return records.reinstated(step.digest, step.retry);
    case 'RecordRetry':
      return records.retried(step.retry, step.over, step.lifts);
    case 'RecordHalt':
      return records.halted(step.digest, step.halt, at);
    case 'Lift':
      return records.lifted(step.digest, step.since);
    case 'Remove':
      return records.begin('main', { to: REMOVAL, lane: step.lane }, step.over, [], () => true);
    case 'Settle':
      return records.settled(step.since);
    case 'Ceiling':
    case 'TryAgain':
    case 'KeepMachines':
      throw new Error(`${step.do} is no change of a record in this fleet`);
    default:
      return step satisfies never;
  }
}

function changed(record: UnitStatus | undefined, change: (record: UnitStatus | undefined) => UnitStatus | undefined) {
  try {
    return change(record);
  } catch (error) {
    if (!isCoded(error, syncErrorCodes, 'Overtaken')) throw error;
    return 'Overtaken';
  }
}

function withAccount(state: FleetState, cluster: string, account: Account): FleetState {
  return { ...state, accounts: { ...state.accounts, [cluster]: account } };
}

/** By the model's own account. */
function wantsWithEvidence(state: FleetState, cluster: string, digest: string): boolean {
  return wantedOn(state, cluster) === digest && state.accounts[cluster]?.since?.digest === digest;
}

function revokedIn(state: FleetState, digest: string): FleetState {
  const accounts = Object.fromEntries(
    Object.entries(state.accounts).map(([name, account = NO_ACCOUNT]) => {
      if (state.upheld.includes(`${name} ${digest}`)) return [name, account];
      const { [digest]: _, ...heldMs } = account.heldMs;
      return [name, { ...account, heldMs }];
    }),
  );
  return { ...state, accounts, revoked: [...new Set([...state.revoked, digest])].sort() };
}

function appliedTo(state: FleetState, step: Extract<Step, { do: 'Apply' }>, { records }: Seams, wrongMs: number): FleetState {
  const { cluster, digest } = step;
  const before = state.recorded[cluster];
  const record = changed(before, records.applied(digest, step.commit, step.lane, new Date(state.now + wrongMs).toISOString(), [ENTRY]));
  if (record === 'Overtaken' || record === undefined) return state;
  const after = { ...state, recorded: { ...state.recorded, [cluster]: { ...record, unit: state.unit } } };
  if (before?.digest === digest && before.begun === undefined) return after;
  const { since, ...account } = state.accounts[cluster] ?? NO_ACCOUNT;
  const live = state.cells[cluster];
  const isCredited = since !== undefined && (!state.revoked.includes(since.digest) || state.upheld.includes(`${cluster} ${since.digest}`));
  const heldMs = isCredited
    ? { ...account.heldMs, [since.digest]: (account.heldMs[since.digest] ?? 0) + state.now - since.at }
    : account.heldMs;
  const proved = live?.unitDigest === digest && live.evidence;
  return withAccount(after, cluster, { ...account, heldMs, proved, since: undefined });
}

/** What a removal found was there still, or is known to be gone. */
function removedFrom(state: FleetState, cluster: string, found: boolean, { records }: Seams): FleetState {
  const before = state.recorded[cluster];
  const change = records.removed({ left: found ? [ENTRY] : [], empties: false }, new Date(state.now).toISOString());
  const record = changed(before, change);
  if (record === 'Overtaken' || record === before) return state;
  const { [cluster]: _before, ...recorded } = state.recorded;
  const after = { ...state, recorded: record === undefined ? recorded : { ...recorded, [cluster]: { ...record, unit: state.unit } } };
  const account = state.accounts[cluster] ?? NO_ACCOUNT;
  if (record !== undefined && !isGone(record)) return withAccount(after, cluster, { ...account, since: undefined, proved: false });
  // With its record goes all that only this record had.
  const isKnown = (digest: string): boolean => Object.values(after.recorded).some((each) => each?.revoked?.includes(digest) === true);
  const elsewhere = (each: string): boolean => !each.startsWith(`${cluster} `);
  const kept = { revoked: state.revoked.filter(isKnown), upheld: state.upheld.filter(elsewhere), stopped: state.stopped.filter(elsewhere) };
  return withAccount({ ...after, ...kept }, cluster, { ...NO_ACCOUNT, goneAt: state.now });
}

/** Statuses are written last, each over the Rollout that was seen. */
export function report(state: FleetState, hub: Hub): FleetState {
  const changes = (name: string, index: number): boolean =>
    state.rollouts[index] === hub.saw[index] && state.rollouts[index]?.status?.retried !== hub.retried.get(name);
  if (!state.rollouts.some(({ metadata }, index) => changes(metadata.name, index))) return state;
  const rollouts = state.rollouts.map((rollout, index) => {
    const value = hub.retried.get(rollout.metadata.name);
    return changes(rollout.metadata.name, index) ? { ...rollout, status: value === undefined ? {} : { retried: value } } : rollout;
  });
  return { ...state, rollouts };
}
