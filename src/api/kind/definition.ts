import type { Static, TSchema } from 'typebox';
import { objectError } from '../errors.ts';
import { GROUP, VERSION, type CelRule, type FieldError, type Kind, type KindObject, type PrintColumn } from '../kind.ts';
import type { JsonObject, ObjectMeta } from '../wire.ts';
import { crdOf } from './crd.ts';
import { ObjectValidator } from './validator.ts';

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
  /** What neither schema nor CEL can express, so that no API server checks it: we check it offline and when an object is read. Only called on schema-valid objects. */
  check?: (object: { metadata: ObjectMeta; spec: Static<Spec> }) => FieldError[];
}

/** The schema as JSON. Enums get the type that a structural schema must name. */
function plain(schema: TSchema): JsonObject {
  return JSON.parse(JSON.stringify(schema), (_, value: unknown) => {
    if (value === null || typeof value !== 'object' || !('enum' in value) || 'type' in value || !Array.isArray(value.enum)) return value;
    return { type: 'string', ...value };
  }) as JsonObject;
}

export function defineKind<Spec extends TSchema, Status extends TSchema>(
  definition: KindDefinition<Spec, Status>,
): Kind<Static<Spec>, Static<Status>> {
  const schemas = { spec: plain(definition.spec), status: plain(definition.status) };
  const validator = new ObjectValidator<KindObject<Static<Spec>, Static<Status>>>(definition.kind, schemas);
  return {
    group: GROUP,
    version: VERSION,
    kind: definition.kind,
    plural: definition.plural,
    namespaced: definition.namespaced,
    specSchema: definition.spec,
    specFields: new Set(Object.keys(Object(schemas.spec['properties']))),
    description: definition.description,

    parse(value) {
      if (validator.isReadable(value)) return definition.plain === undefined ? value : definition.plain(value);
      const error = validator.unreadable();
      throw objectError('InvalidObject', `${definition.kind}: \`${error.path}\` ${error.message}`);
    },

    validate(value) {
      return validator.isWritable(value) ? (definition.check?.(value) ?? []) : validator.unwritable();
    },

    crd: () => crdOf(definition, schemas),
  };
}
