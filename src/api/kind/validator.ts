import { Ajv, type ValidateFunction } from 'ajv';
import { API_VERSION, type FieldError } from '../kind.ts';
import type { JsonObject } from '../wire.ts';
import { asksOf } from './patterns.ts';

const metadataSchema = { type: 'object', required: ['name'], properties: { name: { type: 'string', minLength: 1 } } };

/** Closes every object that names its properties, so that a misspelt field is an error and not a loss. */
function strict(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(strict);
  if (schema === null || typeof schema !== 'object') return schema;
  const out: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(schema))
    out[key] = key === 'enum' || key === 'default' || key === 'required' ? value : strict(value);
  if (
    out['type'] === 'object' &&
    out['properties'] !== undefined &&
    out['additionalProperties'] === undefined &&
    out['x-kubernetes-preserve-unknown-fields'] !== true
  ) {
    out['additionalProperties'] = false;
  }
  return out;
}

const UPPER_BOUNDS = new Set(['maxLength', 'maxItems', 'maxProperties', 'maximum']);

/** What a reader relies on. How much is stored, the server bounds; what it stored before it did must not keep all other objects from being read. */
function readable(schema: JsonObject): JsonObject {
  return JSON.parse(JSON.stringify(schema), (_, value: unknown) => {
    if (value === null || typeof value !== 'object' || Array.isArray(value)) return value;
    return Object.fromEntries(Object.entries(value).filter(([key, each]) => !(UPPER_BOUNDS.has(key) && typeof each === 'number')));
  }) as JsonObject;
}

/** `/spec/batches/0` → `spec.batches[0]` */
function fieldPath(pointer: string): string {
  return pointer
    .split('/')
    .slice(1)
    .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'))
    .reduce((path, part) => (/^\d+$/.test(part) ? `${path}[${part}]` : path === '' ? part : `${path}.${part}`), '');
}

/** Keywords for too few items, fields or characters. */
const TOO_FEW = ['minItems', 'minProperties', 'minLength'];

function describe(error: NonNullable<ValidateFunction['errors']>[number]): FieldError {
  const path = fieldPath(error.instancePath);
  const params = error.params as Record<string, unknown>;
  if (error.keyword === 'additionalProperties') {
    return { path: `${path === '' ? '' : `${path}.`}${String(params['additionalProperty'])}`, message: 'unknown field', code: 'Unknown' };
  }
  if (error.keyword === 'required') {
    return { path: `${path === '' ? '' : `${path}.`}${String(params['missingProperty'])}`, message: 'must be set', code: 'Missing' };
  }
  if (error.keyword === 'enum') {
    const allowed = (params['allowedValues'] as unknown[]).map((value) => `"${String(value)}"`).join(', ');
    return { path, message: `must be one of ${allowed}` };
  }
  const asked = error.keyword === 'pattern' ? asksOf(params['pattern']) : undefined;
  const message = asked ?? error.message ?? 'is not valid';
  return TOO_FEW.includes(error.keyword) ? { path, message, code: 'TooFew' } : { path, message };
}

/** Validates objects of one kind. Schemas are compiled at their first use. */
export class ObjectValidator<T> {
  readonly #ajv = new Ajv({ allErrors: true, strict: false, validateFormats: false });
  readonly #schema;
  #readable: ValidateFunction<T> | undefined;
  #strict: ValidateFunction<T> | undefined;

  constructor(kind: string, schemas: { spec: JsonObject; status: JsonObject }) {
    this.#schema = {
      type: 'object',
      required: ['apiVersion', 'kind', 'metadata', 'spec'],
      properties: { apiVersion: { const: API_VERSION }, kind: { const: kind }, metadata: metadataSchema, ...schemas },
    };
  }

  /** Whether a reader can rely on this object. */
  isReadable(value: unknown): value is T {
    this.#readable ??= this.#ajv.compile<T>(readable(this.#schema));
    return this.#readable(value);
  }

  /** Why the last object was not readable. */
  unreadable(): FieldError {
    const first = this.#readable?.errors?.[0];
    return first === undefined ? { path: '', message: 'is not valid' } : describe(first);
  }

  /** Whether a user may write this object, who sets no status. */
  isWritable(value: unknown): value is T {
    const { properties } = this.#schema;
    this.#strict ??= this.#ajv.compile<T>({
      ...this.#schema,
      properties: { ...properties, spec: strict(properties.spec), metadata: { ...metadataSchema, additionalProperties: true }, status: {} },
      additionalProperties: false,
    });
    return this.#strict(value);
  }

  /** Why the last object was not writable. */
  unwritable(): FieldError[] {
    return (this.#strict?.errors ?? []).map(describe);
  }
}
