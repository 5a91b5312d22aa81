import type { TSchema } from 'typebox';
import { GROUP, VERSION } from '../kind.ts';
import type { JsonObject, KubeObject } from '../wire.ts';
import type { KindDefinition } from './definition.ts';

/** The CustomResourceDefinition of a kind. `spec` and `status` are its schemas as JSON. */
export function crdOf<Spec extends TSchema, Status extends TSchema>(
  definition: KindDefinition<Spec, Status>,
  { spec, status }: { spec: JsonObject; status: JsonObject },
): KubeObject & { spec: JsonObject } {
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
}
