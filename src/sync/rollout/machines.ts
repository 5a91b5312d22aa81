/** Why a MachineSet stays as it is, for the limits of deletions (docs/protocols.md#e9): its cell has, or is to have, more machines than the commit was judged with. Pure. */
import { isUnitOf } from '../../api/unit.ts';
import type { UnitStatus } from '../../api/cluster.ts';
import { MachineSets, type MachineSet } from '../../api/machine-set.ts';
import type { Rollout } from '../../api/rollout.ts';
import type { Stored } from '../../api/wire.ts';
import { isNumberOfSync } from '../replicas-owner.ts';
import type { UnitPlacement } from './placement.ts';

/**
 * Why a set must not be changed yet: its cell is to have more machines than were counted when the commit was judged, by content that the hub did not give it as
 * far as it knows, such as after a restore. A Rollout of an earlier version has counted none.
 */
export function uncountedMachines(
  { metadata }: Rollout,
  { unit, target, live }: UnitPlacement,
  record: UnitStatus | undefined,
  counted = 0,
): string | undefined {
  if (!isUnitOf(unit, MachineSets)) return undefined;
  if (live.state === 'Unknown') return 'not observed yet';
  if (live.state === 'Absent' || live.machines === undefined || live.machines <= counted) return undefined;
  const { unitDigest } = live;
  if (unitDigest !== undefined && [record?.digest, record?.begun, target].includes(unitDigest)) return undefined;
  const asked = target === undefined ? '' : `, or a person asks for this one: kubenode rollout retry ${metadata.name}`;
  return `its cell has content that is not on record here, with ${live.machines} machines; ${counted} were counted when the commit was judged. It stays until a commit gives it other \`replicas\`${asked}`;
}

/** Whether more machines are there by now than may be, so that a change would let more go than the limits of deletions allowed when the commit was judged. */
export function hasTooMany({ unit, live, atMost }: Pick<UnitPlacement, 'unit' | 'live' | 'atMost'>): boolean {
  return isUnitOf(unit, MachineSets) && atMost !== undefined && live.state === 'Present' && (live.has ?? 0) > atMost;
}

export function tooManyText({ live, atMost = 0 }: UnitPlacement): string {
  const has = live.state === 'Present' ? (live.has ?? 0) : 0;
  const machines = `${has} machine${has === 1 ? '' : 's'}`;
  return `it has ${machines} by now, and the limits of deletions were judged for at most ${atMost}: ${has - atMost} too many would go. All are kept, and no more are made. Raise \`prune\` of its stage in the Fleet, whose condition Ready names the numbers, or commit the set with \`replicas: ${has}\``;
}

/**
 * How many machines a set has that stay as it is: what is there beyond the number that the hub gave it goes already. Where that number is not there any more, `given` is
 * the largest that the hub gave it.
 */
export function machinesHad(set: Stored<MachineSet>, given: number | undefined): { has: number; numbered: boolean } {
  const there = set.status?.replicas ?? 0;
  const numbered = isNumberOfSync(set) && set.spec.replicas !== undefined;
  const number = numbered ? set.spec.replicas : given;
  return { has: Number.isInteger(there) ? Math.min(there, number ?? there) : Infinity, numbered };
}
