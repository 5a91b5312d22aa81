/** A term of the machine controller: how it begins, and what ends it. */
import { LEDGER_NAME, type DisruptionLedger } from '../../api/disruption-ledger.ts';
import { isCoded, messageOf } from '../../api/errors.ts';
import type { Clock, Log } from '../../api/ports.ts';
import { defenderError, defenderErrorCodes } from '../../defender/errors.ts';
import { createReleaseMarks, type ReleaseMarks } from '../../defender/evidence.ts';
import { beginTerm, readLedger } from '../../defender/ledger.ts';
import { ledgerGone } from '../../defender/protocol.ts';
import { stateOf } from '../../defender/state.ts';
import type { Cache } from '../../kube/cache.ts';
import type { Client } from '../../kube/client.ts';
import { sleep } from '../../kube/clock.ts';
import type { Store } from '../../kube/store.ts';
import { leftReservations } from './reservation/left-reservations.ts';
import type { Stores } from './stores.ts';

const RETRY_MS = 1000;
/** How often a new term checks whether its lists are complete. */
const LISTS_MS = 20;

export interface EpochOptions {
  client: Client;
  /** May list the objects of the cache. */
  reader: Client;
  clock: Clock;
  log: Log;
  signal: AbortSignal;
}

/** Raises the epoch of the ledger, however long the server takes to give one. */
export async function raiseEpoch({ client, reader, clock, log, signal }: EpochOptions): Promise<number> {
  for (;;) {
    try {
      return await beginTerm(client, signal, { reader, leftReservations });
    } catch (error) {
      signal.throwIfAborted();
      log.warn({ error: messageOf(error) }, 'the epoch could not be raised; tries again');
      await sleep(clock, RETRY_MS, signal);
    }
  }
}

/**
 * Lists the stores again after the epoch was raised, and resolves when these lists are complete (docs/protocols.md#d2). A store from before the term may lack
 * a job that is under way. The controller would take that job for one that is over, give its node back, and release its reservation before its repair is
 * proven.
 */
export async function listAgain(
  stores: Stores,
  { cache, clock, signal }: { cache: Pick<Cache, 'whenSynced'>; clock: Clock; signal: AbortSignal },
): Promise<ReleaseMarks> {
  const marks = createReleaseMarks();
  for (const store of [stores.machines, stores.nodes, stores.sets, stores.policies, stores.freezes, stores.jobs]) {
    // Earlier terms released what they released before this epoch. A list that begins after it shows all of that.
    const mark = store.mark();
    store.relist();
    marks.record(() => store.hasPassed({ name: '' }, undefined, mark));
  }
  await cache.whenSynced(signal);
  while (!marks.allPassed()) await sleep(clock, LISTS_MS, signal);
  return marks;
}

export interface MachineTerm {
  readonly epoch: number;
  readonly client: Client;
  readonly ledgers: Pick<Store<DisruptionLedger>, 'get'>;
  /** Aborts with the error `Deposed` when a later term is met, or the ledger is gone (docs/protocols.md#d1). */
  readonly deposed: AbortController;
  /** Ends with leadership, or when this term is deposed. */
  readonly signal: AbortSignal;
}

export function createTerm(parts: Pick<MachineTerm, 'epoch' | 'client' | 'ledgers'>, leadership: AbortSignal): MachineTerm {
  const deposed = new AbortController();
  return { ...parts, deposed, signal: AbortSignal.any([leadership, deposed.signal]) };
}

/** Runs `fn` unless this term is known to be deposed. Where that turns out before or in `fn`, it ends the term. */
export async function inTerm<T>(term: MachineTerm, fn: () => Promise<T>): Promise<T> {
  try {
    await requireTerm(term);
    return await fn();
  } catch (error) {
    if (isCoded(error, defenderErrorCodes, 'Deposed')) term.deposed.abort(error);
    throw error;
  }
}

async function requireTerm({ epoch, client, ledgers, signal }: MachineTerm): Promise<void> {
  const ledger = ledgers.get({ name: LEDGER_NAME });
  // A store that is behind does not have the ledger yet.
  if (ledger === undefined && (await readLedger(client, signal)) === undefined) throw ledgerGone();
  const shown = stateOf(ledgers.get({ name: LEDGER_NAME }) ?? {}).epoch;
  if (shown > epoch) throw defenderError('Deposed', `the ledger carries epoch ${shown}, this leader's is ${epoch}: another term has begun`);
}
