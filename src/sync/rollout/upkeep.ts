/** What is done wherever a placement stands, also where no stage is open. Pure. */
import type { Rollout } from '../../api/rollout.ts';
import { REMOVAL } from '../records.ts';
import { isGone } from '../soak.ts';
import { hasTooMany } from './machines.ts';
import { canRetry, isProven, observedRetry, retryOf, type UnitPlacement } from './placement.ts';
import type { Step, World } from './world.ts';

/**
 * A human's retry: the digest is reinstated in the hub's records at once; where it is under way the cell is asked to try again, and the retry
 * counts as carried out only when the cell shows it. Where the cell's refusal cannot be retried, that is all; it stays refused and revoked.
 */
export function retry(world: World, placement: UnitPlacement, refused: boolean): Step[] {
  const { unit, cluster, target, live } = placement;
  if (placement.retry === undefined || target === undefined) return [];
  const because = 'a human asked for another try';
  const steps: Step[] = [];
  for (const view of placement.revoked && !refused ? world.clusters.values() : []) {
    const { retried, revoked = [] } = view.units.get(unit) ?? {};
    if (revoked.includes(target) && retried !== placement.retry)
      steps.push({ do: 'Reinstate', unit, cluster: view.name, digest: target, retry: placement.retry, because });
  }
  // It is carried out by what it begins there, which its stage may not have reached; what is not put back yet would stay forever.
  if (placement.outdated || placement.hides) return steps;
  const under = placement.begun && (placement.phase !== 'Verified' || placement.haltedAfter !== undefined) && canRetry(unit);
  // Whether what cannot be tried again is still refused must be seen.
  if (placement.halt !== undefined && !canRetry(unit) && (placement.blocked || live.state !== 'Present')) return steps;
  const lifts = canRetry(unit) || (live.state === 'Present' && live.halted === undefined);
  const over = world.clusters.get(cluster)?.units.get(unit)?.retried;
  if (!under || observedRetry(placement) !== undefined)
    steps.push({ do: 'RecordRetry', unit, cluster, retry: placement.retry, over, lifts, because });
  else if (!placement.blocked && live.state === 'Present') {
    const seen = { over: placement.over, resourceVersion: live.resourceVersion };
    steps.push({ do: 'TryAgain', unit, cluster, rolloutID: placement.retry, seen, because });
  }
  return steps;
}

/** What is done wherever a placement stands: evidence, drift, ceilings, revocation of what halted. */
export function upkeep(world: World, rollout: Rollout, placement: UnitPlacement): Step[] {
  const { unit, cluster, target, live } = placement;
  const steps: Step[] = [];
  if (placement.soaksAgain)
    steps.push({ do: 'SoakAgain', unit, cluster, digest: target ?? REMOVAL, because: 'the times of its record contradict each other' });
  if (placement.newHalt !== undefined && target !== undefined)
    steps.push({ do: 'RecordHalt', unit, cluster, digest: target, halt: placement.newHalt, because: placement.newHalt.message });
  if (placement.phase === 'Halted' && placement.lane === 'Forward' && placement.retry === undefined)
    steps.push(...revoke(world, rollout, unit, target, placement.message ?? 'halted'));
  if (placement.blocked || live.state === 'Unknown') return steps;
  if (placement.newEvidence && target !== undefined) {
    steps.push({
      do: 'RecordEvidence',
      unit,
      cluster,
      digest: target,
      commit: placement.commit,
      appliedAt: placement.appliedAt,
      carrier: live.state === 'Present' ? live.carrier : undefined,
      because: 'the cell has evidence for it',
    });
  }
  if (placement.drifted && placement.contested === undefined && target !== undefined) {
    steps.push({
      do: 'Apply',
      unit,
      cluster,
      digest: target,
      commit: placement.commit,
      lane: placement.lane,
      proven: isProven(placement),
      over: placement.over,
      asked: placement.asked,
      revoked: placement.revoked,
      found: live.state === 'Present',
      writtenAt: live.state === 'Present' ? live.writtenAt : undefined,
      because:
        placement.live.state === 'Present' && placement.live.rehearsed === true
          ? 'its rehearsal is over'
          : 'it was changed in the cluster by someone else',
    });
  }
  steps.push(...keepMachines(placement));
  // It is not known here whose ceiling that is.
  if (live.state === 'Present' && ((live.unknown !== true && !placement.outdated) || placement.retry !== undefined)) {
    const isPaused =
      placement.pausedBy !== undefined &&
      placement.lane === 'Forward' &&
      placement.begun &&
      placement.phase !== 'Verified' &&
      target !== undefined;
    const wanted = isPaused && canRetry(unit) ? { unitDigest: target, nodes: 0 } : undefined;
    if (wanted?.unitDigest !== live.ceiling?.unitDigest || wanted?.nodes !== live.ceiling?.nodes) {
      steps.push({
        do: 'Ceiling',
        unit,
        cluster,
        ceiling: wanted,
        seen: { over: placement.over, resourceVersion: live.resourceVersion },
        because: wanted === undefined ? 'it is not paused' : 'the rollout is paused',
      });
    }
  }
  return steps;
}

/**
 * A removal, or a smaller number, that no commit wants any more lets no further machine go, also while the content that is wanted instead waits (docs/protocols.md#e9).
 * What is there as it is wanted is put back as drift is. So a set makes no further machine while more are there than may go.
 */
function keepMachines(placement: UnitPlacement): Step[] {
  const { unit, cluster, target, over, outdated, live } = placement;
  if (live.state !== 'Present' || outdated || live.unknown === true || (over.digest === target && over.begun === undefined)) return [];
  const seen = { over, resourceVersion: live.resourceVersion };
  const keep = (because: string): Step[] => [{ do: 'KeepMachines', unit, cluster, digest: target ?? REMOVAL, seen, because }];
  if (live.numbered === true && placement.phase === 'Waiting' && hasTooMany(placement))
    return keep('more machines are there than the limits of deletions let go');
  if (target === undefined || live.losesTo === undefined) return [];
  return keep(`no commit wants machines to go for \`replicas\` ${live.losesTo}`);
}

/** Revokes what is left, and upholds it where it is wanted, has evidence, and is not taken back. */
export function takeBack(
  world: World,
  rollout: Rollout,
  placements: readonly UnitPlacement[],
  { unit, current, target }: UnitPlacement,
): Step[] {
  if (current === undefined || current === target) return [];
  const keeping = new Set(
    placements.filter((placement) => placement.target === current && placement.phase === 'Verified').map(({ cluster }) => cluster),
  );
  const steps: Step[] = [];
  for (const cluster of keeping) {
    const { verified, revoked = [] } = world.clusters.get(cluster)?.units.get(unit) ?? {};
    const open = verified?.some((entry) => entry.digest === current && entry.upheld !== true) === true && !revoked.includes(current);
    if (open) steps.push({ do: 'Uphold', unit, cluster, digest: current, because: 'other clusters go back from it, this one does not' });
  }
  return [...steps, ...revoke(world, rollout, unit, current, `taken back for ${target ?? 'nothing'}`, keeping)];
}

/** A retry of the digest that is not carried out yet anywhere ends with it: a human has to ask again. */
function revoke(
  world: World,
  rollout: Rollout,
  unit: string,
  digest: string | undefined,
  because: string,
  except: ReadonlySet<string> = new Set(),
): Step[] {
  if (digest === undefined) return [];
  const steps: Step[] = [];
  for (const view of world.clusters.values()) {
    if (except.has(view.name)) continue;
    const record = view.units.get(unit);
    if (record?.fleet === world.fleet && !isGone(record) && !(record.revoked ?? []).includes(digest))
      steps.push({ do: 'Revoke', unit, cluster: view.name, digest, retry: retryOf(world, rollout, unit, view.name, digest), because });
  }
  return steps;
}
