import type { Json, JsonObject } from '@kubenode/api-machinery/wire';
import { invalid, required, unsupported, type FieldProblem } from '../field-error.ts';
import { at, equal, isObject, listAt, metaOf, objectAt, stringsAt, textAt } from '../json.ts';
import { compilePath } from '../json-path.ts';
import type { Builtin } from '../kinds/builtin.ts';
import { column, NAME } from '../kinds/columns.ts';
import { conditions, wholeObject } from '../kinds/object-meta.ts';
import { checkLabelName, checkSubdomain } from '../names.ts';
import { atomicList, fields, flag, free, text, whole } from '../schema/schema.ts';
import { checkStructural } from './structural.ts';

/** Kept on a definition under deletion until its objects are gone. */
export const CLEANUP = 'customresourcecleanup.apiextensions.k8s.io';

const names = fields(
  {
    categories: atomicList(text(), 'Grouped resources, such as "all".'),
    kind: text('Kind of the objects.'),
    listKind: text('Kind of lists of them.'),
    plural: text('Name of the resource in paths.'),
    shortNames: atomicList(text(), 'Short names for people.'),
    singular: text('Singular name.'),
  },
  'Names of the resource.',
);

const printColumn = fields({
  description: text(),
  format: text(),
  jsonPath: text(),
  name: text(),
  priority: whole(undefined, 'int32'),
  type: text(),
});

const version = fields(
  {
    additionalPrinterColumns: atomicList(printColumn, 'Columns that kubectl get shows.'),
    deprecated: flag(),
    deprecationWarning: text(),
    name: text('Name of the version.'),
    schema: fields({ openAPIV3Schema: free('Structural schema of the objects.') }),
    selectableFields: atomicList(fields({ jsonPath: text() }), 'Fields that field selectors may name.'),
    served: flag('Whether the version is served.'),
    storage: flag('Whether objects are stored in this version; true for exactly one.'),
    subresources: fields({
      scale: fields({ labelSelectorPath: text(), specReplicasPath: text(), statusReplicasPath: text() }),
      status: free(),
    }),
  },
  'One version of the resource.',
);

const LIMITED = new Set(['string', 'integer', 'number', 'boolean', 'date']);

function checkColumns(item: Json, path: string): FieldProblem[] {
  const out: FieldProblem[] = [];
  for (const [index, column] of listAt(item, 'additionalPrinterColumns').entries()) {
    const where = `${path}.additionalPrinterColumns[${index}]`;
    if ((textAt(column, 'name') ?? '') === '') out.push(required(`${where}.name`));
    const type = textAt(column, 'type') ?? '';
    if (!LIMITED.has(type)) out.push(invalid(`${where}.type`, type, 'must be one of boolean,date,integer,number,string'));
    const jsonPath = textAt(column, 'jsonPath') ?? '';
    if (jsonPath === '') out.push(required(`${where}.jsonPath`));
    else if (compilePath(jsonPath) === undefined) out.push(invalid(`${where}.jsonPath`, jsonPath, 'is not a simple JSONPath'));
  }
  for (const [index, field] of listAt(item, 'selectableFields').entries()) {
    const jsonPath = textAt(field, 'jsonPath') ?? '';
    if (!/^(\.[A-Za-z_][\w-]*)+$/.test(jsonPath)) {
      out.push(invalid(`${path}.selectableFields[${index}].jsonPath`, jsonPath, 'is an invalid path: it must be a simple path of fields'));
    }
  }
  const scale = at(item, 'subresources', 'scale');
  if (isObject(scale)) {
    for (const name of ['specReplicasPath', 'statusReplicasPath', 'labelSelectorPath']) {
      const given = textAt(scale, name);
      if (given === undefined && name !== 'labelSelectorPath') out.push(required(`${path}.subresources.scale.${name}`));
      if (given !== undefined && !/^(\.[A-Za-z_][\w-]*)+$/.test(given)) {
        out.push(invalid(`${path}.subresources.scale.${name}`, given, 'should be a json path without array notation'));
      }
    }
  }
  return out;
}

function checkVersions(object: JsonObject): FieldProblem[] {
  const out: FieldProblem[] = [];
  const versions = listAt(object, 'spec', 'versions');
  if (versions.length === 0) return [required('spec.versions', 'must have at least one version')];
  const seen = new Set<string>();
  const [first, ...others] = versions.map((item) => at(item, 'schema', 'openAPIV3Schema'));
  // The real server keeps one schema for all versions at the top.
  const shared = first !== undefined && others.every((schema) => equal(schema, first));
  if (shared) out.push(...checkStructural(first, 'spec.validation.openAPIV3Schema'));
  for (const [index, item] of versions.entries()) {
    const path = `spec.versions[${index}]`;
    const name = textAt(item, 'name') ?? '';
    for (const line of checkLabelName(name)) out.push(invalid(`${path}.name`, name, line));
    if (seen.has(name)) out.push(invalid(`${path}.name`, name, 'must be unique'));
    seen.add(name);
    const schema = at(item, 'schema', 'openAPIV3Schema');
    if (schema === undefined) out.push(required(`${path}.schema.openAPIV3Schema`, 'schemas are required'));
    else if (!shared) out.push(...checkStructural(schema, `${path}.schema.openAPIV3Schema`));
    out.push(...checkColumns(item, path));
  }
  const stored = versions.filter((item) => objectAt(item)['storage'] === true).length;
  if (stored !== 1)
    out.push(
      invalid(
        'spec.versions',
        versions.map((item) => textAt(item, 'name') ?? ''),
        'must have exactly one version marked as storage version',
      ),
    );
  const named = new Set(versions.map((item) => textAt(item, 'name') ?? ''));
  for (const [index, name] of stringsAt(object, 'status', 'storedVersions').entries()) {
    if (!named.has(name)) out.push(invalid(`status.storedVersions[${index}]`, name, 'must appear in spec.versions'));
  }
  return out;
}

function validate(object: JsonObject, old: JsonObject | undefined): FieldProblem[] {
  const out: FieldProblem[] = [];
  const group = textAt(object, 'spec', 'group') ?? '';
  const plural = textAt(object, 'spec', 'names', 'plural') ?? '';
  const name = textAt(object, 'metadata', 'name') ?? '';
  if (old === undefined && name !== `${plural}.${group}`)
    out.push(invalid('metadata.name', name, 'must be spec.names.plural+"."+spec.group'));
  if (group === '') out.push(required('spec.group'));
  else for (const line of checkSubdomain(group)) out.push(invalid('spec.group', group, line));
  if (group !== '' && !group.includes('.')) out.push(invalid('spec.group', group, 'should be a domain with at least one dot'));
  const scope = textAt(object, 'spec', 'scope') ?? '';
  if (scope !== 'Cluster' && scope !== 'Namespaced') out.push(unsupported('spec.scope', scope, ['Cluster', 'Namespaced']));
  for (const field of ['plural', 'kind', 'singular', 'listKind']) {
    const value = textAt(object, 'spec', 'names', field) ?? '';
    if (value === '') out.push(required(`spec.names.${field}`));
    else for (const line of checkLabelName(value.toLowerCase())) out.push(invalid(`spec.names.${field}`, value, line));
  }
  if (textAt(object, 'spec', 'conversion', 'strategy') === 'Webhook') {
    out.push(unsupported('spec.conversion.strategy', 'Webhook', ['None']));
  }
  out.push(...checkVersions(object));
  if (old !== undefined && established(old)) {
    for (const path of [['scope'], ['names', 'kind'], ['names', 'plural'], ['group']]) {
      if (!equal(at(object, 'spec', ...path), at(old, 'spec', ...path))) {
        out.push(invalid(`spec.${path.join('.')}`, at(object, 'spec', ...path), 'field is immutable'));
      }
    }
  }
  return out;
}

export function established(object: JsonObject): boolean {
  return listAt(object, 'status', 'conditions').some((item) => textAt(item, 'type') === 'Established' && textAt(item, 'status') === 'True');
}

export const customResourceDefinition: Builtin = {
  group: 'apiextensions.k8s.io',
  version: 'v1',
  kind: 'CustomResourceDefinition',
  plural: 'customresourcedefinitions',
  namespaced: false,
  shortNames: ['crd', 'crds'],
  categories: ['api-extensions'],
  schema: wholeObject(
    'io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition',
    'A resource of your own, served as <.spec.names.plural>.<.spec.group>.',
    {
      spec: fields(
        {
          conversion: fields({ strategy: text('None: versions differ only in apiVersion.'), webhook: free() }),
          group: text('API group of the resource.'),
          names,
          preserveUnknownFields: flag(),
          scope: text('Cluster or Namespaced.'),
          versions: atomicList(version, 'Versions of the resource.'),
        },
        'What is to be served.',
        ['group', 'names', 'scope', 'versions'],
      ),
      status: fields(
        {
          acceptedNames: names,
          conditions: conditions({ observedGeneration: whole() }),
          observedGeneration: whole(),
          storedVersions: atomicList(text()),
        },
        'What is served.',
      ),
    },
    ['spec'],
  ),
  empty: {
    spec: { group: '', names: { plural: '', kind: '' }, scope: '', versions: null },
    status: { conditions: null, acceptedNames: { plural: '', kind: '' }, storedVersions: null },
  },
  subresources: ['status'],
  columns: [NAME, column('Created At', 'When the object was created.', 'date')],
  cells: (object) => [textAt(object, 'metadata', 'name') ?? '', textAt(object, 'metadata', 'creationTimestamp') ?? ''],
  strategy: {
    generation: 'spec',
    statusFields: ['status'],
    unconditionalUpdate: false,
    defaults(object) {
      const spec = objectAt(object, 'spec');
      const given = spec['names'];
      if (isObject(given)) {
        given['singular'] ??= (textAt(given, 'kind') ?? '').toLowerCase();
        given['listKind'] ??= `${textAt(given, 'kind') ?? ''}List`;
      }
      spec['conversion'] ??= { strategy: 'None' };
      if (spec['preserveUnknownFields'] === false) delete spec['preserveUnknownFields'];
      object['spec'] = spec;
      metaOf(object);
    },
    prepareCreate(object) {
      const storage = listAt(object, 'spec', 'versions').find((item) => objectAt(item)['storage'] === true);
      object['status'] = {
        conditions: [],
        acceptedNames: { plural: '', kind: '' },
        storedVersions: storage === undefined ? [] : [textAt(storage, 'name') ?? ''],
      };
    },
    prepareUpdate(object, old, subresource) {
      if (subresource !== '') return;
      const storage = textAt(
        listAt(object, 'spec', 'versions').find((item) => objectAt(item)['storage'] === true),
        'name',
      );
      const stored = stringsAt(old, 'status', 'storedVersions');
      if (storage === undefined || stored.includes(storage)) return;
      object['status'] = { ...objectAt(object, 'status'), storedVersions: [...stored, storage] };
    },
    validate,
    startDeletion(object, now) {
      const metadata = metaOf(object);
      if (metadata['deletionTimestamp'] !== undefined) return false;
      metadata['deletionTimestamp'] = now;
      metadata['finalizers'] = [...new Set([...stringsAt(metadata, 'finalizers'), CLEANUP])];
      const status = objectAt(object, 'status');
      const terminating = {
        type: 'Terminating',
        status: 'True',
        reason: 'InstanceDeletionPending',
        message: 'CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon',
        lastTransitionTime: now,
      };
      object['status'] = {
        ...status,
        conditions: [...listAt(status, 'conditions').filter((item) => textAt(item, 'type') !== 'Terminating'), terminating],
      };
      return true;
    },
  },
};
