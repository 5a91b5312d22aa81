import type { Resource } from '../../api/resource.ts';
import type { Metrics } from '../metrics.ts';

/** What is counted of one store. */
export interface StoreCounters {
  listed(): void;
  failed(): void;
  /** Shows the store until each of the returned functions is called. */
  show(read: () => { size: number; ageMs: number }): (() => void)[];
}

export function storeCounters(metrics: Metrics, { group, plural }: Resource): StoreCounters {
  const labels = { resource: group === '' ? plural : `${plural}.${group}` };
  const lists = metrics.counter('kubenode_store_lists_total', 'Times that all objects of a watched kind were listed.');
  const failures = metrics.counter('kubenode_store_failures_total', 'Lists and watches that failed.');
  for (const counter of [lists, failures]) counter.add(labels, 0);
  return {
    listed: () => lists.add(labels),
    failed: () => failures.add(labels),
    show: (read) => [
      metrics.gauge('kubenode_store_objects', 'Objects of a watched kind that are kept.', () => [[labels, read().size]]),
      metrics.gauge(
        'kubenode_store_stale_seconds',
        'Time since the API server last sent something of a kind; what is stale is not trusted.',
        () => {
          const { ageMs } = read();
          return Number.isFinite(ageMs) ? [[labels, ageMs / 1000]] : [];
        },
      ),
    ],
  };
}
