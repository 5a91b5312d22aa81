import { Type } from 'typebox';
import { atomic, conditions } from './fields.ts';
import { defineKind } from './kind/definition.ts';

export const Freezes = defineKind({
  kind: 'Freeze',
  plural: 'freezes',
  namespaced: false,
  description: 'Stops forward disruption at once, without Git or hub. It only tightens; deleting it lifts it.',
  spec: Type.Object({
    stops: Type.Optional(
      atomic(Type.Enum(['Change', 'Repair', 'Restore']), {
        minItems: 1,
        description: 'default Change and Repair; Restore only if it is named',
      }),
    ),
    pools: Type.Optional(
      atomic(Type.String({ minLength: 1 }), {
        minItems: 1,
        description: 'only these pools; absent: the whole cell. Status.PoolsFound reports one that has no Machine',
      }),
    ),
    reason: Type.Optional(Type.String()),
  }),
  status: Type.Object({ observedGeneration: Type.Optional(Type.Integer()), conditions: conditions() }),
  columns: [
    { name: 'Stops', type: 'string', jsonPath: '.spec.stops' },
    { name: 'Pools', type: 'string', jsonPath: '.spec.pools' },
    { name: 'PoolsFound', type: 'string', jsonPath: '.status.conditions[?(@.type=="PoolsFound")].status' },
    { name: 'Reason', type: 'string', jsonPath: '.spec.reason' },
  ],
});
export type Freeze = ReturnType<typeof Freezes.parse>;
