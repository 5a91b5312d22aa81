import type { JsonObject } from '@kubenode/api-machinery/wire';
import type { Api } from './rig.ts';
import { settled } from './clock.ts';

/** A definition that uses most features of schemas. */
export const WIDGETS: JsonObject = {
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  metadata: { name: 'widgets.example.io' },
  spec: {
    group: 'example.io',
    scope: 'Namespaced',
    names: { plural: 'widgets', singular: 'widget', kind: 'Widget', listKind: 'WidgetList', shortNames: ['wd'], categories: ['all'] },
    versions: [
      {
        name: 'v1',
        served: true,
        storage: true,
        subresources: {
          status: {},
          scale: { specReplicasPath: '.spec.replicas', statusReplicasPath: '.status.replicas', labelSelectorPath: '.status.selector' },
        },
        selectableFields: [{ jsonPath: '.spec.color' }],
        additionalPrinterColumns: [
          { name: 'Color', type: 'string', jsonPath: '.spec.color' },
          { name: 'Replicas', type: 'integer', jsonPath: '.spec.replicas' },
          { name: 'Ready', type: 'string', jsonPath: '.status.conditions[?(@.type=="Ready")].status' },
          { name: 'Since', type: 'date', jsonPath: '.spec.since', priority: 1 },
          { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' },
        ],
        schema: {
          openAPIV3Schema: {
            type: 'object',
            description: 'A widget.',
            required: ['spec'],
            properties: {
              spec: {
                type: 'object',
                description: 'What is wanted.',
                required: ['color'],
                properties: {
                  color: { type: 'string', enum: ['red', 'green', 'blue'], description: 'The colour.' },
                  replicas: { type: 'integer', minimum: 0, maximum: 10, default: 1 },
                  max: { type: 'integer' },
                  since: { type: 'string', format: 'date-time' },
                  size: {
                    'x-kubernetes-int-or-string': true,
                    minimum: 0,
                    pattern: '^[0-9]+%$',
                    anyOf: [{ type: 'integer' }, { type: 'string' }],
                  },
                  tags: { type: 'array', maxItems: 3, 'x-kubernetes-list-type': 'set', items: { type: 'string', maxLength: 5 } },
                  parts: {
                    type: 'array',
                    'x-kubernetes-list-type': 'map',
                    'x-kubernetes-list-map-keys': ['name'],
                    items: {
                      type: 'object',
                      required: ['name'],
                      properties: { name: { type: 'string', minLength: 1, pattern: '^[a-z]+$' }, count: { type: 'integer', default: 2 } },
                    },
                  },
                  free: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true },
                  labels: { type: 'object', additionalProperties: { type: 'string' } },
                  nest: {
                    type: 'object',
                    properties: { a: { type: 'string', default: 'hello' }, b: { type: 'string', nullable: true }, c: { type: 'string' } },
                  },
                },
              },
              status: {
                type: 'object',
                properties: {
                  replicas: { type: 'integer' },
                  selector: { type: 'string' },
                  conditions: {
                    type: 'array',
                    'x-kubernetes-list-type': 'map',
                    'x-kubernetes-list-map-keys': ['type'],
                    items: {
                      type: 'object',
                      required: ['type', 'status'],
                      properties: { type: { type: 'string' }, status: { type: 'string' } },
                    },
                  },
                },
              },
            },
          },
        },
      },
    ],
  },
};

export const DEFINITION_PATH = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions';
export const WIDGET_PATH = '/apis/example.io/v1/namespaces/default/widgets';

export const widget = (name: string, spec: JsonObject = { color: 'red' }, metadata: JsonObject = {}): JsonObject => ({
  apiVersion: 'example.io/v1',
  kind: 'Widget',
  metadata: { name, ...metadata },
  spec,
});

export async function defineWidgets(api: Api): Promise<void> {
  const { status, body } = await api.create(DEFINITION_PATH, structuredClone(WIDGETS));
  if (status !== 201) throw new Error(JSON.stringify(body));
  await settled();
}

export const configMap = (name: string, data: JsonObject = {}, metadata: JsonObject = {}): JsonObject => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { name, ...metadata },
  data,
});

export const MAPS = '/api/v1/namespaces/default/configmaps';
