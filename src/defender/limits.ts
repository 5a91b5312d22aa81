import type { CountOrPercent } from '../api/batches.ts';
import type { DefenderPolicy } from '../api/defenderpolicy.ts';
import { parseScope } from './scopes.ts';

/** One limit on one scope: |unavailable ∪ reserved| of its machines stays at or below `max`. */
export interface Limit {
  /** `<policy>/<limit>`, for verdicts. */
  name: string;
  scope: string;
  max: CountOrPercent;
}

/**
 * What holds where no policy says anything. Ten per cent of the cell, at least one machine: a fixed count of one would stop a large
 * cell at its first dead node for as long as that node stays dead, while a small cell (up to 19 machines) still goes one by one. Sets have
 * their own limit beside it, one machine unless they say otherwise.
 */
const BUILTIN_LIMIT = { name: 'builtin/cluster', max: '10%' } as const;

/** Of a MachineComponentSet that does not say. */
const DEFAULT_SET_MAX_UNAVAILABLE = 1;

export interface LimitSources {
  policies: readonly Pick<DefenderPolicy, 'metadata' | 'spec'>[];
  /** Every MachineComponentSet, by UID. */
  sets: ReadonlyMap<string, { name: string; maxUnavailable?: CountOrPercent | undefined }>;
}

/** The limits on one scope. A scope of a set that is gone, or of an unknown kind, has none of its own; those of cluster and pool remain. */
export function limitsOn(scope: string, sources: LimitSources): Limit[] {
  const parsed = parseScope(scope);
  if (parsed === undefined) return [];
  if (parsed.kind === 'Set') {
    const set = sources.sets.get(parsed.uid);
    if (set === undefined) return [];
    return [{ name: `MachineComponentSet/${set.name}`, scope, max: set.maxUnavailable ?? DEFAULT_SET_MAX_UNAVAILABLE }];
  }
  const wanted = parsed.kind === 'MachineSet' ? 'Set' : parsed.kind;
  const all = sources.policies.flatMap((policy) => policy.spec.limits.map((limit) => ({ policy: policy.metadata.name, limit })));
  const found = all
    .filter(({ limit }) => limit.scope === wanted && (parsed.kind === 'Cluster' || (limit.pools?.includes(parsed.pool) ?? true)))
    .map(({ policy, limit }) => ({ name: `${policy}/${limit.name}`, scope, max: limit.maxUnavailable }));
  if (parsed.kind === 'Cluster' && all.length === 0) return [{ ...BUILTIN_LIMIT, scope }];
  return found;
}
