import type { RecordedEvent } from '../../kube/recorder.ts';
import { finalReport } from './repair/repair.ts';
import type { MachineView, Step } from './view.ts';

const normal = (reason: string, message: string): RecordedEvent => ({ type: 'Normal', reason, message });
const warning = (reason: string, message: string): RecordedEvent => ({ type: 'Warning', reason, message });

/** The status itself cannot say it. */
export const statusRefused = (message: string): RecordedEvent =>
  warning('StatusRefused', `the API server refuses the Machine's status: ${message}`);

/** What a person who describes a Machine should read of a step that was carried out; undefined where it says nothing new. */
export function eventOf(step: Step, view: MachineView, note: string | undefined): RecordedEvent | undefined {
  switch (step.do) {
    case 'EnsureInstance':
      return normal('InstanceMade', 'its provider was asked for an instance, and has one');
    case 'Cordon':
      return normal('Cordoned', step.why);
    case 'Evict':
      return normal('PodEvicted', note ?? step.why);
    case 'Order':
      return normal('OperationOrdered', step.why);
    case 'WriteCancelled':
      return normal('OperationCancelled', step.reason);
    case 'Settle':
      return finalReport(view.machine)?.outcome === 'Succeeded'
        ? normal('OperationSucceeded', step.why)
        : warning('OperationEnded', step.why);
    case 'Release':
    case 'FreeCancelled':
      return normal('Released', step.why);
    case 'LiftCordon':
      return warning('StrayCordonLifted', step.why);
    case 'MarkDegraded':
      return warning('Degraded', step.why);
    case 'LiftDegraded':
      return normal('DegradedLifted', step.why);
    case 'EndRepair':
      return step.outcome === 'Succeeded' ? normal('RepairDone', step.why) : warning('RepairFailed', step.why);
    case 'PowerCycle':
      return warning('PowerCycled', note ?? step.why);
    case 'StopInstance':
      return warning('PowerCut', step.why);
    case 'MarkOutOfService':
      return warning('OutOfService', step.why);
    case 'ForceDelete':
      return warning('PodTakenByForce', note ?? step.why);
    case 'DeleteMachine':
      return warning('Replaced', step.why);
    case 'Retire':
      return normal('Retired', step.why);
    case 'TakeOverForRepair':
    case 'TakeOver':
      return normal('OperationTakenOver', step.why);
    case 'DeleteInstance':
      return normal('DeletingInstance', step.why);
    case 'AddFinalizer':
    case 'BeginRepair':
    case 'Fence':
    case 'FenceOrder':
    case 'Finalize':
    case 'NoteCut':
    case 'NoteOutOfService':
    case 'RetirePower':
    case 'SyncNode':
      return undefined;
    default:
      return step satisfies never;
  }
}

/** What the state itself tells, once, when it is first reported: a Node that was claimed, or that is gone. */
export function eventOfChange(before: string | undefined, view: MachineView): RecordedEvent | undefined {
  const { claim, machine } = view;
  if (claim.state === 'Claimed' && machine.status?.nodeRef?.uid !== claim.node.metadata.uid) {
    const again = machine.status?.nodeRef === undefined ? '' : ' registered again, and';
    return normal('NodeClaimed', `Node ${claim.node.metadata.name}${again} is this machine's`);
  }
  if (claim.state === 'Lost' && before !== 'NodeLost') return warning('NodeLost', claim.message);
  return undefined;
}
