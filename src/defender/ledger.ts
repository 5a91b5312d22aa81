import { DisruptionLedgers, LEDGER_NAME, type DisruptionLedger } from '../api/disruptionledger.ts';
import { isCoded } from '../api/errors.ts';
import { API_VERSION } from '../api/kind.ts';
import { MANAGERS } from '../api/names.ts';
import type { Stored } from '../api/wire.ts';
import type { Client } from '../kube/client.ts';
import { takeLeadership } from './protocol.ts';
import { stateOf, withState } from './state.ts';

/** The cell's ledger, live. undefined: there is none yet. */
export function readLedger(client: Client, signal: AbortSignal): Promise<Stored<DisruptionLedger> | undefined> {
  return client.find(DisruptionLedgers, { name: LEDGER_NAME }, { signal });
}

/** Writes the status, conditioned on the resourceVersion the object carries; `Conflict` when another write came between. */
export function writeLedger(client: Client, ledger: Stored<DisruptionLedger>, signal: AbortSignal): Promise<Stored<DisruptionLedger>> {
  return client.update(DisruptionLedgers, ledger, { subresource: 'status', fieldManager: MANAGERS.defender, signal });
}

/**
 * Begins a term (D2): raises the epoch and returns it once the server has said that this very write raised it. Where the answer is
 * lost the epoch read afterwards may be another process' own, so it is raised again. Makes the ledger where there is none.
 *
 * Errors: what the client throws, save conflicts, which are read again.
 */
export async function beginTerm(client: Client, signal: AbortSignal): Promise<number> {
  for (;;) {
    signal.throwIfAborted();
    const ledger = (await readLedger(client, signal)) ?? (await createLedger(client, signal));
    if (ledger === undefined) continue;
    const next = takeLeadership(stateOf(ledger));
    try {
      await writeLedger(client, withState(ledger, next), signal);
      return next.epoch;
    } catch (error) {
      if (!isCoded(error, 'Conflict', 'NotFound')) throw error;
    }
  }
}

async function createLedger(client: Client, signal: AbortSignal): Promise<Stored<DisruptionLedger> | undefined> {
  try {
    return await client.create(
      DisruptionLedgers,
      { apiVersion: API_VERSION, kind: 'DisruptionLedger', metadata: { name: LEDGER_NAME }, spec: {} },
      { fieldManager: MANAGERS.defender, signal },
    );
  } catch (error) {
    if (isCoded(error, 'AlreadyExists')) return undefined;
    throw error;
  }
}
