import { Ajv, type ValidateFunction } from 'ajv';
import type { Static, TSchema } from 'typebox';
import { CodedError } from './errors.ts';
import type { Resource } from './resource.ts';
import type { JsonObject, KubeObject, ObjectMeta } from './wire.ts';

export const GROUP = 'kubenode.io';
export const VERSION = 'v1alpha1';
export const API_VERSION = `${GROUP}/${VERSION}`;

/** A CEL rule, of the object or of a part of its schema: `oldSelf` is what it was before an update. Said once, and asked by every server and offline. */
export interface CelRule {
  rule: string;
  /** One line; said when there is no messageExpression, or when it fails. */
  message: string;
  messageExpression?: string;
  /** Where the mistake is, below the part that has the rule: `.spec.batches`. */
  fieldPath?: string;
}

/** Rules of a part of a schema, as an option of it; `self` is that part. */
export const celRules = (...rules: CelRule[]) => ({ 'x-kubernetes-validations': rules });

export interface PrintColumn {
  name: string;
  type: 'string' | 'integer' | 'number' | 'boolean' | 'date';
  jsonPath: string;
  priority?: number;
  description?: string;
}

/** One mistake in one object. `path` is a full field path such as `spec.batches[0]`. */
export interface FieldError {
  path: string;
  message: string;
  /** For a caller that gives advice; absent: none of these. */
  code?: 'Unknown' | 'Missing' | 'TooFew';
}

export interface KindDefinition<Spec extends TSchema, Status extends TSchema> {
  kind: string;
  plural: string;
  shortNames?: string[];
  namespaced: boolean;
  description: string;
  spec: Spec;
  status: Status;
  rules?: CelRule[];
  columns: PrintColumn[];
  scale?: { specReplicasPath: string; statusReplicasPath: string; labelSelectorPath?: string };
  /** Makes plain what nodes wrote into an object that is read (docs/protocols.md#g7). */
  plain?: (object: KindObject<Static<Spec>, Static<Status>>) => KindObject<Static<Spec>, Static<Status>>;
  /** What neither schema nor CEL can say, so that no API server says it: offline, and by anyone who reads the object. Only called on schema-valid objects. */
  check?: (object: { metadata: ObjectMeta; spec: Static<Spec> }) => FieldError[];
}

export type KindObject<Spec, Status> = KubeObject & { spec: Spec; status?: Status };

/** A kind of KubeNode: resource, CRD and validator from one definition. */
export interface Kind<Spec = unknown, Status = unknown> extends Resource<KindObject<Spec, Status>> {
  readonly specSchema: TSchema;
  /** Names of the fields of `spec`. */
  readonly specFields: ReadonlySet<string>;
  readonly description: string;
  /** The CustomResourceDefinition, ready to apply. */
  crd(): KubeObject & { spec: JsonObject };
  /** The mistakes of an object as a user writes it, but for those that CEL rules find: unknown fields are refused, as strict field validation does. */
  validate(object: unknown): FieldError[];
}

const metadataSchema = { type: 'object', required: ['name'], properties: { name: { type: 'string', minLength: 1 } } };

/** The schema as JSON. Enums get the type that a structural schema must name. */
function plain(schema: TSchema): JsonObject {
  return JSON.parse(JSON.stringify(schema), (_, value: unknown) => {
    if (value === null || typeof value !== 'object' || !('enum' in value) || 'type' in value || !Array.isArray(value.enum)) return value;
    return { type: 'string', ...value };
  }) as JsonObject;
}

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

/** Of items, fields or characters. */
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
  const message = error.message ?? 'is not valid';
  return TOO_FEW.includes(error.keyword) ? { path, message, code: 'TooFew' } : { path, message };
}

export function defineKind<Spec extends TSchema, Status extends TSchema>(
  definition: KindDefinition<Spec, Status>,
): Kind<Static<Spec>, Static<Status>> {
  type Object = KindObject<Static<Spec>, Static<Status>>;
  const spec = plain(definition.spec);
  const status = plain(definition.status);
  const ajv = new Ajv({ allErrors: true, strict: false, validateFormats: false });
  let strictly: ValidateFunction | undefined;
  let loosely: ValidateFunction | undefined;

  const objectSchema = {
    type: 'object',
    required: ['apiVersion', 'kind', 'metadata', 'spec'],
    properties: { apiVersion: { const: API_VERSION }, kind: { const: definition.kind }, metadata: metadataSchema, spec, status },
  };

  function isObject(value: unknown): value is Object {
    loosely ??= ajv.compile(readable(objectSchema));
    return loosely(value);
  }

  return {
    group: GROUP,
    version: VERSION,
    kind: definition.kind,
    plural: definition.plural,
    namespaced: definition.namespaced,
    specSchema: definition.spec,
    specFields: new Set(Object.keys(Object(spec['properties']))),
    description: definition.description,

    parse(value) {
      if (isObject(value)) return definition.plain === undefined ? value : definition.plain(value);
      const first = loosely?.errors?.[0];
      const error = first === undefined ? { path: '', message: 'is not valid' } : describe(first);
      throw new CodedError('InvalidObject', `${definition.kind}: \`${error.path}\` ${error.message}`);
    },

    validate(value) {
      strictly ??= ajv.compile({
        ...objectSchema,
        properties: {
          ...objectSchema.properties,
          spec: strict(spec),
          metadata: { ...metadataSchema, additionalProperties: true },
          status: {},
        },
        additionalProperties: false,
      });
      if (!strictly(value)) return (strictly.errors ?? []).map(describe);
      return definition.check?.(value as Object) ?? [];
    },

    crd() {
      const rules = definition.rules ?? [];
      return {
        apiVersion: 'apiextensions.k8s.io/v1',
        kind: 'CustomResourceDefinition',
        metadata: { name: `${definition.plural}.${GROUP}` },
        spec: {
          group: GROUP,
          scope: definition.namespaced ? 'Namespaced' : 'Cluster',
          names: {
            kind: definition.kind,
            listKind: `${definition.kind}List`,
            plural: definition.plural,
            singular: definition.kind.toLowerCase(),
            shortNames: definition.shortNames ?? [],
            categories: ['kubenode'],
          },
          versions: [
            {
              name: VERSION,
              served: true,
              storage: true,
              subresources: { status: {}, ...(definition.scale === undefined ? {} : { scale: { ...definition.scale } }) },
              additionalPrinterColumns: [
                ...definition.columns.map((column) => ({ ...column })),
                { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' },
              ],
              schema: {
                openAPIV3Schema: {
                  type: 'object',
                  description: definition.description,
                  required: ['spec'],
                  properties: { apiVersion: { type: 'string' }, kind: { type: 'string' }, metadata: { type: 'object' }, spec, status },
                  ...(rules.length === 0 ? {} : { 'x-kubernetes-validations': rules.map((rule) => ({ ...rule })) }),
                },
              },
            },
          ],
        },
      };
    },
  };
}
