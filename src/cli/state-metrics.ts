/** What the objects of a hub or a cell report, as numbers: of the stores that the controllers keep anyway, and never by machine. */
import { Clusters } from '../api/cluster.ts';
import { DisruptionLedgers } from '../api/disruption-ledger.ts';
import { Fleets } from '../api/fleet.ts';
import { Machines } from '../api/machine.ts';
import { RemedyOperationJobs } from '../api/remedy-operation-job.ts';
import { Rollouts } from '../api/rollout.ts';
import type { Cache } from '../kube/cache.ts';
import { findCondition } from '../kube/conditions.ts';
import { counted, type Labels, type Metrics } from '../kube/metrics.ts';

type Shown = [name: string, help: string, read: () => Iterable<readonly [Labels, number]>];

const show = (metrics: Metrics, shown: readonly Shown[]): (() => void) => {
  const ends = shown.map(([name, help, read]) => metrics.gauge(name, help, read));
  return () => ends.forEach((end) => end());
};

/** Returns its end. */
export function showCell(metrics: Metrics, cache: Cache): () => void {
  const machines = cache.store(Machines);
  const jobs = cache.store(RemedyOperationJobs);
  const ledgers = cache.store(DisruptionLedgers);
  const reservations = () => ledgers.list().flatMap(({ status }) => status?.reservations ?? []);
  return show(metrics, [
    ['kubenode_machines', 'Machines, by phase.', () => counted(machines.list(), 'phase', ({ status }) => status?.phase ?? 'Pending')],
    ['kubenode_ledger_reservations', 'Disruptions that are reserved, by kind.', () => counted(reservations(), 'kind', ({ kind }) => kind)],
    ['kubenode_ledger_reservations_max', 'Reservations that the ledger has room for.', () => [[{}, 500]]],
    [
      'kubenode_machines_refused',
      'Machines whose disruption Defender refuses now, by the limit that has no room.',
      () =>
        counted(machines.list(), 'limit', ({ status }) =>
          status?.verdict?.allowed === false ? (status.verdict.limit ?? 'unknown') : undefined,
        ),
    ],
    ['kubenode_jobs', 'Repairs that are kept, by phase.', () => counted(jobs.list(), 'phase', ({ status }) => status?.phase ?? 'Pending')],
    [
      'kubenode_jobs_ended',
      'Repairs that are kept and have an outcome, by it.',
      () => counted(jobs.list(), 'outcome', ({ status }) => status?.outcome),
    ],
  ]);
}

/** Returns its end. */
export function showHub(metrics: Metrics, cache: Cache): () => void {
  const fleets = cache.store(Fleets);
  const clusters = cache.store(Clusters);
  const rollouts = cache.store(Rollouts, {});
  const state = (conditions: Parameters<typeof findCondition>[0], type: string): string =>
    findCondition(conditions, type)?.reason ?? 'Unknown';
  return show(metrics, [
    [
      'kubenode_fleets',
      'Fleets, by the reason of their condition Ready.',
      () => counted(fleets.list(), 'reason', ({ status }) => state(status?.conditions, 'Ready')),
    ],
    [
      'kubenode_clusters',
      'Clusters, by the reason of their condition Reachable.',
      () => counted(clusters.list(), 'reason', ({ status }) => state(status?.conditions, 'Reachable')),
    ],
    [
      'kubenode_rollouts',
      'Rollouts that are kept, by phase.',
      () => counted(rollouts.list(), 'phase', ({ status }) => status?.phase ?? 'Pending'),
    ],
  ]);
}
