/** managedFields as the merge works on them: who owns which fields, keyed by identity. */
import { type CodedError } from '@kubenode/api-machinery/errors';
import type { Json, JsonObject } from '@kubenode/api-machinery/wire';
import type { FieldSet } from './field-set.ts';
import { emptySet, equalSets, isEmpty, union } from './field-set.ts';
import { decodeFields, encodeFields } from './fields-v1.ts';
import { compareStrings, isEmptyObject, isObject } from './value.ts';
import { applyError } from './errors.ts';

export interface FieldManager {
  readonly name: string;
  readonly operation: 'Apply' | 'Update';
  readonly apiVersion: string;
  readonly subresource: string;
  readonly time: string | undefined;
  readonly set: FieldSet;
  /** The stored entry, if encoding this manager again would give it. */
  readonly entry: JsonObject | undefined;
}

/** By identity. Treated as immutable: steps that change something make a copy. */
export type Managers = ReadonlyMap<string, FieldManager>;

/** An applier is the same one in every version of the API; an updater is not. Sorts as the server's identifiers do. */
export function identity(manager: { name: string; operation: 'Apply' | 'Update'; apiVersion: string; subresource: string }): string {
  return JSON.stringify({
    ...(manager.name === '' ? {} : { manager: manager.name }),
    operation: manager.operation,
    ...(manager.operation === 'Apply' || manager.apiVersion === '' ? {} : { apiVersion: manager.apiVersion }),
    ...(manager.subresource === '' ? {} : { subresource: manager.subresource }),
  });
}

/** `metadata.managedFields` as the server reads it: undefined when it is not a list of entries at all. */
export function entriesOf(object: JsonObject | undefined): JsonObject[] | undefined {
  const metadata = object?.['metadata'];
  const list = isObject(metadata) ? metadata['managedFields'] : undefined;
  if (!Array.isArray(list)) return undefined;
  const entries: JsonObject[] = [];
  for (const entry of list) {
    if (!isObject(entry)) return undefined;
    for (const name of ['manager', 'operation', 'apiVersion', 'fieldsType', 'subresource', 'time']) {
      const value = entry[name] ?? null;
      if (value !== null && typeof value !== 'string') return undefined;
    }
    const time = entry['time'];
    if (typeof time === 'string' && Number.isNaN(Date.parse(time))) return undefined;
    entries.push(entry);
  }
  return entries;
}

/** The two forms of a request to forget all owners: an empty list, or a list with one empty entry. */
export function isReset(entries: JsonObject[] | undefined): boolean {
  if (entries === undefined) return false;
  const [first] = entries;
  return first === undefined || (entries.length === 1 && Object.values(first).every((value) => value === null || value === ''));
}

const text = (value: Json | undefined): string => (typeof value === 'string' ? value : '');

const entryKeys = new Set(['manager', 'operation', 'apiVersion', 'time', 'fieldsType', 'fieldsV1', 'subresource']);

/** Throws a CodedError `InvalidManagedFields` in the server's words. */
export function decodeManagers(entries: JsonObject[]): Managers {
  const managers = new Map<string, FieldManager>();
  for (const [at, entry] of entries.entries()) {
    const operation = text(entry['operation']);
    if (operation !== 'Apply' && operation !== 'Update') throw invalid('operation must be `Apply` or `Update`');
    const apiVersion = text(entry['apiVersion']);
    if (apiVersion === '') throw invalid('apiVersion must not be empty');
    const type = text(entry['fieldsType']);
    if (type === '') throw invalid(`missing fieldsType in managed fields entry ${at}`);
    if (type !== 'FieldsV1') throw invalid(`invalid fieldsType ${JSON.stringify(type)} in managed fields entry ${at}`);
    const stored = entry['fieldsV1'] ?? null;
    const fields = stored === null ? {} : stored;
    if (!isObject(fields)) throw invalid(`error decoding set of managed fields entry ${at}: it must be an object`);
    const who = { name: text(entry['manager']), operation, apiVersion, subresource: text(entry['subresource']) } as const;
    try {
      const { set, canonical } = decodeFields(fields);
      const exact =
        canonical && stored !== null && Object.keys(entry).every((key) => entryKeys.has(key) && entry[key] !== null && entry[key] !== '');
      const time = entry['time'];
      managers.set(identity(who), { ...who, time: typeof time === 'string' ? time : undefined, set, entry: exact ? entry : undefined });
    } catch (error) {
      if (!(error instanceof SyntaxError)) throw error;
      throw invalid(`error decoding set of managed fields entry ${at}: ${error.message}`, error);
    }
  }
  return managers;
}

function invalid(message: string, cause?: unknown): CodedError {
  return applyError('InvalidManagedFields', message, {
    cause,
    next: 'set metadata.managedFields to [] by an update to start ownership again',
  });
}

/** Unix seconds, 0 without a time, as the server sorts. */
function seconds(manager: FieldManager): number {
  return manager.time === undefined ? 0 : Math.floor(Date.parse(manager.time) / 1000);
}

/** In the server's order, or undefined when no manager owns a field. */
export function encodeManagers(managers: Managers): JsonObject[] | undefined {
  if (managers.size === 0) return undefined;
  return [...managers.values()]
    .sort(
      (a, b) =>
        compareStrings(a.operation, b.operation) ||
        seconds(a) - seconds(b) ||
        compareStrings(a.name, b.name) ||
        compareStrings(a.apiVersion, b.apiVersion) ||
        compareStrings(a.subresource, b.subresource),
    )
    .map(encodeManager);
}

function encodeManager(manager: FieldManager): JsonObject {
  return (
    manager.entry ?? {
      ...(manager.name === '' ? {} : { manager: manager.name }),
      operation: manager.operation,
      apiVersion: manager.apiVersion,
      ...(manager.time === undefined ? {} : { time: manager.time }),
      fieldsType: 'FieldsV1',
      fieldsV1: encodeFields(manager.set),
      ...(manager.subresource === '' ? {} : { subresource: manager.subresource }),
    }
  );
}

/** The manager with other fields; its stored entry survives when they are the same. */
export function owning(manager: FieldManager, set: FieldSet): FieldManager {
  return equalSets(manager.set, set) ? manager : { ...manager, set, entry: undefined };
}

export function at(manager: FieldManager, time: string | undefined): FieldManager {
  return manager.time === time ? manager : { ...manager, time, entry: undefined };
}

/** The managers with one of them replaced, or gone when it owns nothing. */
export function withManager(managers: Managers, id: string, manager: FieldManager): Managers {
  const out = new Map(managers);
  if (isEmpty(manager.set)) out.delete(id);
  else out.set(id, manager);
  return out;
}

const ancient = 'ancient-changes';

/** Folds the oldest updaters of each API version into one entry until at most `max` are left. */
export function capUpdaters(managers: Managers, max: number): Managers {
  const updaters = [...managers].filter(([, manager]) => manager.operation === 'Update');
  if (updaters.length <= max) return managers;
  updaters.sort(([a, left], [b, right]) => seconds(left) - seconds(right) || compareStrings(a, b));
  const out = new Map(managers);
  const first = new Map<string, string>();
  let left = updaters.length;
  for (const [id, manager] of updaters) {
    if (left <= max) break;
    const bucketOf = { name: ancient, operation: 'Update', apiVersion: manager.apiVersion, subresource: '' } as const;
    const bucket = identity(bucketOf);
    const oldest = first.get(manager.apiVersion);
    if (oldest === undefined) {
      first.set(manager.apiVersion, id);
      continue;
    }
    const start = out.get(oldest);
    if (!out.has(bucket) && start !== undefined) {
      out.delete(oldest);
      out.set(bucket, start);
    }
    // Upstream loses the bucket when an older updater of its version precedes it; here that one joins it.
    const source = id === bucket ? oldest : id;
    const set = union(out.get(bucket)?.set ?? emptySet, out.get(source)?.set ?? emptySet);
    out.delete(source);
    out.set(bucket, { ...bucketOf, time: manager.time, set, entry: undefined });
    left--;
  }
  return out;
}

/** The object with these managedFields, sharing everything else; the object itself when it has them already. */
export function setEntries(object: JsonObject, entries: JsonObject[] | undefined): JsonObject {
  const metadata = object['metadata'];
  const old = isObject(metadata) ? metadata['managedFields'] : undefined;
  if (old === undefined && entries === undefined) return object;
  if (Array.isArray(old) && entries !== undefined && old.length === entries.length && entries.every((entry, i) => entry === old[i])) {
    return object;
  }
  const { managedFields: _, ...rest } = isObject(metadata) ? metadata : {};
  if (entries === undefined) return isEmptyObject(rest) && !isObject(metadata) ? object : { ...object, metadata: rest };
  return { ...object, metadata: { ...rest, managedFields: entries } };
}
