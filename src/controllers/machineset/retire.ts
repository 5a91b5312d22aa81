/**
 * Which machines of a set are to go, as marks on them (PROTOCOLS C8a). Pure. A set never deletes: what bears its mark in this term is drained and
 * deleted by the machine controller, and lives if the mark is taken back before.
 */
import { resolveCount } from '../../api/batches.ts';
import type { Machine } from '../../api/machine.ts';
import type { Stored } from '../../api/wire.ts';
import { isAlive, wantedOf, type MachineSetView } from './decide.ts';
import { chooseVictims } from './victims.ts';

export interface Marks {
  /** Not wanted gone any more. */
  takeBack: Stored<Machine>[];
  /** Not wanted gone, and nobody knows whether their mark was written: they get one that no term acts on, so that the other comes too late. */
  settle: Stored<Machine>[];
  /** Still wanted gone; their mark is of another term, or nobody knows whether it was written. */
  confirm: Stored<Machine>[];
  /** Wanted gone from now on; only when all of the others are written. */
  retire: Stored<Machine>[];
}

const DEFAULT_PACE = '10%';
/** Terms begin with 1. */
export const NO_TERM = 0;

export const isMarked = (machine: Machine): boolean => machine.spec.retire !== undefined;

/** `epoch`: of this term. `unsettled`: UIDs of machines to which the answer to a mark was lost: it may still be written at any time. */
export function decideMarks(view: MachineSetView, epoch: number, unsettled: ReadonlySet<string> = new Set()): Marks {
  const { set, machines } = view;
  const alive = machines.filter(isAlive);
  const isUnsettled = ({ metadata }: Stored<Machine>): boolean => unsettled.has(metadata.uid);
  const marked = alive.filter((machine) => isMarked(machine) || isUnsettled(machine));
  const surplus = set.spec.paused === true ? 0 : Math.max(0, alive.length - wantedOf(view));
  const pace = resolveCount(set.spec.maxRetiring ?? DEFAULT_PACE, machines.length, 'spec.maxRetiring');
  const many = Math.min(surplus, Math.max(marked.length, pace - (machines.length - alive.length)));
  // Those that go already before those that another term chose.
  const [own, others] = [
    marked.filter(({ spec }) => spec.retire?.epoch === epoch),
    marked.filter(({ spec }) => spec.retire?.epoch !== epoch),
  ];
  const first = chooseVictims(own, many);
  const going = new Set([...first, ...chooseVictims(others, many - first.length)]);
  const unmarked = alive.filter((machine) => !marked.includes(machine));
  return {
    takeBack: marked.filter((machine) => !going.has(machine) && isMarked(machine)),
    settle: marked.filter((machine) => !going.has(machine) && !isMarked(machine)),
    confirm: marked.filter((machine) => going.has(machine) && (isUnsettled(machine) || machine.spec.retire?.epoch !== epoch)),
    retire: chooseVictims(unmarked, many - going.size),
  };
}

export const isEmpty = ({ takeBack, settle, confirm, retire }: Marks): boolean =>
  takeBack.length + settle.length + confirm.length + retire.length === 0;
