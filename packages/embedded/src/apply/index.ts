/** Server-side apply as kube-apiserver does it (structured-merge-diff and apimachinery's managedfields): pure, no clock. */
export { apply, update } from './apply.ts';
export { conflictMessage, conflictStatus } from './conflict.ts';
export { managerOf } from './manager-name.ts';
export { customResetFields, resetFieldsOf } from './reset.ts';
export { schemaOf } from './schema.ts';
export type { FieldSchema } from './schema.ts';
export { ignoreTimestamps } from './timestamps.ts';
export type { ApplyInput, ApplyResult, FieldConflict, UpdateInput } from './types.ts';
