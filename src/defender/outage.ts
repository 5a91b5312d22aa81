import type { AvailabilityIndex, IndexedMachine, ScopeAvailability } from './availability-index.ts';
import { firstNames } from './holders.ts';

/** Machines of a scope that are unavailable, and not because of a reservation of ours. */
export interface Outage {
  machines: number;
  /** Names of up to five, and the condition types that more than half of them share, the commonest first. */
  who(): { holders: readonly string[]; shared: readonly string[] };
}

/** `ordered`: UIDs of machines whose reservation has its order. */
export function outageIn(availabilityIndex: AvailabilityIndex, scope: string, ordered: ReadonlySet<string>): Outage {
  const scopeAvailability = availabilityIndex.in(scope);
  if (scopeAvailability === undefined) return { machines: 0, who: () => ({ holders: [], shared: [] }) };
  const excused = [...ordered].flatMap((uid) => scopeAvailability.unhealthy.get(uid) ?? []);
  let known: ReturnType<Outage['who']> | undefined;
  return {
    machines: scopeAvailability.unhealthy.size - excused.length,
    who: () => (known ??= suspects(scopeAvailability, ordered, excused)),
  };
}

function suspects(
  { unhealthy, symptoms }: ScopeAvailability,
  ordered: ReadonlySet<string>,
  excused: readonly IndexedMachine[],
): ReturnType<Outage['who']> {
  const machines = unhealthy.size - excused.length;
  const names: string[] = [];
  for (const [uid, { name }] of unhealthy) if (!ordered.has(uid)) names.push(name);
  const counts = new Map(symptoms);
  for (const machine of excused) for (const symptom of machine.symptoms ?? []) counts.set(symptom, (counts.get(symptom) ?? 0) - 1);
  const shared = [...counts]
    .filter(([, times]) => times * 2 > machines)
    .sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1))
    .map(([type]) => type);
  return { holders: firstNames(names), shared };
}
