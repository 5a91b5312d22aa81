import type { Context } from '../context.ts';
import { journalOf } from '../context.ts';
import { isCrashLooping } from './observed.ts';
import type { Health, Observed } from './observed.ts';

const UNKNOWN: Health = { state: 'Unknown', bootID: undefined, since: undefined, message: undefined };

/** Gathers everything that the next decision needs. */
export async function observe(ctx: Context): Promise<Observed> {
  const { memory, ports, layout } = ctx;
  const nowMs = ports.clock.monotonic();
  const { switching, progress, repairing } = memory;
  const units = new Map((await ports.units.list()).map((unit) => [unit.name, unit]));
  const { state } = journalOf(memory);
  const health = new Map<string, Health>();
  for (const [name, { manifest }] of memory.installed) {
    const looping = manifest?.units.find((unit) => isCrashLooping(memory.starts.get(unit.name), nowMs));
    const known = memory.health.get(name) ?? UNKNOWN;
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
    serverMs: memory.server === undefined ? undefined : memory.server.ms + (nowMs - memory.server.atMs),
    bootID: ports.host.bootID,
    foreign: memory.foreign,
    holdFile: (await ports.files.stat(layout.hold)) !== undefined,
    wanted: memory.wanted,
    state,
    installed: memory.installed,
    manifests: memory.manifests,
    prepared: memory.prepared,
    rebuilt: memory.rebuilt,
    units,
    starts: memory.starts,
    health,
    drift: memory.drift,
    progress: {
      ...progress,
      probing: switching.probing === undefined ? undefined : { view: switching.probing.view(), deadlineMs: switching.deadlineMs },
    },
    repairing: { ...repairing, probing: repairing.probing?.view() },
    reread: memory.reread,
    rereadNotBeforeMs: memory.rereadNotBeforeMs,
    sweep: memory.sweep,
  };
}
