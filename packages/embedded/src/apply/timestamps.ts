import type { JsonObject } from '@kubenode/api-machinery/wire';
import { entriesOf } from './managers.ts';
import { deepEqual, isObject } from './value.ts';

function withoutTime(entry: JsonObject): JsonObject {
  const { time: _, ...rest } = entry;
  return rest;
}

function withoutManagedFields(object: JsonObject): JsonObject {
  const metadata = object['metadata'];
  if (!isObject(metadata)) return object;
  const { managedFields: _, ...rest } = metadata;
  return { ...object, metadata: rest };
}

/**
 * `live` itself when `next` differs from it only in the times of its managedFields entries, so that writing what is there
 * already changes nothing. `apply` and `update` do this; do it again after resetting fields, defaulting or keeping
 * server-set metadata.
 */
export function ignoreTimestamps(live: JsonObject, next: JsonObject): JsonObject {
  if (live === next) return live;
  const before = entriesOf(live) ?? [];
  const after = entriesOf(next) ?? [];
  if (after.length === 0 || before.length !== after.length) return next;
  let timesDiffer = false;
  for (const [i, entry] of after.entries()) {
    const old = before[i];
    if (old === undefined || old === entry) continue;
    if (!deepEqual(withoutTime(old), withoutTime(entry))) return next;
    timesDiffer ||= old['time'] !== entry['time'];
  }
  return timesDiffer && deepEqual(withoutManagedFields(live), withoutManagedFields(next)) ? live : next;
}
