/**
 * When a Lease was renewed last, by the API server's clock: it notes that beside each writer's fields (managedFields). What the holder itself
 * writes, `renewTime`, is by a clock that may be wrong by years (docs/protocols.md#h5).
 */
import type { Lease } from '../api/builtin.ts';
import type { ManagedFieldsEntry, Stored } from '../api/wire.ts';

const renewals = new WeakMap<object, number>();

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}

function renews({ fieldsV1 }: ManagedFieldsEntry): boolean {
  const spec = isRecord(fieldsV1) ? fieldsV1['f:spec'] : undefined;
  return isRecord(spec) && 'f:renewTime' in spec;
}

/** For a store of Leases (`project`): keeps the server's time of the renewal, before managedFields are dropped. */
export function noteRenewal(lease: Stored<Lease>): Stored<Lease> {
  const times = (lease.metadata.managedFields ?? []).filter(renews).map(({ time }) => Date.parse(time ?? ''));
  const known = times.filter((ms) => !Number.isNaN(ms));
  if (known.length > 0) renewals.set(lease, Math.max(...known));
  return lease;
}

/**
 * When the Lease was renewed, ms by the API server's clock, in whole seconds; NaN: unknown. Where the server noted none,
 * it is the holder's own time.
 */
export const renewalMs = (lease: Lease): number => renewals.get(lease) ?? Date.parse(lease.spec?.renewTime ?? '');
