import { LEDGER_NAME, type DisruptionLedger } from '../../api/disruptionledger.ts';
import type { Machine } from '../../api/machine.ts';
import type { Clock } from '../../api/ports.ts';
import { keyOf } from '../../api/resource.ts';
import { perform, type GuardedPort } from '../../defender/guardedwrite.ts';
import { rowOfMachine, stateOf } from '../../defender/state.ts';
import type { Client } from '../../kube/client.ts';
import type { ReconcileContext } from '../../kube/controller.ts';
import type { QueueResult } from '../../kube/queue.ts';
import type { Store } from '../../kube/store.ts';
import type { Effect } from './guards.ts';
import { freeVanished } from './ledgeracts.ts';
import { mayAsk } from './components.ts';
import type { JobsOf } from './facts.ts';
import { reservation, rowsWithoutMachine, type CellView } from './pass.ts';
import { createVerdicts, type Verdicts } from './verdicts.ts';

/** The only key of the reservation pass. */
export const PASS = 'cell';
/** What is asked depends on time and on what no event tells (a Lease that grows old, a store that catches up). */
const AGAIN_MS = 2000;

export interface PassOptions {
  epoch: number;
  stores: { machines: Store<Machine>; ledgers: Store<DisruptionLedger> };
  clock: Clock;
  newID: () => string;
  jobsOf: JobsOf;
  view: (askingSince: (uid: string) => number) => CellView;
  portOf: (client: Client) => GuardedPort<Effect>;
  /** This machine's verdict is news. */
  wakeMachine: (key: string) => void;
}

export interface Pass {
  run(context: ReconcileContext): Promise<QueueResult | void>;
  readonly verdicts: Verdicts;
}

/** Reserves for whoever asks, and frees the rows of machines that are gone. Costs no request while nobody asks. */
export function createPass({ epoch, stores, clock, newID, jobsOf, view, portOf, wakeMachine }: PassOptions): Pass {
  const verdicts = createVerdicts();
  /** Since when each machine asks, by UID, monotonic ms: a new leader knows of no ages, and starts all equal. */
  const asking = new Map<string, number>();

  function askingSince(uid: string): number {
    const since = asking.get(uid) ?? clock.monotonic();
    asking.set(uid, since);
    return since;
  }

  return {
    verdicts,
    async run({ client, log }) {
      const state = stateOf(stores.ledgers.get({ name: LEDGER_NAME }) ?? {});
      const machines = stores.machines.list();
      const asks = machines.some((machine) => mayAsk(machine, jobsOf) && rowOfMachine(state, machine.metadata.uid) === undefined);
      const port = portOf(client);
      if (asks)
        await perform(
          reservation(
            epoch,
            () => view(askingSince),
            newID,
            (result) => {
              const waiting = new Set(result.verdicts.keys());
              for (const uid of asking.keys()) if (!waiting.has(uid)) asking.delete(uid);
              for (const row of result.rows) log.info({ row: row.id, machine: row.machine, class: row.class }, 'reserves');
              tell(result.verdicts);
            },
          ),
          port,
        );
      else tell(new Map());
      for (const row of rowsWithoutMachine(state.rows, machines)) {
        const freed = await perform(freeVanished(row, epoch), port);
        if (freed.done) log.info({ row: row.id, machine: row.machine }, 'released: the machine is gone');
      }
      return asks ? { requeueAfterMs: AGAIN_MS } : undefined;
    },
  };

  function tell(said: Parameters<Verdicts['replace']>[0]): void {
    const news = new Set(verdicts.replace(said));
    if (news.size === 0) return;
    for (const machine of stores.machines.list()) if (news.has(machine.metadata.uid)) wakeMachine(keyOf(machine.metadata));
  }
}
