/** What is wanted in each cluster before a commit is planned. Pure. */
import type { Rollout } from '../api/rollout.ts';
import { ownersOf } from './plan.ts';

/** What is wanted now: by the newest rollout that names the unit, else what is recorded as applied. */
export function wantedOf(
  fleet: string,
  rollouts: readonly Rollout[],
  recorded: ReadonlyMap<string, readonly { unit: string; fleet: string; digest?: string }[]>,
): Map<string, Map<string, string>> {
  return withoutCommits(wantedWithCommits(fleet, rollouts, recorded));
}

export interface Wanted {
  digest: string;
  /** That renders it; undefined: not known. */
  commit: string | undefined;
}

export function withoutCommits(wanted: ReadonlyMap<string, ReadonlyMap<string, Wanted>>): Map<string, Map<string, string>> {
  return new Map([...wanted].map(([cluster, units]) => [cluster, new Map([...units].map(([unit, { digest }]) => [unit, digest]))]));
}

export function wantedWithCommits(
  fleet: string,
  rollouts: readonly Rollout[],
  recorded: ReadonlyMap<string, readonly { unit: string; fleet: string; digest?: string; commit?: string }[]>,
): Map<string, Map<string, Wanted>> {
  const wanted = new Map<string, Map<string, Wanted>>();
  const unitsOf = (cluster: string): Map<string, Wanted> => {
    const units = wanted.get(cluster) ?? new Map<string, Wanted>();
    wanted.set(cluster, units);
    return units;
  };
  for (const [cluster, records] of recorded) {
    for (const record of records)
      if (record.fleet === fleet && record.digest !== undefined)
        unitsOf(cluster).set(record.unit, { digest: record.digest, commit: record.commit });
  }
  for (const [unit, { rollout, clusters }] of ownersOf(rollouts)) {
    for (const { name, digest, commit = rollout.spec.commit } of clusters) {
      if (digest === undefined) unitsOf(name).delete(unit);
      else unitsOf(name).set(unit, { digest, commit });
    }
  }
  return wanted;
}
