/** What keeps one machine from going though its set wants that (docs/protocols.md#c8a). Pure. */
import type { Machine } from '../../api/machine.ts';
import { ANNOTATIONS } from '../../api/names.ts';
import { mayBeOf } from '../machine/reservation/backoff.ts';
import { isDrainTimeout } from '../machine/drain/drain.ts';

/**
 * `Refused`: the last drain before its deletion did not end in time. `Spared`: a person took back the mark that it had for this very number of
 * machines. `Held`: a human puts it on hold or pauses it.
 */
export type Obstacle = 'Refused' | 'Spared' | 'Held';

/** Of marks that no term acts on; terms begin with 1. */
export const NO_TERM = 0;

/** Bears a mark that some term gave, and not one that makes another void. */
const isGiven = ({ spec }: Machine): boolean => (spec.retire?.epoch ?? NO_TERM) !== NO_TERM;

/** For which number of machines it was marked last. The set removes this whenever it takes a mark back itself. */
export const markedFor = ({ metadata }: Machine): string | undefined => metadata.annotations?.[ANNOTATIONS.retireFor];

export const isMarkedFor = (machine: Machine, wanted: number): boolean => isGiven(machine) && markedFor(machine) === String(wanted);

export function obstacleOf(machine: Machine, wanted: number): Obstacle | undefined {
  const { spec, status } = machine;
  if (!isGiven(machine) && markedFor(machine) === String(wanted)) return 'Spared';
  if (spec.hold === true || spec.paused === true || status?.agent?.hold === true) return 'Held';
  return isUndrained(machine) ? 'Refused' : undefined;
}

function isUndrained({ spec: { operation } }: Machine): boolean {
  return operation !== undefined && isDrainTimeout(operation) && mayBeOf(operation, 'Delete');
}

/** Until when the last try had time: those that were tried longest ago come first. */
export const lastTryMs = ({ spec }: Machine): number => Date.parse(spec.operation?.notAfter ?? '');
