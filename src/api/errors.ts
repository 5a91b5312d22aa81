/** Errors with a code, shared with the embedded server, and the codes of what is in objects. */
import { errorsOf, surroundings, type ErrorTable } from '@kubenode/api-machinery/errors';

export * from '@kubenode/api-machinery/errors';

/** Objects, and fields of them, that are not what their kinds define. */
export const objectErrorCodes = {
  FormUnknown: surroundings('a specification of a form that this version does not know'),
  InvalidBatches: surroundings('batches of a set that cannot be'),
  InvalidCount: surroundings('a number of machines, or a percentage, that cannot be'),
  InvalidName: surroundings('what can be the name of no object'),
  InvalidObject: surroundings('what is no object of this kind'),
  KeysInvalid: surroundings('public keys that cannot be used'),
  SignatureWrong: surroundings('a signature of a key that is not accepted, or of other content'),
  Unsigned: surroundings('no signature where one is required'),
} as const satisfies ErrorTable;

export const objectError = errorsOf(objectErrorCodes);
