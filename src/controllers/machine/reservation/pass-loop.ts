import { LEDGER_NAME, type DisruptionLedger } from '../../../api/disruption-ledger.ts';
import type { Machine } from '../../../api/machine.ts';
import type { Clock } from '../../../api/ports.ts';
import { keyOf, parseKey } from '../../../api/resource.ts';
import { perform, type GuardedPort, type GuardedWrite } from '../../../defender/guarded-write.ts';
import type { Verdict } from '../../../defender/request.ts';
import { reservationOfID, stateOf, type LedgerState } from '../../../defender/state.ts';
import type { Client } from '../../../kube/client.ts';
import type { ReconcileContext } from '../../../kube/controller.ts';
import type { QueueResult } from '../../../kube/queue.ts';
import type { Store } from '../../../kube/store.ts';
import type { Effect } from '../guards.ts';
import { freeVanished } from './steps.ts';
import type { Asking } from './asking.ts';
import { mayAsk } from '../order/components.ts';
import type { JobsOf } from '../facts.ts';
import { createPace, type Pace } from './pace.ts';
import { closedNow, decidePass, isUnordered, reservationWrite, type PassView, type PassResult } from './pass.ts';
import { createVerdicts, type Verdicts } from './verdicts.ts';

/** The index of the machines' store that a pass needs. */
export const BY_UID = 'machine/uid';
/** The only key of the reservation pass. */
export const PASS = 'cell';
/** Requests, and whether a reservation may go on, depend on time without any event: a Lease grows old, a window closes. */
const AGAIN_MS = 2000;

export interface PassOptions {
  epoch: number;
  stores: { machines: Store<Machine>; ledgers: Store<DisruptionLedger> };
  asking: Asking;
  clock: Clock;
  newID: () => string;
  jobsOf: JobsOf;
  view: (askingSince: (uid: string) => number) => PassView;
  portOf: (client: Client) => GuardedPort<Effect>;
  /** This machine's verdict is new, or its reservation is revoked. */
  wakeMachine: (key: string) => void;
}

export interface Pass {
  run(context: ReconcileContext): Promise<QueueResult | void>;
  readonly verdicts: Verdicts;
  /**
   * Why a reservation without an order may not be ordered any more: by the last pass, or by clock and labels at this moment. undefined for every other reservation.
   * Its cancellation may take time: it counts in its scopes until it is gone.
   */
  revokedBy(reservationID: string): Verdict | undefined;
}

/** What a term knows from its passes. */
interface PassState {
  readonly verdicts: Verdicts;
  /** Since when each machine asks, by UID, monotonic ms: a new leader knows of no ages, and starts all equal. */
  readonly askingSince: Map<string, number>;
  readonly pace: Pace;
  /** By reservation ID; undefined before the first judgement of this term, which `revokedBy` then makes itself. */
  revoked: ReadonlyMap<string, Verdict> | undefined;
}

/**
 * Reserves for the machines that ask, judges again what is reserved and not ordered, and frees the reservations of machines that are gone. Costs no request
 * while no machine asks, and next to no time while no reservation waits for its order either.
 */
export function createPass(options: PassOptions): Pass {
  const state: PassState = { verdicts: createVerdicts(), askingSince: new Map(), pace: createPace(options.clock), revoked: undefined };
  return {
    verdicts: state.verdicts,
    run: (context) => runPass(options, state, context),
    revokedBy: (reservationID) => revokedBy(options, state, reservationID),
  };
}

const ledgerOf = ({ stores }: PassOptions): LedgerState => stateOf(stores.ledgers.get({ name: LEDGER_NAME }) ?? {});

function cellOf({ view, clock }: PassOptions, { askingSince }: PassState): PassView {
  return view((uid) => {
    const at = askingSince.get(uid) ?? clock.monotonic();
    askingSince.set(uid, at);
    return at;
  });
}

async function runPass(options: PassOptions, state: PassState, context: ReconcileContext): Promise<QueueResult | void> {
  const { stores, asking, newID, jobsOf, portOf } = options;
  const { pace } = state;
  const restMs = pace.restMs();
  if (restMs > 0) return { requeueAfterMs: restMs };
  const ledger = ledgerOf(options);
  const reserved = new Set(ledger.reservations.map((reservation) => reservation.machineUID));
  const asks = asking.machines().some((machine) => !reserved.has(machine.metadata.uid) && mayAsk(machine, jobsOf));
  const waits = ledger.reservations.some((reservation) => isUnordered(reservation, stores.machines.get(parseKey(reservation.machine))));
  const port = portOf(context.client);
  if (asks) await perform(reserving(options, state, context), port);
  else pace.timed(() => publish(options, state, waits ? decidePass(cellOf(options, state), ledger, newID) : NOTHING));
  await freeGone(options, ledger, port, context);
  return asks || waits ? { requeueAfterMs: AGAIN_MS } : undefined;
}

function reserving(options: PassOptions, state: PassState, { log }: ReconcileContext): GuardedWrite {
  const { epoch, newID } = options;
  const write = reservationWrite(
    epoch,
    () => cellOf(options, state),
    newID,
    (result) => {
      for (const uid of state.askingSince.keys()) if (!result.verdicts.has(uid)) state.askingSince.delete(uid);
      for (const reservation of result.reservations)
        log.info({ reservation: reservation.id, machine: reservation.machine, class: reservation.class }, 'reserves');
      publish(options, state, result);
    },
  );
  return { ...write, judge: (seen) => state.pace.timed(() => write.judge(seen)) };
}

/** Frees reservations whose machine the store does not have. The write itself reads live whether it is gone. */
async function freeGone(
  { stores, epoch }: PassOptions,
  { reservations }: LedgerState,
  port: GuardedPort<Effect>,
  { log }: ReconcileContext,
): Promise<void> {
  for (const reservation of reservations) {
    if (stores.machines.get(parseKey(reservation.machine))?.metadata.uid === reservation.machineUID) continue;
    const freed = await perform(freeVanished(reservation, epoch), port);
    if (freed.done) log.info({ reservation: reservation.id, machine: reservation.machine }, 'released: the machine is gone');
  }
}

function revokedBy(options: PassOptions, state: PassState, reservationID: string): Verdict | undefined {
  const ledger = ledgerOf(options);
  const reservation = reservationOfID(ledger, reservationID);
  const machine = reservation === undefined ? undefined : options.stores.machines.get(parseKey(reservation.machine));
  if (reservation === undefined || machine === undefined || !isUnordered(reservation, machine)) return undefined;
  const cell = cellOf(options, state);
  // A term that has just begun orders nothing that it has not judged itself.
  state.revoked ??= decidePass(cell, ledger, options.newID).revoked();
  return state.revoked?.get(reservationID) ?? closedNow(reservation, machine, cell.nodeNamed(machine.metadata.name), cell);
}

/** Keeps what a pass found, and wakes the machines for which it is new. */
function publish(options: PassOptions, state: PassState, result: PassResult): void {
  const { stores, wakeMachine } = options;
  const changed = state.verdicts.replace(result.verdicts);
  const before = state.revoked;
  const found = result.revoked();
  // Stale stores take no reservation back, and allow none again that was taken back.
  state.revoked = found ?? before;
  for (const uid of changed) {
    // The ledger's event wakes each machine that was granted its request.
    if (result.verdicts.get(uid)?.allowed === true) continue;
    for (const { metadata } of stores.machines.byIndex(BY_UID, uid)) wakeMachine(keyOf(metadata));
  }
  const reservations = [...(found?.keys() ?? [])].filter((id) => before?.has(id) !== true);
  if (reservations.length === 0) return;
  const ledger = ledgerOf(options);
  for (const id of reservations) {
    const reservation = reservationOfID(ledger, id);
    if (reservation !== undefined) wakeMachine(reservation.machine);
  }
}

const NOTHING: PassResult = { reservations: [], verdicts: new Map(), revoked: () => new Map() };
