import type { Machine } from '../../api/machine.ts';
import type { Condition } from '../../api/wire.ts';
import { age } from '../output.ts';

type Verdict = NonNullable<NonNullable<Machine['status']>['verdict']>;

/** `2026-01-01T00:00:00Z (3m12s ago)` */
export function ago(time: string, nowMs: number): string {
  const ms = Date.parse(time);
  return Number.isNaN(ms) ? time : `${time.replace('.000Z', 'Z')} (${age(nowMs - ms)} ago)`;
}

/** Defender's answer, in lines. */
export function verdictLines(whose: string, verdict: Verdict): string[] {
  const { allowed, limit, used, of, holders = [], wouldPassWhen } = verdict;
  if (allowed) return [`${whose}: granted`];
  const full = used === undefined || of === undefined ? '' : `, ${used} of ${of} used`;
  const by = holders.length === 0 ? '' : `, used by ${holders.join(', ')}`;
  return [
    `${whose}: refused by ${limit ?? 'a limit'}${full}${by}`,
    ...(wouldPassWhen === undefined ? [] : [`  would pass when ${wouldPassWhen}`]),
  ];
}

/** `Reason: message`; many reasons need no message. */
export function because({ reason, message }: Pick<Condition, 'reason' | 'message'>): string {
  return message === '' ? reason : `${reason}: ${message}`;
}

/** All conditions, as the controller wrote them. */
export function conditionLines(conditions: readonly Condition[] | undefined, nowMs: number): string[] {
  if (conditions === undefined || conditions.length === 0) return [];
  return [
    '',
    'CONDITIONS',
    ...conditions.map(
      (condition) => `  ${condition.type}=${condition.status}  ${because(condition)}; since ${ago(condition.lastTransitionTime, nowMs)}`,
    ),
  ];
}
