import { Type } from 'typebox';
import { atomic, conditions, seconds, stringMap, values } from './fields.ts';
import { defineKind } from './kind.ts';
import { machineTemplateSpec } from './machine.ts';

export const MachineSets = defineKind({
  kind: 'MachineSet',
  plural: 'machinesets',
  shortNames: ['mset'],
  namespaced: true,
  description: 'N machines of one template from an infra provider.',
  spec: Type.Object({
    replicas: Type.Optional(Type.Integer({ minimum: 0, maximum: 2000, default: 1 })),
    provider: Type.Object({ name: Type.String({ minLength: 1 }), config: Type.Optional(values("the provider's own")) }),
    failureDomains: Type.Optional(atomic(Type.String({ minLength: 1 }), { description: 'machines are spread over these, evenly' })),
    template: Type.Optional(
      Type.Object({
        metadata: Type.Optional(Type.Object({ labels: Type.Optional(stringMap('labels of the Machines')) })),
        ...machineTemplateSpec,
      }),
    ),
    maxInFlight: Type.Optional(Type.Integer({ minimum: 1, default: 10, description: 'machines being made at once' })),
    minReadySeconds: Type.Optional(seconds('Ready for this long counts as available', { default: 0 })),
    paused: Type.Optional(Type.Boolean()),
    unitDigest: Type.Optional(Type.String()),
  }),
  status: Type.Object({
    replicas: Type.Optional(Type.Integer()),
    readyReplicas: Type.Optional(Type.Integer()),
    availableReplicas: Type.Optional(Type.Integer()),
    selector: Type.Optional(Type.String()),
    observedGeneration: Type.Optional(Type.Integer()),
    conditions: conditions(),
  }),
  scale: { specReplicasPath: '.spec.replicas', statusReplicasPath: '.status.replicas', labelSelectorPath: '.status.selector' },
  columns: [
    { name: 'Desired', type: 'integer', jsonPath: '.spec.replicas' },
    { name: 'Current', type: 'integer', jsonPath: '.status.replicas' },
    { name: 'Ready', type: 'integer', jsonPath: '.status.readyReplicas' },
    { name: 'Provider', type: 'string', jsonPath: '.spec.provider.name', priority: 1 },
  ],
});
export type MachineSet = ReturnType<typeof MachineSets.parse>;
