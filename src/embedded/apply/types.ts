import type { JsonObject } from '../../api/wire.ts';
import type { FieldSchema } from './schema.ts';

/** What a server-side apply was asked to do. Nothing in it is mutated. */
export interface ApplyInput {
  /** The object as stored, with its managedFields; undefined when the apply creates it. */
  live: JsonObject | undefined;
  /** The applied configuration: the whole intent of the manager, without managedFields. */
  applied: JsonObject;
  /** The `fieldManager` of the request. */
  manager: string;
  /** `status`, `scale`…; absent for the main resource. */
  subresource?: string;
  force: boolean;
  schema: FieldSchema;
  /** RFC 3339, whole seconds. */
  now: string;
}

/** One field that another manager owns with another value. */
export interface FieldConflict {
  /** Name of the manager in the way, as it stands in its managedFields entry. */
  manager: string;
  /** `.spec.replicas`, `.status.conditions[type="Ready"].status` */
  field: string;
  /** `conflict with "kubectl-edit" using apps/v1` */
  message: string;
}

export type ApplyResult = { ok: true; object: JsonObject } | { ok: false; conflicts: FieldConflict[] };

/** A create, PUT or patch, already merged, whose ownership is to be recorded. Nothing in it is mutated. */
export interface UpdateInput {
  /** The object as stored, with its managedFields; undefined on create. */
  live: JsonObject | undefined;
  /** The object as it will be stored. Its managedFields are what the user sent (`[]` or `[{}]` resets them). */
  updated: JsonObject;
  manager: string;
  subresource?: string;
  schema: FieldSchema;
  /** RFC 3339, whole seconds. */
  now: string;
}
