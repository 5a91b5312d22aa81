import { sha256Hex } from '../../api/digest.ts';

const MAX_RULE = 240;

/**
 * The name of the next job of a rule on a machine, from the names of all that it had there. Two leaders that know the same jobs give the next
 * one the same name, and one that does not know the newest gives its name once more: the server refuses the second either way.
 */
export function nextJobName(rule: string, machineUID: string, known: readonly string[]): string {
  const suffix = sha256Hex([rule, machineUID, ...known.toSorted()].join(' ')).slice(0, 10);
  return `${rule.slice(0, MAX_RULE)}-${suffix}`;
}
