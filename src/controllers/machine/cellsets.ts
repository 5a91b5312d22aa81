import type { MachineComponentSet } from '../../api/machinecomponentset.ts';
import type { Stored } from '../../api/wire.ts';
import type { Reflector } from '../../kube/reflector.ts';
import type { SetFacts } from './facts.ts';

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

/** What is read of the sets of a cell; made anew only when their store has changed. */
export function readSets(store: Pick<Reflector<MachineComponentSet>, 'list' | 'resourceVersion' | 'mark'>): () => CellSets {
  let known: (CellSets & { at: string }) | undefined;
  return () => {
    // What a store holds is told by the list that it began with and the version that it has come to since.
    const at = `${store.mark()} ${store.resourceVersion ?? ''}`;
    if (known?.at === at) return known;
    const facts = new Map(store.list().map((set) => [set.metadata.uid, factsOf(set)]));
    const membership = JSON.stringify([...facts].map(([uid, { pools, selector }]) => [uid, pools, selector]));
    known = { at, facts, membership };
    return known;
  };
}
