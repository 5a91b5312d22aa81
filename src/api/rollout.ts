import { Type, type Static } from 'typebox';
import { atomic, conditions, listMap, seconds, time } from './fields.ts';
import { defineKind } from './kind/definition.ts';

/** Limit of one Rollout. */
export const MOST_UNITS = 500;
/** Clusters of one unit of a Rollout. */
export const MOST_PLACEMENTS = 500;

/** One unit on its way: from what to what, on which clusters. Immutable once written. */
export const rolloutUnit = Type.Object({
  unit: Type.String({ description: 'Kind/[namespace/]name' }),
  clusters: listMap(
    Type.Object({
      name: Type.String(),
      digest: Type.Optional(Type.String({ description: 'absent: the unit is removed' })),
      from: Type.Optional(Type.String({ description: 'digest wanted before; absent: the unit is new here' })),
      commit: Type.Optional(
        Type.String({
          description:
            'that renders `digest`, where `spec.commit` does not: the content of the commit waits here, since too many machines would go',
        }),
      ),
      machines: Type.Optional(
        Type.Integer({
          minimum: 0,
          maximum: 2000,
          description:
            'of a MachineSet: as many as were counted for the limits of deletions; where the cell is to have more, nothing changes there',
        }),
      ),
      atMost: Type.Optional(
        Type.Integer({
          minimum: 0,
          maximum: 2000,
          description:
            'of a MachineSet: it changes here where it has no more machines than these, so that no more go than the limits of deletions allow; absent: as it is',
        }),
      ),
    }),
    ['name'],
    { maxItems: MOST_PLACEMENTS },
  ),
});
export type RolloutUnit = Static<typeof rolloutUnit>;

export const UNIT_PHASES = ['Pending', 'Progressing', 'Soaking', 'Halted', 'Superseded', 'Done'] as const;
type UnitPhase = (typeof UNIT_PHASES)[number];

/** Whether a Rollout, or one of its units, goes no further. */
export const isOver = (phase: UnitPhase | undefined): phase is 'Done' | 'Superseded' => phase === 'Done' || phase === 'Superseded';

export const CLUSTER_PHASES = ['Pending', 'Applying', 'Waiting', 'Verified', 'Halted', 'Blocked', 'Superseded', 'Left'] as const;

export const rolloutUnitStatus = Type.Object({
  unit: Type.String(),
  phase: Type.Enum([...UNIT_PHASES]),
  lane: Type.Enum(['Forward', 'Restore', 'Mixed'], { description: 'Restore: back to a digest that was verified there' }),
  stage: Type.Optional(Type.String({ description: 'stage under way' })),
  soakUntil: Type.Optional(time()),
  pausedBy: Type.Optional(Type.String({ description: 'Rollout whose pause blocks a digest of this unit' })),
  revoked: Type.Optional(
    Type.Boolean({ description: 'the digest is revoked on a cluster: no restore leads to it until a human retries this Rollout' }),
  ),
  reason: Type.Optional(Type.String()),
  message: Type.Optional(Type.String({ maxLength: 1024 })),
  cluster: Type.Optional(Type.String({ description: 'the cluster whose own message `message` repeats' })),
  clusters: Type.Optional(
    listMap(
      Type.Object({
        name: Type.String(),
        phase: Type.Enum([...CLUSTER_PHASES]),
        lane: Type.Enum(['Forward', 'Restore']),
        appliedAt: Type.Optional(time()),
        verifiedAt: Type.Optional(time()),
        halted: Type.Optional(
          Type.Boolean({ description: 'its cell halted this digest, also after there was evidence or before it left: a retry lifts that' }),
        ),
        message: Type.Optional(Type.String({ maxLength: 1024 })),
      }),
      ['name'],
      { maxItems: MOST_PLACEMENTS },
    ),
  ),
});
export type RolloutUnitStatus = Static<typeof rolloutUnitStatus>;

const unchanged = (field: string): string => `self.spec.${field} == oldSelf.spec.${field}`;
const textOf = (object: string, field: string): string => `(has(${object}.spec.${field}) ? ${object}.spec.${field} : '')`;
const unchangedText = (field: string): string => `${textOf('self', field)} == ${textOf('oldSelf', field)}`;

export const Rollouts = defineKind({
  kind: 'Rollout',
  plural: 'rollouts',
  shortNames: ['ro'],
  namespaced: false,
  description: 'The units that one commit changed, on their way through the stages.',
  spec: Type.Object({
    fleet: Type.String(),
    commit: Type.String({ minLength: 1 }),
    subject: Type.Optional(Type.String()),
    author: Type.Optional(Type.String()),
    sequence: Type.Integer({ minimum: 1, description: 'order of the rollouts of one fleet' }),
    stages: listMap(
      Type.Object({
        name: Type.String(),
        clusters: atomic(Type.String()),
        soakSeconds: seconds('after its last cluster'),
        maxClusters: Type.Integer({ minimum: 1 }),
      }),
      ['name'],
      { description: 'membership and policy as they were; clusters in the order they go' },
    ),
    units: listMap(rolloutUnit, ['unit'], { maxItems: MOST_UNITS }),
    paused: Type.Optional(
      Type.Boolean({ description: 'forward lanes of these digests stop where they are, in newer Rollouts too; restore goes on' }),
    ),
    retry: Type.Optional(Type.String({ description: 'a new value lifts halts and revocations of these digests: a human lets them go on' })),
  }),
  status: Type.Object({
    phase: Type.Optional(Type.Enum([...UNIT_PHASES])),
    units: Type.Optional(listMap(rolloutUnitStatus, ['unit'], { maxItems: MOST_UNITS })),
    retried: Type.Optional(Type.String({ description: 'spec.retry that was carried out on every cluster' })),
    completedAt: Type.Optional(time()),
    observedGeneration: Type.Optional(Type.Integer()),
    conditions: conditions(),
  }),
  rules: [
    {
      rule: [...['fleet', 'commit', 'sequence', 'stages', 'units'].map(unchanged), ...['subject', 'author'].map(unchangedText)].join(
        ' && ',
      ),
      message: 'only paused and retry may change',
      fieldPath: '.spec',
    },
  ],
  columns: [
    { name: 'Fleet', type: 'string', jsonPath: '.spec.fleet' },
    { name: 'Phase', type: 'string', jsonPath: '.status.phase' },
    { name: 'Commit', type: 'string', jsonPath: '.spec.commit' },
    { name: 'Subject', type: 'string', jsonPath: '.spec.subject' },
  ],
});
export type Rollout = ReturnType<typeof Rollouts.parse>;
