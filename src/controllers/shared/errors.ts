import { errorsOf, surroundings, type ErrorTable } from '../../api/errors.ts';

/** What controllers of a cell find, besides what Defender does. */
export const controllerErrorCodes = {
  ForeignServiceAccount: surroundings('a ServiceAccount that belongs to something else'),
  HoldUnreadable: surroundings('a Lease that does not name the pool which has the name of a Node'),
  MachineGone: surroundings('a Machine that is gone, or is being deleted'),
  NoToken: surroundings('the server gave no token'),
  NothingToRelease: surroundings('no operation that could be released'),
} as const satisfies ErrorTable;

export const controllerError = errorsOf(controllerErrorCodes);
