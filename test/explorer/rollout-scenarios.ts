import type { Head } from '../../src/sync/rollout/testing/state.ts';
import type { RolloutBudget, RolloutPlan } from './rollouts.ts';

export interface NamedRollout {
  name: string;
  plan: RolloutPlan;
  /** Too many states for every change: runs where KUBENODE_EXPLORE is `large`. */
  large?: boolean;
}

export const head = (digest: string | undefined, special: Head['special'] = {}): Head => ({ digest, special });

/** One cluster in the first stage, one in the second, which have A. Commits are of A, which is a revert, and of B. */
export const two = (budget: Partial<RolloutBudget>, rest: Partial<RolloutPlan> = {}): RolloutPlan => ({
  clusters: ['t1', 'p1'],
  settled: true,
  heads: [head('A'), head('B')],
  budget,
  ...rest,
});

const ONE: Partial<RolloutPlan> = { clusters: ['t1'] };

/** Commits are of A, of B, and of one that has no such unit. */
export const removing = (budget: Partial<RolloutBudget>, rest: Partial<RolloutPlan> = {}): RolloutPlan =>
  two(budget, { heads: [head('A'), head(undefined)], ...rest });

export const ROLLOUTS: NamedRollout[] = [
  { name: 'a removal', plan: removing({ commit: 1 }) },
  { name: 'a removal, and another commit', plan: removing({ commit: 2 }) },
  { name: 'a removal and a cluster that is away', plan: removing({ commit: 1, away: 2 }) },
  { name: 'a removal, another commit and a cluster that is away', plan: removing({ commit: 2, away: 1 }) },
  {
    name: 'a removal, other content and a removal again',
    plan: removing({ commit: 3 }, { heads: [head('A'), head('B'), head(undefined)] }),
  },
  { name: 'what was just added is taken back', plan: removing({ commit: 1 }, { settled: false, additions: true }) },
  { name: 'what was added again is taken back, and added once more', plan: removing({ commit: 4 }, { additions: true }) },
  {
    name: 'what was just added is taken back, and a cluster is away',
    plan: removing({ commit: 2, away: 1 }, { settled: false, additions: true }),
  },
  {
    name: 'what was just added is taken back, with a halt',
    plan: removing({ commit: 2, halt: 1 }, { settled: false, additions: true }),
    large: true,
  },
  {
    name: 'what was just added is taken back, with a pause',
    plan: removing({ commit: 2, pause: 1 }, { settled: false, additions: true }),
    large: true,
  },
  {
    name: 'what was just added is taken back, with other content',
    plan: removing({ commit: 2 }, { settled: false, additions: true, heads: [head('A'), head('B'), head(undefined)] }),
    large: true,
  },
  {
    name: 'what was just added is taken back in one cluster',
    plan: removing({ commit: 2 }, { settled: false, additions: true, heads: [head('A'), head(undefined, { p1: 'A' }), head(undefined)] }),
  },
  {
    name: 'what was just added is taken back by a hub after one that is deposed',
    plan: removing({ commit: 2, takeover: 1 }, { settled: false, additions: true, ...ONE }),
  },
  {
    name: 'what was just added is taken back, with a late store of Clusters',
    plan: removing({ commit: 2, lag: 1 }, { settled: false, additions: true, stores: ['records'] }),
    large: true,
  },
  { name: 'two removals, and a hub that is deposed', plan: removing({ commit: 3, takeover: 1 }, ONE) },
  {
    name: 'two removals, and a hub that is deposed, and no number on the Cluster',
    plan: removing({ commit: 3, takeover: 1 }, { ...ONE, terms: false }),
  },
  {
    name: 'a removal in one cluster, and in both',
    plan: removing({ commit: 2 }, { heads: [head('A'), head(undefined, { p1: 'A' }), head(undefined)] }),
  },
  { name: 'a removal, and a hub that is deposed', plan: removing({ commit: 1, takeover: 1 }) },
  { name: 'a removal and another commit in one cluster, with a hub that is deposed', plan: removing({ commit: 2, takeover: 1 }, ONE) },
  {
    name: 'a removal and another commit in one cluster, with a hub that is deposed, and no number on the Cluster',
    plan: removing({ commit: 2, takeover: 1 }, { ...ONE, terms: false }),
  },
  { name: 'a removal, a halt and another commit', plan: removing({ commit: 2, halt: 1 }) },
  { name: 'a removal, another commit and a pause', plan: removing({ commit: 2, pause: 1 }) },
  {
    name: 'a removal in three clusters, one of which leaves and is declared again',
    plan: removing({ commit: 1, drop: 1, rejoin: 1 }, { clusters: ['t1', 'p1', 'p2'] }),
  },
  { name: 'a removal, another commit and an object that is deleted or changed', plan: removing({ commit: 2, erase: 1, drift: 1 }) },
  { name: 'a removal and another commit, with a late store of Clusters', plan: removing({ commit: 2, lag: 1 }, { stores: ['records'] }) },
  { name: 'a removal and another commit, with a late store of Rollouts', plan: removing({ commit: 2, lag: 1 }, { stores: ['rollouts'] }) },
  { name: 'a removal and another commit, with a late store of a cell', plan: removing({ commit: 2, lag: 1 }, { stores: ['cells'] }) },
  { name: 'a removal and another commit, with one time recorded by a wrong clock', plan: removing({ commit: 2, clock: 1 }) },
  { name: 'a first rollout, with a hub that is deposed', plan: two({ takeover: 1, away: 1 }, { settled: false }) },
  { name: 'a commit and another in one cluster, with a hub that is deposed', plan: two({ commit: 2, takeover: 1 }, { clusters: ['t1'] }) },
  { name: 'a commit, with a halt and a hub that is deposed', plan: two({ commit: 1, takeover: 1, halt: 1 }) },
  {
    name: 'a commit and another in one cluster, with a hub that is deposed, and no number on the Cluster',
    plan: two({ commit: 2, takeover: 1 }, { clusters: ['t1'], terms: false }),
  },
  {
    name: 'a commit, with a halt and a hub that is deposed, and no number on the Clusters',
    plan: two({ commit: 1, takeover: 1, halt: 1 }, { terms: false }),
  },
  { name: 'three commits', plan: two({ commit: 3 }) },
  { name: 'a commit, a halt and another commit', plan: two({ commit: 2, halt: 1 }) },
  { name: 'a commit, a pause and another commit', plan: two({ commit: 2, pause: 1 }) },
  { name: 'a commit, a halt, and a retry at any moment', plan: two({ commit: 1, halt: 1, retry: 1 }) },
  {
    name: 'commits that touch one cluster, and a pause',
    plan: two({ commit: 2, pause: 1 }, { heads: [head('A'), head('B'), head('B', { p1: 'C' })] }),
  },
  { name: 'a commit, a cluster that joins and one that leaves', plan: two({ commit: 1, join: 1, drop: 1 }, { late: 'p2' }) },
  { name: 'a commit, a cluster that is away and one that leaves', plan: two({ commit: 1, away: 1, drop: 1, halt: 1 }) },
  {
    name: 'a rule that is refused, which no retry helps',
    plan: two({ commit: 1, halt: 1, retry: 1 }, { unit: 'NodeRemedier/hung' }),
  },
  {
    name: 'a commit and a halt in three clusters, two at a time',
    plan: two({ commit: 1, halt: 1 }, { clusters: ['t1', 'p1', 'p2'], maxClusters: 2 }),
  },
  {
    name: 'commits, one of which goes back in one cluster only',
    plan: two({ commit: 3 }, { heads: [head('A'), head('B'), head('A', { p1: 'B' })] }),
  },
  { name: 'five commits in one cluster', plan: two({ commit: 5 }, { clusters: ['t1'], heads: [head('A'), head('B'), head('C')] }) },
  { name: 'a commit, with two times recorded by a wrong clock', plan: two({ commit: 1, clock: 2 }) },
  { name: 'commits, and a cluster that leaves and is declared again', plan: two({ commit: 2, drop: 1, rejoin: 1 }) },
  {
    name: 'a commit, and a cluster that leaves and is declared again as a new one',
    plan: two({ commit: 1, drop: 1, rejoin: 1, forget: 1 }),
  },
  { name: 'a commit, and an object that is deleted, with a hub that is deposed', plan: two({ commit: 1, takeover: 1, erase: 1 }, ONE) },
  { name: 'a commit and a pause, with a hub that is deposed', plan: two({ commit: 1, takeover: 1, pause: 1 }) },
  { name: 'a commit, a halt and a retry, with a hub that is deposed', plan: two({ commit: 1, takeover: 1, halt: 1, retry: 1 }, ONE) },
  {
    name: 'a commit, a halt and a retry, and a cluster that leaves and is declared again',
    plan: two({ commit: 1, halt: 1, drop: 1, rejoin: 1 }),
  },
  { name: 'two commits, and a late store of Clusters', plan: two({ commit: 2, lag: 1 }, { stores: ['records'] }) },
  { name: 'a commit and a pause, and a late store of Rollouts', plan: two({ commit: 1, lag: 1, pause: 1 }, { stores: ['rollouts'] }) },
  {
    name: 'a commit and a cluster that leaves, and a late store of Fleets',
    plan: two({ commit: 1, lag: 1, drop: 1 }, { stores: ['members'] }),
  },
  {
    name: 'a commit, a halt and a retry, and a late store of the cell',
    plan: two({ commit: 1, lag: 1, halt: 1, retry: 1 }, { stores: ['cells'], ...ONE }),
  },
  {
    name: 'a commit, a late store of Clusters or Rollouts, and a hub that is deposed',
    plan: two({ commit: 1, lag: 1, takeover: 1 }, { stores: ['records', 'rollouts'] }),
  },
  { name: 'three commits, and a late store of Clusters', plan: two({ commit: 3, lag: 1 }, { stores: ['records'] }), large: true },
  {
    name: 'two commits and a pause, and two late stores of the hub',
    plan: two({ commit: 2, lag: 2, pause: 1 }, { stores: ['records', 'rollouts'] }),
    large: true,
  },
  {
    name: 'two commits, a halt, and late stores of the cells',
    plan: two({ commit: 2, lag: 1, halt: 1 }, { stores: ['cells'] }),
    large: true,
  },
  {
    name: 'two commits, late stores of the hub and the cells, and a hub that is deposed',
    plan: two({ commit: 2, lag: 1, takeover: 1 }, { stores: ['records', 'rollouts', 'cells'] }),
    large: true,
  },
  {
    name: 'a cluster that leaves and is declared again, late stores, and a halt',
    plan: two({ commit: 1, drop: 1, rejoin: 1, lag: 1, halt: 1 }, { stores: ['records', 'members'] }),
    large: true,
  },
  {
    name: 'three commits, and a cluster that leaves and is declared again',
    plan: two({ commit: 3, drop: 1, rejoin: 1 }),
    large: true,
  },
  {
    name: 'two commits, a halt, and a dead cluster that leaves and is declared again, as it was or as a new one',
    plan: two({ commit: 2, drop: 1, rejoin: 1, halt: 1, away: 1, forget: 1 }),
    large: true,
  },
  {
    name: 'two commits, a cluster that leaves and is declared again, and a hub that is deposed',
    plan: two({ commit: 2, drop: 1, rejoin: 1, takeover: 1, forget: 1 }),
    large: true,
  },
  {
    name: 'two commits, a pause, a halt, a retry, objects that are deleted, and a hub that is deposed',
    plan: two({ commit: 2, takeover: 1, pause: 1, halt: 1, retry: 1, erase: 1 }),
    large: true,
  },
  { name: 'two commits, with two times recorded by a wrong clock', plan: two({ commit: 2, clock: 2 }), large: true },
  { name: 'a commit and another, with a hub that is deposed', plan: two({ commit: 2, takeover: 1 }), large: true },
  { name: 'two commits, a halt and a hub that is deposed', plan: two({ commit: 2, takeover: 1, halt: 1 }), large: true },
  { name: 'two commits, a halt, and a retry at any moment', plan: two({ commit: 2, halt: 1, retry: 1 }), large: true },
  { name: 'three commits with a halt', plan: two({ commit: 3, halt: 1 }), large: true },
  { name: 'two commits, a pause and a hub that is deposed', plan: two({ commit: 2, pause: 1, takeover: 1 }), large: true },
  {
    name: 'two commits, a cluster that joins and one that leaves',
    plan: two({ commit: 2, join: 1, drop: 1 }, { late: 'p2' }),
    large: true,
  },
  {
    name: 'commits that touch one cluster, a pause and a cluster that is away',
    plan: two({ commit: 2, pause: 1, away: 1 }, { heads: [head('A'), head('B'), head('B', { p1: 'C' })] }),
    large: true,
  },
  {
    name: 'two commits in three clusters with a hub that is deposed and an object that drifts',
    plan: two({ commit: 2, takeover: 1, drift: 1 }, { clusters: ['t1', 'p1', 'p2'] }),
    large: true,
  },
  {
    name: 'two commits, a halt, a retry and hubs that are deposed',
    plan: two({ commit: 2, halt: 1, retry: 1, takeover: 2 }),
    large: true,
  },
];
