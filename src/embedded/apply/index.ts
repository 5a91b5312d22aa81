/**
 * Server-side apply as kube-apiserver does it (structured-merge-diff and apimachinery's managedfields): pure, no clock.
 *
 * `apply` and `update` throw a CodedError, never a conflict: `BadRequest` (HTTP 400) when the applied object carries
 * managedFields or no apiVersion; `InvalidApply` (HTTP 500 with no reason, as the real server answers) when it does not
 * fit the schema or has duplicate list keys; the message is the server's.
 */
import type { JsonObject, Status } from '../../api/wire.ts';
import type { FieldSchema } from './schema.ts';
import type { ApplyInput, ApplyResult, FieldConflict, UpdateInput } from './types.ts';

export type { FieldSchema } from './schema.ts';
export type { ApplyInput, ApplyResult, FieldConflict, UpdateInput } from './types.ts';

/** The signatures that this folder will export; replaced by the functions in the next commits. */
export interface ServerSideApply {
  /** `object` is the merged object with `metadata.managedFields` set; the same reference as `live` when nothing changed. */
  apply(input: ApplyInput): ApplyResult;
  /** `updated` with the managedFields that result. */
  update(input: UpdateInput): JsonObject;
  schemaOf(openAPIV3Schema: JsonObject): FieldSchema;
  /** The 409 Status body, with one cause of reason FieldManagerConflict per field. */
  conflictStatus(conflicts: FieldConflict[]): Status;
}
