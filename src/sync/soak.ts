import type { UnitStatus } from '../api/cluster.ts';

/** How far two right times may seem apart: each is known to five seconds (docs/protocols.md#h5). */
const APART_MS = 10_000;

/**
 * Whether the time of the evidence for what is held contradicts the record or this very time (ms), both of the hub's API server: it is later than
 * now, or before what happened earlier. Its clock was wrong when one of them was written, so how long the content has soaked is not known (docs/protocols.md#e5).
 *
 * A time that is not reached yet proves nothing against an earlier one: it is either that time which was wrong, or the clock since; when it is
 * reached, the soak begins again.
 */
export function isSoakUnknown({ evidence, appliedAt, verified = [] }: UnitStatus, now: number): boolean {
  const entry = verified.find(({ digest }) => digest === evidence);
  if (entry === undefined) return false;
  const at = Date.parse(entry.at);
  const earlier = [appliedAt, ...verified.map((each) => (each === entry ? undefined : each.at))].map((time) => Date.parse(time ?? ''));
  return !(at <= now + APART_MS) || earlier.some((time) => time <= now && at + APART_MS < time);
}

/** Since when what is held has soaked, ms, moved back by how long it was held with evidence before; undefined without evidence. */
export function soaksSince(record: UnitStatus, now: number): number | undefined {
  const { evidence, verified } = record;
  const entry = evidence === undefined ? undefined : verified?.find(({ digest }) => digest === evidence);
  if (entry === undefined) return undefined;
  return isSoakUnknown(record, now) ? now : Date.parse(entry.at) - (entry.heldSeconds ?? 0) * 1000;
}
