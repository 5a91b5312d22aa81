import { sha256Hex } from '../../api/digest.ts';

const MAX_RULE = 240;

/**
 * The name of the next job of a rule on a machine, from the names of all that it had there. Two leaders that know the same jobs give the next one the same name. A
 * leader that does not know the newest job gives that name again. In both cases the server refuses the second job.
 */
export function nextJobName(rule: string, machineUID: string, known: readonly string[]): string {
  const suffix = sha256Hex([rule, machineUID, ...known.toSorted()].join(' ')).slice(0, 10);
  return `${rule.slice(0, MAX_RULE)}-${suffix}`;
}
