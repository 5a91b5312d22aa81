import type { Json, JsonObject } from '@kubenode/api-machinery/wire';
import { isCoded } from '@kubenode/api-machinery/errors';
import { applyErrorCodes } from './apply/errors.ts';
import { apply, conflictMessage, conflictStatus } from './apply/index.ts';
import { accepted, bodyText, contentType, duplicatesOf, parseBody, tooDeeply, writerOf, type Call, type Reply } from './call.ts';
import { decode, checkFields, checkPatched } from './decode.ts';
import { forbidden, invalid, required, type FieldProblem } from './field-error.ts';
import { copy, isObject, shown, tooDeep } from './json.ts';
import { apiVersion } from './kinds/served.ts';
import { resetFields } from './managed.ts';
import { jsonPatch } from './patch/json.ts';
import { mergePatch } from './patch/merge.ts';
import { strategicPatch } from './patch/strategic.ts';
import { checkNameOf, checkNamespaceOf } from './put.ts';
import { badRequest, internalError, invalidObject, notFound, Refusal, unsupportedMediaType } from './refusal.ts';
import { shaped } from './respond.ts';
import { now } from './world.ts';
import { modify, type Writer, type Written } from './write.ts';

export const JSON_PATCH = 'application/json-patch+json';
export const MERGE_PATCH = 'application/merge-patch+json';
export const STRATEGIC_PATCH = 'application/strategic-merge-patch+json';
export const APPLY_PATCH = 'application/apply-patch+yaml';

function checkOptions(call: Call, type: string): void {
  const problems: FieldProblem[] = [];
  if (type === APPLY_PATCH) {
    if ((call.query['fieldManager'] ?? '') === '') problems.push(required('fieldManager', 'is required for apply patch'));
  } else if (call.query['force'] !== undefined) problems.push(forbidden('force', 'may not be specified for non-apply patch'));
  if (problems.length > 0) throw invalidObject('meta.k8s.io', 'PatchOptions', '', problems);
}

function patched(type: string, live: JsonObject, patch: Json, call: Call): Json {
  if (type === JSON_PATCH) return jsonPatch(live, patch);
  if (type === STRATEGIC_PATCH) return strategicPatch(live, patch, call.served.schema);
  return mergePatch(live, patch);
}

/** With keys in order, as Go prints a map. */
function sorted(value: Json): Json {
  if (Array.isArray(value)) return value.map(sorted);
  if (!isObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([key, item]) => [key, sorted(item)]),
  );
}

/** A patch may not turn an object into another kind. */
function checkTypeKept(call: Call, object: JsonObject): void {
  const { served, info } = call;
  const problems: FieldProblem[] = [];
  if (object['kind'] !== served.kind) problems.push(invalid('kind', object['kind'], `must be ${served.kind}`));
  if (object['apiVersion'] !== apiVersion(served))
    problems.push(invalid('apiVersion', object['apiVersion'], `must be ${apiVersion(served)}`));
  if (problems.length > 0) throw invalidObject(served.group, shown(object['kind']), info.name, problems);
}

/** The object that a JSON, merge or strategic patch makes of the live one. */
function patchedObject(call: Call, type: string, live: JsonObject, patch: Json, duplicates: readonly string[], writer: Writer): JsonObject {
  const result = patched(type, live, patch, call);
  if (!isObject(result)) throw badRequest('the patch does not result in an object');
  if (tooDeep(result)) throw tooDeeply();
  const object = copy(result);
  const refuse = (why: string) => invalidObject('', '', '', [invalid('patch', JSON.stringify(sorted(result)), why)]);
  let complaint: string | undefined;
  try {
    complaint = checkPatched({ duplicates, unknown: decode(call.served, object) }, writer.fieldValidation, writer.warn);
  } catch (error) {
    throw error instanceof Refusal ? refuse(error.message.replace(/^\S+ in version \S+ cannot be handled as an? \S+: /, '')) : error;
  }
  if (complaint !== undefined) throw refuse(complaint);
  checkTypeKept(call, object);
  checkNamespaceOf(call, object);
  checkNameOf(call, object);
  return object;
}

function applied(call: Call, live: JsonObject | undefined, patch: JsonObject, writer: Writer): JsonObject {
  const { info, served, world } = call;
  let result;
  try {
    result = apply({
      live,
      applied: patch,
      manager: writer.manager,
      ...(info.subresource === '' ? {} : { subresource: info.subresource }),
      resetFields: resetFields(served, info.subresource),
      force: call.query['force'] === 'true' || call.query['force'] === '1',
      schema: served.fieldSchema,
      now: now(world),
    });
  } catch (error) {
    if (isCoded(error, applyErrorCodes, 'BadRequest')) throw badRequest(error.message);
    if (isCoded(error, applyErrorCodes, 'InvalidApply')) throw new Refusal(500, undefined, error.message);
    throw error;
  }
  if (!result.ok) {
    const body = conflictStatus(result.conflicts);
    throw new Refusal(409, 'Conflict', conflictMessage(result.conflicts), body.details);
  }
  if (tooDeep(result.object)) throw tooDeeply();
  const object = copy(result.object);
  checkFields(served, { duplicates: [], unknown: decode(served, object, 'kept') }, writer.fieldValidation, writer.warn);
  checkNamespaceOf(call, object);
  checkNameOf(call, object);
  return object;
}

async function patchOf(call: Call, type: string): Promise<Json> {
  const text = bodyText(call.request);
  let value: unknown;
  try {
    value = await parseBody(text, type === APPLY_PATCH);
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    throw badRequest(
      error.message
        .replace("couldn't get version/kind; json parse error: ", 'error decoding patch: ')
        .replace('error decoding: ', 'error decoding YAML: error converting YAML to JSON: '),
    );
  }
  // JSON.parse and the YAML parser's core schema yield JSON.
  return value as Json;
}

/** Runs a patch against a resource or one of its subresources that share its shape. */
async function runPatch(call: Call): Promise<Written> {
  const { served, info } = call;
  const type = contentType(call.headers);
  const types = [JSON_PATCH, MERGE_PATCH, ...(served.strategicPatch ? [STRATEGIC_PATCH] : []), APPLY_PATCH];
  if (!types.includes(type)) {
    throw served.custom === undefined
      ? new Refusal(415, 'UnsupportedMediaType', '415: Unsupported Media Type', {})
      : unsupportedMediaType(types);
  }
  checkOptions(call, type);
  const writer = writerOf(call, 'PatchOptions');
  const patch = await patchOf(call, type);
  if (type === APPLY_PATCH) {
    if (!isObject(patch))
      throw badRequest(
        `error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal ${Array.isArray(patch) ? 'array' : typeof patch} into Go value of type map[string]interface {}`,
      );
    return modify(call.world, served, {
      namespace: info.namespace,
      name: info.name,
      subresource: info.subresource,
      writer,
      allowCreate: true,
      change: (live) => applied(call, live, copy(patch), writer),
      recorded: true,
    });
  }
  const duplicates = type === JSON_PATCH ? [] : duplicatesOf(call, bodyText(call.request));
  return modify(call.world, served, {
    namespace: info.namespace,
    name: info.name,
    subresource: info.subresource,
    writer,
    allowCreate: false,
    change(live) {
      if (live === undefined) throw internalError('a patch of nothing');
      return patchedObject(call, type, live, patch, duplicates, writer);
    },
    recorded: false,
  });
}

export async function patch(call: Call): Promise<Reply> {
  const form = accepted(call);
  if (call.info.name === '') throw notFound(call.served, '');
  const { object, created } = await runPatch(call);
  return shaped(call, object, created ? 201 : 200, form);
}
