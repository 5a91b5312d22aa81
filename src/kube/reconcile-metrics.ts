import type { Metrics } from './metrics.ts';
import type { Queue } from './queue.ts';

const OUTCOMES = ['done', 'requeued', 'failed', 'terminal'] as const;
export type ReconcileOutcome = (typeof OUTCOMES)[number];

const SECONDS = [0.005, 0.02, 0.1, 0.5, 2, 10, 60];

export interface ReconcileMetrics {
  ended(outcome: ReconcileOutcome, durationMs: number): void;
  /** Shows the keys of the queue; returns its end. */
  show(queue: Queue): () => void;
}

/** The numbers that controller-runtime has of a controller, under names of ours. */
export function createReconcileMetrics(metrics: Metrics | undefined, controller: string): ReconcileMetrics | undefined {
  if (metrics === undefined) return undefined;
  const total = metrics.counter('kubenode_reconcile_total', 'Reconciles, by how they ended.');
  const seconds = metrics.histogram('kubenode_reconcile_seconds', 'How long reconciles took.', SECONDS);
  for (const result of OUTCOMES) total.add({ controller, result }, 0);
  return {
    ended(result, durationMs) {
      total.add({ controller, result });
      seconds.observe({ controller }, durationMs / 1000);
    },
    show: (queue) =>
      metrics.gauge(
        'kubenode_workqueue_keys',
        'Keys of a controller: ready to run, running, waiting for their time, blocked until a write is seen, or given up until they change.',
        () => Object.entries(queue.counts).map(([state, count]) => [{ controller, state }, count] as const),
      ),
  };
}
