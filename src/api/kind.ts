import type { TSchema } from 'typebox';
import type { Resource } from './resource.ts';
import type { JsonObject, KubeObject } from './wire.ts';

export const GROUP = 'kubenode.io';
export const VERSION = 'v1alpha1';
export const API_VERSION = `${GROUP}/${VERSION}`;

/** A CEL rule, of the object or of a part of its schema: `oldSelf` is what it was before an update. Every server checks it, and so do we offline. */
export interface CelRule {
  rule: string;
  /** One line; used when there is no messageExpression, or when that fails. */
  message: string;
  messageExpression?: string;
  /** Where the error is, below the part that has the rule: `.spec.batches`. */
  fieldPath?: string;
}

/** Rules of a part of a schema, as an option of it; `self` is that part. */
export const celRules = (...rules: CelRule[]) => ({ 'x-kubernetes-validations': rules });

export interface PrintColumn {
  name: string;
  type: 'string' | 'integer' | 'number' | 'boolean' | 'date';
  jsonPath: string;
  priority?: number;
  description?: string;
}

/** A validation error of one object. `path` is a full field path such as `spec.batches[0]`. */
export interface FieldError {
  path: string;
  message: string;
  /** For a caller that gives advice; absent: none of these. */
  code?: 'Unknown' | 'Missing' | 'TooFew';
}

export type KindObject<Spec, Status> = KubeObject & { spec: Spec; status?: Status };

/** A kind of KubeNode: resource, CRD and validator from one definition. */
export interface Kind<Spec = unknown, Status = unknown> extends Resource<KindObject<Spec, Status>> {
  readonly specSchema: TSchema;
  /** Names of the fields of `spec`. */
  readonly specFields: ReadonlySet<string>;
  readonly description: string;
  /** The CustomResourceDefinition, ready to apply. */
  crd(): KubeObject & { spec: JsonObject };
  /** The validation errors of an object as a user writes it, without those that CEL rules find: unknown fields are refused, as strict field validation does. */
  validate(object: unknown): FieldError[];
}
