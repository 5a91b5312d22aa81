import { LEDGER_NAME, type DisruptionLedger } from '../../../api/disruption-ledger.ts';
import type { Machine } from '../../../api/machine.ts';
import type { Clock } from '../../../api/ports.ts';
import { keyOf, parseKey } from '../../../api/resource.ts';
import { perform, type GuardedPort } from '../../../defender/guarded-write.ts';
import type { Verdict } from '../../../defender/request.ts';
import { reservationOfID, stateOf } from '../../../defender/state.ts';
import type { Client } from '../../../kube/client.ts';
import type { ReconcileContext } from '../../../kube/controller.ts';
import type { QueueResult } from '../../../kube/queue.ts';
import type { Store } from '../../../kube/store.ts';
import type { Effect } from '../guards.ts';
import { freeVanished } from './steps.ts';
import type { Asking } from './asking.ts';
import { mayAsk } from '../order/components.ts';
import type { JobsOf } from '../facts.ts';
import { closedNow, decidePass, isUnordered, reservationWrite, type CellView, type PassResult } from './pass.ts';
import { createVerdicts, type Verdicts } from './verdicts.ts';

/** The index of the machines' store that a pass needs. */
export const BY_UID = 'machine/uid';
/** The only key of the reservation pass. */
export const PASS = 'cell';
/** What is asked, and whether what is reserved may go on, depends on time and on what no event tells (a Lease that grows old, a window that closes). */
const AGAIN_MS = 2000;
/** Where thousands wait a pass takes its time, and every event asks for one: one that took long leaves so many times as much to all else. */
const LONG_MS = 5;
const REST = 3;

export interface PassOptions {
  epoch: number;
  stores: { machines: Store<Machine>; ledgers: Store<DisruptionLedger> };
  asking: Asking;
  clock: Clock;
  newID: () => string;
  jobsOf: JobsOf;
  view: (askingSince: (uid: string) => number) => CellView;
  portOf: (client: Client) => GuardedPort<Effect>;
  /** This machine's verdict is news, or its reservation is revoked. */
  wakeMachine: (key: string) => void;
}

export interface Pass {
  run(context: ReconcileContext): Promise<QueueResult | void>;
  readonly verdicts: Verdicts;
  /**
   * Why a reservation without an order may not be ordered any more: by the last pass, or by clock and labels at this moment. undefined for every other reservation.
   * Whoever cancels it may take its time: it holds its places until it is gone.
   */
  revokedBy(reservationID: string): Verdict | undefined;
}

/**
 * Reserves for whoever asks, judges again what is reserved and not ordered, and frees the reservations of machines that are gone. Costs no request while
 * nobody asks, and next to no time while nothing waits for its order either.
 */
export function createPass({ epoch, stores, asking, clock, newID, jobsOf, view, portOf, wakeMachine }: PassOptions): Pass {
  const verdicts = createVerdicts();
  /** Since when each machine asks, by UID, monotonic ms: a new leader knows of no ages, and starts all equal. */
  const since = new Map<string, number>();

  function askingSince(uid: string): number {
    const at = since.get(uid) ?? clock.monotonic();
    since.set(uid, at);
    return at;
  }

  let notBeforeMs = -Infinity;
  function timed<T>(judge: () => T): T {
    const begun = clock.monotonic();
    const judged = judge();
    const tookMs = clock.monotonic() - begun;
    if (tookMs > LONG_MS) notBeforeMs = clock.monotonic() + REST * tookMs;
    return judged;
  }

  /** By reservation ID; undefined before the first judgement of this term, which `revokedBy` then makes itself. */
  let revoked: ReadonlyMap<string, Verdict> | undefined;

  const ledgerState = () => stateOf(stores.ledgers.get({ name: LEDGER_NAME }) ?? {});

  return {
    verdicts,
    async run({ client, log }) {
      if (clock.monotonic() < notBeforeMs) return { requeueAfterMs: notBeforeMs - clock.monotonic() };
      const state = ledgerState();
      const reserved = new Set(state.reservations.map((reservation) => reservation.machineUID));
      const asks = asking.machines().some((machine) => !reserved.has(machine.metadata.uid) && mayAsk(machine, jobsOf));
      const waits = state.reservations.some((reservation) => isUnordered(reservation, stores.machines.get(parseKey(reservation.machine))));
      const port = portOf(client);
      const reserving = reservationWrite(
        epoch,
        () => view(askingSince),
        newID,
        (result) => {
          const waiting = new Set(result.verdicts.keys());
          for (const uid of since.keys()) if (!waiting.has(uid)) since.delete(uid);
          for (const reservation of result.reservations)
            log.info({ reservation: reservation.id, machine: reservation.machine, class: reservation.class }, 'reserves');
          tell(result);
        },
      );
      if (asks) await perform({ ...reserving, judge: (seen) => timed(() => reserving.judge(seen)) }, port);
      else timed(() => tell(waits ? decidePass(view(askingSince), state, newID) : NOTHING));
      for (const reservation of state.reservations) {
        // By the store; whether it is gone is looked at live.
        if (stores.machines.get(parseKey(reservation.machine))?.metadata.uid === reservation.machineUID) continue;
        const freed = await perform(freeVanished(reservation, epoch), port);
        if (freed.done) log.info({ reservation: reservation.id, machine: reservation.machine }, 'released: the machine is gone');
      }
      return asks || waits ? { requeueAfterMs: AGAIN_MS } : undefined;
    },
    revokedBy(reservationID) {
      const state = ledgerState();
      const reservation = reservationOfID(state, reservationID);
      const machine = reservation === undefined ? undefined : stores.machines.get(parseKey(reservation.machine));
      if (reservation === undefined || machine === undefined || !isUnordered(reservation, machine)) return undefined;
      const seen = view(askingSince);
      // A term that has just begun orders nothing that it has not looked at itself.
      revoked ??= decidePass(seen, state, newID).revoked();
      return revoked?.get(reservationID) ?? closedNow(reservation, machine, seen.nodeNamed(machine.metadata.name), seen);
    },
  };

  function tell(said: PassResult): void {
    const news = verdicts.replace(said.verdicts);
    // Stores that must not be judged by take nothing back, and give nothing back either.
    const before = revoked;
    const found = said.revoked();
    revoked = found ?? revoked;
    const reservations = [...(found?.keys() ?? [])].filter((id) => before?.has(id) !== true);
    for (const uid of news) {
      // The ledger's event wakes whoever was granted something.
      if (said.verdicts.get(uid)?.allowed === true) continue;
      for (const { metadata } of stores.machines.byIndex(BY_UID, uid)) wakeMachine(keyOf(metadata));
    }
    const state = reservations.length === 0 ? undefined : ledgerState();
    for (const id of reservations) {
      const reservation = state === undefined ? undefined : reservationOfID(state, id);
      if (reservation !== undefined) wakeMachine(reservation.machine);
    }
  }
}

const NOTHING: PassResult = { reservations: [], verdicts: new Map(), revoked: () => new Map() };
