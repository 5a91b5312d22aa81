import type { Json, JsonObject } from '@kubenode/api-machinery/wire';
import { isObject, metaOf, shown } from './json.ts';
import { apiVersion, type Served } from './kinds/served.ts';
import { dropEmpty } from './kinds/go-form.ts';
import { objectMeta } from './kinds/object-meta.ts';
import { readEmbedded } from './embedded-object.ts';
import { invalid } from './field-error.ts';
import { badRequest, invalidObject, type Refusal } from './refusal.ts';
import { fillDefaults } from './schema/defaults.ts';
import { dropAllNulls, dropNulls, prune } from './schema/prune.ts';
import type { Schema } from './schema/schema.ts';
import { typeMismatch } from './schema/validate.ts';

/** How a request wants unknown fields treated. */
export type FieldValidation = 'Strict' | 'Warn' | 'Ignore';

const cannotHandle = (served: Served, why: string): Refusal =>
  badRequest(`${served.kind} in version ${JSON.stringify(served.version)} cannot be handled as a ${served.kind}: ${why}`);

const GO_TYPES: Record<string, string> = { boolean: 'bool', object: 'map[string]interface {}', array: '[]interface {}', integer: 'int64' };

/** The first value that a struct of the real server could not contain, in its words. */
function mismatch(value: Json, schema: Schema, prefix: string): string | undefined {
  const found = typeMismatch(value, schema);
  if (found === undefined) return undefined;
  if (found.want === 'base64') return 'illegal base64 data';
  if (found.want === 'date-time' || found.want === 'micro-time') {
    const layout = found.want === 'date-time' ? '2006-01-02T15:04:05Z07:00' : '2006-01-02T15:04:05.000000Z07:00';
    return `parsing time ${found.got.replaceAll('"', String.raw`\"`)} as ${JSON.stringify(layout)}`;
  }
  return `json: cannot unmarshal ${found.got} into Go struct field ${prefix}${found.path} of type ${GO_TYPES[found.want] ?? found.want}`;
}

/** Unknown members of metadata, in every kind. */
function tidyMetadata(object: JsonObject, unknown: string[]): void {
  const metadata = metaOf(object);
  dropAllNulls(metadata);
  prune(metadata, objectMeta, 'metadata', unknown);
  dropEmpty(metadata, objectMeta);
}

/** Metadata of an object inside another one: whether it could be read, and if so as it is then written. */
function readMetadata(metadata: JsonObject): boolean {
  dropAllNulls(metadata);
  if (typeMismatch(metadata, objectMeta) !== undefined) return false;
  dropEmpty(metadata, objectMeta);
  return true;
}

/**
 * Brings an object into the form in which it is stored: pruned, defaulted, nulls resolved; changes the object itself.
 * Returns the paths of the fields that the kind does not know. Throws a Refusal 400 when a value has a type that the
 * real server could not decode.
 */
export function decode(served: Served, object: JsonObject, nulls: 'dropped' | 'kept' = 'dropped'): string[] {
  const unknown: string[] = [];
  if (object['metadata'] !== undefined && object['metadata'] !== null && !isObject(object['metadata'])) {
    throw cannotHandle(served, 'json: cannot unmarshal the metadata into Go struct field ObjectMeta');
  }
  if (served.custom === undefined) {
    dropAllNulls(object);
    metaOf(object);
    prune(object, served.schema, '', unknown);
    const wrong = mismatch(object, served.schema, `${served.kind}.`);
    if (wrong !== undefined) throw cannotHandle(served, wrong);
    served.strategy.defaults?.(object);
    served.settle?.(object);
    return unknown;
  }
  tidyMetadata(object, unknown);
  const wrong = mismatch(object['metadata'] ?? {}, objectMeta, 'ObjectMeta.');
  if (wrong !== undefined) throw cannotHandle(served, wrong);
  const fields: string[] = [];
  prune(object, served.schema, '', fields, true);
  unknown.push(...fields.sort());
  // The result of a server-side apply has been decoded already, and a null in it is an error.
  if (nulls === 'dropped') dropNulls(object, served.schema);
  const { metadata: _metadata, ...body } = object;
  const odd = readEmbedded(body, served.schema, readMetadata);
  if (odd !== undefined) throw cannotHandle(served, `${odd.field}: ${odd.message}`);
  fillDefaults(object, served.schema);
  return unknown;
}

/** What a strict decoder reports for a body. */
interface Complaints {
  readonly duplicates: readonly string[];
  readonly unknown: readonly string[];
}

const linesOf = ({ duplicates, unknown }: Complaints): string[] => [
  ...duplicates.map((path) => `duplicate field ${JSON.stringify(path)}`),
  ...unknown.map((path) => `unknown field ${JSON.stringify(path)}`),
];

/** Refuses or warns of unknown fields, and of those that were given twice, in the body of a create or PUT. */
export function checkFields(served: Served, complaints: Complaints, how: FieldValidation, warn: (text: string) => void): void {
  const complaint = checkPatched(complaints, how, warn);
  if (complaint !== undefined) throw cannotHandle(served, complaint);
}

/** The same for a patch and what it made of an object; returns the complaint that makes the patch invalid. */
export function checkPatched(complaints: Complaints, how: FieldValidation, warn: (text: string) => void): string | undefined {
  const lines = how === 'Ignore' ? [] : linesOf(complaints);
  if (how === 'Strict' && lines.length > 0) return `strict decoding error: ${lines.join(', ')}`;
  lines.forEach(warn);
  return undefined;
}

/** Fills or checks apiVersion and kind of a body. */
export function checkType(served: Served, object: JsonObject): void {
  const version = apiVersion(served);
  const kind = object['kind'] ?? '';
  const given = object['apiVersion'] ?? '';
  if (served.custom === undefined) {
    if (kind === '') object['kind'] = served.kind;
    if (given === '') object['apiVersion'] = version;
  } else if (kind === '') {
    const text = JSON.stringify(object);
    throw unrecognized(served.kind, `Object 'Kind' is missing in '${text}'`, text);
  }
  if (object['apiVersion'] !== version && served.custom !== undefined) {
    throw badRequest(`the API version in the data (${shown(given)}) does not match the expected API version (${version})`);
  }
  if (object['kind'] === served.kind && object['apiVersion'] === version) return;
  if (served.custom !== undefined) {
    const name = isObject(object['metadata']) ? shown(object['metadata']['name']) : '';
    throw invalidObject(served.group, shown(object['kind']), name, [invalid('kind', object['kind'], `must be ${served.kind}`)]);
  }
  throw badRequest(
    `${shown(object['kind'])} in version ${JSON.stringify(shown(object['apiVersion']).split('/').at(-1))} cannot be handled as a ${served.kind}: unknown conversion`,
  );
}

/** What a body contains that is not an object of the kind, and its beginning. */
export function unrecognized(kind: string, why: string, text: string): Refusal {
  const start =
    text === ''
      ? '<empty>'
      : text.startsWith('{')
        ? text.length > 30
          ? `${text.slice(0, 30)} ...`
          : text
        : Buffer.from(text.slice(0, 30)).toString('hex');
  return badRequest(`the object provided is unrecognized (must be of type ${kind}): ${why} (${start})`);
}

/** Shows an object in another version of its resource; the conversion strategy None of CRDs. */
export function convert(served: Served, object: JsonObject): void {
  object['apiVersion'] = apiVersion(served);
  decode(served, object);
}
