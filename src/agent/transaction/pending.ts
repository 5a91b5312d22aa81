import semver from 'semver';
import { disruptionOf } from '../../api/disruption.ts';
import type { Disruption } from '../../api/disruption.ts';
import type { Manifest } from '../generation/manifest.ts';
import type { ObservedNode } from '../engine/observed.ts';
import { componentOf } from '../records/state.ts';

/** What is left to do of one component. */
export type PendingChange =
  | { kind: 'nothing' }
  /** The same content under a higher revision: only the receipt moves. */
  | { kind: 'advance' }
  /** To be removed, and not here. */
  | { kind: 'absent' }
  /** Its generation is not here yet. */
  | { kind: 'preparing' }
  | { kind: 'refuse'; reason: string; message: string }
  /** Something else must happen first. */
  | { kind: 'blocked'; message: string }
  /** May be carried out: at once, or by an operation. `to` absent: it is removed. */
  | { kind: 'ready'; why: 'Change' | 'Drift'; class: Disruption; to: Manifest | undefined };

const NOTHING: PendingChange = { kind: 'nothing' };

export function pendingOf(o: ObservedNode, name: string): PendingChange {
  const component = componentOf(o.state, name);
  if (component === undefined || o.state.cleared) return NOTHING;
  const installed = o.installed.get(name);
  if (component.failed !== undefined) return execDrift(o, name);
  if (component.action === 'Remove') {
    if (installed === undefined) return component.removed ? NOTHING : { kind: 'absent' };
    if (installed.manifest === undefined) return { kind: 'blocked', message: 'its generation is damaged and is built again first' };
    return { kind: 'ready', why: 'Change', class: disruptionOf(installed.receipt, undefined), to: undefined };
  }
  if (installed?.receipt.content === component.content) {
    return installed.receipt.revision === component.revision ? execDrift(o, name) : { kind: 'advance' };
  }
  const prepared = o.prepared.get(name);
  if (prepared?.revision !== component.revision || prepared.status === 'working' || prepared.status === 'retry')
    return { kind: 'preparing' };
  if (prepared.status === 'failed') return { kind: 'refuse', reason: prepared.reason, message: prepared.message };
  if (installed !== undefined && installed.manifest === undefined) {
    return { kind: 'blocked', message: 'the generation that runs is damaged and is built again first' };
  }
  const { manifest } = prepared;
  const missing = conflict(o, manifest) ?? requirement(o, manifest);
  if (missing !== undefined) return { kind: 'blocked', message: missing };
  return { kind: 'ready', why: 'Change', class: disruptionOf(installed?.receipt, manifest), to: manifest };
}

/** A unit that runs, but not as it should: only a restart puts it right. */
function execDrift(o: ObservedNode, name: string): PendingChange {
  const manifest = o.installed.get(name)?.manifest;
  if (manifest === undefined) return NOTHING;
  const component = componentOf(o.state, name);
  // A repair that failed is not tried again either.
  if (component?.driftFailed === manifest.digest) return NOTHING;
  const differs = driftedUnits(o, manifest);
  return differs.length === 0 ? NOTHING : { kind: 'ready', why: 'Drift', class: 'Restart', to: manifest };
}

export function driftedUnits(o: ObservedNode, manifest: Manifest): string[] {
  return manifest.units
    .filter((unit) => {
      const status = o.units.get(unit.name);
      return status?.running === true && status.hash !== unit.hash;
    })
    .map((unit) => unit.name);
}

/** Two components must not own one file or one unit. It may be that the other one is just being changed, so this is waited for. */
function conflict(o: ObservedNode, manifest: Manifest): string | undefined {
  for (const [name, { manifest: other }] of o.installed) {
    if (other === undefined || name === manifest.name) continue;
    const file = manifest.files.find((each) => other.files.some((theirs) => theirs.path === each.path));
    if (file !== undefined) return `${file.path} belongs to component ${name}`;
    const unit = manifest.units.find((each) => other.units.some((theirs) => theirs.name === each.name));
    if (unit !== undefined) return `unit ${unit.name} belongs to component ${name}`;
  }
  return undefined;
}

function requirement(o: ObservedNode, manifest: Manifest): string | undefined {
  for (const { componentName, versionRange } of manifest.requires) {
    const wanted = versionRange === undefined ? componentName : `${componentName} ${versionRange}`;
    const installed = o.installed.get(componentName);
    if (installed === undefined) return `it requires ${wanted}, which is not installed`;
    const { version } = installed.receipt;
    if (versionRange !== undefined && !semver.satisfies(version, versionRange, { includePrerelease: true })) {
      return `it requires ${wanted}; installed is ${version}`;
    }
    if (o.health.get(componentName)?.state !== 'Healthy') return `it requires ${wanted}, which is not healthy`;
  }
  return undefined;
}
