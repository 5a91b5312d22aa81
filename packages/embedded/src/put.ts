import type { JsonObject } from '@kubenode/api-machinery/wire';
import { accepted, requiredBody, writerOf, type Call, type Reply } from './call.ts';
import { checkType, decode, checkFields } from './decode.ts';
import { metaOf, textAt } from './json.ts';
import { badRequest, Refusal } from './refusal.ts';
import { shaped } from './respond.ts';
import { insert, modify } from './write.ts';

/** The namespace of an object is the request's, or not set. */
export function checkNamespaceOf(call: Call, object: JsonObject): void {
  const metadata = metaOf(object);
  const given = textAt(metadata, 'namespace') ?? '';
  if (call.info.namespace === '') delete metadata['namespace'];
  else if (given === '') metadata['namespace'] = call.info.namespace;
  else if (given !== call.info.namespace) {
    throw badRequest('the namespace of the provided object does not match the namespace sent on the request');
  }
}

export function checkNameOf(call: Call, object: JsonObject): void {
  const name = textAt(object, 'metadata', 'name') ?? '';
  if (name === '') throw badRequest(`the name of the object (${call.info.name} based on URL) was undeterminable: name must be provided`);
  if (name !== call.info.name) {
    throw badRequest(`the name of the object (${name}) does not match the name on the URL (${call.info.name})`);
  }
}

export async function create(call: Call): Promise<Reply> {
  const form = accepted(call);
  const { object, duplicates } = await requiredBody(call);
  const writer = writerOf(call, 'CreateOptions');
  checkType(call.served, object);
  checkFields(call.served, { duplicates, unknown: decode(call.served, object) }, writer.fieldValidation, writer.warn);
  checkNamespaceOf(call, object);
  if ((textAt(object, 'metadata', 'resourceVersion') ?? '') !== '') {
    throw new Refusal(500, undefined, 'resourceVersion should not be set on objects to be created');
  }
  const made = insert(call.world, call.served, { namespace: call.info.namespace, object, writer, recorded: false });
  return shaped(call, made, 201, form);
}

export async function put(call: Call): Promise<Reply> {
  const form = accepted(call);
  const { object, duplicates } = await requiredBody(call);
  const writer = writerOf(call, 'UpdateOptions');
  checkType(call.served, object);
  checkFields(call.served, { duplicates, unknown: decode(call.served, object) }, writer.fieldValidation, writer.warn);
  checkNamespaceOf(call, object);
  checkNameOf(call, object);
  const { object: result, created } = modify(call.world, call.served, {
    namespace: call.info.namespace,
    name: call.info.name,
    subresource: call.info.subresource,
    writer,
    preconditioned: true,
    allowCreate: call.served.strategy.createOnUpdate,
    change: () => object,
    recorded: false,
  });
  return shaped(call, result, created ? 201 : 200, form);
}
