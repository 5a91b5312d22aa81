import type { Json, JsonObject } from '@kubenode/api-machinery/wire';
import { isObject } from '../json.ts';
import { badRequest, unsupportedMediaType } from '../refusal.ts';
import { MESSAGES } from './messages.ts';

export const PROTOBUF = 'application/vnd.kubernetes.protobuf';

const MAGIC = Buffer.from([0x6b, 0x38, 0x73, 0x00]);

/** A field as it stands on the wire. */
interface Field {
  readonly number: number;
  readonly value: bigint | Buffer;
}

const broken = () => badRequest('the protobuf body cannot be read');

function varint(bytes: Buffer, at: number): [bigint, number] {
  let value = 0n;
  for (let shift = 0n; shift < 70n; shift += 7n) {
    const byte = bytes[at++];
    if (byte === undefined) throw broken();
    value |= BigInt(byte & 0x7f) << shift;
    if (byte < 0x80) return [BigInt.asUintN(64, value), at];
  }
  throw broken();
}

function* fieldsOf(bytes: Buffer): Generator<Field> {
  let at = 0;
  while (at < bytes.length) {
    const [tag, afterTag] = varint(bytes, at);
    const number = Number(tag >> 3n);
    switch (Number(tag & 7n)) {
      case 0: {
        const [value, next] = varint(bytes, afterTag);
        at = next;
        yield { number, value };
        break;
      }
      case 1:
      case 5: {
        // Fixed-width numbers: no field of ours has one.
        at = afterTag + (Number(tag & 7n) === 1 ? 8 : 4);
        break;
      }
      case 2: {
        const [length, start] = varint(bytes, afterTag);
        at = start + Number(length);
        if (at > bytes.length) throw broken();
        yield { number, value: bytes.subarray(start, at) };
        break;
      }
      default:
        throw broken();
    }
  }
}

const buffer = (value: bigint | Buffer): Buffer => {
  if (typeof value === 'bigint') throw broken();
  return value;
};
const integer = (value: bigint | Buffer): number => {
  if (typeof value !== 'bigint') throw broken();
  return Number(BigInt.asIntN(64, value));
};

function timeOf(bytes: Buffer, micro: boolean): string | undefined {
  let seconds: number | undefined;
  let nanos = 0;
  for (const field of fieldsOf(bytes)) {
    if (field.number === 1) seconds = integer(field.value);
    else if (field.number === 2) nanos = integer(field.value);
  }
  // Go writes its zero time as an empty message.
  if (seconds === undefined) return undefined;
  const date = new Date(seconds * 1000).toISOString().slice(0, 19);
  return micro ? `${date}.${String(Math.trunc(nanos / 1000)).padStart(6, '0')}Z` : `${date}Z`;
}

function intOrString(bytes: Buffer): Json {
  let isText = false;
  let number = 0;
  let text = '';
  for (const field of fieldsOf(bytes)) {
    if (field.number === 1) isText = integer(field.value) === 1;
    else if (field.number === 2) number = integer(field.value);
    else if (field.number === 3) text = buffer(field.value).toString('utf8');
  }
  return isText ? text : number;
}

function rawJson(bytes: Buffer): Json | undefined {
  for (const field of fieldsOf(bytes)) {
    if (field.number === 1) return JSON.parse(buffer(field.value).toString('utf8')) as Json;
  }
  return undefined;
}

/** One value; undefined when it is Go's form of no value. */
function valueOf(type: string, value: bigint | Buffer, pointer: boolean): Json | undefined {
  switch (type) {
    case 's': {
      const text = buffer(value).toString('utf8');
      return text === '' && !pointer ? undefined : text;
    }
    case 'b':
      return buffer(value).toString('base64');
    case 'i': {
      const number = integer(value);
      return number === 0 && !pointer ? undefined : number;
    }
    case 'f': {
      const truth = integer(value) !== 0;
      return !truth && !pointer ? undefined : truth;
    }
    case 'T':
      return timeOf(buffer(value), false);
    case 'U':
      return timeOf(buffer(value), true);
    case 'X':
      return intOrString(buffer(value));
    case 'J':
      return rawJson(buffer(value));
    default:
      return message(type, buffer(value));
  }
}

function mapEntry(type: string, bytes: Buffer): [string, Json] {
  let key = '';
  let value: Json | undefined;
  for (const field of fieldsOf(bytes)) {
    if (field.number === 1) key = buffer(field.value).toString('utf8');
    else if (field.number === 2) value = valueOf(type, field.value, true);
  }
  return [key, value ?? (type === 's' || type === 'b' ? '' : null)];
}

function message(type: string, bytes: Buffer): JsonObject {
  const table = MESSAGES[type];
  if (table === undefined) throw broken();
  const out: JsonObject = {};
  for (const { number, value } of fieldsOf(bytes)) {
    const [name, spec] = (table[number] ?? '').split(' ');
    if (name === undefined || spec === undefined) continue;
    if (spec.startsWith('[]')) {
      const list = out[name];
      const item = valueOf(spec.slice(2), value, true) ?? null;
      if (Array.isArray(list)) list.push(item);
      else out[name] = [item];
    } else if (spec.startsWith('{}')) {
      const [key, item] = mapEntry(spec.slice(2), buffer(value));
      const map = out[name];
      if (isObject(map)) map[key] = item;
      else out[name] = { [key]: item };
    } else {
      const pointer = spec.startsWith('*');
      const item = valueOf(pointer ? spec.slice(1) : spec, value, pointer);
      if (item !== undefined) out[name] = item;
    }
  }
  return out;
}

/**
 * An object in the API's protobuf envelope. Throws a Refusal: 400 when it cannot be read, 415 for kinds that are not in
 * the table.
 */
export function decodeProtobuf(bytes: Buffer): JsonObject {
  if (!bytes.subarray(0, 4).equals(MAGIC)) throw broken();
  let apiVersion = '';
  let kind = '';
  let raw: Buffer = Buffer.alloc(0);
  for (const field of fieldsOf(bytes.subarray(4))) {
    if (field.number === 2) raw = buffer(field.value);
    if (field.number !== 1) continue;
    for (const part of fieldsOf(buffer(field.value))) {
      if (part.number === 1) apiVersion = buffer(part.value).toString('utf8');
      else if (part.number === 2) kind = buffer(part.value).toString('utf8');
    }
  }
  // DeleteOptions come under the version of the kind that they delete.
  const type = kind === 'DeleteOptions' ? kind : `${apiVersion}/${kind}`;
  if (MESSAGES[type] === undefined) throw unsupportedMediaType(['application/json', 'application/yaml']);
  return { apiVersion, kind, ...message(type, raw) };
}
