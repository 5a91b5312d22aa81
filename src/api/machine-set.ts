import { Type } from 'typebox';
import { surroundings, type ErrorTable } from './errors.ts';
import { atomic, conditions, countOrPercent, labels, seconds, values } from './fields.ts';
import { defineKind } from './kind/definition.ts';
import { machineTemplateSpec } from './machine/schema.ts';

/** Codes in `status.createFailure` for an error in the set itself, not for something full or away: no machine will ever be made of it. */
export const UNMAKEABLE = {
  UnknownProvider: surroundings('a provider that the cell does not have'),
  InvalidConfig: surroundings('a provider.config that the provider cannot use'),
} as const satisfies ErrorTable;

export const MachineSets = defineKind({
  kind: 'MachineSet',
  plural: 'machinesets',
  shortNames: ['mset'],
  namespaced: true,
  description: 'N machines of one template from an infra provider.',
  spec: Type.Object({
    replicas: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: 2000,
        description: 'left out, another manager may set it: the set keeps what it has, a new one has none',
      }),
    ),
    provider: Type.Object({ name: Type.String({ minLength: 1 }), config: Type.Optional(values("the provider's own")) }),
    failureDomains: Type.Optional(atomic(Type.String({ minLength: 1 }), { description: 'machines are spread over these, evenly' })),
    template: Type.Optional(
      Type.Object({
        metadata: Type.Optional(Type.Object({ labels: Type.Optional(labels('labels of the Machines')) })),
        ...machineTemplateSpec,
      }),
    ),
    maxInFlight: Type.Optional(Type.Integer({ minimum: 1, default: 10, description: 'machines being made at once' })),
    maxRetiring: Type.Optional(
      countOrPercent('at most so many of its machines are being retired or deleted at once; 10% where it is left out'),
    ),
    readyWithinSeconds: Type.Optional(seconds('a machine that was not Ready within this time has failed', { default: 1800, minimum: 1 })),
    maxFailed: Type.Optional(
      Type.Integer({ minimum: 1, default: 3, description: 'with so many machines that failed to become Ready no more are made' }),
    ),
    minReadySeconds: Type.Optional(seconds('Ready for this long counts as available', { default: 0 })),
    paused: Type.Optional(Type.Boolean()),
    unitDigest: Type.Optional(Type.String()),
  }),
  status: Type.Object({
    replicas: Type.Optional(Type.Integer()),
    readyReplicas: Type.Optional(Type.Integer()),
    availableReplicas: Type.Optional(Type.Integer()),
    retiringReplicas: Type.Optional(Type.Integer({ description: 'marked to go, and not deleted yet' })),
    deletingReplicas: Type.Optional(Type.Integer({ description: 'being deleted; they are not among `replicas`' })),
    keptReplicas: Type.Optional(Type.Integer({ description: 'how many it keeps while spec.replicas is left out' })),
    making: Type.Optional(
      atomic(Type.String({ minLength: 1, maxLength: 63 }), {
        maxItems: 2000,
        description: 'names for machines that are to be made; each is noted before its machine is, until that is seen',
      }),
    ),
    createFailure: Type.Optional(Type.String({ maxLength: 256, description: 'code of the error for which no machine can be made now' })),
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

/** How many machines it is to have by its own number; where it names none, as many as it keeps. */
export const wantedReplicas = ({ spec, status }: Pick<MachineSet, 'spec' | 'status'>): number =>
  spec.replicas ?? status?.keptReplicas ?? status?.replicas ?? 0;
