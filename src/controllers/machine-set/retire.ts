/**
 * Which machines of a set are to go, as marks on them (docs/protocols.md#c8a). Pure. A set never deletes: the machine controller drains and deletes the machines that
 * bear its mark of this term. A machine whose mark is taken back before that stays.
 */
import { resolveCount } from '../../api/batches.ts';
import type { Machine } from '../../api/machine.ts';
import type { Stored } from '../../api/wire.ts';
import { isAlive, wantedOf, type MachineSetView } from './decide.ts';
import { isMarkedFor, lastTryMs, obstacleOf, type Obstacle } from './obstacle.ts';
import { notByCommit } from './replicas-owner.ts';
import { chooseVictims } from './victims.ts';

export interface RetirementMarks {
  /** Not wanted gone any more. */
  takeBack: Stored<Machine>[];
  /** Not wanted gone, and it is unknown whether their mark was written: they get one that no term acts on, so that the other comes too late. */
  settle: Stored<Machine>[];
  /** Still wanted gone; their mark is of another term, or it is unknown whether it was written. */
  confirm: Stored<Machine>[];
  /** Wanted gone from now on; only when all of the others are written. */
  retire: Stored<Machine>[];
}

const DEFAULT_PACE = '10%';
export const isMarked = (machine: Machine): boolean => machine.spec.retire !== undefined;

/** Machines too many; none while the set is paused, or while its number is not by a commit (docs/protocols.md#c8e). */
export const surplusOf = (view: MachineSetView): number =>
  view.set.spec.paused === true || notByCommit(view.set) !== undefined ? 0 : aboveOf(view);

const aboveOf = (view: MachineSetView): number => Math.max(0, view.machines.filter(isAlive).length - wantedOf(view));

/** Why no machine goes though there are too many; undefined where there are not, or where they may. */
export function keptBy(view: MachineSetView): string | undefined {
  const above = view.set.spec.paused === true ? 0 : aboveOf(view);
  const why = above === 0 ? undefined : notByCommit(view.set);
  return why === undefined ? undefined : `${why}; ${above} machine${above === 1 ? '' : 's'} too many for it stay`;
}

/** `epoch`: of this term. `unsettled`: UIDs of machines to which the answer to a mark was lost: it may still be written at any time. */
export function decideMarks(view: MachineSetView, epoch: number, unsettled: ReadonlySet<string> = new Set()): RetirementMarks {
  const { set, machines } = view;
  const wanted = wantedOf(view);
  const alive = machines.filter(isAlive);
  const isUnsettled = ({ metadata }: Stored<Machine>): boolean => unsettled.has(metadata.uid);
  const marked = alive.filter((machine) => isMarked(machine) || isUnsettled(machine));
  const surplus = surplusOf(view);
  const pace = Math.max(0, resolveCount(set.spec.maxRetiring ?? DEFAULT_PACE, machines.length, 'spec.maxRetiring') - deletingIn(view));
  const order = goingOrder(alive, marked, wanted, epoch);
  const first = order.slice(0, Math.min(surplus, pace));
  // A pace that fell takes no mark back: as many as are marked may stay so.
  const most = Math.min(surplus, Math.max(marked.length, first.length)) - first.length;
  const kept = order.filter((machine) => marked.includes(machine) && !first.includes(machine)).slice(0, most);
  const going = new Set([...first, ...kept]);
  return {
    takeBack: marked.filter((machine) => !going.has(machine) && isMarked(machine)),
    settle: marked.filter((machine) => !going.has(machine) && !isMarked(machine)),
    confirm: marked.filter(
      (machine) => going.has(machine) && (isUnsettled(machine) || machine.spec.retire?.epoch !== epoch || !isMarkedFor(machine, wanted)),
    ),
    retire: first.filter((machine) => !marked.includes(machine)),
  };
}

const deletingIn = ({ machines }: MachineSetView): number => machines.filter((machine) => !isAlive(machine)).length;

/**
 * All machines that may go, the best first: those without an obstacle, then those that did not drain in time, then those that are held. So a machine that cannot go
 * leaves its slot to one that can. Among equals those that are marked come first, and of these the ones that this term marked.
 */
function goingOrder(
  alive: readonly Stored<Machine>[],
  marked: readonly Stored<Machine>[],
  wanted: number,
  epoch: number,
): Stored<Machine>[] {
  const withObstacle = (obstacle: Obstacle | undefined): Stored<Machine>[] =>
    alive.filter((machine) => obstacleOf(machine, wanted) === obstacle);
  const byMark = (group: readonly Stored<Machine>[]): Stored<Machine>[] => {
    const isOwn = ({ spec }: Machine): boolean => spec.retire?.epoch === epoch;
    const own = group.filter(isOwn);
    const others = group.filter((machine) => marked.includes(machine) && !isOwn(machine));
    const unmarked = group.filter((machine) => !marked.includes(machine));
    return [own, others, unmarked].flatMap((each) => chooseVictims(each, each.length));
  };
  const refused = withObstacle('Refused').toSorted((a, b) => lastTryMs(a) - lastTryMs(b) || (a.metadata.name < b.metadata.name ? -1 : 1));
  return [...byMark(withObstacle(undefined)), ...refused, ...byMark(withObstacle('Held'))];
}

/** Machines too many that cannot go now, and which ones stay. */
export interface Blocked {
  wanted: number;
  surplus: number;
  count: number;
  machines: { name: string; obstacle: Obstacle }[];
}

export function blockedOf(view: MachineSetView): Blocked {
  const wanted = wantedOf(view);
  const surplus = surplusOf(view);
  const machines: Blocked['machines'] = [];
  let free = 0;
  for (const machine of view.machines.filter(isAlive)) {
    const obstacle = obstacleOf(machine, wanted);
    if (obstacle === undefined) free++;
    else machines.push({ name: machine.metadata.name, obstacle });
  }
  return { wanted, surplus, count: Math.max(0, surplus - free), machines };
}

export const isEmpty = ({ takeBack, settle, confirm, retire }: RetirementMarks): boolean =>
  [takeBack, settle, confirm, retire].every((machines) => machines.length === 0);
