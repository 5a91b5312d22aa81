import type { JsonObject } from '@kubenode/api-machinery/wire';
import type { FieldSchema } from './schema.ts';

interface Request {
  /** The object as stored, with its managedFields; undefined when the request creates it. */
  live: JsonObject | undefined;
  /** The `fieldManager` of the request; for an update without one, `managerOf` its User-Agent. */
  manager: string;
  /** `status`, `scale`…; absent for the main resource. */
  subresource?: string;
  /**
   * Fields that this request cannot change, such as `['status']`, dotted: it neither owns them nor conflicts over them.
   * Taking their values back from `live` afterwards is the caller's part. Default: a custom resource with a status subresource.
   */
  resetFields?: readonly string[];
  schema: FieldSchema;
  /** RFC 3339, whole seconds. */
  now: string;
}

/** What a server-side apply was asked to do. Nothing in it is mutated. */
export interface ApplyInput extends Request {
  /** The applied configuration: the whole intent of the manager, with apiVersion and kind, without managedFields. */
  applied: JsonObject;
  force: boolean;
}

/** One field that another manager owns with another value. */
export interface FieldConflict {
  /** Name of the conflicting manager, as its managedFields entry has it. */
  manager: string;
  /** `.spec.replicas`, `.status.conditions[type="Ready"].status` */
  field: string;
  /** `conflict with "kubectl-edit" using apps/v1` */
  message: string;
}

export type ApplyResult = { ok: true; object: JsonObject } | { ok: false; conflicts: FieldConflict[] };

/** A create, PUT or patch, already merged, whose ownership is to be recorded. Nothing in it is mutated. */
export interface UpdateInput extends Request {
  /** The object as it will be stored. Its managedFields are what the user sent (`[]` or `[{}]` resets them). */
  updated: JsonObject;
}
