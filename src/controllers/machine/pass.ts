/**
 * The cell's reservation pass: every machine that asks, judged at once, granted in one write of the ledger. Pure but for `gather`, which looks
 * at the stores after the ledger was read: a row that the ledger lacks by then was released before, and its marks say whether these stores
 * know what it left behind (⊢ D4).
 */
import type { Node } from '../../api/builtin.ts';
import type { DefenderPolicy } from '../../api/defenderpolicy.ts';
import type { LedgerRow } from '../../api/disruptionledger.ts';
import type { Machine } from '../../api/machine.ts';
import type { Stored } from '../../api/wire.ts';
import { takeCensus, type CensusMachine } from '../../defender/census.ts';
import type { GuardedWrite } from '../../defender/guardedwrite.ts';
import { judge } from '../../defender/judge.ts';
import { requireEpoch, reserve } from '../../defender/protocol.ts';
import { rowFor, type Request, type Verdict } from '../../defender/request.ts';
import { rowOfMachine, stateOf, withState, type LedgerState } from '../../defender/state.ts';
import { askOf, nameOf, scopesOf, type AskFacts } from './ask.ts';
import { availabilityOf } from './availability.ts';
import { claimOf } from './claim.ts';

/** One look at the stores. */
export interface CellView {
  facts: Omit<AskFacts, 'agentAnswers'>;
  machines: readonly Stored<Machine>[];
  nodeNamed(name: string): Stored<Node> | undefined;
  kubeletAnswers(node: string): boolean;
  agentAnswers(machine: Machine): boolean;
  policies: readonly Pick<DefenderPolicy, 'metadata' | 'spec'>[];
  /** Since when this machine has been asking, as far as this leader knows, ms. */
  askingSince(machineUID: string): number;
  /** Why these stores must not be judged by; undefined when they may. */
  stale: string | undefined;
}

export interface PassResult {
  rows: LedgerRow[];
  /** By machine UID, for every machine that asks and has no row. */
  verdicts: Map<string, Verdict>;
}

function censusMachine(machine: Stored<Machine>, view: CellView): CensusMachine {
  const claim = claimOf(machine, machine.status?.providerID, view.nodeNamed(machine.metadata.name));
  return {
    uid: machine.metadata.uid,
    name: nameOf(machine),
    scopes: scopesOf(machine, view.facts.sets),
    ...availabilityOf(claim, view.kubeletAnswers(machine.metadata.name)),
  };
}

function decidePass(view: CellView, state: LedgerState, newID: () => string): PassResult {
  const requests: Request[] = [];
  const verdicts = new Map<string, Verdict>();
  for (const machine of view.machines) {
    if (rowOfMachine(state, machine.metadata.uid) !== undefined) continue;
    const ask = askOf(machine, { ...view.facts, agentAnswers: view.agentAnswers(machine) });
    if (ask.state === 'Refused') verdicts.set(machine.metadata.uid, ask.verdict);
    if (ask.state === 'Asks') requests.push({ ...ask.request, since: view.askingSince(machine.metadata.uid) });
  }
  if (requests.length === 0) return { rows: [], verdicts };
  if (view.stale !== undefined) {
    for (const request of requests)
      verdicts.set(request.machineUID, {
        allowed: false,
        limit: 'Defender/inputs',
        wouldPassWhen: `what Defender sees is current: ${view.stale}`,
      });
    return { rows: [], verdicts };
  }
  const census = takeCensus(
    view.machines.map((machine) => censusMachine(machine, view)),
    state.rows,
  );
  const judgement = judge(requests, census, { policies: view.policies, sets: view.facts.sets }, state.rows.length);
  for (const [uid, verdict] of judgement.verdicts) verdicts.set(uid, verdict);
  return { rows: judgement.granted.map((request) => rowFor(request, newID(), view.facts.nowMs)), verdicts };
}

/** L; writes L. A release or a reservation that comes between makes it lose. `said` gets the result of every judgement. */
export function reservation(
  epoch: number,
  gather: () => CellView,
  newID: () => string,
  said: (result: PassResult) => void = () => undefined,
): GuardedWrite {
  return {
    name: 'reserve',
    machine: { name: '' },
    node: '',
    reads: ['ledger'],
    writes: 'ledger',
    judge(seen) {
      if (seen.ledger === undefined) return { stop: 'there is no ledger' };
      const state = stateOf(seen.ledger);
      requireEpoch(state, epoch);
      const result = decidePass(gather(), state, newID);
      said(result);
      if (result.rows.length === 0) return { stop: 'nothing is granted' };
      return { write: 'ledger', object: withState(seen.ledger, reserve(state, epoch, result.rows)) };
    },
  };
}

/** Rows whose Machine UID the store does not have. Whether it is gone is looked at live, row by row. */
export function rowsWithoutMachine(rows: readonly LedgerRow[], machines: readonly Stored<Machine>[]): LedgerRow[] {
  const known = new Set(machines.map((machine) => machine.metadata.uid));
  return rows.filter((row) => !known.has(row.machineUID));
}
