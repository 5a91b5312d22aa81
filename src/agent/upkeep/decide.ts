import { inOrder } from '../operation/decide.ts';
import type { Manifest } from '../generation/manifest.ts';
import { LASTING_MS, isCrashLooping } from './memory.ts';
import type { ObservedNode } from '../engine/observed.ts';
import { componentOf } from '../records/state.ts';
import type { AgainAt, AgentStep } from '../engine/steps.ts';

/** Repairs of drift that a component gets in an hour; then what drifts is only reported. */
export const REPAIRS_PER_HOUR = 6;
export const HOUR_MS = 3_600_000;

/** What keeps the node as it is: units that are down are started, what drifted is put right where that disrupts nothing. */
export function upkeepStep(o: ObservedNode, due: AgainAt): AgentStep | undefined {
  if (o.state.cleared) return strayStep(o, due);
  const tx = o.state.transaction;
  const names = inOrder(o, [...o.installed.keys()]).filter((name) => name !== tx?.name);
  for (const name of names) {
    const manifest = o.installed.get(name)?.manifest;
    const step = manifest === undefined ? rebuildStep(o, name, due) : (driftStep(o, name, due) ?? startStep(o, manifest, due));
    if (step !== undefined) return step;
  }
  // While it is probed a unit may need more than one start, unless a probe forbids that.
  const probed =
    tx !== undefined && o.progress.probing !== undefined ? o.manifests.get((tx.back === undefined ? tx.to : tx.from) ?? '') : undefined;
  if (probed !== undefined) return startStep(o, probed, due);
  return tx === undefined ? strayStep(o, due) : undefined;
}

function startStep(o: ObservedNode, manifest: Manifest, due: AgainAt): AgentStep | undefined {
  for (const unit of manifest.units) {
    const starts = o.starts.get(unit.name);
    if (o.units.get(unit.name)?.running === true) {
      // When it has lasted it counts as up.
      if (isCrashLooping(starts, o.nowMs)) due((starts?.lastMs ?? 0) + LASTING_MS);
      continue;
    }
    const notBefore = starts?.notBeforeMs ?? 0;
    if (o.nowMs >= notBefore) return { do: 'startUnit', name: manifest.name, unit: unit.name };
    due(notBefore);
  }
  return undefined;
}

function driftStep(o: ObservedNode, name: string, due: AgainAt): AgentStep | undefined {
  const drift = o.drift.get(name);
  // Also before units are started: at boot what they read must be what was installed.
  if (drift === undefined) return { do: 'check', name, full: false };
  if (o.nowMs >= drift.nextFullMs) return { do: 'check', name, full: true };
  if (o.nowMs >= drift.nextMs) return { do: 'check', name, full: false };
  due(drift.nextMs);
  due(drift.nextFullMs);
  if (!drift.findings.some((each) => each.repair)) return undefined;
  const freeMs = repairBudgetMs(o, name);
  if (freeMs === 0) return { do: 'repair', name };
  due(o.nowMs + freeMs);
  return undefined;
}

/** Ms until the component may be repaired again; 0: now. */
export function repairBudgetMs(o: Pick<ObservedNode, 'state' | 'wallMs'>, name: string): number {
  const recent = (componentOf(o.state, name)?.repairs ?? []).filter((at) => at > o.wallMs - HOUR_MS && at <= o.wallMs);
  const oldest = recent[recent.length - REPAIRS_PER_HOUR];
  return oldest === undefined ? 0 : oldest + HOUR_MS - o.wallMs;
}

function rebuildStep(o: ObservedNode, name: string, due: AgainAt): AgentStep | undefined {
  const rebuilt = o.rebuilt.get(name);
  if (rebuilt === undefined) return { do: 'prepare', name, rebuild: true };
  if (rebuilt.status !== 'retry') return undefined;
  if (o.nowMs >= rebuilt.atMs) return { do: 'prepare', name, rebuild: true };
  due(rebuilt.atMs);
  return undefined;
}

/** A unit of no component: left by something that was taken away. */
function strayStep(o: ObservedNode, due: AgainAt): AgentStep | undefined {
  const manifests = [...o.installed.values()].map((each) => each.manifest);
  // The units of a damaged generation are not known.
  if (manifests.includes(undefined)) return undefined;
  for (const name of o.units.keys()) {
    if (manifests.some((manifest) => manifest?.units.some((unit) => unit.name === name))) continue;
    const notBefore = o.starts.get(name)?.notBeforeMs ?? 0;
    if (o.nowMs >= notBefore) return { do: 'stopUnit', unit: name };
    due(notBefore);
  }
  return undefined;
}
