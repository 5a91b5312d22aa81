/** One stored object and its writers, for tests. Everything handed to the code under test is frozen. */
import type { Json, JsonObject } from '@kubenode/api-machinery/wire';
import type { ApplyResult, FieldConflict, FieldSchema } from '../index.ts';
import { apply, conflictMessage, schemaOf, update } from '../index.ts';
import { isObject } from '../value.ts';

export function freeze<T extends Json | undefined>(value: T): T {
  if (value !== null && typeof value === 'object' && !Object.isFrozen(value)) {
    Object.freeze(value);
    for (const child of Object.values(value)) freeze(child);
  }
  return value;
}

interface Options {
  subresource?: string;
  force?: boolean;
  /** Metadata beside the name. */
  metadata?: JsonObject;
  resetFields?: readonly string[];
}

export interface Entry {
  manager: string;
  operation: string;
  apiVersion: string;
  time?: string;
  fieldsType: string;
  fieldsV1: JsonObject;
  subresource?: string;
}

/** Times of writes: the first at second 0, the next at second 1. */
export function at(second: number): string {
  return new Date(Date.UTC(2026, 0, 1) + second * 1000).toISOString().replace('.000', '');
}

export class StoredObject {
  readonly schema: FieldSchema;
  live: JsonObject | undefined;
  #writes = 0;

  constructor(properties: JsonObject, options: { empty?: JsonObject } = {}) {
    this.schema = schemaOf({ type: 'object', properties }, options);
  }

  body(content: JsonObject, metadata: JsonObject = {}): JsonObject {
    return freeze({ apiVersion: 'test/v1', kind: 'Thing', metadata: { name: 'thing', ...metadata }, ...content });
  }

  #request(manager: string, { subresource, resetFields = [] }: Options) {
    const now = at(this.#writes++);
    return {
      live: freeze(this.live),
      manager,
      schema: this.schema,
      now,
      resetFields,
      ...(subresource === undefined ? {} : { subresource }),
    };
  }

  #store(object: JsonObject): void {
    const metadata = object['metadata'];
    const uid = { uid: 'u1' };
    this.live =
      isObject(metadata) && metadata['uid'] !== undefined
        ? object
        : { ...object, metadata: { ...(isObject(metadata) ? metadata : {}), ...uid } };
  }

  try(manager: string, content: JsonObject, options: Options = {}): ApplyResult {
    const result = apply({
      ...this.#request(manager, options),
      applied: this.body(content, options.metadata),
      force: options.force ?? false,
    });
    if (result.ok) this.#store(result.object);
    return result;
  }

  /** Applies; a conflict is an error of the test. */
  apply(manager: string, content: JsonObject, options: Options = {}): void {
    const result = this.try(manager, content, options);
    if (!result.ok) throw new Error(conflictMessage(result.conflicts));
  }

  conflicts(manager: string, content: JsonObject, options: Options = {}): FieldConflict[] {
    const result = this.try(manager, content, options);
    if (result.ok) throw new Error('there was no conflict');
    return result.conflicts;
  }

  /** A PUT of the object with this content; it keeps the owners unless the metadata have others. */
  update(manager: string, content: JsonObject, options: Options = {}): void {
    const old = this.live?.['metadata'];
    const kept = isObject(old) ? { uid: 'u1', ...(old['managedFields'] === undefined ? {} : { managedFields: old['managedFields'] }) } : {};
    this.#store(update({ ...this.#request(manager, options), updated: this.body(content, { ...kept, ...options.metadata }) }));
  }

  get entries(): Entry[] {
    const metadata = this.live?.['metadata'];
    const list = isObject(metadata) ? metadata['managedFields'] : undefined;
    return (list ?? []) as unknown as Entry[];
  }

  /** What a manager owns; undefined when it has no entry. */
  owned(manager: string, operation = 'Apply', subresource?: string): JsonObject | undefined {
    return this.entries.find((entry) => entry.manager === manager && entry.operation === operation && entry.subresource === subresource)
      ?.fieldsV1;
  }

  content(): JsonObject {
    const { apiVersion: _, kind: __, metadata: ___, ...content } = this.live ?? {};
    return content;
  }
}
