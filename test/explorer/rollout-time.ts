/** Time in the world of rollouts is relative and coarse: the clock stands, and what is older moves back, by a whole soak at most. */
import type { UnitStatus } from '../../src/api/cluster.ts';
import {
  SOAK_MS,
  SOAK_SECONDS,
  type Account,
  type FleetState,
  type Hub,
  type Late,
  type Request,
} from '../../src/sync/rollout/testing/state.ts';
import type { Step } from '../../src/sync/rollout/world.ts';

const iso = (ms: number): string => new Date(ms).toISOString();

/** By so much a clock is wrong that is wrong. */
export const WRONG_MS = 365 * 86_400_000;

/** Where a time stands: written by a clock that was ahead or behind, or by a right one, before all evidence that is yet to soak. */
function eraOf(time: string, now: number): number {
  const ms = Date.parse(time);
  if (ms > now) return now + WRONG_MS;
  return ms < now - WRONG_MS / 2 ? now - WRONG_MS : now - 2 * SOAK_MS;
}

/** A soak passes for all content that is there. The same state when nothing has yet to soak. */
export function aged(state: FleetState): FleetState {
  const old = state.now - SOAK_MS;
  let isNews = false;
  const recorded = mapped(state.recorded, (record) => older(record, state.now));
  isNews ||= recorded !== state.recorded;
  const late = lateWith(state.late, (record) => older(record, state.now));
  isNews ||= late !== state.late;
  const accounts = mapped(state.accounts, (account) => {
    if (account.goneAt !== undefined && account.goneAt > old) {
      isNews = true;
      return { ...account, goneAt: old };
    }
    if (account.added?.at !== undefined && account.added.at > old) {
      isNews = true;
      return agedSince({ ...account, added: { ...account.added, at: old } }, old);
    }
    if (account.since === undefined || account.since.at <= old) return account;
    isNews = true;
    return { ...account, since: { ...account.since, at: old } };
  });
  return isNews ? { ...state, recorded, accounts, late } : state;
}

const agedSince = (account: Account, old: number): Account =>
  account.since === undefined || account.since.at <= old ? account : { ...account, since: { ...account.since, at: old } };

function older(record: UnitStatus, now: number): UnitStatus {
  const old = now - SOAK_MS;
  const goneAt = record.removal?.at;
  if (record.removal !== undefined && goneAt !== undefined && Date.parse(goneAt) > old && Date.parse(goneAt) <= now)
    return { ...record, removal: { ...record.removal, at: iso(old) } };
  const since = record.added?.verifiedAt;
  if (record.added !== undefined && since !== undefined && Date.parse(since) > old && Date.parse(since) <= now)
    return older({ ...record, added: { ...record.added, verifiedAt: iso(old) } }, now);
  const entry = record.verified?.find(({ digest }) => digest === record.evidence);
  if (entry === undefined || Date.parse(entry.at) <= old || Date.parse(entry.at) > now) return record;
  return { ...record, verified: (record.verified ?? []).map((each) => (each === entry ? { ...each, at: iso(old) } : each)) };
}

/** Changes what a store shows that is late. */
function lateWith(late: Late, change: (record: UnitStatus) => UnitStatus): Late {
  const records = late.records === undefined ? undefined : mapped(late.records, change);
  return records === undefined || records === late.records ? late : { ...late, records };
}

/** The same fleet with all that cannot be distinguished made equal: times become ranks, where only their order matters. */
export function normal(state: FleetState): FleetState {
  const hubs = [...(state.leader === undefined ? [] : [state.leader]), ...state.deposed];
  const times = new Set([
    ...[state.recorded, state.late.records ?? {}].flatMap((its) => Object.values(its).flatMap((record) => record?.appliedAt ?? [])),
    ...hubs.flatMap(({ tasks }) => tasks.flatMap(({ todo }) => todo.flatMap(seenIn))).flatMap((step) => appliedAtOf(step) ?? []),
  ]);
  const sorted = [...times].sort();
  const ranks = new Map(sorted.map((time, rank) => [time, iso(eraOf(time, state.now) + rank)]));
  const isRanked = sorted.every((time) => ranks.get(time) === time);
  const recorded = mapped(state.recorded, (record) => plainRecord(record, ranks, state.now));
  const accounts = mapped(state.accounts, (account) => plainAccount(account));
  const late = lateWith(state.late, (record) => plainRecord(record, ranks, state.now));
  const isSame = recorded === state.recorded && accounts === state.accounts && late === state.late;
  if (isRanked) return isSame ? state : { ...state, recorded, accounts, late };
  const leader = state.leader === undefined ? undefined : plainHub(state.leader, ranks);
  return { ...state, recorded, accounts, late, leader, deposed: state.deposed.map((hub) => plainHub(hub, ranks)) };
}

function mapped<T>(from: Readonly<Partial<Record<string, T>>>, change: (value: T) => T): Readonly<Partial<Record<string, T>>> {
  let isSame = true;
  const entries = Object.entries(from).map(([name, value]) => {
    const after = value === undefined ? undefined : change(value);
    isSame &&= after === value;
    return [name, after] as const;
  });
  return isSame ? from : Object.fromEntries(entries);
}

function plainRecord(record: UnitStatus, ranks: ReadonlyMap<string, string>, now: number): UnitStatus {
  const appliedAt = record.appliedAt === undefined ? undefined : ranks.get(record.appliedAt);
  const { removal } = record;
  if (removal?.after !== undefined && removal.after !== iso(eraOf(removal.after, now)))
    return { ...record, removal: { ...removal, after: iso(eraOf(removal.after, now)) } };
  const isPlain =
    appliedAt === record.appliedAt &&
    (record.verified ?? []).every(
      ({ digest, at, heldSeconds = 0 }) => (digest === record.evidence || at === iso(eraOf(at, now))) && heldSeconds <= SOAK_SECONDS,
    );
  if (isPlain) return record;
  return {
    ...record,
    ...(appliedAt === undefined ? {} : { appliedAt }),
    // For content that is no longer there only its duration is read, and that all of it was before the present content.
    verified: (record.verified ?? []).map(({ heldSeconds, ...entry }) => ({
      ...entry,
      at: entry.digest === record.evidence ? entry.at : iso(eraOf(entry.at, now)),
      ...(heldSeconds === undefined ? {} : { heldSeconds: Math.min(heldSeconds, SOAK_SECONDS) }),
    })),
  };
}

function plainAccount(account: Account): Account {
  if (Object.values(account.heldMs).every((ms) => ms !== undefined && ms > 0 && ms <= SOAK_MS)) return account;
  const durations = Object.entries(account.heldMs).flatMap(([digest, ms = 0]) =>
    ms === 0 ? [] : [[digest, Math.min(ms, SOAK_MS)] as const],
  );
  return { ...account, heldMs: Object.fromEntries(durations) };
}

type Seen = Extract<Step, { do: 'RecordEvidence' | 'RecordHalt' }>;

/** What is recorded only over the record that it was seen over. */
function seenIn(request: Request): Seen[] {
  return request.do === 'Record' ? request.steps.filter((step) => step.do === 'RecordEvidence' || step.do === 'RecordHalt') : [];
}

const appliedAtOf = (step: Seen): string | undefined => (step.do === 'RecordHalt' ? step.halt.appliedAt : step.appliedAt);

function plainHub(hub: Hub, ranks: ReadonlyMap<string, string>): Hub {
  const tasks = hub.tasks.map((task) => ({
    ...task,
    todo: task.todo.map((request): Request => {
      if (seenIn(request).length === 0 || request.do !== 'Record') return request;
      const rankOf = (time: string | undefined): string | undefined => (time === undefined ? undefined : ranks.get(time));
      const steps = request.steps.map((step): Step => {
        if (step.do === 'RecordHalt') return { ...step, halt: { ...step.halt, appliedAt: rankOf(step.halt.appliedAt) } };
        return step.do === 'RecordEvidence' ? { ...step, appliedAt: rankOf(step.appliedAt) } : step;
      });
      return { ...request, steps };
    }),
  }));
  return { ...hub, tasks };
}
