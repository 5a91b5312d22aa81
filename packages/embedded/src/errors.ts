import { errorsOf, surroundings, type ErrorTable } from '@kubenode/api-machinery/errors';

/** Why the embedded API server does not start or ends. What apply refuses has a table of its own. */
export const embeddedErrorCodes = {
  BadClusterName: surroundings('a name that no cluster can have'),
  BadListen: surroundings('no address and port'),
  CannotListen: surroundings('an address that cannot be listened on'),
  NotLoopback: surroundings('an address that others can reach'),
  PortInUse: surroundings('a port that another process listens on'),
  StateDamaged: surroundings('state that cannot be read'),
  StateInUse: surroundings('state that another process uses'),
  StateTooNew: surroundings('state of a later version'),
  StateUnwritable: surroundings('state that cannot be written'),
  UnknownCluster: surroundings('a cluster that is not served'),
} as const satisfies ErrorTable;

export const embeddedError = errorsOf(embeddedErrorCodes);
