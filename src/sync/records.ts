import { Clusters, type UnitStatus } from '../api/cluster.ts';
import { canonical } from '../api/digest.ts';
import { hasReason } from '../kube/apierror.ts';
import type { Client } from '../kube/client.ts';

const TRIES = 8;

/** What becomes of the record of one unit; undefined drops it. */
export interface RecordChange {
  unit: string;
  change: (record: UnitStatus | undefined) => UnitStatus | undefined;
}

/**
 * Changes what the hub records of units on one cluster, all of it in one write. The write is conditioned on the object it was computed from,
 * so a deposed hub or a concurrent writer never erases a record; on conflict it is computed again. Nothing is written when nothing differs.
 */
export async function changeRecords(hub: Client, cluster: string, changes: readonly RecordChange[], signal: AbortSignal): Promise<void> {
  for (let tries = 1; changes.length > 0; tries += 1) {
    const live = await hub.get(Clusters, { name: cluster }, { signal });
    const before = live.status?.units ?? [];
    const units = changes.reduce(changed, before);
    if (canonical(units) === canonical(before)) return;
    const patch = { metadata: { resourceVersion: live.metadata.resourceVersion }, status: { units } };
    try {
      await hub.patch(Clusters, { name: cluster }, { merge: patch }, { subresource: 'status', signal });
      return;
    } catch (error) {
      if (!hasReason(error, 'Conflict') || tries === TRIES) throw error;
    }
  }
}

function changed(units: UnitStatus[], { unit, change }: RecordChange): UnitStatus[] {
  const index = units.findIndex((record) => record.unit === unit);
  const after = change(units[index]);
  if (after === undefined) return index < 0 ? units : units.toSpliced(index, 1);
  return index < 0 ? [...units, { ...after, unit }] : units.with(index, { ...after, unit });
}

const KEPT_VERIFIED = 10;
const KEPT_REVOKED = 20;

export const records = {
  /** Written before the first object is applied: what prune may have to delete, whatever happens next. */
  intend:
    (fleet: string, inventory: NonNullable<UnitStatus['inventory']>, sameObject: (a: Entry, b: Entry) => boolean) =>
    (record: UnitStatus | undefined) => {
      const known = record?.inventory ?? [];
      const missing = inventory.filter((entry) => !known.some((other) => sameObject(entry, other)));
      return { ...(record ?? { unit: '', fleet }), inventory: [...known, ...missing] } satisfies UnitStatus;
    },

  applied:
    (digest: string, commit: string, lane: 'Forward' | 'Restore', at: string, inventory: NonNullable<UnitStatus['inventory']>) =>
    (record: UnitStatus | undefined) => {
      if (record === undefined) return undefined;
      const same = record.digest === digest;
      const { evidence, ...rest } = record;
      return {
        ...rest,
        digest,
        commit,
        lane,
        appliedAt: same && record.appliedAt !== undefined ? record.appliedAt : at,
        ...(same && evidence !== undefined ? { evidence } : {}),
        inventory,
      };
    },

  verified: (digest: string, commit: string, at: string) => (record: UnitStatus | undefined) => {
    // The digest may have been replaced since the decision: evidence counts only for what is applied now.
    if (record === undefined || record.digest !== digest) return record;
    const others = (record.verified ?? []).filter((entry) => entry.digest !== digest);
    return {
      ...record,
      evidence: digest,
      verified: [{ digest, commit, at }, ...others].slice(0, KEPT_VERIFIED),
      revoked: (record.revoked ?? []).filter((entry) => entry !== digest),
    };
  },

  revoked: (digest: string) => (record: UnitStatus | undefined) =>
    record === undefined || (record.revoked ?? []).includes(digest)
      ? record
      : { ...record, revoked: [digest, ...(record.revoked ?? [])].slice(0, KEPT_REVOKED) },

  reinstated: (digest: string) => (record: UnitStatus | undefined) =>
    record === undefined ? undefined : { ...record, revoked: (record.revoked ?? []).filter((entry) => entry !== digest) },

  removed: (left: NonNullable<UnitStatus['inventory']>) => (record: UnitStatus | undefined) => {
    if (record === undefined || left.length === 0) return undefined;
    const { digest: _digest, evidence: _evidence, ...rest } = record;
    return { ...rest, inventory: left };
  },
};

type Entry = NonNullable<UnitStatus['inventory']>[number];
