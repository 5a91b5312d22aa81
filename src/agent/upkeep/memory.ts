import type { AgentMemory, AgentContext } from '../context.ts';
import type { Probing } from './probes.ts';

export interface ComponentHealth {
  state: 'Unknown' | 'Healthy' | 'Unhealthy';
  /** Boot in which the probes last passed. */
  bootID: string | undefined;
  /** Wall time, ms. */
  since: number | undefined;
  message: string | undefined;
}

export interface DriftFinding {
  /** A file that was written, the link to what runs, the receipt, or something in the generation's folder. */
  kind: 'file' | 'link' | 'receipt' | 'tree';
  path: string;
  what: string;
  repair: boolean;
}

export interface Drift {
  findings: DriftFinding[];
  /** When it was last checked, and how long that took. */
  checkedMs: number;
  tookMs?: number;
  /** Monotonic: when to check again, at the latest. */
  nextMs: number;
  /** When artifacts are hashed again. */
  nextFullMs: number;
}

export interface UnitStarts {
  /** Starts that did not last, in a row. */
  failures: number;
  lastMs: number;
  notBeforeMs: number;
}

/** A unit that was up for this long did not fail to start. */
export const LASTING_MS = 60_000;

export function isCrashLooping(starts: UnitStarts | undefined, nowMs: number): boolean {
  return starts !== undefined && starts.failures >= 3 && nowMs - starts.lastMs < LASTING_MS;
}

/** The part of a component's generation that a change in a watched folder touches; undefined: none. */
export type ChangeReader = (name: string | undefined) => string | undefined;

/** What is known of the components that run, and of the probes and watches of each. */
export interface UpkeepMemory {
  /** By unit. */
  starts: Map<string, UnitStarts>;
  health: Map<string, ComponentHealth>;
  probing: Map<string, { digest: string; probing: Probing }>;
  drift: Map<string, Drift>;
  /** Paths in generations' folders that a watch reported as changed since the last check, by component; an empty set: a change elsewhere. */
  touched: Map<string, Set<string>>;
  /** Folders of generations that run, as far as they are watched, by component. */
  folders: Map<string, { digest: string; paths: string[] }>;
  watches: Map<string, { inode: number; readers: ReadonlyMap<string, ChangeReader>; close: () => void }>;
}

export function newUpkeepMemory(): UpkeepMemory {
  return {
    starts: new Map(),
    health: new Map(),
    probing: new Map(),
    drift: new Map(),
    touched: new Map(),
    folders: new Map(),
    watches: new Map(),
  };
}

/** The unit was started by an operation or a transaction: earlier failures no longer count. */
export function forgetStarts({ upkeep }: AgentMemory, unit: string): void {
  upkeep.starts.delete(unit);
}

/** What was installed is checked from the beginning. */
export function forgetDrift({ upkeep }: AgentMemory, name?: string): void {
  if (name === undefined) upkeep.drift.clear();
  else upkeep.drift.delete(name);
}

/** While a component is changed its steady probes do not run. */
export function stopSteadyProbes({ upkeep }: AgentMemory, name: string): void {
  upkeep.probing.get(name)?.probing.stop();
  upkeep.probing.delete(name);
}

export function forgetHealth({ upkeep }: AgentMemory, name: string): void {
  upkeep.health.delete(name);
}

/** The probes passed at the end of a transaction. */
export function recordHealthy({ memory, ports: { host, clock } }: AgentContext, name: string): void {
  memory.upkeep.health.set(name, { state: 'Healthy', bootID: host.bootID, since: clock.now(), message: undefined });
}

/** A transaction failed and nothing could be restored. */
export function recordUnhealthy({ memory }: AgentContext, name: string, message: string): void {
  memory.upkeep.health.set(name, { state: 'Unhealthy', bootID: undefined, since: undefined, message });
}
