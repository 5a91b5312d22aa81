import type { Condition } from '../api/wire.ts';

export type ConditionInput = Omit<Condition, 'lastTransitionTime'>;

/** The list with this condition set; the same array when nothing changes. The transition time moves only with `status`. `nowMs`: Clock.now(). */
export declare function setCondition(conditions: readonly Condition[] | undefined, condition: ConditionInput, nowMs: number): Condition[];
/** Several at once; the same array when nothing changes. */
export declare function setConditions(
  conditions: readonly Condition[] | undefined,
  inputs: readonly ConditionInput[],
  nowMs: number,
): Condition[];
export declare function removeCondition(conditions: readonly Condition[] | undefined, type: string): Condition[];
export declare function findCondition(conditions: readonly Condition[] | undefined, type: string): Condition | undefined;
/** True only for status `True`, and, where `generation` is given, only if observed at it or later. */
export declare function isTrue(conditions: readonly Condition[] | undefined, type: string, generation?: number): boolean;
