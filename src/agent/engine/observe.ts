import { serverMsOf } from '../cell/memory.ts';
import type { AgentContext } from '../context.ts';
import { journalOf } from '../records/memory.ts';
import { isCrashLooping } from '../upkeep/memory.ts';
import type { ComponentHealth } from '../upkeep/memory.ts';
import { repairingOf } from '../repair/memory.ts';
import type { ObservedNode } from './observed.ts';

const UNKNOWN: ComponentHealth = { state: 'Unknown', bootID: undefined, since: undefined, message: undefined };

/** Gathers everything that the next decision needs. */
export async function observe(ctx: AgentContext): Promise<ObservedNode> {
  const { memory, ports, layout } = ctx;
  const nowMs = ports.clock.monotonic();
  const { records, cell, generation, transaction, repair, upkeep, leave } = memory;
  const { switching, progress } = transaction;
  const { running } = repair;
  const units = new Map((await ports.units.list()).map((unit) => [unit.name, unit]));
  const { state } = journalOf(memory);
  const health = new Map<string, ComponentHealth>();
  for (const [name, { manifest }] of records.installed) {
    const looping = manifest?.units.find((unit) => isCrashLooping(upkeep.starts.get(unit.name), nowMs));
    const known = upkeep.health.get(name) ?? UNKNOWN;
    const exit = looping === undefined ? undefined : units.get(looping.name)?.exit;
    health.set(
      name,
      looping === undefined
        ? known
        : { ...known, state: 'Unhealthy', message: `unit ${looping.name} ends again and again${exit === undefined ? '' : ` (${exit})`}` },
    );
  }
  return {
    nowMs,
    wallMs: ports.clock.now(),
    serverMs: serverMsOf(memory, nowMs),
    bootID: ports.host.bootID,
    foreign: records.foreign,
    holdFile: (await ports.files.stat(layout.hold)) !== undefined,
    wanted: cell.wanted,
    state,
    installed: records.installed,
    manifests: transaction.manifests,
    prepared: generation.prepared,
    rebuilt: generation.rebuilt,
    units,
    starts: upkeep.starts,
    health,
    drift: upkeep.drift,
    progress: {
      ...progress,
      probing: switching.probing === undefined ? undefined : { view: switching.probing.view(), deadlineMs: switching.deadlineMs },
    },
    repairing: repairingOf(running),
    reread: cell.reread,
    rereadNotBeforeMs: cell.rereadNotBeforeMs,
    unknownToCell: cell.unknown,
    leaveNotBeforeMs: leave.notBeforeMs,
    sweep: generation.sweep,
  };
}
