import type { UnitStatus } from '../api/cluster.ts';
import type { CodedError } from '../api/errors.ts';
import { plainText } from '../api/plain-text.ts';
import type { Removal } from './apply-unit.ts';
import { syncError } from './errors.ts';
import { isGone, isSoakUnknown } from './soak.ts';

const KEPT_VERIFIED = 10;
const KEPT_REVOKED = 20;
const NO_RECORD_BEARS_MS = Date.UTC(9999, 0);

/** `begun` while a unit is being removed. */
export const REMOVAL = 'Removal';

/** What a decision to apply or remove was based on. A record that has gone on since is another hub's, or of a newer decision. */
export interface Over {
  digest: string | undefined;
  begun: string | undefined;
}

/** What is to be there. */
export interface Aim {
  /** A digest, or `REMOVAL`. */
  to: string;
  lane: 'Forward' | 'Restore';
  /** That brings it. */
  commit?: string;
  /** A retry from before it came to this cluster. */
  asked?: string | undefined;
  /** `to` is revoked on some cluster: then it is here too. */
  revoked?: boolean;
  /** When it is begun; absent: it bears no time. */
  at?: string;
  /** The object was in the cell before: it is not new there, also where no record has it. */
  found?: boolean;
  /** When what the cell has was begun, as the cell reports: nothing is recorded to have begun before that. */
  writtenAt?: string | undefined;
}

/** A halt, and the record that it was seen over. */
export interface SeenHalt {
  message: string;
  /** By the cell, for a reason that may pass. */
  refused: boolean;
  appliedAt: string | undefined;
  retried: string | undefined;
}

function overtaken(record: UnitStatus | undefined): CodedError {
  const { digest = 'nothing', begun } = record ?? {};
  return syncError(
    'Overtaken',
    `the record has gone on to ${digest}${begun === undefined ? '' : ` (${begun} under way)`} since this was decided`,
  );
}

export const records = {
  /**
   * Written before the first object is touched, and only over what the decision saw: what prune may have to delete, also if the process dies next,
   * and what is under way here. It is the fence between two hubs: the next writer checks that it still stands (`stands`).
   */
  begin:
    (fleet: string, aim: Aim, over: Over, inventory: NonNullable<UnitStatus['inventory']>, sameObject: (a: Entry, b: Entry) => boolean) =>
    (record: UnitStatus | undefined) => {
      const { to } = aim;
      const isRevoked = (record?.revoked ?? []).includes(to);
      // A halt or a going back since the decision revoked it: what is begun then goes through the stages, or not at all.
      const isOutdated = isRevoked && (aim.lane === 'Restore' || aim.revoked !== true);
      if (isOutdated || record?.digest !== over.digest || record?.begun !== over.begun) throw overtaken(record);
      const known = record?.inventory ?? [];
      const missing = inventory.filter((entry) => !known.some((other) => sameObject(entry, other)));
      const again = over.digest === to && over.begun === undefined;
      const base = record === undefined || isGone(record) ? newRecord(fleet, aim) : record;
      const due = aim.revoked === true && !(base.revoked ?? []).includes(to) ? revoke(base, to) : base;
      // What halted is left: it speaks only of what is there.
      const { halt, removal: _removal, ...rest } = due;
      const kept = halt?.digest === to ? { halt } : {};
      const removal = to === REMOVAL ? { removal: { lane: aim.lane } } : {};
      const before = latestOf(record?.writtenAt, aim.writtenAt);
      const writtenAt = again || to === REMOVAL || aim.at === undefined ? before : laterThan(before, aim.at);
      const begun = again ? {} : { begun: to };
      return {
        ...rest,
        ...kept,
        ...removal,
        ...(writtenAt === undefined ? {} : { writtenAt }),
        ...begun,
        inventory: [...known, ...missing],
      } satisfies UnitStatus;
    },

  applied:
    (digest: string, commit: string, lane: 'Forward' | 'Restore', at: string, inventory: NonNullable<UnitStatus['inventory']>) =>
    (record: UnitStatus | undefined) => {
      if (record === undefined || !stands(record, { to: digest, lane: 'Forward' })) throw overtaken(record);
      const { evidence, begun, ...rest } = record;
      const same = begun === undefined;
      return {
        ...rest,
        digest,
        commit,
        lane,
        appliedAt: same ? (record.appliedAt ?? at) : at,
        ...(same && evidence !== undefined ? { evidence } : {}),
        ...(same || record.verified === undefined ? {} : { verified: left(record, at) }),
        inventory,
      } satisfies UnitStatus;
    },

  /** Evidence counts only for what was applied then: the digest may have been replaced since the decision, and have come again. */
  verified: (digest: string, commit: string, at: string, appliedAt: string | undefined) => (record: UnitStatus | undefined) => {
    if (record?.digest !== digest || record.begun !== undefined || record.appliedAt !== appliedAt) return record;
    const known = (record.verified ?? []).find((entry) => entry.digest === digest);
    const others = (record.verified ?? []).filter((entry) => entry !== known);
    const heldSeconds = known?.heldSeconds;
    const order = known?.order ?? 1 + Math.max(0, ...others.map((entry) => entry.order ?? 0));
    const entry = {
      digest,
      commit,
      at,
      ...(heldSeconds === undefined ? {} : { heldSeconds }),
      order,
      ...(known?.upheld === true ? { upheld: true } : {}),
    };
    const { halt, ...rest } = record;
    const kept = halt === undefined || (halt.refused === true && halt.digest === digest) ? {} : { halt };
    const added = record.added === undefined ? {} : { added: { verifiedAt: at, ...record.added } };
    return { ...rest, ...kept, ...added, evidence: digest, verified: [entry, ...others].slice(0, KEPT_VERIFIED) };
  },

  /**
   * The cell halted what was applied then, after the last retry that was carried out here by then. A halt that is recorded keeps its time and message; a refusal
   * becomes a halt when the cell halts it.
   */
  halted:
    (digest: string, { message, refused, appliedAt, retried }: SeenHalt, at: string) =>
    (record: UnitStatus | undefined) => {
      if (record?.digest !== digest || record.begun !== undefined || record.appliedAt !== appliedAt || record.retried !== retried)
        return record;
      const known = haltOf(record);
      if (known !== undefined && (known.refused !== true || refused)) return record;
      return { ...record, halt: { digest, message: plainText(message), since: at, ...(refused ? { refused: true } : {}) } };
    },

  /** The very halt that the decision saw. */
  lifted: (digest: string, since: string) => (record: UnitStatus | undefined) => {
    if (record?.halt?.digest !== digest || record.halt.since !== since) return record;
    const { halt: _halt, ...rest } = record;
    return rest;
  },

  /** Where the record's times contradict each other still: a soak begins again, and what was there before counts no more (docs/protocols.md#e5). */
  soaksAgain: (digest: string, at: string) => (record: UnitStatus | undefined) => {
    if (record?.removal !== undefined && digest === REMOVAL && isGone(record))
      return isSoakUnknown(record, Date.parse(at)) ? { ...record, removal: { ...record.removal, at } } : record;
    if (record?.digest !== digest || record.evidence !== digest || record.begun !== undefined) return record;
    if (!isSoakUnknown(record, Date.parse(at))) return record;
    const verified = record.verified?.map((entry) => {
      if (entry.digest !== digest) return entry;
      const { heldSeconds: _heldSeconds, ...rest } = entry;
      return { ...rest, at };
    });
    return { ...record, ...(verified === undefined ? {} : { verified }) };
  },

  /** A retry from before is over: a human has to ask again. What was there before counts as no soak any more. */
  revoked: (digest: string, retry: string | undefined) => (record: UnitStatus | undefined) =>
    record === undefined ? record : { ...revoke(record, digest), ...(retry === undefined ? {} : { retried: retry }) },

  /** Others went back from it, this cluster did not. What is revoked here stays so. */
  upheld: (digest: string) => (record: UnitStatus | undefined) => {
    if (record === undefined || (record.revoked ?? []).includes(digest)) return record;
    const verified = record.verified?.map((entry) => (entry.digest === digest ? { ...entry, upheld: true } : entry));
    return { ...record, ...(verified === undefined ? {} : { verified }) };
  },

  /** Not by a retry that was carried out or ended here already. */
  reinstated: (digest: string, retry: string) => (record: UnitStatus | undefined) =>
    record === undefined || record.retried === retry
      ? record
      : { ...record, revoked: (record.revoked ?? []).filter((entry) => entry !== digest) },

  /** Over what the decision saw: a halt that was recorded after another retry is not lifted by this one. */
  retried: (retry: string, over: string | undefined, lifts: boolean) => (record: UnitStatus | undefined) => {
    if (record === undefined || record.retried !== over) return record;
    const { halt, ...rest } = record;
    return { ...rest, ...(halt === undefined || lifts ? {} : { halt }), retried: retry };
  },

  /**
   * What is only being emptied is all there still: if it is wanted again it goes back at once. When nothing is left the record has the time of that, for the soak of the
   * removal, also where that goes at once: later stages, where the unit is old, wait for it.
   */
  removed:
    ({ left, empties }: Removal, at: string) =>
    (record: UnitStatus | undefined) => {
      if (record !== undefined && record.begun !== REMOVAL) throw overtaken(record);
      if (record === undefined) return undefined;
      if (left.length === 0) return gone(record, at);
      if (empties) return record;
      const { digest: _digest, evidence: _evidence, halt: _halt, ...rest } = record;
      return { ...rest, inventory: left };
    },

  /** What came or went with a commit has soaked everywhere: nothing is new here any more, and of what is gone nothing is kept. `since`: as the decision saw it. */
  settled: (since: string) => (record: UnitStatus | undefined) => {
    if (isGone(record)) return record?.removal?.at === since ? undefined : record;
    if (record?.added?.verifiedAt !== since) return record;
    const { added: _added, ...rest } = record;
    return rest;
  },
};

/** `at`, or just after what was recorded before: the clock that it is read from may have been set back. */
function laterThan(before: string | undefined, at: string): string {
  const least = Date.parse(before ?? '') + 1;
  return Date.parse(at) < least ? new Date(least).toISOString() : at;
}

/** The later of the recorded time and the one that the cell reports; a time that no record can have is ignored. */
function latestOf(recorded: string | undefined, live: string | undefined): string | undefined {
  const liveMs = Date.parse(live ?? '');
  if (!(liveMs < NO_RECORD_BEARS_MS) || liveMs <= Date.parse(recorded ?? '')) return recorded;
  return new Date(liveMs).toISOString();
}

/** Of a unit of which nothing is here. */
function newRecord(fleet: string, { to, commit, asked, found }: Aim): UnitStatus {
  return {
    unit: '',
    fleet,
    ...(asked === undefined ? {} : { retried: asked }),
    ...(commit === undefined || to === REMOVAL || found === true ? {} : { added: { commit } }),
  };
}

function gone({ unit, fleet, appliedAt, writtenAt, verified = [] }: UnitStatus, at: string): UnitStatus {
  const after = [appliedAt, ...verified.map((entry) => entry.at)]
    .flatMap((time) => time ?? [])
    .sort((a, b) => Date.parse(a) - Date.parse(b));
  const last = after.at(-1);
  const removal = { lane: 'Forward' as const, at, ...(last === undefined ? {} : { after: last }) };
  return { unit, fleet, removal, ...(writtenAt === undefined ? {} : { writtenAt }) };
}

/** What its cell halted of what is there. */
export function haltOf({ digest, begun, halt }: UnitStatus): UnitStatus['halt'] {
  return begun === undefined && halt?.digest === digest ? halt : undefined;
}

/** Whether what was begun here is still what is to be done: nothing else was begun, by whomever, and no restore was revoked. */
export function stands(record: UnitStatus | undefined, { to, lane }: Aim): boolean {
  if (record === undefined || (lane === 'Restore' && (record.revoked ?? []).includes(to))) return false;
  return record.begun === to || (record.begun === undefined && record.digest === to);
}

/** The lane of what is there: by which it came, as long as it is not revoked. Hub and cell go by this one. */
export function currentLane({ digest, lane, revoked }: UnitStatus): 'Forward' | 'Restore' {
  return lane === 'Restore' && digest !== undefined && !(revoked ?? []).includes(digest) ? 'Restore' : 'Forward';
}

function revoke(record: UnitStatus, digest: string): UnitStatus {
  const verified = record.verified?.map((entry) => {
    if (entry.digest !== digest) return entry;
    const { heldSeconds: _heldSeconds, upheld: _upheld, ...rest } = entry;
    return rest;
  });
  const others = (record.revoked ?? []).filter((entry) => entry !== digest);
  // One that could be restored is never forgotten for one that could not.
  const isRestorable = (entry: string): boolean => (verified ?? []).some((each) => each.digest === entry);
  const kept = [...others.filter(isRestorable), ...others.filter((entry) => !isRestorable(entry))];
  return { ...record, ...(verified === undefined ? {} : { verified }), revoked: [digest, ...kept].slice(0, KEPT_REVOKED) };
}

/** Verified digests when another is applied: how long the one that is left was there with evidence counts as soak when it comes back. */
function left(record: UnitStatus, at: string): NonNullable<UnitStatus['verified']> {
  const { digest, evidence, verified = [], revoked = [] } = record;
  const counts = evidence === digest && !isSoakUnknown(record, Date.parse(at));
  return verified.map((entry) => {
    if (entry.digest !== digest || !counts || revoked.includes(entry.digest)) return entry;
    const seconds = Math.floor((Date.parse(at) - Date.parse(entry.at)) / 1000);
    return { ...entry, heldSeconds: (entry.heldSeconds ?? 0) + Math.max(0, seconds) };
  });
}

type Entry = NonNullable<UnitStatus['inventory']>[number];
