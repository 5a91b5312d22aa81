import { LEDGER_NAME, type DisruptionLedger } from '../../../api/disruption-ledger.ts';
import type { Stored } from '../../../api/wire.ts';
import type { Reflector } from '../../../kube/reflector.ts';
import { wroteNothing } from '../../../kube/writes.ts';
import { stateOf } from '../../../defender/state.ts';

/**
 * This leader's writes of the ledger: while it leads no other process writes it, so its store shows when there is nothing newer.
 *
 * `kube/writes.ts` delays a key until the stores show its writes. Here that would be wrong: every machine writes the ledger, and one that waits
 * for the store would keep back the others, whose reservations need only the newest version. They read the ledger where the store lacks a write.
 */
export interface LedgerWrites {
  /** The ledger as its store has it, where that lacks no write of this leader; undefined: it must be read. */
  known(): { ledger: Stored<DisruptionLedger> } | undefined;
  during(write: Promise<Stored<DisruptionLedger>>): Promise<void>;
}

export function watchLedgerWrites(store: Pick<Reflector<DisruptionLedger>, 'get' | 'hasPassed' | 'mark'>, epoch: number): LedgerWrites {
  let open = 0;
  /** The last that was answered; undefined where its fate is unknown. */
  let last: { version: string | undefined; mark: number } | undefined;
  return {
    known() {
      const ledger = store.get({ name: LEDGER_NAME });
      // Before the store shows the term it is no ledger of this leader; after a later one it may be judged all the same, and that ends the term.
      if (ledger === undefined || open > 0 || stateOf(ledger).epoch < epoch) return undefined;
      if (last !== undefined && !store.hasPassed(ledger.metadata, last.version, last.mark)) return undefined;
      return { ledger };
    },
    async during(write) {
      open++;
      const mark = store.mark();
      try {
        const { metadata } = await write;
        last = { version: metadata.resourceVersion, mark };
      } catch (error) {
        if (!wroteNothing(error)) last = { version: undefined, mark };
        throw error;
      } finally {
        open--;
      }
    },
  };
}
