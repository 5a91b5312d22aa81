import type { JsonObject } from '@kubenode/api-machinery/wire';
import { customResetFields, resetFieldsOf, update } from './apply/index.ts';
import { isObject, listAt, objectAt } from './json.ts';
import type { Served } from './kinds/served.ts';
import { now, type World } from './world.ts';

/** Fields that a write to this resource or subresource cannot change, and so never owns. */
export function resetFields(served: Served, subresource: string): readonly string[] {
  if (served.custom === undefined) return resetFieldsOf(served.group, served.kind, subresource);
  return customResetFields(served.strategy.statusFields.length > 0, subresource === '' ? undefined : subresource);
}

/** The object with the ownership that a create, PUT or patch by `manager` leaves. */
export function recorded(
  world: World,
  served: Served,
  live: JsonObject | undefined,
  updated: JsonObject,
  subresource: string,
  manager: string,
): JsonObject {
  const out = update({
    live,
    updated,
    manager,
    ...(subresource === '' ? {} : { subresource }),
    resetFields: resetFields(served, subresource),
    schema: served.fieldSchema,
    now: now(world),
  });
  return subresource === 'scale' ? withoutTime(out) : out;
}

/** What is written through `scale` has no time: upstream carries it over from the Scale, which has none. */
function withoutTime(object: JsonObject): JsonObject {
  const metadata = objectAt(object, 'metadata');
  const entries = listAt(metadata, 'managedFields').map((entry) => {
    if (!isObject(entry) || entry['subresource'] !== 'scale') return entry;
    const { time: _, ...rest } = entry;
    return rest;
  });
  return { ...object, metadata: { ...metadata, managedFields: entries } };
}
