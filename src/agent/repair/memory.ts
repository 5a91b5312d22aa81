import type { AgentMemory, AgentContext } from '../context.ts';
import type { ProbeView, Probing } from '../upkeep/probes.ts';
import type { Cleaner } from './cleaner.ts';

/** How far the running Repair is in this process. */
export interface Repairing {
  /** The probes of the restarted units. */
  probing: ProbeView | undefined;
  /** When the probes must pass, or the reboot must have happened; unknown until this process did something for it. */
  deadlineMs: number | undefined;
  /** For what is tried, or asked for, again. */
  notBeforeMs: number;
  failures: number;
  error: string | undefined;
  cleaning: { end: 'enough' | 'nothing' | undefined; notes: string } | undefined;
  /** Share of the disk in use when it was last checked. */
  percent: number;
}

/** What is known of the running Repair beside the journal. */
export type RunningRepair = Omit<Repairing, 'probing'> & { probing: Probing | undefined; cleaner: Cleaner | undefined };

export interface RepairMemory {
  running: RunningRepair;
}

function newRunning(): RunningRepair {
  return {
    probing: undefined,
    deadlineMs: undefined,
    notBeforeMs: 0,
    failures: 0,
    error: undefined,
    cleaning: undefined,
    percent: 100,
    cleaner: undefined,
  };
}

export function newRepairMemory(): RepairMemory {
  return { running: newRunning() };
}

/** As a decision sees it. */
export function repairingOf({ cleaner: _cleaner, probing, ...rest }: RunningRepair): Repairing {
  return { ...rest, probing: probing?.view() };
}

export function endRepairing({ memory: { repair }, background }: Pick<AgentContext, 'memory' | 'background'>): void {
  const { probing, cleaner } = repair.running;
  probing?.stop();
  if (cleaner !== undefined) background(cleaner.close().catch(() => undefined));
  repair.running = newRunning();
}

/** While the node is held no deadline runs: probes begin again afterwards. */
export function suspendRepair({ memory: { repair } }: AgentContext): void {
  repair.running.probing?.stop();
  repair.running.probing = undefined;
  repair.running.deadlineMs = undefined;
}

export function stopRepairProbes({ repair }: AgentMemory): void {
  repair.running.probing?.stop();
}
