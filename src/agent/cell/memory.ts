import type { Clock } from '../../api/ports.ts';
import type { AgentMemory } from '../context.ts';
import { createNewest } from './wanted.ts';
import type { WantedState } from './wanted.ts';

/** What the cell asks for, as far as this process has read it. */
export interface CellMemory {
  wanted: WantedState | undefined;
  isNews: ReturnType<typeof createNewest>;
  /** The API server's clock, and when by the monotonic clock it was read. */
  server: { ms: number; atMs: number } | undefined;
  /** The operation that the step before this one read live from the Machine; empty: it names none. */
  reread: string | undefined;
  rereadNotBeforeMs: number;
  /** When it was last read live, the API server had no such Machine, or did not let this agent read it. */
  unknown: boolean;
}

export function newCellMemory(clock: Clock): CellMemory {
  return { wanted: undefined, isNews: createNewest(clock), server: undefined, reread: undefined, rereadNotBeforeMs: 0, unknown: false };
}

/** The Machine, as it was read or watched; `refetched`: read without reliance on what was read before. */
export function recordMachine({ cell }: AgentMemory, wanted: WantedState, refetched?: boolean): void {
  if (cell.isNews(wanted.resourceVersion, refetched)) cell.wanted = wanted;
}

export function recordServerTime({ cell }: AgentMemory, serverMs: number, clock: Clock): void {
  cell.server = { ms: serverMs, atMs: clock.monotonic() };
}

/** The API server's clock now, as far as it is known; wall ms. */
export function serverMsOf({ cell: { server } }: AgentMemory, nowMs: number): number | undefined {
  return server === undefined ? undefined : server.ms + (nowMs - server.atMs);
}

/** Wall ms by the API server's clock, where it is known. */
export function bestWallMs(memory: AgentMemory, clock: Clock): number {
  return serverMsOf(memory, clock.monotonic()) ?? clock.now();
}

/** What was read live is valid for the next step only. */
export function expireReread({ cell }: AgentMemory): void {
  cell.reread = undefined;
}
