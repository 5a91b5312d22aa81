/** Numbers for operators, in the text format of Prometheus. */

export type Labels = Record<string, string>;

export interface Counter {
  /** Also by 0, so that a series is there before the first time. */
  add(labels: Labels, by?: number): void;
}

export interface Histogram {
  observe(labels: Labels, value: number): void;
}

export interface Metrics {
  counter(name: string, help: string): Counter;
  /** `buckets`: upper bounds, rising; the same name has the same ones. */
  histogram(name: string, help: string, buckets: readonly number[]): Histogram;
  /** `read` is called at each scrape; several may give series of one name. Returns its end. */
  gauge(name: string, help: string, read: () => Iterable<readonly [Labels, number]>): () => void;
  text(): string;
}

/** Series a name; what comes beyond them is left out, so that no error in a label costs more than its own numbers. */
const MAX_SERIES = 1000;

interface Family {
  help: string;
  type: 'counter' | 'gauge' | 'histogram';
  /** By name and labels as they are written. */
  values: Map<string, number>;
  reads: Set<() => Iterable<readonly [Labels, number]>>;
  spreads: Map<string, Spread>;
}

interface Spread {
  labels: Labels;
  bounds: readonly number[];
  /** Those above the bound before it, and the last of them above all bounds. */
  counts: number[];
  sum: number;
}

export function createMetrics(): Metrics {
  const families = new Map<string, Family>();

  function family(name: string, help: string, type: Family['type']): Family {
    const found = families.get(name) ?? {
      help,
      type,
      values: new Map<string, number>(),
      reads: new Set(),
      spreads: new Map<string, Spread>(),
    };
    families.set(name, found);
    return found;
  }

  function raise(values: Map<string, number>, series: string, by: number): void {
    const before = values.get(series);
    if (before !== undefined || values.size < MAX_SERIES) values.set(series, (before ?? 0) + by);
  }

  return {
    counter(name, help) {
      const { values } = family(name, help, 'counter');
      return { add: (labels, by = 1) => raise(values, `${name}${written(labels)}`, by) };
    },

    histogram(name, help, buckets) {
      const { spreads } = family(name, help, 'histogram');
      return {
        observe(labels, value) {
          const id = written(labels);
          const found = spreads.get(id) ?? { labels, bounds: buckets, counts: Array<number>(buckets.length + 1).fill(0), sum: 0 };
          if (spreads.size < MAX_SERIES) spreads.set(id, found);
          const at = buckets.findIndex((bound) => value <= bound);
          const index = at < 0 ? buckets.length : at;
          found.counts[index] = (found.counts[index] ?? 0) + 1;
          found.sum += value;
        },
      };
    },

    gauge(name, help, read) {
      const { reads } = family(name, help, 'gauge');
      reads.add(read);
      return () => void reads.delete(read);
    },

    text() {
      const parts: string[] = [];
      for (const [name, { help, type, values, reads, spreads }] of [...families].toSorted(([a], [b]) => (a < b ? -1 : 1))) {
        const series = new Map(values);
        for (const read of reads) for (const [labels, value] of read()) raise(series, `${name}${written(labels)}`, value);
        if (series.size === 0 && spreads.size === 0) continue;
        parts.push(`# HELP ${name} ${help}\n# TYPE ${name} ${type}\n`);
        for (const [id, value] of series) parts.push(`${id} ${value}\n`);
        for (const spread of spreads.values()) parts.push(...lines(name, spread));
      }
      return parts.join('');
    },
  };
}

function lines(name: string, { labels, bounds, counts, sum }: Spread): string[] {
  let below = 0;
  const buckets = counts.map((count, index) => {
    below += count;
    return `${name}_bucket${written({ ...labels, le: String(bounds[index] ?? '+Inf') })} ${below}\n`;
  });
  return [...buckets, `${name}_sum${written(labels)} ${sum}\n`, `${name}_count${written(labels)} ${below}\n`];
}

function written(labels: Labels): string {
  const entries = Object.entries(labels);
  if (entries.length === 0) return '';
  const escaped = (value: string): string => value.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n');
  return `{${entries.map(([name, value]) => `${name}="${escaped(value)}"`).join(',')}}`;
}

/** How often each label's value occurs; beyond `most` of them the rest is `other`. */
export function counted<T>(items: Iterable<T>, label: string, valueOf: (item: T) => string | undefined, most = 50): [Labels, number][] {
  const counts = new Map<string, number>();
  for (const item of items) {
    const value = valueOf(item);
    if (value === undefined) continue;
    const kept = counts.has(value) || counts.size < most ? value : 'other';
    counts.set(kept, (counts.get(kept) ?? 0) + 1);
  }
  return [...counts].map(([value, count]) => [{ [label]: value }, count]);
}
