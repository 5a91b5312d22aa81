import type { AgentContext } from '../context.ts';
import { takeRebuilt } from '../generation/restore.ts';
import { stopRepairProbes, suspendRepair } from '../repair/memory.ts';
import { stopSwitchProbes, suspendTransaction } from '../transaction/memory.ts';
import { syncProbes } from './health.ts';
import { syncWatches } from './watches.ts';

/** Brings what runs beside the steps in line with what is installed: probes, watches, and generations that were built again. */
export async function syncUpkeep(ctx: AgentContext): Promise<void> {
  takeRebuilt(ctx);
  syncProbes(ctx);
  await syncWatches(ctx);
}

export function stopUpkeep({ memory }: AgentContext): void {
  for (const { probing } of memory.upkeep.probing.values()) probing.stop();
  for (const { close } of memory.upkeep.watches.values()) close();
  stopSwitchProbes(memory);
  stopRepairProbes(memory);
}

/** While the node is held no deadline runs: probes begin again afterwards. */
export function suspend(ctx: AgentContext): void {
  suspendTransaction(ctx);
  suspendRepair(ctx);
}
