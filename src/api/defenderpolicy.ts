import { Type, type Static } from 'typebox';
import { atomic, conditions, countOrPercent, listMap, name } from './fields.ts';
import { defineKind } from './kind.ts';

export const limit = Type.Object({
  name: name('unique in the policy; verdicts name `<policy>/<limit>`'),
  scope: Type.Enum(['Cluster', 'Pool', 'Set'], { description: 'one budget for the cell, one for each pool, one for each MachineSet' }),
  pools: Type.Optional(
    atomic(Type.String({ minLength: 1 }), { minItems: 1, description: 'scope Pool or Set: only these pools; absent: every pool' }),
  ),
  maxUnavailable: countOrPercent('of the machines in the scope: |unavailable ∪ reserved| stays at or below this; 0 means none'),
});
export type Limit = Static<typeof limit>;

export const DefenderPolicies = defineKind({
  kind: 'DefenderPolicy',
  plural: 'defenderpolicies',
  shortNames: ['defpol'],
  namespaced: false,
  description: 'Limits on disruption. All limits of all policies must have room.',
  spec: Type.Object({ limits: listMap(limit, ['name'], { maxItems: 100 }), unitDigest: Type.Optional(Type.String()) }),
  status: Type.Object({ observedGeneration: Type.Optional(Type.Integer()), conditions: conditions() }),
  columns: [{ name: 'Accepted', type: 'string', jsonPath: '.status.conditions[?(@.type=="Accepted")].status' }],
  check(object) {
    return object.spec.limits.flatMap((limit, index) =>
      limit.scope === 'Cluster' && limit.pools !== undefined
        ? [{ path: `spec.limits[${index}].pools`, message: 'must not be set for scope "Cluster"' }]
        : [],
    );
  },
});
export type DefenderPolicy = ReturnType<typeof DefenderPolicies.parse>;
