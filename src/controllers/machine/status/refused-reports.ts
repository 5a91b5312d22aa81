/**
 * Machines whose status the server refuses to take from this controller, such as where an agent left a value there that the schema does not allow any more.
 * Nothing else waits for it. The status is sent again each time the machine is reconciled, and otherwise after a time that grows with each refusal. A
 * reconciliation before that time does not make it grow: it shows nothing about how long the server refuses.
 */
import { halfJitterMs, type Backoff } from '../../../kube/backoff.ts';
import type { Clock, Random } from '../../../api/ports.ts';

const BACKOFF: Backoff = { baseMs: 1000, maxMs: 300_000 };

export interface RefusedReports {
  /** After a report was sent. `message`: of a refusal; undefined where there was none. Gives when to send it again, and whether this refusal is a new one. */
  note(key: string, message: string | undefined): { againMs: number; isNew: boolean; message: string } | undefined;
  forget(key: string): void;
}

export function rememberRefusedReports(random: Random, clock: Pick<Clock, 'monotonic'>): RefusedReports {
  const known = new Map<string, { message: string; failures: number; dueMs: number }>();
  return {
    note(key, message) {
      if (message === undefined) {
        known.delete(key);
        return undefined;
      }
      const before = known.get(key);
      const isNew = before?.message !== message;
      const nowMs = clock.monotonic();
      if (before !== undefined && nowMs < before.dueMs) {
        known.set(key, { ...before, message });
        return { againMs: before.dueMs - nowMs, isNew, message };
      }
      const failures = (before?.failures ?? 0) + 1;
      const againMs = Math.round(halfJitterMs(BACKOFF, failures, random));
      known.set(key, { message, failures, dueMs: nowMs + againMs });
      return { againMs, isNew, message };
    },
    forget(key) {
      known.delete(key);
    },
  };
}
