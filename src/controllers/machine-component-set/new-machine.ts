import type { Machine } from '../../api/machine.ts';

/** Reason of `UpToDate` on a machine that is new. */
export const FIRST_INSTALLATION = 'FirstInstallation';

/** Whether the machine controller has reported nothing of it yet, so that it is unknown whether it is in use. */
export function isUnreported({ status }: Machine): boolean {
  return status?.firstReadyAt === undefined && status?.phase === undefined;
}

/**
 * Whether content puts nothing in use at risk there (docs/protocols.md#b3): its Node was never Ready, so nothing ever ran on it. Where the machine
 * controller has not reported that, it is in use.
 */
export function isNew({ status }: Machine): boolean {
  if (status?.firstReadyAt !== undefined || status?.phase === undefined) return false;
  const { phase } = status;
  switch (phase) {
    case 'Pending':
    case 'Provisioning':
    case 'Installing':
      return true;
    case 'Running':
    case 'Degraded':
    case 'NodeLost':
    case 'Deleting':
      return false;
    default:
      phase satisfies never;
      return false;
  }
}
