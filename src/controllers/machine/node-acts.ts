/** Guarded writes of the Node: who is kept from it, and in whose name. See `act.ts` for how they are built. */
import type { LedgerRow } from '../../api/disruption-ledger.ts';
import type { Machine } from '../../api/machine.ts';
import type { Stored } from '../../api/wire.ts';
import { ledgerGone, requireEpoch } from '../../defender/protocol.ts';
import { stateOf } from '../../defender/state.ts';
import { isSuccessor, owesDegraded, type Claim } from './claim.ts';
import { degradedBy, failedComponents } from './components.ts';
import { cordonedFor, DEGRADED, fencedFor, isCordonedFor, isFencedFor, ownerOf, uncordonedBy, wasDegraded } from './cordon.ts';
import { isRepairNeeded } from './facts.ts';
import { isUnderWay, jobOfRow, staysCordoned } from './repair.ts';
import type { Step } from './view.ts';
import { base, claimIn, isCancelled, ledgerWith, machineOf, reportOn, stop, type Act, type ActContext, type Guarded } from './guards.ts';

/**
 * N, M, L; writes N. A cancellation of r writes M, then N, then L; a release comes after an order on M. So if this N was read after that
 * cancellation's write of N, its write of M shows; if before, the write of N here loses. And while L, read last, holds r, no later row can have
 * replaced r's trace on M.
 *
 * An ordered r cordons only a Node that took the place of the one that it was reserved for. Where there is such a Node r is released only after its fence on it:
 * an N that was read after that shows it, and with one that was read before the write of N here loses. Where there was none yet when r was released, M, read
 * after this N, has the report and L lacks r (docs/protocols.md#c13).
 */
export function cordon(row: LedgerRow, context: ActContext): Act {
  return {
    ...base('cordon', context),
    reads: ['node', 'machine', 'ledger'],
    writes: 'node',
    judge(seen): Guarded {
      if (ledgerWith(row, seen, context.epoch) === undefined) return stop('the ledger lacks the row');
      const machine = machineOf(row, seen, context.epoch);
      if (machine === undefined) return stop('the machine is gone');
      const claim = claimIn(machine, seen);
      if (claim.state !== 'Claimed') return stop('the machine has no Node');
      const isOrdered = machine.spec.operation?.id === row.id;
      if (isOrdered && (isCancelled(row, machine) || !isSuccessor(row, claim.node) || isFencedFor(claim.node, row.id)))
        return stop('the row has its order already, or was cancelled');
      if (isOrdered && !isUnderWay(machine, row.id) && jobOfRow(row, context.facts) === undefined) return stop('its operation is over');
      // What the Node that is gone had from Degraded is not known; while a repair is due pods are kept away after the operation, too.
      const isKept = isOrdered ? isRepairNeeded(machine) && ownerOf(claim.node) === undefined : owesDegraded(machine, claim.node);
      const object = cordonedFor((isKept ? cordonedFor(claim.node, DEGRADED) : undefined) ?? claim.node, row.id);
      return object === undefined ? stop('cordoned already') : { write: 'node', object };
    },
  };
}

/**
 * N, L; the eviction follows. Not fenced further: between these reads and the eviction nothing can stop it, so it is one pod, by its UID. A cordon that
 * was on its way when its ledger was lost may arrive when r is forgotten: so N alone is not enough (docs/protocols.md#d1).
 */
export function evict({ row, pod, graceSeconds }: Extract<Step, { do: 'Evict' }>, context: ActContext): Act {
  return {
    ...base('evict', context),
    reads: ['node', 'ledger'],
    writes: 'effect',
    judge(seen): Guarded {
      if (ledgerWith(row, seen, context.epoch) === undefined) return stop('the ledger lacks the row');
      if (seen.node === undefined || !isCordonedFor(seen.node, row.id)) return stop("the Node's cordon does not name the row");
      return { effect: { do: 'Evict', pod, ...(graceSeconds === undefined ? {} : { graceSeconds }) } };
    },
  };
}

/**
 * M, N; writes N. That r is cancelled, or its end reported, never becomes untrue while r is on M; a cordon of a later row is left alone. One of an ended r is
 * settled, and not lifted here.
 */
export function fence(row: LedgerRow, context: ActContext): Act {
  return {
    ...base('fence', context),
    reads: ['machine', 'node'],
    writes: 'node',
    judge(seen): Guarded {
      const machine = machineOf(row, seen, context.epoch);
      if (machine === undefined) return stop('the machine is gone');
      const claim = claimIn(machine, seen);
      if (claim.state !== 'Claimed') return stop('the machine has no Node');
      const isEnded = reportOn(row, machine) !== undefined && isSuccessor(row, claim.node) && ownerOf(claim.node) !== row.id;
      if (!isCancelled(row, machine) && !isEnded) return stop('the row is neither cancelled nor over');
      const object = fencedFor(claim.node, row.id, isRepairNeeded(machine));
      return object === undefined ? stop('fenced already') : { write: 'node', object };
    },
  };
}

/**
 * M, N; writes N. The report on r is final. Uncordons, or leaves the cordon and names Degraded its owner where the node must not be used (docs/protocols.md#c4).
 */
export function settle(row: LedgerRow, context: ActContext): Act {
  return {
    ...base('settle', context),
    reads: ['machine', 'node'],
    writes: 'node',
    judge(seen): Guarded {
      const machine = machineOf(row, seen, context.epoch);
      const report = machine === undefined ? undefined : reportOn(row, machine);
      if (machine === undefined || report === undefined) return stop('the operation has not ended');
      const claim = claimIn(machine, seen);
      if (claim.state !== 'Claimed' || ownerOf(claim.node) !== row.id) return stop("the Node's cordon is not the row's");
      const { operation } = machine.spec;
      const unhealed = isRepairNeeded(machine) && wasDegraded(claim.node);
      const stays = unhealed || degradedBy(machine).length > 0 || (operation !== undefined && staysCordoned(machine, operation, report));
      const object = stays ? cordonedFor(claim.node, DEGRADED) : uncordonedBy(claim.node, row.id);
      return object === undefined ? stop('settled already') : { write: 'node', object };
    },
  };
}

/**
 * N, M, L; writes N. A row is in L before its cordon is on N, and its id never comes back: so N first, L last (docs/protocols.md#c4). Where somebody took the row out of
 * L while its order goes on, M says so.
 */
export function liftCordon(owner: string, context: ActContext): Act {
  return {
    ...base('lift-cordon', context),
    reads: ['node', 'machine', 'ledger'],
    writes: 'node',
    judge(seen): Guarded {
      if (seen.ledger === undefined) throw ledgerGone();
      if (seen.machine !== undefined && isUnderWay(seen.machine, owner)) return stop('its operation has not ended');
      const state = stateOf(seen.ledger);
      requireEpoch(state, context.epoch);
      if (seen.node === undefined || ownerOf(seen.node) !== owner) return stop('the cordon has another owner');
      if (state.rows.some((row) => row.id === owner)) return stop('the ledger has the row');
      const object = uncordonedBy(seen.node, owner);
      return object === undefined ? stop('lifted already') : { write: 'node', object };
    },
  };
}

/** N, M, L; writes N. Not while the machine has a row, whose own end settles the cordon. */
export function markDegraded(context: ActContext): Act {
  return degrading('mark-degraded', context, (machine, claim) =>
    degradedBy(machine).length > 0 || owesDegraded(machine, claim.node) ? cordonedFor(claim.node, DEGRADED) : undefined,
  );
}

/** N, M, L; writes N. As `markDegraded`. */
export function liftDegraded(context: ActContext): Act {
  return degrading('lift-degraded', context, (machine, claim) =>
    failedComponents(machine).length > 0 || isRepairNeeded(machine) ? undefined : uncordonedBy(claim.node, DEGRADED),
  );
}

function degrading(
  name: string,
  context: ActContext,
  change: (machine: Stored<Machine>, claim: Extract<Claim, { state: 'Claimed' }>) => ReturnType<typeof cordonedFor>,
): Act {
  return {
    ...base(name, context),
    reads: ['node', 'machine', 'ledger'],
    writes: 'node',
    judge(seen): Guarded {
      const { machine, ledger } = seen;
      if (ledger === undefined) throw ledgerGone();
      if (machine === undefined) return stop('the machine is gone');
      const state = stateOf(ledger);
      requireEpoch(state, context.epoch);
      if (state.rows.some((row) => row.machineUID === machine.metadata.uid)) return stop('the machine has a row');
      const claim = claimIn(machine, seen);
      if (claim.state !== 'Claimed') return stop('the machine has no Node');
      const object = change(machine, claim);
      return object === undefined ? stop('it is so already') : { write: 'node', object };
    },
  };
}
