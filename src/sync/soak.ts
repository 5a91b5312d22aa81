import type { UnitStatus } from '../api/cluster.ts';

/** How far two right times may seem apart: each is known to five seconds (docs/protocols.md#h5). */
const APART_MS = 10_000;

/**
 * Whether the time of the evidence for what is there contradicts the record or this very time (ms), both of the hub's API server: it is later than
 * now, or before what happened earlier. Its clock was wrong when one of them was written, so how long the content has soaked is not known (docs/protocols.md#e5).
 *
 * A time that is not reached yet proves nothing against an earlier one: it is either that time which was wrong, or the clock since; when it is
 * reached, the soak begins again.
 */
export function isSoakUnknown(record: UnitStatus, now: number): boolean {
  const { evidence, appliedAt, verified = [], removal } = record;
  if (removal?.at !== undefined && isGone(record)) return isContradicted(Date.parse(removal.at), [removal.after], now);
  const entry = verified.find(({ digest }) => digest === evidence);
  if (entry === undefined) return false;
  return isContradicted(Date.parse(entry.at), [appliedAt, ...verified.map((each) => (each === entry ? undefined : each.at))], now);
}

function isContradicted(at: number, before: readonly (string | undefined)[], now: number): boolean {
  const earlier = before.map((time) => Date.parse(time ?? ''));
  return !(at <= now + APART_MS) || earlier.some((time) => time <= now && at + APART_MS < time);
}

/**
 * Since when what is there has soaked, ms, moved back by how long it was there with evidence before; undefined without evidence. Of what was removed, since
 * when it is gone.
 */
export function soaksSince(record: UnitStatus, now: number): number | undefined {
  const { evidence, verified, removal } = record;
  if (removal?.at !== undefined && isGone(record)) return isSoakUnknown(record, now) ? now : Date.parse(removal.at);
  const entry = evidence === undefined ? undefined : verified?.find(({ digest }) => digest === evidence);
  if (entry === undefined) return undefined;
  return isSoakUnknown(record, now) ? now : Date.parse(entry.at) - (entry.heldSeconds ?? 0) * 1000;
}

/** Whether the unit was removed from this cluster by a commit, and nothing of it is left: what is kept is only since when. */
export function isGone(record: UnitStatus | undefined): boolean {
  return record?.removal?.at !== undefined && record.digest === undefined && record.begun === undefined;
}

/** Whether evidence that was recorded then is not older than this. A time that is not reached yet is no proof, so it is not. */
export function isYoung(at: string, now: number, ageMs: number): boolean {
  const since = Date.parse(at);
  return since <= now + APART_MS && now < since + ageMs;
}
