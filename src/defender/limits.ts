import type { CountOrPercent } from '../api/batches.ts';
import { LIMIT_CLASSES, type DefenderPolicy, type LimitSpec, type LimitClass } from '../api/defender-policy.ts';
import { ALL_BUT_RESTORE } from '../api/defender-policy-check.ts';
import { parseKey } from '../api/resource.ts';
import type { RateSpan, Rated } from './rates.ts';
import { classOf, type Subject } from './request.ts';
import { parseScope, topologyIn, type Scope } from './scopes.ts';

/** What a limit measures. */
export type Measure =
  /** |unavailable ∪ reserved| of the machines in the scope. */
  | { of: 'Unavailable'; max: CountOrPercent }
  /** Reservations in the scope. */
  | { of: 'Concurrent'; max: number }
  /** Reservations in the scope, lately. */
  | { of: 'Starts'; max: number; in: RateSpan }
  /** Time since this machine was disrupted. */
  | { of: 'Interval'; ms: number };

/** One measure of one limit on one scope. */
export interface Limit {
  /** `<policy>/<limit>`, for verdicts. */
  name: string;
  scope: string;
  /** Which reservations count, where reservations are counted. */
  classes: readonly LimitClass[];
  measure: Measure;
}

/** A limit that applies to each zone or rack, and a machine that is in none. */
export interface Placeless {
  name: string;
  lacks: 'Zone' | 'Rack';
}

/**
 * The limit where no policy bounds how many at once. Ten per cent of the cell, at least one machine: a fixed count of one would stop a large
 * cell at its first dead node for as long as that node stays dead, while a small cell (up to 19 machines) still goes one by one. Sets have
 * their own limit beside it, one machine unless they set another.
 */
const BUILTIN_LIMIT = { name: 'builtin/cluster', max: '10%' } as const;

/** Default of a MachineComponentSet that sets none. */
const DEFAULT_SET_MAX_UNAVAILABLE = 1;

export interface LimitSources {
  policies: readonly Pick<DefenderPolicy, 'metadata' | 'spec'>[];
  /** Every MachineComponentSet, by UID. */
  sets: ReadonlyMap<string, { name: string; maxUnavailable?: CountOrPercent | undefined }>;
}

export interface Limits {
  /** All that apply, of all scopes. A scope of a set that is gone, or of an unknown kind, has none of its own. */
  on(subject: Subject): { limits: readonly Limit[]; placeless: readonly Placeless[] };
  readonly rated: Rated;
}

interface Compiled {
  name: string;
  spec: LimitSpec;
  measures: { measure: Measure; classes: readonly LimitClass[] }[];
}

function measuresOf(spec: LimitSpec): Compiled['measures'] {
  const all = spec.classes ?? LIMIT_CLASSES;
  // Recovery waits for no rate and no interval unless it is named.
  const forward = spec.classes ?? ALL_BUT_RESTORE;
  const { maxUnavailable, maxConcurrent, maxPerHour, maxPerDay, minIntervalSeconds } = spec;
  return [
    ...(maxUnavailable === undefined ? [] : [{ classes: all, measure: { of: 'Unavailable', max: maxUnavailable } as const }]),
    ...(maxConcurrent === undefined ? [] : [{ classes: all, measure: { of: 'Concurrent', max: maxConcurrent } as const }]),
    ...(maxPerHour === undefined ? [] : [{ classes: forward, measure: { of: 'Starts', max: maxPerHour, in: 'Hour' } as const }]),
    ...(maxPerDay === undefined ? [] : [{ classes: forward, measure: { of: 'Starts', max: maxPerDay, in: 'Day' } as const }]),
    ...(minIntervalSeconds === undefined
      ? []
      : [{ classes: forward, measure: { of: 'Interval', ms: minIntervalSeconds * 1000 } as const }]),
  ];
}

/** Pool of `namespace/name`. */
export const poolOf = (machine: string): string => parseKey(machine).namespace ?? '';

const SPEC_SCOPES: Readonly<Record<Exclude<Scope['kind'], 'Set'>, LimitSpec['scope']>> = {
  Cluster: 'Cluster',
  Zone: 'Zone',
  Rack: 'Rack',
  Pool: 'Pool',
  MachineSet: 'Set',
  Condition: 'Condition',
};

export function limitsOf({ policies, sets }: LimitSources): Limits {
  const compiled: Compiled[] = policies.flatMap(({ metadata, spec }) =>
    spec.limits.map((limit) => ({ name: `${metadata.name}/${limit.name}`, spec: limit, measures: measuresOf(limit) })),
  );
  const counts = compiled.some(({ measures }) =>
    measures.some(({ measure }) => measure.of === 'Unavailable' || measure.of === 'Concurrent'),
  );
  const byScope = new Map<string, Compiled[]>();
  for (const each of compiled) byScope.set(each.spec.scope, [...(byScope.get(each.spec.scope) ?? []), each]);
  const known = new Map<string, readonly Limit[]>();

  function inPool({ spec }: Compiled, pool: string): boolean {
    return spec.pools?.includes(pool) ?? true;
  }

  function onScope(scope: string, asked: LimitClass, pool: string): readonly Limit[] {
    const key = `${asked} ${pool} ${scope}`;
    const before = known.get(key);
    if (before !== undefined) return before;
    const found = find(scope, asked, pool);
    known.set(key, found);
    return found;
  }

  function find(scope: string, asked: LimitClass, pool: string): Limit[] {
    const parsed = parseScope(scope);
    if (parsed === undefined) return [];
    if (parsed.kind === 'Set') {
      const set = sets.get(parsed.uid);
      if (set === undefined) return [];
      const max = set.maxUnavailable ?? DEFAULT_SET_MAX_UNAVAILABLE;
      return [{ name: `MachineComponentSet/${set.name}`, scope, classes: LIMIT_CLASSES, measure: { of: 'Unavailable', max } }];
    }
    const limits = (byScope.get(SPEC_SCOPES[parsed.kind]) ?? [])
      .filter((each) => inPool(each, pool) && (parsed.kind !== 'Condition' || (each.spec.conditions?.includes(parsed.type) ?? true)))
      .flatMap(({ name, measures }) =>
        measures.filter(({ classes }) => classes.includes(asked)).map(({ measure, classes }): Limit => ({ name, scope, classes, measure })),
      );
    if (parsed.kind === 'Cluster' && !counts)
      limits.push({ name: BUILTIN_LIMIT.name, scope, classes: LIMIT_CLASSES, measure: { of: 'Unavailable', max: BUILTIN_LIMIT.max } });
    return limits;
  }

  const together = new Map<string, ReturnType<Limits['on']>>();

  function onAll(scopes: readonly string[], asked: LimitClass, pool: string): ReturnType<Limits['on']> {
    const limits = scopes.flatMap((scope) => onScope(scope, asked, pool));
    const placeless: Placeless[] = [];
    for (const kind of ['Zone', 'Rack'] as const)
      if (topologyIn(scopes, kind) === undefined)
        for (const each of byScope.get(kind) ?? [])
          if (inPool(each, pool) && each.measures.some(({ classes }) => classes.includes(asked)))
            placeless.push({ name: each.name, lacks: kind });
    return { limits, placeless };
  }

  return {
    on(subject) {
      const asked = classOf(subject);
      const pool = poolOf(subject.machine);
      // Machines of one rack and pool that want the same share this.
      const key = `${asked} ${pool} ${subject.scopes.join(' ')}`;
      let found = together.get(key);
      if (found === undefined) together.set(key, (found = onAll(subject.scopes, asked, pool)));
      return found;
    },
    rated(asked, scope) {
      const parsed = parseScope(scope);
      if (parsed === undefined || parsed.kind === 'Set') return false;
      return (byScope.get(SPEC_SCOPES[parsed.kind]) ?? []).some(({ spec, measures }) =>
        measures.some(
          ({ measure, classes }) =>
            measure.of === 'Starts' &&
            classes.some((each) => each === asked) &&
            (parsed.kind !== 'Condition' || (spec.conditions?.includes(parsed.type) ?? true)),
        ),
      );
    },
  };
}
