/**
 * Machines whose status the server refuses to take from this controller, such as where an agent left there what the schema does not allow any more. Nothing
 * else waits for it: it is sent again with every turn of the machine, and by itself ever later.
 */
import { halfJitterMs, type Backoff } from '../../../kube/backoff.ts';
import type { Random } from '../../../api/ports.ts';

const BACKOFF: Backoff = { baseMs: 1000, maxMs: 300_000 };

export interface RefusedReports {
  /** After a report was sent. `message`: of a refusal; undefined where there was none. Gives when to send it again, and whether this refusal is a new one. */
  note(key: string, message: string | undefined): { againMs: number; isNew: boolean; message: string } | undefined;
  forget(key: string): void;
}

export function rememberRefusedReports(random: Random): RefusedReports {
  const known = new Map<string, { message: string; failures: number }>();
  return {
    note(key, message) {
      if (message === undefined) {
        known.delete(key);
        return undefined;
      }
      const before = known.get(key);
      const failures = (before?.failures ?? 0) + 1;
      known.set(key, { message, failures });
      return { againMs: Math.round(halfJitterMs(BACKOFF, failures, random)), isNew: before?.message !== message, message };
    },
    forget(key) {
      known.delete(key);
    },
  };
}
