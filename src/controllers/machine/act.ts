/**
 * The steps that decide who is disrupted, as guarded writes: what each reads again, in which order, and why that is enough. In the
 * comments M is the Machine, N its Node, L the ledger; r is the row of the step. The explorer in test/explorer runs exactly these.
 */
import type { LedgerRow } from '../../api/disruptionledger.ts';
import { CodedError, isCoded } from '../../api/errors.ts';
import type { Machine, Operation } from '../../api/machine.ts';
import { parseKey, type ObjectKey } from '../../api/resource.ts';
import type { Stored } from '../../api/wire.ts';
import type { ReleaseMark } from '../../defender/evidence.ts';
import type { GuardedWrite, Move, Seen } from '../../defender/guardedwrite.ts';
import { holds, release, requireEpoch, takeOver, type ReleaseEvidence } from '../../defender/protocol.ts';
import { stateOf, withState, type LedgerState } from '../../defender/state.ts';
import { rowFor } from '../../defender/request.ts';
import { deletion, isDeleting, nameOf, type AskFacts } from './ask.ts';
import { claimOf, type Claim } from './claim.ts';
import { degradedBy, drainNeeded, failedComponents, isRecorded } from './components.ts';
import { cordonedFor, DEGRADED, fencedFor, isCordonedFor, isFencedFor, ownerOf, uncordonedBy } from './cordon.ts';
import { orderable, type DrainedPod, type Step } from './decide.ts';

/** What leaves the three objects. */
export type Effect = { do: 'Evict'; pod: DrainedPod } | { do: 'DeleteInstance'; providerID: string };

export interface ActContext {
  /** Of the leader that acts. */
  epoch: number;
  machine: ObjectKey;
  /** Name of the Node the machine may have. */
  node: string;
  facts: AskFacts;
  newID: () => string;
}

type Act = GuardedWrite<Effect>;
type Guarded = Move<Effect>;
const stop = (why: string): { stop: string } => ({ stop: why });

/** The step as a guarded write; undefined for steps that touch none of what leaders dispute. */
export function actOf(step: Step, context: ActContext): Act | undefined {
  switch (step.do) {
    case 'Cordon':
      return cordon(step.row, context);
    case 'Evict': {
      const [pod] = step.pods;
      return pod === undefined ? undefined : evict(step.row, pod, context);
    }
    case 'Order':
      return order(step.row, step.drained, context);
    case 'WriteCancelled':
      return writeCancelled(step.row, step.reason, context);
    case 'Fence':
      return fence(step.row, context);
    case 'FreeCancelled':
      return freeCancelled(step.row, context);
    case 'Settle':
      return settle(step.row, context);
    case 'Release':
      return releaseReported(step.row, context);
    case 'TakeOver':
      return takeOverForDeletion(step.row, context);
    case 'DeleteInstance':
      return deleteInstance(step.row, step.providerID, context);
    case 'LiftCordon':
      return liftCordon(step.owner, context);
    case 'MarkDegraded':
      return markDegraded(context);
    case 'LiftDegraded':
      return liftDegraded(context);
    default:
      return undefined;
  }
}

/** ⊢ D3: a leader that reads the trace of a later one, or another machine under the name, stops. */
function machineOf(row: LedgerRow, seen: Seen, epoch: number): Stored<Machine> | undefined {
  const { machine } = seen;
  if (machine === undefined || machine.metadata.uid !== row.machineUID) return undefined;
  const other = machine.spec.operation?.epoch ?? 0;
  if (other > epoch) throw new CodedError('Deposed', `${nameOf(machine)} bears an order of epoch ${other}, this leader's is ${epoch}`);
  return machine;
}

/** L live, of the writer's own epoch, holding r. */
function ledgerWith(row: LedgerRow, seen: Seen, epoch: number): LedgerState | undefined {
  if (seen.ledger === undefined) throw new CodedError('Deposed', 'the ledger is gone');
  const state = stateOf(seen.ledger);
  requireEpoch(state, epoch);
  return holds(state, row) ? state : undefined;
}

const claimIn = (machine: Machine, seen: Seen): Claim => claimOf(machine, machine.status?.providerID, seen.node);

const base = (name: string, context: ActContext) => ({ name, machine: context.machine, node: context.node });

/**
 * N, M, L; writes N. A cancellation of r writes M, then N, then L; a release comes after an order on M. So if this N was read after that
 * cancellation's write of N, its write of M shows; if before, the write of N here loses. And while L, read last, holds r, no later row can have
 * replaced r's trace on M.
 */
function cordon(row: LedgerRow, context: ActContext): Act {
  return {
    ...base('cordon', context),
    reads: ['node', 'machine', 'ledger'],
    writes: 'node',
    judge(seen): Guarded {
      if (ledgerWith(row, seen, context.epoch) === undefined) return stop('the ledger lacks the row');
      const machine = machineOf(row, seen, context.epoch);
      if (machine === undefined) return stop('the machine is gone');
      if (machine.spec.operation?.id === row.id) return stop('the row has its order already, or was cancelled');
      const claim = claimIn(machine, seen);
      if (claim.state !== 'Claimed') return stop('the machine has no Node');
      const object = cordonedFor(claim.node, row.id);
      return object === undefined ? stop('cordoned already') : { write: 'node', object };
    },
  };
}

/** N; the eviction follows. Not fenced further: between this read and the eviction nothing can stop it, so it is one pod, by its UID. */
function evict(row: LedgerRow, pod: DrainedPod, context: ActContext): Act {
  return {
    ...base('evict', context),
    reads: ['node'],
    writes: 'effect',
    judge(seen): Guarded {
      if (seen.node === undefined || !isCordonedFor(seen.node, row.id)) return stop("the Node's cordon does not name the row");
      return { effect: { do: 'Evict', pod } };
    },
  };
}

/**
 * M, L; writes M. While L, read after M, holds r, no order of a later row can have been on M when it was read; one that comes after, or r's
 * cancellation, makes this write lose.
 */
function order(row: LedgerRow, drained: boolean, context: ActContext): Act {
  return {
    ...base('order', context),
    reads: ['machine', 'ledger'],
    writes: 'machine',
    judge(seen): Guarded {
      if (ledgerWith(row, seen, context.epoch) === undefined) return stop('the ledger lacks the row');
      const machine = machineOf(row, seen, context.epoch);
      if (machine === undefined) return stop('the machine is gone');
      if (machine.spec.operation?.id === row.id) return stop('ordered or cancelled already');
      if (isDeleting(machine) && row.kind !== 'Delete') return stop('the machine is being deleted');
      const operation: Operation = { id: row.id, epoch: context.epoch, kind: row.kind, notAfter: row.notAfter };
      if (row.kind === 'Change') {
        const components = orderable(row, machine, context.facts).filter((component) => drained || !drainNeeded([component]));
        if (components.length === 0) return stop('nothing waits any more');
        operation.components = components.map(({ name, revision }) => ({ name, revision }));
      }
      return { write: 'machine', object: { ...machine, spec: { ...machine.spec, operation } } };
    },
  };
}

/** M, L; writes M: as `order`, and an order of r that came first makes this lose. First of the three writes that cancel r (D6). */
function writeCancelled(row: LedgerRow, reason: string, context: ActContext): Act {
  return {
    ...base('write-cancelled', context),
    reads: ['machine', 'ledger'],
    writes: 'machine',
    judge(seen): Guarded {
      if (ledgerWith(row, seen, context.epoch) === undefined) return stop('the ledger lacks the row');
      const machine = machineOf(row, seen, context.epoch);
      if (machine === undefined) return stop('the machine is gone');
      if (machine.spec.operation?.id === row.id) return stop('the row has its order already, or is cancelled');
      const operation: Operation = { id: row.id, epoch: context.epoch, kind: 'Cancelled', notAfter: row.notAfter, reason };
      return { write: 'machine', object: { ...machine, spec: { ...machine.spec, operation } } };
    },
  };
}

const isCancelled = (row: LedgerRow, machine: Machine): boolean =>
  machine.spec.operation?.id === row.id && machine.spec.operation.kind === 'Cancelled';

/** M, N; writes N. That r is cancelled never becomes untrue while r is on M; a cordon of a later row is left alone. */
function fence(row: LedgerRow, context: ActContext): Act {
  return {
    ...base('fence', context),
    reads: ['machine', 'node'],
    writes: 'node',
    judge(seen): Guarded {
      const machine = machineOf(row, seen, context.epoch);
      if (machine === undefined || !isCancelled(row, machine)) return stop('the row is not cancelled');
      const claim = claimIn(machine, seen);
      if (claim.state !== 'Claimed') return stop('the machine has no Node');
      const object = fencedFor(claim.node, row.id);
      return object === undefined ? stop('fenced already') : { write: 'node', object };
    },
  };
}

/** M, N, L; writes L. What M and N show of r stays so until a later row, which r's place in L excludes. */
function freeCancelled(row: LedgerRow, context: ActContext): Act {
  return freeing('free-cancelled', row, context, (machine, claim) => ({
    by: 'Cancelled',
    machineUID: machine.metadata.uid ?? '',
    operationID: isCancelled(row, machine) ? row.id : '',
    fenced: claim.state !== 'Claimed' || isFencedFor(claim.node, row.id),
  }));
}

/**
 * M, N; writes N. The report on r is final. Uncordons, or leaves the cordon and names Degraded its owner where the node must not be used (C4).
 */
function settle(row: LedgerRow, context: ActContext): Act {
  return {
    ...base('settle', context),
    reads: ['machine', 'node'],
    writes: 'node',
    judge(seen): Guarded {
      const machine = machineOf(row, seen, context.epoch);
      if (machine === undefined || reportOn(row, machine) === undefined) return stop('the operation has not ended');
      const claim = claimIn(machine, seen);
      if (claim.state !== 'Claimed' || ownerOf(claim.node) !== row.id) return stop("the Node's cordon is not the row's");
      const object = degradedBy(machine).length > 0 ? cordonedFor(claim.node, DEGRADED) : uncordonedBy(claim.node, row.id);
      return object === undefined ? stop('settled already') : { write: 'node', object };
    },
  };
}

function reportOn(row: LedgerRow, machine: Machine) {
  const report = machine.status?.operation;
  return machine.spec.operation?.id === row.id && report?.id === row.id && report.state === 'Done' ? report : undefined;
}

/** M, N, L; writes L. Report, record and settled cordon stay so until a later row, which r's place in L excludes. */
function releaseReported(row: LedgerRow, context: ActContext): Act {
  return freeing('release', row, context, (machine, claim) => {
    const report = reportOn(row, machine);
    const operation = machine.spec.operation;
    if (report === undefined || operation === undefined) return stop('the operation has not ended');
    if (claim.state === 'Claimed' && ownerOf(claim.node) === row.id) return stop('the Node still bears the cordon of the row');
    const recorded = isRecorded(machine, operation, (uid) => context.facts.sets.has(uid));
    return { by: 'Report', machineUID: machine.metadata.uid ?? '', report, recorded };
  });
}

function freeing(
  name: string,
  row: LedgerRow,
  context: ActContext,
  evidenceIn: (machine: Stored<Machine>, claim: Claim) => ReleaseEvidence | { stop: string },
): Act {
  return {
    ...base(name, context),
    reads: ['machine', 'node', 'ledger'],
    writes: 'ledger',
    judge(seen): Guarded {
      const state = ledgerWith(row, seen, context.epoch);
      if (state === undefined || seen.ledger === undefined) return stop('the ledger lacks the row');
      const machine = machineOf(row, seen, context.epoch);
      if (machine === undefined) return stop('the machine is gone');
      const evidence = evidenceIn(machine, claimIn(machine, seen));
      return 'stop' in evidence ? evidence : freed(row, evidence, state, seen, context);
    },
  };
}

/** The write that frees the row, or a stop where the evidence is not enough after all. */
function freed(row: LedgerRow, evidence: ReleaseEvidence, state: LedgerState, seen: Seen, context: FreeContext): Move {
  if (seen.ledger === undefined) return stop('the ledger is gone');
  try {
    const object = withState(seen.ledger, release(state, context.epoch, row.id, evidence));
    return { write: 'ledger', object, releases: markOf(seen, row, context) };
  } catch (error) {
    if (isCoded(error, 'NoEvidence')) return stop(error.message);
    throw error;
  }
}

type FreeContext = Pick<ActContext, 'epoch' | 'machine' | 'node'>;

/** M, N, L; writes L. A UID that is gone does not come back. The row names the Machine, since no store does any more (C8). */
export function freeVanished(row: LedgerRow, epoch: number): GuardedWrite {
  const machine = parseKey(row.machine);
  const context: FreeContext = { epoch, machine, node: machine.name };
  return {
    name: 'free-vanished',
    machine,
    node: machine.name,
    reads: ['machine', 'node', 'ledger'],
    writes: 'ledger',
    judge(seen) {
      const state = ledgerWith(row, seen, epoch);
      if (state === undefined) return stop('the ledger lacks the row');
      return freed(row, { by: 'MachineGone', presentUID: seen.machine?.metadata.uid }, state, seen, context);
    },
  };
}

function markOf(seen: Seen, row: LedgerRow, context: FreeContext): ReleaseMark {
  const { node } = seen;
  const machine = seen.machine?.metadata.uid === row.machineUID ? seen.machine : undefined;
  const key = context.machine;
  // Without its Machine no Node counts for anything, whatever else has the name by then.
  if (machine === undefined) return { machine: { key, uid: row.machineUID }, node: undefined };
  const goneUID = machine.status?.nodeRef?.uid;
  return {
    machine: { key, uid: row.machineUID, resourceVersion: machine.metadata.resourceVersion },
    node:
      node !== undefined
        ? { name: context.node, resourceVersion: node.metadata.resourceVersion }
        : goneUID === undefined
          ? undefined
          : { name: context.node, goneUID },
  };
}

/** M, L; writes L. The machine stays reserved throughout, and a deletion is never taken back. */
function takeOverForDeletion(row: LedgerRow, context: ActContext): Act {
  return {
    ...base('take-over', context),
    reads: ['machine', 'ledger'],
    writes: 'ledger',
    judge(seen): Guarded {
      const state = ledgerWith(row, seen, context.epoch);
      if (state === undefined || seen.ledger === undefined) return stop('the ledger lacks the row');
      const machine = machineOf(row, seen, context.epoch);
      if (machine === undefined || !isDeleting(machine)) return stop('the machine is not being deleted');
      const request = {
        ...deletion(machine),
        machineUID: row.machineUID,
        machine: row.machine,
        nodeUID: row.nodeUID,
        class: row.class,
        scopes: row.scopes,
        since: context.facts.nowMs,
      };
      const successor = rowFor(request, context.newID(), context.facts.nowMs);
      return {
        write: 'ledger',
        object: withState(seen.ledger, takeOver(state, context.epoch, row.id, successor, { because: 'Deleting' })),
      };
    },
  };
}

/** M, L; the provider follows. An instance belongs to one Machine UID, and that Machine goes: a late call does what had to be done. */
function deleteInstance(row: LedgerRow, providerID: string, context: ActContext): Act {
  return {
    ...base('delete-instance', context),
    reads: ['machine', 'ledger'],
    writes: 'effect',
    judge(seen): Guarded {
      if (ledgerWith(row, seen, context.epoch) === undefined || row.kind !== 'Delete') return stop('the ledger lacks a Delete row');
      const machine = machineOf(row, seen, context.epoch);
      if (machine === undefined || !isDeleting(machine)) return stop('the machine is not being deleted');
      return { effect: { do: 'DeleteInstance', providerID } };
    },
  };
}

/** N, L; writes N. A row is in L before its cordon is on N, and its id never comes back: so N first, L second (⊢ C4). */
function liftCordon(owner: string, context: ActContext): Act {
  return {
    ...base('lift-cordon', context),
    reads: ['node', 'ledger'],
    writes: 'node',
    judge(seen): Guarded {
      if (seen.ledger === undefined) return stop('the ledger is gone');
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
function markDegraded(context: ActContext): Act {
  return degrading('mark-degraded', context, (machine, claim) =>
    degradedBy(machine).length === 0 ? undefined : cordonedFor(claim.node, DEGRADED),
  );
}

/** N, M, L; writes N. As `markDegraded`. */
function liftDegraded(context: ActContext): Act {
  return degrading('lift-degraded', context, (machine, claim) =>
    failedComponents(machine).length > 0 ? undefined : uncordonedBy(claim.node, DEGRADED),
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
      if (machine === undefined || ledger === undefined) return stop('the machine is gone');
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
