import type { AgentContext } from '../context.ts';
import { recordRebuilt } from '../records/installed.ts';

/** After damaged generations were built again, they are the installed ones. */
export function takeRebuilt(ctx: AgentContext): void {
  const { records, generation } = ctx.memory;
  for (const [name, rebuilt] of generation.rebuilt) {
    const installed = records.installed.get(name);
    if (installed?.manifest !== undefined || installed === undefined) generation.rebuilt.delete(name);
    else if (rebuilt.status === 'ready') recordRebuilt(ctx, name, rebuilt.manifest);
  }
}
