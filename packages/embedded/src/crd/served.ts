import type { Json, JsonObject } from '@kubenode/api-machinery/wire';
import { ageOf } from '../age.ts';
import { schemaOf, type FieldSchema } from '../apply/index.ts';
import { compileRules, type Compiled } from '../cel/rules.ts';
import { at, copy, isObject, listAt, objectAt, shown, stringsAt, textAt } from '../json.ts';
import { compilePath } from '../json-path.ts';
import { NAME } from '../kinds/columns.ts';
import { objectMeta } from '../kinds/object-meta.ts';
import type { TableCell, CellsOf, Column, ScalePaths, Served, Strategy } from '../kinds/served.ts';
import { schemaJson, type Schema } from '../schema/schema.ts';

const COLUMN_TYPES: readonly Column['type'][] = ['string', 'integer', 'number', 'boolean', 'date'];

function columnOf(item: Json): Column {
  const type = COLUMN_TYPES.find((known) => known === textAt(item, 'type')) ?? 'string';
  const jsonPath = textAt(item, 'jsonPath') ?? '';
  const priority = objectAt(item)['priority'];
  return {
    name: textAt(item, 'name') ?? '',
    type,
    description: textAt(item, 'description') || `Custom resource definition column (in JSONPath format): ${jsonPath}`,
    ...(textAt(item, 'format') === undefined ? {} : { format: textAt(item, 'format') ?? '' }),
    ...(typeof priority === 'number' ? { priority } : {}),
  };
}

/** A value as a cell of its column; ages are counted by the server, as upstream does. */
function cellOf(type: Column['type'], value: Json | undefined, now: number): TableCell {
  if (value === undefined || value === null) return null;
  switch (type) {
    case 'integer':
      return typeof value === 'number' ? Math.trunc(value) : null;
    case 'number':
      return typeof value === 'number' ? value : null;
    case 'boolean':
      return typeof value === 'boolean' ? value : null;
    case 'date':
      return typeof value === 'string' ? ageOf(value, now) : null;
    case 'string':
      return shown(value);
    default:
      return type satisfies never;
  }
}

function cellsOf(items: readonly Json[]): CellsOf {
  const columns = items.map((item) => ({ type: columnOf(item).type, find: compilePath(textAt(item, 'jsonPath') ?? '') }));
  return (object, now) => [
    textAt(object, 'metadata', 'name') ?? '',
    ...columns.map(({ type, find }) => cellOf(type, find?.(object)[0], now)),
  ];
}

const AGE_ONLY: Json[] = [
  { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp', description: 'Time since the object was created.' },
];

const pathOf = (text: string): string[] => text.split('.').filter((part) => part !== '');

function scaleOf(version: Json): ScalePaths | undefined {
  const scale = at(version, 'subresources', 'scale');
  if (!isObject(scale)) return undefined;
  const selector = textAt(scale, 'labelSelectorPath');
  return {
    spec: pathOf(textAt(scale, 'specReplicasPath') ?? ''),
    status: pathOf(textAt(scale, 'statusReplicasPath') ?? ''),
    selector: selector === undefined ? undefined : pathOf(selector),
  };
}

function strategyOf(version: Json): Strategy {
  const selectable = listAt(version, 'selectableFields').map((item) => pathOf(textAt(item, 'jsonPath') ?? ''));
  return {
    generation: 'spec',
    statusFields: isObject(at(version, 'subresources', 'status')) ? ['status'] : [],
    createOnUpdate: false,
    unconditionalUpdate: false,
    selectableNames: selectable.map((path) => path.join('.')),
    selectable(object) {
      const out: Record<string, string> = {};
      for (const path of selectable) {
        const value = at(object, ...path);
        out[path.join('.')] = value === undefined || value === null ? '' : shown(value);
      }
      return out;
    },
  };
}

/** The schema with type and metadata as every object has them, for apply and OpenAPI. */
export function wholeSchema(schema: Schema): Schema {
  return {
    ...schema,
    properties: { apiVersion: { type: 'string' }, kind: { type: 'string' }, ...schema.properties, metadata: objectMeta },
  };
}

/** The served versions of a definition that passed its checks. */
export function servedVersions(crd: JsonObject): Served[] {
  const spec = objectAt(crd, 'spec');
  const names = objectAt(spec, 'names');
  const group = textAt(spec, 'group') ?? '';
  const plural = textAt(names, 'plural') ?? '';
  const versions = listAt(spec, 'versions');
  const storage = textAt(
    versions.find((item) => objectAt(item)['storage'] === true),
    'name',
  );
  const terminating = textAt(crd, 'metadata', 'deletionTimestamp') !== undefined;
  return versions
    .filter((item) => objectAt(item)['served'] === true)
    .map((item) => {
      const version = textAt(item, 'name') ?? '';
      const kind = textAt(names, 'kind') ?? '';
      const columns = listAt(item, 'additionalPrinterColumns');
      const visible = columns.length === 0 ? AGE_ONLY : columns;
      // Checked by the definition's validation before it was stored.
      const schema = copy(objectAt(item, 'schema', 'openAPIV3Schema')) as Schema;
      const scale = scaleOf(item);
      const strategy = strategyOf(item);
      const warning =
        objectAt(item)['deprecated'] === true
          ? textAt(item, 'deprecationWarning') || `${group}/${version} ${kind} is deprecated`
          : undefined;
      let fieldSchema: FieldSchema | undefined;
      let compiled: Compiled | undefined;
      return {
        group,
        version,
        kind,
        listKind: textAt(names, 'listKind') ?? `${kind}List`,
        plural,
        singular: textAt(names, 'singular') ?? '',
        shortNames: stringsAt(names, 'shortNames'),
        categories: stringsAt(names, 'categories'),
        namespaced: textAt(spec, 'scope') === 'Namespaced',
        storageKey: `${group}/${plural}`,
        storageVersion: `${group}/${storage ?? version}`,
        schema,
        get fieldSchema() {
          fieldSchema ??= schemaOf(schemaJson(wholeSchema(schema)));
          return fieldSchema;
        },
        strategy,
        columns: [NAME, ...visible.map(columnOf)],
        cells: cellsOf(visible),
        subresources: new Set([...(strategy.statusFields.length > 0 ? ['status'] : []), ...(scale === undefined ? [] : ['scale'])]),
        ...(scale === undefined ? {} : { scale }),
        strategicPatch: false,
        custom: {
          crd: textAt(crd, 'metadata', 'name') ?? '',
          terminating,
          get rules() {
            compiled ??= compileRules(schema, '');
            return compiled.rules;
          },
          ...(warning === undefined ? {} : { deprecationWarning: warning }),
        },
      };
    });
}
