import type { ComponentEntry, Machine } from '../../api/machine.ts';
import { findCondition } from '../../kube/conditions.ts';

/** Reason of `UpToDate` on a machine that was new, until all that it was given has been proved for the first time. It is kept nowhere else. */
export const FIRST_INSTALLATION = 'FirstInstallation';

/** Whether it never had a Node, as whoever looks for one says. */
function hasNoNode({ status }: Machine): boolean {
  return status?.nodeRef === undefined && findCondition(status?.conditions, 'NodeReady')?.reason === 'NoNode';
}

/** Whether what a new machine was given first is still being installed and proved; its Node may have registered meanwhile. */
export function isFirstInstallation(machine: Machine): boolean {
  const reason = findCondition(machine.status?.conditions, 'UpToDate')?.reason;
  return reason === FIRST_INSTALLATION || ((reason === undefined || reason === 'NothingWanted') && hasNoNode(machine));
}

/**
 * Whether content of a component puts nothing in use at risk there (PROTOCOLS B3): the machine never had a Node, or its first installation is
 * under way and it has nothing of this component. Where that is not known, it is in use.
 */
export function isNew(machine: Machine, entry: ComponentEntry | undefined): boolean {
  return hasNoNode(machine) || (entry === undefined && isFirstInstallation(machine));
}
