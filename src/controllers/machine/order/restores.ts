/**
 * How often a machine was taken back to verified content, by the cell's own record (docs/protocols.md#b7). Each operation carries the record and hands it on to the
 * next one: a leader that takes over forgets nothing, and no report of an agent resets it. Pure.
 */
import type { LedgerReservation } from '../../../api/disruption-ledger.ts';
import type { ComponentEntry, Machine, Operation } from '../../../api/machine.ts';
import { contentOf } from '../../../api/machine/values.ts';
import { endOf, isUnderWay } from '../../../api/machine/operation-end.ts';

type Restores = NonNullable<Operation['restores']>;

/** Each order, and each reservation that was given up, disrupts. An agent that never succeeds is therefore not taken back for ever. */
export const MAX_RESTORES = 5;
/** Of the field. */
const MAX_RECORDS = 128;

/** Whether two entries are the same declaration. Their revision does not count, since a refusal by an agent raises it. */
const isDeclaredBy = (record: Restores[number], { name, setUID, setRevision, attempt }: ComponentEntry): boolean =>
  record.name === name && record.setUID === setUID && record.setRevision === setRevision && record.attempt === attempt;

/** The record, with the result of the present operation. */
function recorded(machine: Machine): Restores {
  const order = machine.spec.operation;
  const outcome = endOf(machine)?.outcome;
  const isOver = outcome !== undefined && outcome !== 'Cancelled' && outcome !== 'TransientFailure';
  return (order?.restores ?? []).map((each) => (isOver && each.last === order?.id ? { ...each, isOver } : each));
}

/** Whether the way back to what this entry asks for may still be taken: it has not come to an end, and was not tried too often. */
export function mayRestore(machine: Machine, entry: ComponentEntry): boolean {
  const content = contentOf(entry);
  const past = recorded(machine).find((each) => isDeclaredBy(each, entry) && each.content === content);
  if (past === undefined) return true;
  if (past.isOver === true) return false;
  return isUnderWay(machine, past.last) || past.tries < MAX_RESTORES;
}

/** What the operation that is written for this reservation now records of them. `tried`: the entries that it carries. */
export function restoresOf(
  reservation: LedgerReservation,
  tried: readonly { name: string; revision: number }[],
  machine: Machine,
): { restores?: Restores } {
  const entries = machine.spec.components ?? [];
  const before = recorded(machine).filter((each) => entries.some((entry) => isDeclaredBy(each, entry)));
  const now = reservation.class !== 'Restore' ? [] : entries.filter((entry) => tried.some((each) => isOf(each, entry)));
  const counted = now.map((entry): Restores[number] => {
    const { name, setUID, setRevision, attempt } = entry;
    const content = contentOf(entry);
    const past = before.find((each) => isDeclaredBy(each, entry) && each.content === content);
    return { name, setUID, setRevision, attempt, content, tries: (past?.tries ?? 0) + 1, last: reservation.id };
  });
  const isCounted = (record: Restores[number]): boolean =>
    counted.some((each) => each.name === record.name && each.content === record.content);
  const restores = [...counted, ...before.filter((each) => !isCounted(each))].slice(0, MAX_RECORDS);
  return restores.length === 0 ? {} : { restores };
}

const isOf = (tried: { name: string; revision: number }, entry: ComponentEntry): boolean =>
  tried.name === entry.name && tried.revision === entry.revision;
