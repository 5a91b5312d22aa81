/**
 * The steps that decide who is disrupted, as guarded writes. Each says what it reads again, in which order, and why that is enough: there M is
 * the Machine, N its Node, L the ledger; r is the reservation of the step. The explorer in test/explorer runs exactly these.
 */
import type { Step } from './view.ts';
import type { Act, ActContext } from './guards.ts';
import { freeCancelled, releaseReported, takeOverForDeletion, takeOverForRepair } from './reservation/acts.ts';
import { cordon, evict, fence, liftCordon, liftDegraded, markDegraded, settle } from './cordon/acts.ts';
import { deleteInstance, fenceOrder, order, retire, writeCancelled } from './order/acts.ts';
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
} from './repair/acts.ts';

/** The step as a guarded write; undefined for steps that touch none of what leaders dispute. */
export function actOf(step: Step, context: ActContext): Act | undefined {
  switch (step.do) {
    case 'Cordon':
      return cordon(step.reservation, context);
    case 'Evict':
      return evict(step, context);
    case 'Order':
      return order(step.reservation, step.drained, context);
    case 'WriteCancelled':
      return writeCancelled(step, context);
    case 'Fence':
      return fence(step.reservation, context);
    case 'FreeCancelled':
      return freeCancelled(step.reservation, context);
    case 'Settle':
      return settle(step.reservation, context);
    case 'Release':
      return releaseReported(step.reservation, context);
    case 'TakeOver':
      return takeOverForDeletion(step.reservation, context);
    case 'FenceOrder':
      return fenceOrder(step.reservation, step.job, context);
    case 'TakeOverForRepair':
      return takeOverForRepair(step.reservation, step.job, context);
    case 'BeginRepair':
      return beginRepair(step, context);
    case 'EndRepair':
      return endRepair(step, context);
    case 'PowerCycle':
      return powerCycle(step, context);
    case 'NoteCut':
      return noteCut(step.reservation, context);
    case 'StopInstance':
      return stopInstance(step, context);
    case 'RetirePower':
      return retirePower(step, context);
    case 'NoteOutOfService':
      return noteOutOfService(step.reservation, context);
    case 'MarkOutOfService':
      return markOutOfService(step.reservation, context);
    case 'ForceDelete':
      return forceDelete(step, context);
    case 'DeleteMachine':
      return deleteMachine(step.reservation, context);
    case 'Retire':
      return retire(step.reservation, context);
    case 'DeleteInstance':
      return step.reservation === undefined ? undefined : deleteInstance(step.reservation, step.providerID, context);
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
