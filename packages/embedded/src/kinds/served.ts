import type { JsonObject } from '@kubenode/api-machinery/wire';
import type { Rules } from '../cel/rules.ts';
import type { FieldSchema } from '../apply/index.ts';
import type { FieldProblem } from '../field-error.ts';
import type { Schema } from '../schema/schema.ts';

/** One column of a Table, after NAME. */
export interface Column {
  name: string;
  type: 'string' | 'integer' | 'number' | 'boolean' | 'date';
  format?: string;
  description: string;
  /** 0: always shown; more: with `-o wide`. */
  priority?: number;
}

export type TableCell = string | number | boolean | null;

/** Rows of a kind: the NAME cell is the first. `now` is ms since the epoch, for ages. */
export type CellsOf = (object: JsonObject, now: number) => TableCell[];

/** Who asks. */
export interface User {
  readonly name: string;
  readonly groups: readonly string[];
  readonly uid?: string;
  readonly extra?: { readonly [key: string]: readonly string[] };
}

/** What sets one kind apart when it is written. Every function may change the object it is given, never `old`. */
export interface Strategy {
  /** `spec`: starts at 1 and counts changes of anything but metadata and status. `none`: the kind has no generation. */
  readonly generation: 'spec' | 'none';
  /** Top-level fields that only the status subresource may write; empty when the kind has none. */
  readonly statusFields: readonly string[];
  /** A create keeps the status it was sent with; else it is dropped before `prepareCreate`. */
  readonly keepsStatusOnCreate?: boolean;
  /** Fills defaults and system fields of a new object. */
  prepareCreate?(object: JsonObject, user: User, now: string): void;
  /** Restores what an update must not change. `subresource` is empty for the main resource. */
  prepareUpdate?(object: JsonObject, old: JsonObject, subresource: string, now: string): void;
  /** Fills defaults that the real server sets when it decodes. */
  defaults?(object: JsonObject): void;
  validate?(object: JsonObject, old: JsonObject | undefined, subresource: string): FieldProblem[];
  readonly validateName?: (name: string) => string[];
  /** Fields that a field selector may name, beside metadata.name and metadata.namespace, with their values. */
  readonly selectable?: (object: JsonObject) => Record<string, string>;
  readonly selectableNames?: readonly string[];
  /** PUT on an absent name creates. */
  readonly createOnUpdate: boolean;
  /** PUT without resourceVersion overwrites. */
  readonly unconditionalUpdate: boolean;
  /** Seconds of grace a deletion gets; undefined when the kind has none. */
  gracePeriod?(object: JsonObject, requested: number | undefined): number | undefined;
  /**
   * For kinds whose content goes first: marks the object and returns true; false when that was done before. `now` is
   * RFC 3339.
   */
  startDeletion?(object: JsonObject, now: string): boolean;
  /** Refuses a deletion. Throws a Refusal. */
  beforeDelete?(object: JsonObject): void;
  /** A deletion that takes effect at once is answered with the object, not with a Status. */
  readonly returnsDeleted?: boolean;
  /** The garbage collector keeps away (Events). */
  readonly uncollected?: boolean;
}

export interface ScalePaths {
  readonly spec: readonly string[];
  readonly status: readonly string[];
  readonly selector: readonly string[] | undefined;
}

/** A resource of one API version as this server serves it. */
export interface Served {
  readonly group: string;
  readonly version: string;
  readonly kind: string;
  readonly listKind: string;
  readonly plural: string;
  readonly singular: string;
  readonly shortNames: readonly string[];
  readonly categories: readonly string[];
  readonly namespaced: boolean;
  /** `group/plural`: all versions of a resource share their objects. */
  readonly storageKey: string;
  /** apiVersion of the objects as they are stored. */
  readonly storageVersion: string;
  readonly schema: Schema;
  readonly fieldSchema: FieldSchema;
  readonly strategy: Strategy;
  /** Brings an object into the form that the real server's encoder gives to a kind that it is compiled with; changes the object itself. */
  readonly settle?: (object: JsonObject) => void;
  readonly columns: readonly Column[];
  readonly cells: CellsOf;
  /** `status`, `scale`, and others with handlers of their own, such as `eviction`. */
  readonly subresources: ReadonlySet<string>;
  readonly scale?: ScalePaths;
  /** Strategic merge patches are for built-in kinds only. */
  readonly strategicPatch: boolean;
  readonly custom?: CustomInfo;
}

/** What a CRD adds to a served resource. */
interface CustomInfo {
  readonly crd: string;
  readonly terminating: boolean;
  readonly deprecationWarning?: string;
  /** Its CEL rules, compiled when they are first asked. */
  readonly rules: Rules | undefined;
}

export function apiVersion(served: { group: string; version: string }): string {
  return served.group === '' ? served.version : `${served.group}/${served.version}`;
}
