import semver from 'semver';
import type { MachineComponentSpec } from './machine-component.ts';

/** What a change does to the workload of a node, weakest first. */
export const DISRUPTIONS = ['None', 'Reload', 'Restart', 'Drain', 'Reboot'] as const;
export type Disruption = (typeof DISRUPTIONS)[number];

export function stronger(a: Disruption, b: Disruption): Disruption {
  return DISRUPTIONS.indexOf(a) >= DISRUPTIONS.indexOf(b) ? a : b;
}

/** Restart or more is never done without an operation (docs/protocols.md#a4). */
export function needsOperation(disruption: Disruption): disruption is 'Restart' | 'Drain' | 'Reboot' {
  return DISRUPTIONS.indexOf(disruption) >= DISRUPTIONS.indexOf('Restart');
}

/** True when doing `disruption` takes the pods of the node away first. */
export function needsDrain(disruption: Disruption): boolean {
  return DISRUPTIONS.indexOf(disruption) >= DISRUPTIONS.indexOf('Drain');
}

/**
 * The class of going from `from` (undefined: no version of this component runs) to `to` (undefined: removal).
 * Versions that are not semver differ in the strongest way.
 */
export function disruptionOf(
  from: { version: string } | undefined,
  to: { version: string; disruption: NonNullable<MachineComponentSpec['disruption']> } | undefined,
): Disruption {
  if (to === undefined) return from === undefined ? 'None' : 'Restart';
  const classes = { install: 'None', config: 'Restart', patch: 'Restart', minor: 'Restart', major: 'Drain', ...to.disruption } as const;
  if (from === undefined) return classes.install;
  if (from.version === to.version) return classes.config;
  const a = semver.parse(from.version);
  const b = semver.parse(to.version);
  if (a === null || b === null || a.major !== b.major) return classes.major;
  return a.minor === b.minor ? classes.patch : classes.minor;
}
