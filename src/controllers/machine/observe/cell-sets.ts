import type { MachineComponentSet } from '../../../api/machine-component-set.ts';
import type { Stored } from '../../../api/wire.ts';
import type { SetFacts } from '../facts.ts';

export interface CellSets {
  /** By UID. */
  facts: ReadonlyMap<string, SetFacts>;
  /** Equal texts: every machine belongs to the same sets as before. */
  membership: string;
}

function factsOf({ metadata, spec, status }: Stored<MachineComponentSet>): SetFacts {
  const halted = status?.conditions?.some((condition) => condition.type === 'Halted' && condition.status === 'True') === true;
  const { maxUnavailable, pools, selector } = spec;
  return {
    name: metadata.name,
    stopped: spec.paused === true ? 'Paused' : halted ? 'Halted' : undefined,
    maxUnavailable,
    pools,
    selector,
  };
}

/** What is read of the sets of a cell. */
export function cellSets(sets: readonly Stored<MachineComponentSet>[]): CellSets {
  const facts = new Map(sets.map((set) => [set.metadata.uid, factsOf(set)]));
  return { facts, membership: JSON.stringify([...facts].map(([uid, { pools, selector }]) => [uid, pools, selector])) };
}
