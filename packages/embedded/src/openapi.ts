import type { Json, JsonObject } from '@kubenode/api-machinery/wire';
import { wholeSchema } from './crd/served.ts';
import { etagOf, groupsOf } from './discovery.ts';
import type { Served } from './kinds/served.ts';
import { APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH } from './patching.ts';
import { nameOf, type Schema } from './schema/schema.ts';
import type { World } from './world.ts';

/** Component schemas of one document, by name. */
type Components = Map<string, JsonObject>;

const ref = (name: string): JsonObject => ({ $ref: `#/components/schemas/${name}` });

/** A schema as OpenAPI has it: named ones are put among the components and referred to. */
function emit(schema: Schema, components: Components): JsonObject {
  const name = nameOf(schema);
  if (name === undefined) return body(schema, components);
  if (!components.has(name)) {
    components.set(name, {});
    components.set(name, body(schema, components));
  }
  return { allOf: [ref(name)], ...(schema.description === undefined ? {} : { description: schema.description }) };
}

function body(schema: Schema, components: Components): JsonObject {
  const { properties, additionalProperties, items, ...rest } = schema;
  const out = JSON.parse(JSON.stringify(rest)) as JsonObject;
  if (properties !== undefined) {
    out['properties'] = Object.fromEntries(Object.entries(properties).map(([name, child]) => [name, emit(child, components)]));
  }
  if (additionalProperties !== undefined) {
    out['additionalProperties'] = typeof additionalProperties === 'object' ? emit(additionalProperties, components) : additionalProperties;
  }
  if (items !== undefined) out['items'] = emit(items, components);
  return out;
}

const gvk = (served: Served): JsonObject => ({ group: served.group, kind: served.kind, version: served.version });

/** `io.kubenode.v1alpha1.Machine`, or the name that the built-in schema has. */
function componentName(served: Served): string {
  return nameOf(served.schema) ?? `${served.group.split('.').toReversed().join('.')}.${served.version}.${served.kind}`;
}

function addKind(served: Served, components: Components): void {
  const name = componentName(served);
  const whole = served.custom === undefined ? served.schema : wholeSchema(served.schema);
  components.set(name, { ...body(whole, components), 'x-kubernetes-group-version-kind': [gvk(served)] });
  const list = name.replace(/[^.]*$/, served.listKind);
  components.set(list, {
    type: 'object',
    description: `A list of ${served.kind}.`,
    required: ['items'],
    properties: {
      apiVersion: { type: 'string' },
      kind: { type: 'string' },
      metadata: {
        type: 'object',
        properties: { continue: { type: 'string' }, remainingItemCount: { type: 'integer' }, resourceVersion: { type: 'string' } },
      },
      items: { type: 'array', items: ref(name) },
    },
    'x-kubernetes-group-version-kind': [{ ...gvk(served), kind: served.listKind }],
  });
}

const query = (name: string, type: 'string' | 'boolean' | 'integer'): JsonObject => ({
  name,
  in: 'query',
  schema: { type, uniqueItems: true },
});
const inPath = (name: string): JsonObject => ({ name, in: 'path', required: true, schema: { type: 'string', uniqueItems: true } });

const WRITES = [query('dryRun', 'string'), query('fieldManager', 'string'), query('fieldValidation', 'string')];
const READS = [
  query('allowWatchBookmarks', 'boolean'),
  query('continue', 'string'),
  query('fieldSelector', 'string'),
  query('labelSelector', 'string'),
  query('limit', 'integer'),
  query('resourceVersion', 'string'),
  query('resourceVersionMatch', 'string'),
  query('sendInitialEvents', 'boolean'),
  query('timeoutSeconds', 'integer'),
  query('watch', 'boolean'),
];

interface Operation {
  readonly action: string;
  readonly parameters: Json[];
  readonly accepts?: readonly string[];
  readonly status?: number;
}

function operation(served: Served, answer: string, { action, parameters, accepts, status = 200 }: Operation): JsonObject {
  const content = { 'application/json': { schema: ref(answer) } };
  return {
    'x-kubernetes-action': action,
    'x-kubernetes-group-version-kind': gvk(served),
    parameters,
    ...(accepts === undefined
      ? {}
      : {
          requestBody: {
            required: true,
            content: Object.fromEntries(
              accepts.map((type): [string, Json] => [type, { schema: action === 'patch' ? { type: 'object' } : ref(answer) }]),
            ),
          },
        }),
    responses: { [String(status)]: { description: 'OK', content } },
  };
}

function paths(served: Served): [string, JsonObject][] {
  const name = componentName(served);
  const list = name.replace(/[^.]*$/, served.listKind);
  const root = served.group === '' ? `/api/${served.version}` : `/apis/${served.group}/${served.version}`;
  const scope = served.namespaced ? `${root}/namespaces/{namespace}` : root;
  const patches = [APPLY_PATCH, JSON_PATCH, MERGE_PATCH, ...(served.strategicPatch ? [STRATEGIC_PATCH] : [])];
  const common = served.namespaced ? [inPath('namespace')] : [];
  const put = operation(served, name, { action: 'put', parameters: WRITES, accepts: ['application/json'] });
  const patch = operation(served, name, { action: 'patch', parameters: [...WRITES, query('force', 'boolean')], accepts: patches });
  const get = operation(served, name, { action: 'get', parameters: [] });
  const collection = {
    parameters: common,
    get: operation(served, list, { action: 'list', parameters: READS }),
    post: operation(served, name, { action: 'post', parameters: WRITES, accepts: ['application/json'], status: 201 }),
    delete: operation(served, name, { action: 'deletecollection', parameters: READS }),
  };
  const item = {
    parameters: [...common, inPath('name')],
    get,
    put,
    patch,
    delete: operation(served, name, {
      action: 'delete',
      parameters: [query('dryRun', 'string'), query('gracePeriodSeconds', 'integer'), query('propagationPolicy', 'string')],
    }),
  };
  const out: [string, JsonObject][] = [
    [`${scope}/${served.plural}`, collection],
    [`${scope}/${served.plural}/{name}`, item],
  ];
  if (served.subresources.has('status'))
    out.push([`${scope}/${served.plural}/{name}/status`, { parameters: [...common, inPath('name')], get, put, patch }]);
  if (served.namespaced) out.push([`${root}/${served.plural}`, { get: operation(served, list, { action: 'list', parameters: READS }) }]);
  return out;
}

function documentOf(served: readonly Served[]): JsonObject {
  const components: Components = new Map();
  for (const item of served) addKind(item, components);
  return {
    openapi: '3.0.0',
    info: { title: 'KubeNode embedded Kubernetes API', version: 'v1.33' },
    paths: Object.fromEntries(served.flatMap(paths)),
    components: { schemas: Object.fromEntries([...components].sort(([a], [b]) => (a < b ? -1 : 1))) },
  };
}

interface Document {
  readonly text: string;
  readonly etag: string;
}

const cache = new WeakMap<World, { revision: number; documents: Map<string, Document> }>();

function documents(world: World): Map<string, Document> {
  const kept = cache.get(world);
  if (kept?.revision === world.registry.revision) return kept.documents;
  const made = new Map<string, Document>();
  for (const { name, versions } of groupsOf(world)) {
    for (const { version, served } of versions) {
      const text = JSON.stringify(documentOf(served));
      made.set(name === '' ? `api/${version}` : `apis/${name}/${version}`, { text, etag: etagOf(text) });
    }
  }
  cache.set(world, { revision: world.registry.revision, documents: made });
  return made;
}

/** The index at `/openapi/v3`. Its addresses change with the content, so that clients may keep what they have. */
export function openapiIndex(world: World): Document {
  const entries = [...documents(world)].map(([path, { etag }]): [string, Json] => [
    path,
    { serverRelativeURL: `/openapi/v3/${path}?hash=${etag.replaceAll('"', '')}` },
  ]);
  const text = JSON.stringify({ paths: Object.fromEntries(entries) });
  return { text, etag: etagOf(text) };
}

/** The document of one group and version, `apis/kubenode.io/v1alpha1`. */
export function openapiDocument(world: World, path: string): Document | undefined {
  return documents(world).get(path);
}
