import { describe, expect, test } from 'vitest';
import { counted, createMetrics } from './metrics.ts';

describe('metrics', () => {
  test('are written as Prometheus reads them, sorted by name', () => {
    const metrics = createMetrics();
    const runs = metrics.counter('kubenode_runs_total', 'Runs.');
    runs.add({ result: 'failed' }, 0);
    runs.add({ result: 'done' });
    runs.add({ result: 'done' });
    metrics.gauge('kubenode_depth', 'Depth.', () => [[{}, 3]]);
    expect(metrics.text()).toBe(
      [
        '# HELP kubenode_depth Depth.',
        '# TYPE kubenode_depth gauge',
        'kubenode_depth 3',
        '# HELP kubenode_runs_total Runs.',
        '# TYPE kubenode_runs_total counter',
        'kubenode_runs_total{result="failed"} 0',
        'kubenode_runs_total{result="done"} 2',
        '',
      ].join('\n'),
    );
  });

  test('a histogram counts what is at most each bound', () => {
    const metrics = createMetrics();
    const seconds = metrics.histogram('kubenode_seconds', 'Time.', [0.1, 1]);
    for (const value of [0.05, 0.1, 0.5, 7]) seconds.observe({ of: 'a' }, value);
    expect(metrics.text()).toContain(
      [
        'kubenode_seconds_bucket{of="a",le="0.1"} 2',
        'kubenode_seconds_bucket{of="a",le="1"} 3',
        'kubenode_seconds_bucket{of="a",le="+Inf"} 4',
        'kubenode_seconds_sum{of="a"} 7.65',
        'kubenode_seconds_count{of="a"} 4',
      ].join('\n'),
    );
    seconds.observe({ of: 'quick' }, 0.05);
    expect(metrics.text()).toContain('kubenode_seconds_bucket{of="quick",le="+Inf"} 1\n');
  });

  test('gauges of one name add up, and end', () => {
    const metrics = createMetrics();
    const read = (): [Record<string, string>, number][] => [[{ kind: 'x' }, 2]];
    const ends = [metrics.gauge('g', 'G.', read), metrics.gauge('g', 'G.', () => read())];
    expect(metrics.text()).toContain('g{kind="x"} 4\n');
    for (const end of ends) end();
    expect(metrics.text()).toBe('');
  });

  test('labels are escaped, and a flood of them is bounded', () => {
    const metrics = createMetrics();
    const counter = metrics.counter('c', 'C.');
    counter.add({ path: 'a"b\\c\nd' });
    expect(metrics.text()).toContain('c{path="a\\"b\\\\c\\nd"} 1\n');
    for (let i = 0; i < 5000; i++) counter.add({ path: `${i}` });
    // One of them was there before, and two lines describe it.
    expect(metrics.text().trimEnd().split('\n')).toHaveLength(1002);
    const seconds = metrics.histogram('s', 'S.', []);
    for (let i = 0; i < 5000; i++) seconds.observe({ path: `${i}` }, 1);
    expect(metrics.text().match(/^s_count/gm)).toHaveLength(1000);
    counter.add({ path: 'a"b\\c\nd' });
    expect(metrics.text()).toContain('c{path="a\\"b\\\\c\\nd"} 2\n');
  });

  test('what is counted by a label has few values of it', () => {
    const items = Array.from({ length: 80 }, (_, i) => (i < 70 ? `l${i}` : undefined));
    const found = counted(items, 'limit', (item) => item);
    expect(found).toHaveLength(51);
    expect(found.at(-1)).toEqual([{ limit: 'other' }, 20]);
  });
});
