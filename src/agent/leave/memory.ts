import type { AgentMemory } from '../context.ts';

/** What this process knows of its own end. */
export interface LeaveMemory {
  /** Monotonic ms: what was asked for is not asked for again before. */
  notBeforeMs: number;
}

export const newLeaveMemory = (): LeaveMemory => ({ notBeforeMs: 0 });

export function pauseLeaving({ leave }: AgentMemory, untilMs: number): void {
  leave.notBeforeMs = untilMs;
}
