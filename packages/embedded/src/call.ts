import type { ApiRequest } from '@kubenode/api-machinery/transport';
import type { JsonObject } from '@kubenode/api-machinery/wire';
import { negotiate, type Accepted } from './accept.ts';
import { messageOf } from '@kubenode/api-machinery/errors';
import { convert, unrecognized, type FieldValidation } from './decode.ts';
import { duplicateFields } from './duplicates.ts';
import { unsupported } from './field-error.ts';
import { isObject, MAX_DEPTH, tooDeep } from './json.ts';
import { apiVersion, type Served, type User } from './kinds/served.ts';
import { decodeProtobuf, PROTOBUF } from './protobuf/decode.ts';
import { badRequest, entityTooLarge, invalidObject, Refusal, unsupportedMediaType } from './refusal.ts';
import { dryRunOf } from './remove.ts';
import type { RequestInfo } from './request-info.ts';
import { parsed, type Entry } from './store/entry.ts';
import type { World } from './world.ts';
import type { Writer } from './write.ts';

/** One request to a resource. */
export interface Call {
  readonly world: World;
  readonly user: User;
  readonly info: RequestInfo;
  readonly served: Served;
  readonly request: ApiRequest;
  readonly query: Readonly<Record<string, string>>;
  readonly headers: Readonly<Record<string, string>>;
  /** Collected for `Warning` headers. */
  readonly warnings: string[];
}

/** What a handler answers with: an object, ready JSON text, or a stream. */
export type Reply =
  | { readonly status: number; readonly object: JsonObject }
  | { readonly status: number; readonly text: string }
  | { readonly status: number; readonly stream: AsyncIterable<Uint8Array> };

/** Bodies above this are refused, as upstream does. */
export const MAX_BODY = 3 * 1024 * 1024;

const BODY_TYPES = ['application/json', 'application/yaml'];

function bodyBytes({ body }: ApiRequest): Buffer {
  if (body === undefined) return Buffer.alloc(0);
  return typeof body === 'string' ? Buffer.from(body, 'utf8') : Buffer.from(body.buffer, body.byteOffset, body.byteLength);
}

export function bodyText(request: ApiRequest): string {
  const bytes = bodyBytes(request);
  if (bytes.byteLength > MAX_BODY) throw entityTooLarge(`limit is ${MAX_BODY}`);
  return typeof request.body === 'string' ? request.body : bytes.toString('utf8');
}

export function contentType(headers: Readonly<Record<string, string>>): string {
  return (headers['content-type'] ?? '').split(';')[0]?.trim().toLowerCase() ?? '';
}

async function parsedBody(text: string, yaml: boolean): Promise<unknown> {
  try {
    return JSON.parse(text);
  } catch (error) {
    if (!yaml)
      throw badRequest(`couldn't get version/kind; json parse error: ${messageOf(error).replace('Unexpected end', 'unexpected end')}`);
  }
  const { parse } = await import('yaml');
  try {
    return parse(text, { schema: 'core', maxAliasCount: 100, logLevel: 'error' });
  } catch (error) {
    if (error instanceof RangeError) throw tooDeeply();
    throw badRequest(`error decoding: ${messageOf(error)}`);
  }
}

export const tooDeeply = () => badRequest(`the body is nested too deeply: exceeded max depth of ${MAX_DEPTH}`);

/** JSON, or YAML where it is allowed: the parser is only loaded when it is needed. Nothing deeper than MAX_DEPTH comes out. */
export async function parseBody(text: string, yaml: boolean): Promise<unknown> {
  const value = await parsedBody(text, yaml);
  if (tooDeep(value)) throw tooDeeply();
  return value;
}

const TYPE_META = String.raw`struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }`;
const goName = (value: unknown): string => (typeof value === 'boolean' ? 'bool' : typeof value);

/** The object in a body; undefined when there is no body. */
export async function bodyObject(call: Pick<Call, 'request' | 'headers'>): Promise<JsonObject | undefined> {
  const text = bodyText(call.request);
  if (text === '') return undefined;
  const type = contentType(call.headers);
  if (type === PROTOBUF) {
    const object = decodeProtobuf(bodyBytes(call.request));
    if (tooDeep(object)) throw tooDeeply();
    return object;
  }
  if (type !== '' && !BODY_TYPES.includes(type)) throw unsupportedMediaType(BODY_TYPES);
  const value = await parseBody(text, type === 'application/yaml');
  if (value === null) throw badRequest("Object 'Kind' is missing in 'null'");
  if (!isObject(value))
    throw badRequest(
      `couldn't get version/kind; json parse error: json: cannot unmarshal ${Array.isArray(value) ? 'array' : goName(value)} into Go value of type ${TYPE_META}`,
    );
  return value;
}

/** An object as it was sent, and what only its text has: fields that were given twice, where the last counts. */
export interface Body {
  readonly object: JsonObject;
  readonly duplicates: readonly string[];
}

export async function requiredBody(call: Call): Promise<Body> {
  const text = bodyText(call.request);
  try {
    const object = await bodyObject(call);
    if (object !== undefined) return { object, duplicates: duplicatesOf(call, text) };
  } catch (error) {
    throw error instanceof Refusal && error.code === 400 ? unrecognized(call.served.kind, error.message, text) : error;
  }
  throw unrecognized(call.served.kind, "couldn't get version/kind; json parse error: unexpected end of JSON input", text);
}

/** Duplicate fields of a JSON body; a YAML body with such fields has been refused. */
export function duplicatesOf(call: Pick<Call, 'headers' | 'query'>, text: string): string[] {
  const type = contentType(call.headers);
  return type === PROTOBUF || type.endsWith('yaml') || call.query['fieldValidation'] === 'Ignore' ? [] : duplicateFields(text);
}

function fieldValidation(value: string | undefined, kind: string): FieldValidation {
  if (value === undefined || value === '') return 'Warn';
  if (value === 'Strict' || value === 'Warn' || value === 'Ignore') return value;
  throw invalidObject('meta.k8s.io', kind, '', [unsupported('fieldValidation', value, ['', 'Ignore', 'Strict', 'Warn'])]);
}

const ESCAPES: Record<string, string> = { '\u0007': '\\a', '\b': '\\b', '\f': '\\f', '\n': '\\n', '\r': '\\r', '\t': '\\t', '\v': '\\v' };

/** As Go's %q prints a text. */
function goQuote(text: string): string {
  const body = text
    .replaceAll(/["\\]/g, '\\$&')
    .replaceAll(/\p{Cc}/gu, (letter) => ESCAPES[letter] ?? `\\x${letter.charCodeAt(0).toString(16).padStart(2, '0')}`);
  return `"${body}"`;
}

/** The name a write is recorded under: the request's, or the program's from its User-Agent. */
function managerOf(call: Call): string {
  const given = call.query['fieldManager'];
  if (given !== undefined && given !== '') return given;
  const agent = (call.headers['user-agent'] ?? '').split('/')[0] ?? '';
  return agent.replaceAll(/[^\x20-\x7e]/g, '').slice(0, 128);
}

export function writerOf(call: Call, kind: 'CreateOptions' | 'UpdateOptions' | 'PatchOptions'): Writer {
  const manager = call.query['fieldManager'] ?? '';
  if (manager.length > 128) {
    throw invalidObject('meta.k8s.io', kind, '', [
      { type: 'FieldValueTooLong', field: 'fieldManager', message: 'Too long: may not be more than 128 bytes' },
    ]);
  }
  const odd = Array.from(manager).findIndex((letter) => /[\p{C}\p{Zl}\p{Zp}]/u.test(letter) || (letter !== ' ' && /\p{Zs}/u.test(letter)));
  if (odd >= 0) {
    const code = (Array.from(manager)[odd]?.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0');
    throw invalidObject('meta.k8s.io', kind, '', [
      {
        type: 'FieldValueInvalid',
        field: 'fieldManager',
        message: `Invalid value: ${goQuote(manager)}: invalid character U+${code} (at position ${odd})`,
      },
    ]);
  }
  return {
    user: call.user,
    manager: managerOf(call),
    options: { kind, apiVersion: 'meta.k8s.io/v1', ...(manager === '' ? {} : { fieldManager: manager }) },
    dryRun: dryRunOf(call.query['dryRun'], kind),
    fieldValidation: fieldValidation(call.query['fieldValidation'], kind),
    warn: (text) => {
      if (!call.warnings.includes(text)) call.warnings.push(text);
    },
  };
}

export function accepted(call: Call): Accepted {
  return negotiate(call.headers['accept']);
}

/** The text of an entry in the version that was asked for. */
export function textOf(served: Served, entry: Entry): string {
  if (served.storageVersion === apiVersion(served)) return entry.json;
  return JSON.stringify(objectOf(served, entry));
}

export function objectOf(served: Served, entry: Entry): JsonObject {
  const object = parsed(entry);
  if (served.storageVersion !== apiVersion(served)) convert(served, object);
  return object;
}
