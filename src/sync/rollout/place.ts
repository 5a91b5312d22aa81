import type { Rollout, CLUSTER_PHASES } from '../../api/rollout.ts';
import type { UnitStatus } from '../../api/cluster.ts';
import type { LiveUnit, World } from './world.ts';

/** One unit on one cluster, judged against what a rollout wants there. */
export interface Place {
  unit: string;
  cluster: string;
  /** Wanted digest; undefined: the unit is to be removed. */
  target: string | undefined;
  /** Digest recorded as applied. */
  holds: string | undefined;
  heldSince: number;
  lane: 'Forward' | 'Restore';
  phase: (typeof CLUSTER_PHASES)[number];
  /** This rollout changed something here, or is about to. */
  moved: boolean;
  revoked: boolean;
  blocked: boolean;
  drifted: boolean;
  newEvidence: boolean;
  live: LiveUnit;
  appliedAt: string | undefined;
  verifiedAt: string | undefined;
  message: string | undefined;
}

export function judge(world: World, rollout: Rollout, unit: string, cluster: string, target: string | undefined): Place {
  const view = world.clusters.get(cluster);
  const record = view?.units.get(unit);
  const live = view?.live(unit) ?? { state: 'Unknown' };
  const holds = record?.digest;
  const verified = target === undefined ? undefined : record?.verified?.find((entry) => entry.digest === target);
  const revoked = target !== undefined && (record?.revoked ?? []).includes(target);
  const foreign = record !== undefined && record.fleet !== world.fleet ? `belongs to fleet "${record.fleet}"` : undefined;
  const blocked = view === undefined ? 'no such Cluster on the hub' : (foreign ?? view.blocked ?? view.failing(unit));
  const place: Place = {
    unit,
    cluster,
    target,
    holds,
    heldSince: Date.parse(record?.appliedAt ?? '') || 0,
    lane: laneOf(record, target, verified !== undefined && !revoked),
    phase: 'Pending',
    moved: true,
    revoked,
    blocked: blocked !== undefined,
    drifted: false,
    newEvidence: false,
    live,
    appliedAt: record?.commit === rollout.spec.commit ? record.appliedAt : undefined,
    verifiedAt: verified?.commit === rollout.spec.commit ? verified.at : undefined,
    message: blocked,
  };
  place.moved = record?.commit === rollout.spec.commit || holds !== target;

  if (target === undefined) {
    const gone = record === undefined || (holds === undefined && (record.inventory ?? []).length === 0);
    if (gone) place.moved = false;
    return { ...place, phase: gone ? 'Verified' : blocked === undefined ? 'Pending' : 'Blocked' };
  }
  const carries = live.state === 'Present' && live.unitDigest === target;
  const complete = holds === target && record?.evidence === target;
  if (complete) {
    const drifted = blocked === undefined && (live.state === 'Absent' || (live.state === 'Present' && live.drifted));
    return { ...place, phase: 'Verified', drifted, message: undefined };
  }
  if (blocked !== undefined) return { ...place, phase: 'Blocked' };
  if (holds !== target) return place;
  if (live.state === 'Absent') return { ...place, phase: 'Waiting', drifted: true };
  if (live.state === 'Present' && live.drifted) return { ...place, phase: 'Waiting', drifted: true };
  if (carries && live.halted !== undefined) return { ...place, phase: 'Halted', message: live.halted };
  if (carries && live.evidence) return { ...place, phase: 'Waiting', newEvidence: true };
  return { ...place, phase: 'Waiting', message: live.state === 'Present' ? live.progress : 'not observed yet' };
}

/** What is there keeps the lane it came by; what is to come takes the restore lane when it was verified here. */
function laneOf(record: UnitStatus | undefined, target: string | undefined, restorable: boolean): Place['lane'] {
  if (record?.digest === undefined) return 'Forward';
  if (record.digest === target) return record.lane ?? 'Forward';
  return restorable ? 'Restore' : 'Forward';
}
