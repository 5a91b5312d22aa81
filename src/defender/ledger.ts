import { DisruptionLedgers, LEDGER_NAME, type DisruptionLedger } from '../api/disruptionledger.ts';
import { isCoded } from '../api/errors.ts';
import { API_VERSION } from '../api/kind.ts';
import { Machines } from '../api/machine.ts';
import { MachineComponentSets } from '../api/machinecomponentset.ts';
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
 * lost the epoch read afterwards may be another process' own, so it is raised again. Makes the ledger where there is none: of a new cell, or
 * of one whose ledger was deleted, and then the epoch goes on above every one that its objects carry (D1). `reader`: may list them.
 *
 * Errors: what the client throws, save conflicts, which are read again.
 */
export async function beginTerm(client: Client, signal: AbortSignal, reader: Client = client): Promise<number> {
  for (;;) {
    signal.throwIfAborted();
    const found = await readLedger(client, signal);
    // Who made it may have died before the epoch was in it: one without an epoch says no more than none.
    const used = found === undefined || stateOf(found).epoch === 0 ? await highestEpoch(reader, signal) : 0;
    const ledger = found ?? (await createLedger(client, signal));
    if (ledger === undefined) continue;
    const next = takeLeadership(stateOf(ledger), used);
    try {
      await writeLedger(client, withState(ledger, next), signal);
      return next.epoch;
    } catch (error) {
      if (!isCoded(error, 'Conflict', 'NotFound')) throw error;
    }
  }
}

/** Of all epochs that are compared with a leader's; 0 where there is none. An agent knows none but those of its Machine's operations. */
async function highestEpoch(client: Client, signal: AbortSignal): Promise<number> {
  let highest = 0;
  for (const { spec } of (await client.listAll(Machines, { signal })).items)
    highest = Math.max(highest, spec.operation?.epoch ?? 0, spec.retire?.epoch ?? 0);
  for (const { status } of (await client.listAll(MachineComponentSets, { signal })).items) highest = Math.max(highest, status?.epoch ?? 0);
  return highest;
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
