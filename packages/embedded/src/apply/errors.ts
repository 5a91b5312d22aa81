import { errorsOf, surroundings, type ErrorTable } from '@kubenode/api-machinery/errors';

/** Why server-side apply takes nothing. */
export const applyErrorCodes = {
  BadRequest: surroundings('what is applied is not of the form that apply takes'),
  InvalidApply: surroundings('objects that cannot be merged by the schema of their kind'),
  InvalidManagedFields: surroundings('managedFields that cannot be read'),
  InvalidSchema: surroundings('a schema that nothing can be merged by'),
} as const satisfies ErrorTable;

export const applyError = errorsOf(applyErrorCodes);
