import type { ComponentEntry, Machine } from '../../../api/machine.ts';
import type { MachineComponentSet } from '../../../api/machine-component-set.ts';
import type { Stored } from '../../../api/wire.ts';
import { isInEffect, MAX_FAILURES, unrecordedFailure } from '../../shared/failure.ts';
import { isDeleting } from '../../shared/selection.ts';
import type { SetFacts } from '../facts.ts';

export interface CellSets {
  /** By UID. */
  facts: ReadonlyMap<string, SetFacts>;
  /** Equal texts: every machine belongs to the same sets as before. */
  membership: string;
  /** Components of a machine whose failure their sets count and have not recorded yet: it would be forgotten with the Machine (docs/protocols.md#b4). */
  uncounted(machine: Stored<Machine>): string[];
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

/** As the set itself counts (failuresOf): what it never records is not waited for. A set that is being deleted, or counts no content, records nothing. */
function isUncounted(machine: Stored<Machine>, entry: ComponentEntry, set: Stored<MachineComponentSet> | undefined): boolean {
  if (set === undefined || isDeleting(set) || set.spec.componentName !== entry.name) return false;
  const reported = machine.status?.components?.find((each) => each.name === entry.name);
  if (unrecordedFailure(machine, entry, reported) !== undefined) return true;
  const { revision, failures = [] } = set.status ?? {};
  if (revision === undefined) return false;
  // The store of the sets may be behind the one of the Machines.
  const span = { number: Math.max(revision.number, entry.setRevision), since: revision.since ?? revision.number };
  const { rolloutID } = set.spec;
  if (!isInEffect(entry.failed, span, rolloutID)) return false;
  const recorded = failures.filter(({ setRevision, rolloutID: then }) =>
    isInEffect(
      setRevision === undefined ? undefined : { setRevision, ...(then === undefined ? {} : { rolloutID: then }) },
      span,
      rolloutID,
    ),
  );
  return recorded.length < MAX_FAILURES && !recorded.some(({ uid }) => uid === machine.metadata.uid);
}

/** What is read of the sets of a cell. */
export function cellSets(sets: readonly Stored<MachineComponentSet>[]): CellSets {
  const facts = new Map(sets.map((set) => [set.metadata.uid, factsOf(set)]));
  const byUID = new Map(sets.map((set) => [set.metadata.uid, set]));
  const uncounted = (machine: Stored<Machine>): string[] =>
    (machine.spec.components ?? []).filter((entry) => isUncounted(machine, entry, byUID.get(entry.setUID))).map(({ name }) => name);
  const membership = JSON.stringify([...facts].map(([uid, { pools, selector }]) => [uid, pools, selector]));
  return { facts, membership, uncounted };
}
