import type { RecordedEvent } from '../../kube/recorder.ts';
import type { MachineView } from './view.ts';

export const normal = (reason: string, message: string): RecordedEvent => ({ type: 'Normal', reason, message });
export const warning = (reason: string, message: string): RecordedEvent => ({ type: 'Warning', reason, message });

/** The status itself cannot report it. */
export const statusRefused = (message: string): RecordedEvent =>
  warning('StatusRefused', `the API server refuses the Machine's status: ${message}`);

/** What follows from the state itself, once, when it is first reported: a Node that was claimed, or that is gone. */
export function eventOfChange(before: string | undefined, view: MachineView): RecordedEvent | undefined {
  const { claim, machine } = view;
  if (claim.state === 'Claimed' && machine.status?.nodeRef?.uid !== claim.node.metadata.uid) {
    const again = machine.status?.nodeRef === undefined ? '' : ' registered again, and';
    return normal('NodeClaimed', `Node ${claim.node.metadata.name}${again} is this machine's`);
  }
  if (claim.state === 'Lost' && before !== 'NodeLost') return warning('NodeLost', claim.message);
  return undefined;
}
