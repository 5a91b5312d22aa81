import type { AgentContext } from '../context.ts';
import type { Manifest } from '../generation/manifest.ts';
import { journalOf } from '../records/memory.ts';
import { restartingOf } from '../repair/task.ts';
import type { ComponentHealth } from './memory.ts';
import { startProbes } from './probes.ts';
import type { Probing } from './probes.ts';

/** Components that are probed and watched: everything that is installed and not just being changed. */
export function settledComponents({ memory }: AgentContext): Map<string, Manifest> {
  const changing = new Set([memory.records.journal?.state.transaction?.name, restartingOf(memory.records.journal?.state)]);
  const out = new Map<string, Manifest>();
  if (memory.records.journal === undefined || journalOf(memory).state.cleared) return out;
  for (const [name, { manifest }] of memory.records.installed) if (manifest !== undefined && !changing.has(name)) out.set(name, manifest);
  return out;
}

/** Starts the steady probes of what is installed, and ends the probes of what is not. */
export function syncProbes(ctx: AgentContext): void {
  const { memory, ports, layout } = ctx;
  const wanted = settledComponents(ctx);
  for (const [name, { digest, probing }] of memory.upkeep.probing) {
    if (wanted.get(name)?.digest === digest) continue;
    probing.stop();
    memory.upkeep.probing.delete(name);
  }
  for (const [name, manifest] of wanted) {
    if (memory.upkeep.probing.has(name)) continue;
    const onChange = (): void => {
      const entry = memory.upkeep.probing.get(name);
      if (entry?.probing === probing) noteHealth(ctx, name, probing);
    };
    const probing: Probing = startProbes(manifest, 'steady', new Map(), { ...ports, root: layout.root }, onChange);
    memory.upkeep.probing.set(name, { digest: manifest.digest, probing });
    // A component without probes and units is healthy as soon as it is observed.
    onChange();
  }
}

function noteHealth(ctx: AgentContext, name: string, probing: Probing): void {
  const { memory, ports } = ctx;
  const view = probing.view();
  const known = memory.upkeep.health.get(name);
  const { bootID } = ports.host;
  let next: ComponentHealth | undefined;
  if (view.broken && known?.state !== 'Unhealthy') {
    next = { state: 'Unhealthy', bootID: known?.bootID, since: undefined, message: view.message };
    ctx.happened({ type: 'Warning', reason: 'Unhealthy', message: `${name}: ${view.message ?? ''}` });
  } else if (view.passed && known?.state !== 'Healthy') {
    next = { state: 'Healthy', bootID, since: healthySince(ctx, name), message: undefined };
    if (known?.state === 'Unhealthy') ctx.happened({ type: 'Normal', reason: 'HealthyAgain', message: name });
  }
  if (next === undefined) return;
  memory.upkeep.health.set(name, next);
  ctx.wake();
}

/** What was reported before this process began goes on, if it is about the same content in the same boot. */
function healthySince({ memory, ports }: AgentContext, name: string): number {
  const now = ports.clock.now();
  if (memory.upkeep.health.has(name)) return now;
  const reported = memory.cell.wanted?.reported.components.find((each) => each.name === name);
  const { receipt } = memory.records.installed.get(name) ?? {};
  const since = Date.parse(reported?.healthySince ?? '');
  const same = reported?.bootID === ports.host.bootID && reported.content === receipt?.content;
  return same && since <= now ? since : now;
}
