/** What is done wherever a place stands, also where no stage is open. Pure. */
import type { Rollout } from '../../api/rollout.ts';
import { REMOVAL } from '../records.ts';
import { isGone } from '../soak.ts';
import { canRetry, isProven, observedRetry, retryOf, type Place } from './place.ts';
import type { Step, World } from './world.ts';

/**
 * A human's retry: the digest is reinstated in the hub's records at once; where it is under way the cell is asked to try again, and the retry
 * counts as carried out only when the cell shows it. Where the cell's refusal cannot be retried, that is all; it stays refused and revoked.
 */
export function retry(world: World, place: Place, refused: boolean): Step[] {
  const { unit, cluster, target, live } = place;
  if (place.retry === undefined || target === undefined) return [];
  const because = 'a human asked for another try';
  const steps: Step[] = [];
  for (const view of place.revoked && !refused ? world.clusters.values() : []) {
    const { retried, revoked = [] } = view.units.get(unit) ?? {};
    if (revoked.includes(target) && retried !== place.retry)
      steps.push({ do: 'Reinstate', unit, cluster: view.name, digest: target, retry: place.retry, because });
  }
  // It is carried out by what it begins there, which its stage may not have reached; what is not put back yet would stay forever.
  if (place.outdated || place.hides) return steps;
  const under = place.begun && (place.phase !== 'Verified' || place.haltedAfter !== undefined) && canRetry(unit);
  // Whether what cannot be tried again is still refused must be seen.
  if (place.halt !== undefined && !canRetry(unit) && (place.blocked || live.state !== 'Present')) return steps;
  const lifts = canRetry(unit) || (live.state === 'Present' && live.halted === undefined);
  const over = world.clusters.get(cluster)?.units.get(unit)?.retried;
  if (!under || observedRetry(place) !== undefined)
    steps.push({ do: 'RecordRetry', unit, cluster, retry: place.retry, over, lifts, because });
  else if (!place.blocked && live.state === 'Present') {
    const seen = { over: place.over, resourceVersion: live.resourceVersion };
    steps.push({ do: 'TryAgain', unit, cluster, rolloutID: place.retry, seen, because });
  }
  return steps;
}

/** What is done wherever a place stands: evidence, drift, ceilings, revocation of what halted. */
export function upkeep(world: World, rollout: Rollout, place: Place): Step[] {
  const { unit, cluster, target, live } = place;
  const steps: Step[] = [];
  if (place.soaksAgain)
    steps.push({ do: 'SoakAgain', unit, cluster, digest: target ?? REMOVAL, because: 'the times of its record contradict each other' });
  if (place.newHalt !== undefined && target !== undefined)
    steps.push({ do: 'RecordHalt', unit, cluster, digest: target, halt: place.newHalt, because: place.newHalt.message });
  if (place.phase === 'Halted' && place.lane === 'Forward' && place.retry === undefined)
    steps.push(...revoke(world, rollout, unit, target, place.message ?? 'halted'));
  if (place.blocked || live.state === 'Unknown') return steps;
  if (place.newEvidence && target !== undefined) {
    steps.push({
      do: 'RecordEvidence',
      unit,
      cluster,
      digest: target,
      commit: place.commit,
      appliedAt: place.appliedAt,
      carrier: live.state === 'Present' ? live.carrier : undefined,
      because: 'the cell has evidence for it',
    });
  }
  if (place.drifted && target !== undefined) {
    steps.push({
      do: 'Apply',
      unit,
      cluster,
      digest: target,
      commit: place.commit,
      lane: place.lane,
      proven: isProven(place),
      over: place.over,
      asked: place.asked,
      revoked: place.revoked,
      found: live.state === 'Present',
      writtenAt: live.state === 'Present' ? live.writtenAt : undefined,
      because:
        place.live.state === 'Present' && place.live.rehearsed === true
          ? 'its rehearsal is over'
          : 'it was changed in the cluster by someone else',
    });
  }
  steps.push(...keepMachines(place));
  // Whose ceiling that is, nobody here knows.
  if (live.state === 'Present' && ((live.unknown !== true && !place.outdated) || place.retry !== undefined)) {
    const held =
      place.pausedBy !== undefined && place.lane === 'Forward' && place.begun && place.phase !== 'Verified' && target !== undefined;
    const wanted = held && canRetry(unit) ? { unitDigest: target, nodes: 0 } : undefined;
    if (wanted?.unitDigest !== live.ceiling?.unitDigest || wanted?.nodes !== live.ceiling?.nodes) {
      steps.push({
        do: 'Ceiling',
        unit,
        cluster,
        ceiling: wanted,
        seen: { over: place.over, resourceVersion: live.resourceVersion },
        because: wanted === undefined ? 'nothing holds it back' : 'the rollout is paused',
      });
    }
  }
  return steps;
}

/**
 * A removal, or a smaller number, that no commit wants any more lets no further machine go, whatever the content that is wanted instead waits for (docs/protocols.md#e9).
 * What is there as it is wanted is put back as drift is.
 */
function keepMachines({ unit, cluster, target, over, outdated, live }: Place): Step[] {
  if (target === undefined || live.state !== 'Present' || live.losesTo === undefined) return [];
  if (outdated || live.unknown === true || (over.digest === target && over.begun === undefined)) return [];
  const seen = { over, resourceVersion: live.resourceVersion };
  return [
    { do: 'KeepMachines', unit, cluster, digest: target, seen, because: `no commit wants machines to go for \`replicas\` ${live.losesTo}` },
  ];
}

/** Revokes what is left, and upholds it where it is wanted, has evidence, and is not taken back. */
export function takeBack(world: World, rollout: Rollout, places: readonly Place[], { unit, holds, target }: Place): Step[] {
  if (holds === undefined || holds === target) return [];
  const keeping = new Set(places.filter((place) => place.target === holds && place.phase === 'Verified').map(({ cluster }) => cluster));
  const steps: Step[] = [];
  for (const cluster of keeping) {
    const { verified, revoked = [] } = world.clusters.get(cluster)?.units.get(unit) ?? {};
    const open = verified?.some((entry) => entry.digest === holds && entry.upheld !== true) === true && !revoked.includes(holds);
    if (open) steps.push({ do: 'Uphold', unit, cluster, digest: holds, because: 'other clusters go back from it, this one does not' });
  }
  return [...steps, ...revoke(world, rollout, unit, holds, `taken back for ${target ?? 'nothing'}`, keeping)];
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
