import type { Verdict } from '../../../defender/request.ts';

/**
 * Whether a verdict reports something that the one before did not. Which machines use slots, and how many are used, changes with each operation of the cell.
 * To write that each time for each machine that waits would be more writes than the operations make. It is reported again when none of the named holders uses a
 * slot any more.
 */
export function isNews(verdict: Verdict | undefined, before: Verdict | undefined): boolean {
  if (verdict === undefined || before === undefined) return verdict !== before;
  if (verdict.requester !== before.requester || verdict.allowed !== before.allowed || verdict.limit !== before.limit) return true;
  if (verdict.of !== before.of || verdict.wouldPassWhen !== before.wouldPassWhen) return true;
  const holders = before.holders ?? [];
  return holders.length > 0 ? !holders.some((holder) => verdict.holders?.includes(holder)) : (verdict.holders ?? []).length > 0;
}

export interface Verdicts {
  of(machineUID: string): Verdict | undefined;
  /** Takes all verdicts of a pass; those of machines that are not among them are over. Returns the UIDs whose verdict is new. */
  replace(verdicts: ReadonlyMap<string, Verdict>): string[];
}

export function createVerdicts(): Verdicts {
  const known = new Map<string, Verdict>();
  return {
    of: (uid) => known.get(uid),
    replace(verdicts) {
      const changed = [...new Set([...verdicts.keys(), ...known.keys()])].filter((uid) => isNews(verdicts.get(uid), known.get(uid)));
      for (const uid of changed) {
        const verdict = verdicts.get(uid);
        if (verdict === undefined) known.delete(uid);
        else known.set(uid, verdict);
      }
      return changed;
    },
  };
}
