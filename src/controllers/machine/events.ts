import type { RecordedEvent } from '../../kube/recorder.ts';
import type { Step } from './decide.ts';

/** What a person who describes a Machine should read; undefined for steps that say nothing new. */
export function eventOf(step: Step, note: string | undefined): RecordedEvent | undefined {
  switch (step.do) {
    case 'EnsureInstance':
      return { type: 'Normal', reason: 'InstanceMade', message: step.why };
    case 'Cordon':
      return { type: 'Normal', reason: 'Cordoned', message: step.why };
    case 'Evict':
      return { type: 'Normal', reason: 'Evicting', message: note ?? step.why };
    case 'Order':
      return { type: 'Normal', reason: 'OperationOrdered', message: step.why };
    case 'WriteCancelled':
      return { type: 'Normal', reason: 'OperationCancelled', message: step.reason };
    case 'Settle':
      return { type: 'Normal', reason: 'OperationSettled', message: step.why };
    case 'LiftCordon':
      return { type: 'Warning', reason: 'StrayCordonLifted', message: step.why };
    case 'MarkDegraded':
      return { type: 'Warning', reason: 'Degraded', message: step.why };
    case 'LiftDegraded':
      return { type: 'Normal', reason: 'DegradedLifted', message: step.why };
    case 'TakeOver':
      return { type: 'Normal', reason: 'OperationTakenOver', message: step.why };
    default:
      return undefined;
  }
}
