import { answerCodes } from '../kube/errors.ts';
import { defenderError } from './errors.ts';
import { Nodes, type Node } from '../api/builtin.ts';
import { DisruptionLedgers, LEDGER_NAME, type DisruptionLedger, type LedgerReservation } from '../api/disruption-ledger.ts';
import { isCoded } from '../api/errors.ts';
import { API_VERSION } from '../api/kind.ts';
import { Machines, type Machine } from '../api/machine.ts';
import { MachineComponentSets, type MachineComponentSet } from '../api/machine-component-set.ts';
import { MANAGERS } from '../api/names.ts';
import { RemedyOperationJobs, type RemedyOperationJob } from '../api/remedy-operation-job.ts';
import type { Stored } from '../api/wire.ts';
import type { Client } from '../kube/client.ts';
import { rebuilt, takeLeadership } from './protocol.ts';
import { stateOf, withState } from './state.ts';

/** The cell's ledger, live. undefined: there is none yet. */
export function readLedger(client: Client, signal: AbortSignal): Promise<Stored<DisruptionLedger> | undefined> {
  return client.find(DisruptionLedgers, { name: LEDGER_NAME }, { signal });
}

/** Writes the status, conditioned on the resourceVersion the object carries; `Conflict` when another write came between. */
export function writeLedger(client: Client, ledger: Stored<DisruptionLedger>, signal: AbortSignal): Promise<Stored<DisruptionLedger>> {
  return client.update(DisruptionLedgers, ledger, { subresource: 'status', fieldManager: MANAGERS.defender, signal });
}

/** What terms wrote outside of their ledger: the lists of one moment after another, in this order. */
export interface Traces {
  machines: readonly Stored<Machine>[];
  nodes: readonly Stored<Node>[];
  sets: readonly Stored<MachineComponentSet>[];
  jobs: readonly Stored<RemedyOperationJob>[];
  /** When the ledger was made, by its API server. */
  since: string;
}

export interface TermOptions {
  /** May list what terms write; the client has only the rights for its writes. */
  reader?: Client;
  /** The reservations that a ledger which is lost must have had, as far as they may still be under way. */
  leftReservations: (traces: Traces) => readonly LedgerReservation[];
}

/**
 * Begins a term (docs/protocols.md#d2): raises the epoch and returns it once the server has confirmed that this very write raised it. Where the answer is
 * lost the epoch read afterwards may be another process' own, so it is raised again. Makes the ledger where there is none: in a new cell, or
 * in one whose ledger was deleted. One without an epoch gets, in the write that gives it the first, the reservations of what may still be under way (#d1).
 *
 * #d1: an epoch is never below the resourceVersion of the ledger that it is written into, and costs a write; so it is at most the resourceVersion that this write
 * gets. A ledger that is made later has a higher one than that, and so has each of its epochs, also above every trace that the term before it left.
 *
 * Errors: `LedgerFull`, `VersionInvalid`; what the client throws, except conflicts: after one it reads again.
 */
export async function beginTerm(client: Client, signal: AbortSignal, { reader = client, leftReservations }: TermOptions): Promise<number> {
  for (;;) {
    signal.throwIfAborted();
    const ledger = (await readLedger(client, signal)) ?? (await createLedger(client, signal));
    if (ledger === undefined) continue;
    const state = stateOf(ledger);
    const { created: since, version } = bornOf(ledger);
    // Listed after it was read, and the write is conditioned on it: no term began with it in between, and the former leader no longer reads it.
    const traces = state.epoch > 0 ? undefined : await tracesIn(reader, since, signal);
    const known = traces === undefined ? state : rebuilt(state, leftReservations(traces), highestEpoch(traces), since);
    const next = takeLeadership(known, traces === undefined ? version : Math.max(version, highestEpoch(traces) + 1));
    try {
      await writeLedger(client, withState(ledger, next), signal);
      return next.epoch;
    } catch (error) {
      if (!isCoded(error, answerCodes, 'Conflict', 'NotFound')) throw error;
    }
  }
}

function bornOf({ metadata }: Stored<DisruptionLedger>): { created: string; version: number } {
  const version = Number(metadata.resourceVersion);
  if (!Number.isSafeInteger(version) || version < 0)
    throw defenderError('VersionInvalid', `the resourceVersion of the DisruptionLedger is no number: ${metadata.resourceVersion}`);
  return { created: metadata.creationTimestamp, version };
}

async function tracesIn(client: Client, since: string, signal: AbortSignal): Promise<Traces> {
  const machines = (await client.listAll(Machines, { signal })).items;
  const nodes = (await client.listAll(Nodes, { signal })).items;
  const jobs = (await client.listAll(RemedyOperationJobs, { signal })).items;
  const sets = (await client.listAll(MachineComponentSets, { signal })).items;
  return { machines, nodes, sets, jobs, since };
}

/** The highest epoch that is compared with a leader's; 0 where there is none. An agent knows only the epochs of its Machine's operations. */
function highestEpoch({ machines, sets }: Traces): number {
  let highest = 0;
  for (const { spec } of machines) highest = Math.max(highest, spec.operation?.epoch ?? 0, spec.retire?.epoch ?? 0);
  for (const { status } of sets) highest = Math.max(highest, status?.epoch ?? 0);
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
    if (isCoded(error, answerCodes, 'AlreadyExists')) return undefined;
    throw error;
  }
}
