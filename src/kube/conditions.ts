import { LONGEST_CONDITION_MESSAGE } from '../api/plain-text.ts';
import type { Condition } from '../api/wire.ts';
import { rfc3339 } from './clock.ts';

export type ConditionInput = Omit<Condition, 'lastTransitionTime'>;

/** What comes back is assigned to a status; it is the caller's own list or a new one, and never written to here. */
function listOf(conditions: readonly Condition[] | undefined): Condition[] {
  return (conditions ?? []) as Condition[];
}

/**
 * The list with this condition set; the same array when nothing changes, so that callers compare by identity and write only on difference.
 * The transition time moves only with `status`. `nowMs` is Clock.now().
 */
export function setCondition(conditions: readonly Condition[] | undefined, given: ConditionInput, nowMs: number): Condition[] {
  const list = listOf(conditions);
  const input = { ...given, message: cut(given.message) };
  const old = findCondition(list, input.type);
  if (
    old?.status === input.status &&
    old.reason === input.reason &&
    old.message === input.message &&
    old.observedGeneration === input.observedGeneration
  ) {
    return list;
  }
  const lastTransitionTime = old?.status === input.status ? old.lastTransitionTime : rfc3339(nowMs);
  const condition: Condition = { ...input, lastTransitionTime };
  return old === undefined ? [...list, condition] : list.map((item) => (item === old ? condition : item));
}

/** A message that its schema refuses would keep everything else of the status from being written. */
const cut = (message: string): string =>
  message.length <= LONGEST_CONDITION_MESSAGE ? message : `${message.slice(0, LONGEST_CONDITION_MESSAGE - 1).toWellFormed()}…`;

/** Several at once; the same array when nothing changes. */
export function setConditions(conditions: readonly Condition[] | undefined, inputs: readonly ConditionInput[], nowMs: number): Condition[] {
  return inputs.reduce((list, input) => setCondition(list, input, nowMs), listOf(conditions));
}

/** The same array when there was none. */
export function removeCondition(conditions: readonly Condition[] | undefined, type: string): Condition[] {
  const list = listOf(conditions);
  return findCondition(list, type) === undefined ? list : list.filter((item) => item.type !== type);
}

export function findCondition(conditions: readonly Condition[] | undefined, type: string): Condition | undefined {
  return conditions?.find((item) => item.type === type);
}

/** True only for status `True`, and, where `generation` is given, only if observed at it or later: an old yes is no yes. */
export function isTrue(conditions: readonly Condition[] | undefined, type: string, generation?: number): boolean {
  const condition = findCondition(conditions, type);
  if (condition?.status !== 'True') return false;
  return generation === undefined || Number(condition.observedGeneration) >= generation;
}
