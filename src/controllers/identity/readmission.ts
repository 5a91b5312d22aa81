import type { Machine } from '../../api/machine.ts';

export interface Readmission {
  /** ≤ 0: now. */
  inMs: number;
  why: string;
  /** Whether a new epoch begins: one request was admitted in this one, and its agent cannot go on with it. */
  again: boolean;
}

/**
 * When a node needs a new bootstrap; undefined: not through a provider, or not while things are as they are. Pure.
 *
 * An agent that was away for longer than its certificate lasts can prove nothing any more, and its token was for one use; so can one that was
 * admitted and never reported, since its disk may have lost what it got.
 */
export function readmissionOf(machine: Machine, nowMs: number): Readmission | undefined {
  const { metadata, spec, status } = machine;
  // Without an instance that was recorded, the machine controller is still at making one.
  if (spec.provider === undefined || spec.paused === true || metadata.deletionTimestamp !== undefined || status?.providerID === undefined)
    return undefined;
  const { bootstrap } = status;
  if (bootstrap === undefined) return { inMs: 0, why: 'it has no identity of its own yet', again: false };
  const { csrUID, tokenUntil, until } = bootstrap;
  const inMs = (time: string | undefined): number => Math.max(0, Date.parse(time ?? '') || 0) - nowMs;
  if (csrUID === undefined) return { inMs: inMs(tokenUntil), why: 'its token ran out before it was used', again: false };
  if (status.agent === undefined) return { inMs: inMs(tokenUntil), why: 'it was admitted and never reported', again: true };
  return { inMs: inMs(until), why: 'its certificate ran out', again: true };
}
