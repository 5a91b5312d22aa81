import type { Freeze } from '../api/freeze.ts';
import type { RequestClass, Verdict } from './request.ts';

const DEFAULT_STOPS: readonly RequestClass[] = ['Change', 'Repair'];

/** The Freeze that stops this class in this pool, the first by name. Restore is stopped only where it is named (docs/protocols.md#d11). */
export function frozenBy(
  freezes: readonly Pick<Freeze, 'metadata' | 'spec'>[],
  asked: RequestClass,
  pool: string,
): Pick<Freeze, 'metadata' | 'spec'> | undefined {
  return [...freezes]
    .sort((a, b) => (a.metadata.name < b.metadata.name ? -1 : 1))
    .find(({ spec }) => (spec.stops ?? DEFAULT_STOPS).includes(asked) && (spec.pools?.includes(pool) ?? true));
}

export function frozenVerdict(freeze: Pick<Freeze, 'metadata' | 'spec'>): Verdict {
  const reason = freeze.spec.reason === undefined ? '' : ` (${freeze.spec.reason})`;
  return { allowed: false, limit: `Freeze/${freeze.metadata.name}`, wouldPassWhen: `Freeze ${freeze.metadata.name}${reason} is deleted` };
}
