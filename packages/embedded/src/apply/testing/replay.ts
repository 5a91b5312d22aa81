/** Runs a scenario as a server would, for tests. */
import { CodedError } from '@kubenode/api-machinery/errors';
import type { JsonObject, Status } from '@kubenode/api-machinery/wire';
import type { Scenario, Step } from './arbitraries.ts';
import { apply, update } from '../apply.ts';
import { conflictStatus } from '../conflict.ts';
import type { FieldSchema } from '../schema.ts';
import { schemaOf } from '../schema.ts';
import { isObject } from '../value.ts';

export interface Answer {
  object?: JsonObject;
  error?: { message: string; status?: Status };
}

function withMetadata(object: JsonObject, more: JsonObject): JsonObject {
  const metadata = object['metadata'];
  return { ...object, metadata: { ...(isObject(metadata) ? metadata : {}), ...more } };
}

function sent(step: Step, live: JsonObject | undefined): JsonObject {
  const metadata = live?.['metadata'];
  const object = live === undefined ? step.object : withMetadata(step.object, { uid: 'u1' });
  if (step.owners === 'reset') return withMetadata(object, { managedFields: [] });
  if (step.owners === 'given') return withMetadata(object, { managedFields: step.managedFields ?? [] });
  if (step.owners === 'resetItem') return withMetadata(object, { managedFields: [{}] });
  const owners = isObject(metadata) ? metadata['managedFields'] : undefined;
  return step.owners === 'live' && owners !== undefined ? withMetadata(object, { managedFields: owners }) : object;
}

function take(step: Step, live: JsonObject | undefined, schema: FieldSchema, resetFields: readonly string[]): Answer {
  const { manager, subresource, force, now } = step;
  const request = { live, manager, subresource, resetFields, schema, now };
  if (step.op === 'update') return { object: update({ ...request, updated: sent(step, live) }) };
  try {
    const result = apply({ ...request, applied: step.object, force });
    if (result.ok) return { object: result.object };
    const status = conflictStatus(result.conflicts);
    return { error: { message: status.message ?? '', status } };
  } catch (error) {
    if (!(error instanceof CodedError)) throw error;
    return { error: { message: error.message } };
  }
}

export function replay({ schema, reset, later, steps }: Scenario): Answer[] {
  let fields = schemaOf(schema);
  let live: JsonObject | undefined;
  return steps.map((step, at) => {
    if (later?.at === at) fields = schemaOf(later.schema);
    const answer = take(step, live, fields, reset[step.subresource] ?? []);
    if (answer.object !== undefined) live = withMetadata(answer.object, { uid: 'u1' });
    return answer;
  });
}
