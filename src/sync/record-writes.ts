/** How records of a cluster are written: many changes at once, over the object that they were computed from. */
import { syncErrorCodes } from './errors.ts';
import { Clusters, type UnitStatus } from '../api/cluster.ts';
import { canonical } from '../api/digest.ts';
import { isCoded, type CodedError } from '../api/errors.ts';
import { hasReason } from '../kube/api-error.ts';
import type { Client } from '../kube/client.ts';
import { addFinalizer } from './cluster/finalizer.ts';
import type { Fence } from './fence.ts';

const TRIES = 8;

/** What becomes of the record of one unit; undefined drops it. It may throw `Overtaken`. */
export interface RecordChange {
  unit: string;
  change: (record: UnitStatus | undefined) => UnitStatus | undefined;
}

/**
 * Changes what the hub records of units on one cluster, all of it in one write. The write is conditioned on the object it was computed from,
 * so a deposed hub or a concurrent writer never erases a record; on conflict it is computed again. Nothing is written when nothing differs.
 * Returns the changes that were refused because the record has gone on from what they were decided from.
 *
 * Errors: `Deposed`: a later term of the hub has begun.
 */
export async function changeRecords<T extends RecordChange>(
  hub: Client,
  cluster: string,
  changes: readonly T[],
  fence: Pick<Fence, 'require'>,
  signal: AbortSignal,
): Promise<Map<T, CodedError>> {
  for (let tries = 1; changes.length > 0; tries += 1) {
    const live = await hub.get(Clusters, { name: cluster }, { signal });
    fence.require(live);
    const before = live.status?.units ?? [];
    const refused = new Map<T, CodedError>();
    let units = before;
    for (const change of changes) {
      try {
        units = changed(units, change);
      } catch (error) {
        if (!isCoded(error, syncErrorCodes, 'Overtaken')) throw error;
        refused.set(change, error);
      }
    }
    if (canonical(units) === canonical(before)) return refused;
    const patch = { metadata: { resourceVersion: live.metadata.resourceVersion }, status: { units } };
    try {
      if (units.some(({ halt }) => halt !== undefined) && (await addFinalizer(hub, live, signal))) continue;
      await hub.patch(Clusters, { name: cluster }, { merge: patch }, { subresource: 'status', signal });
      return refused;
    } catch (error) {
      if (!hasReason(error, 'Conflict') || tries === TRIES) throw error;
    }
  }
  return new Map();
}

function changed(units: UnitStatus[], { unit, change }: RecordChange): UnitStatus[] {
  const index = units.findIndex((record) => record.unit === unit);
  const after = change(units[index]);
  if (after === undefined) return index < 0 ? units : units.toSpliced(index, 1);
  return index < 0 ? [...units, { ...after, unit }] : units.with(index, { ...after, unit });
}
