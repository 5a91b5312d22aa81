/**
 * Whether detectors are alive, by our own clock: a heartbeat counts from when it was seen to change, not at the time in it. Kept in
 * memory only; after a restart the time in it is taken once, if it can be true. So a restart may find a detector stale for one more
 * period, and never takes a dead one for alive longer than it was.
 */
import type { NodeCondition } from '../api/builtin.ts';

export interface Heartbeat {
  /** As the detector wrote it. */
  value: string;
  /** When it was alive last, ms by our clock; -Infinity while that is unknown. */
  aliveMs: number;
}

/** Heartbeats of one Node (by UID), by type of condition. */
export interface Heartbeats {
  nodeUID: string;
  byType: ReadonlyMap<string, Heartbeat>;
}

/** Two periods of Node Problem Detector and of an idle kubelet, five minutes each. */
export const STALE_AFTER_MS = 600_000;
/** A heartbeat further in the future than this proves nothing until it changes. */
export const SKEW_MS = 60_000;

function firstObservation(value: string, nowMs: number): number {
  const claimed = Date.parse(value);
  if (Number.isNaN(claimed) || claimed > nowMs + SKEW_MS) return Number.NEGATIVE_INFINITY;
  return Math.min(claimed, nowMs);
}

/** To be called with every version of a Node that is seen, in order; the same value when nothing moved. */
export function observeHeartbeats(
  known: Heartbeats | undefined,
  nodeUID: string,
  conditions: readonly NodeCondition[],
  nowMs: number,
): Heartbeats {
  const before = known?.nodeUID === nodeUID ? known : undefined;
  let moved = before === undefined;
  const byType = new Map<string, Heartbeat>();
  for (const { type, lastHeartbeatTime } of conditions) {
    if (lastHeartbeatTime === undefined) continue;
    const old = before?.byType.get(type);
    if (old?.value === lastHeartbeatTime) {
      byType.set(type, old);
      continue;
    }
    moved = true;
    byType.set(type, { value: lastHeartbeatTime, aliveMs: old === undefined ? firstObservation(lastHeartbeatTime, nowMs) : nowMs });
  }
  if (before !== undefined && !moved && before.byType.size === byType.size) return before;
  return { nodeUID, byType };
}
