import { canonical, sha256Hex } from '../../api/digest.ts';
import type { ComponentEntry, Machine } from '../../api/machine.ts';
import { contentOf } from '../../api/machine/values.ts';
import type { MachineComponentSet } from '../../api/machine-component-set.ts';
import { matchesLabels } from '../../api/selector.ts';

/** What a machine should have of one component. */
export interface Content {
  action: 'Install' | 'Remove';
  version: string;
  values?: Record<string, unknown>;
}

type Revision = NonNullable<NonNullable<MachineComponentSet['status']>['revision']>;

const known = new WeakMap<object, string>();

/** `contentOf`, computed once for each object: a set of 10,000 machines asks at every reconcile. */
export function idOf(content: Pick<ComponentEntry, 'action' | 'version' | 'values'>): string {
  let id = known.get(content);
  if (id === undefined) {
    id = contentOf(content);
    known.set(content, id);
  }
  return id;
}

export function contentFrom(action: Content['action'], from: { version: string; values?: Record<string, unknown> }): Content {
  return { action, version: from.version, ...(from.values === undefined ? {} : { values: from.values }) };
}

export interface Targets {
  main: Content;
  canary: Content | undefined;
  /** What this machine should have once its batch has come. */
  of(machine: Machine): Content;
  isCanary(machine: Machine): boolean;
}

export function targetsOf(set: MachineComponentSet): Targets {
  const action = set.spec.action ?? 'Install';
  const main = contentFrom(action, set.spec);
  const { canary: spec } = set.spec;
  const canary = spec === undefined ? undefined : contentFrom(action, spec);
  const isCanary = (machine: Machine): boolean => spec !== undefined && matchesLabels(spec.selector, machine.metadata.labels);
  return { main, canary, isCanary, of: (machine) => (canary !== undefined && isCanary(machine) ? canary : main) };
}

/** Equal text: the same content, which keeps its number (docs/protocols.md#a1). */
function identity(content: { action?: string; version: string; values?: unknown; canary?: unknown }): string {
  const { action = 'Install', version, values = {}, canary = null } = content;
  return canonical({ action, version, values, canary });
}

function selectionOf({ pools, selector }: MachineComponentSet['spec']): string {
  return sha256Hex(canonical({ pools: pools ?? null, selector: selector ?? null })).slice(0, 24);
}

export type CountedContent = Revision & { since: number };

/**
 * The revision that counts the content of `spec`: the recorded one while the content is the same, else the next number. `floor` is the highest
 * number found on a Machine, for a status that was lost or restored.
 *
 * Machines in use that the set selects now and has given nothing (`hasAdded`) lead to a next number of the same content once selectors or pools have
 * changed, or once every batch had passed: they get batches of their own, and what was proved without them is no evidence any more (docs/protocols.md#b5).
 */
export function revisionOf(
  set: MachineComponentSet,
  { floor, hasAdded, at }: { floor: number; hasAdded: boolean; at: string },
): { revision: CountedContent; isNew: boolean } {
  const { spec, status } = set;
  const recorded = status?.revision;
  const selection = selectionOf(spec);
  if (recorded === undefined || recorded.number < floor || identity(recorded) !== identity(spec)) {
    const number = 1 + Math.max(recorded?.number ?? 0, floor);
    const canary = spec.canary === undefined ? {} : { canary: { ...spec.canary } };
    const content = contentFrom(spec.action ?? 'Install', spec);
    return { revision: { number, ...content, ...canary, since: number, selection, startedAt: at }, isNew: true };
  }
  const since = recorded.since ?? recorded.number;
  const isMoved = recorded.selection !== undefined && recorded.selection !== selection;
  if (hasAdded && (isMoved || recorded.completedAt !== undefined)) {
    const { completedAt: _over, ...content } = recorded;
    return { revision: { ...content, number: recorded.number + 1, since, selection, startedAt: at }, isNew: true };
  }
  return { revision: { ...recorded, since, selection }, isNew: recorded.selection !== selection };
}
