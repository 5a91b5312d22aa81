/**
 * The steps that decide who is disrupted, as guarded writes. Each says what it reads again, in which order, and why that is enough: there M is
 * the Machine, N its Node, L the ledger; r is the row of the step. The explorer in test/explorer runs exactly these.
 */
import type { Step } from './view.ts';
import type { Act, ActContext } from './guards.ts';
import { freeCancelled, releaseReported, takeOverForDeletion, takeOverForRepair } from './ledger-acts.ts';
import { cordon, evict, fence, liftCordon, liftDegraded, markDegraded, settle } from './node-acts.ts';
import { deleteInstance, fenceOrder, order, retire, writeCancelled } from './order-acts.ts';
import {
  beginRepair,
  deleteMachine,
  endRepair,
  forceDelete,
  markOutOfService,
  noteCut,
  noteOutOfService,
  powerCycle,
  retirePower,
  stopInstance,
} from './repair-acts.ts';

/** The step as a guarded write; undefined for steps that touch none of what leaders dispute. */
export function actOf(step: Step, context: ActContext): Act | undefined {
  switch (step.do) {
    case 'Cordon':
      return cordon(step.row, context);
    case 'Evict':
      return evict(step, context);
    case 'Order':
      return order(step.row, step.drained, context);
    case 'WriteCancelled':
      return writeCancelled(step, context);
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
    case 'FenceOrder':
      return fenceOrder(step.row, step.job, context);
    case 'TakeOverForRepair':
      return takeOverForRepair(step.row, step.job, context);
    case 'BeginRepair':
      return beginRepair(step, context);
    case 'EndRepair':
      return endRepair(step, context);
    case 'PowerCycle':
      return powerCycle(step, context);
    case 'NoteCut':
      return noteCut(step.row, context);
    case 'StopInstance':
      return stopInstance(step, context);
    case 'RetirePower':
      return retirePower(step, context);
    case 'NoteOutOfService':
      return noteOutOfService(step.row, context);
    case 'MarkOutOfService':
      return markOutOfService(step.row, context);
    case 'ForceDelete':
      return forceDelete(step, context);
    case 'DeleteMachine':
      return deleteMachine(step.row, context);
    case 'Retire':
      return retire(step.row, context);
    case 'DeleteInstance':
      return step.row === undefined ? undefined : deleteInstance(step.row, step.providerID, context);
    case 'LiftCordon':
      return liftCordon(step.owner, context);
    case 'MarkDegraded':
      return markDegraded(context);
    case 'LiftDegraded':
      return liftDegraded(context);
    case 'AddFinalizer':
    case 'EnsureInstance':
    case 'SyncNode':
    case 'Finalize':
      return undefined;
    default:
      return step satisfies never;
  }
}
