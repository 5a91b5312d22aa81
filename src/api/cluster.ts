import { Type, type Static } from 'typebox';
import { atomic, conditions, listMap, time } from './fields.ts';
import { defineKind } from './kind/definition.ts';

/** An object that sync applied. Prune may delete only these. */
export const inventoryEntry = Type.Object({
  apiVersion: Type.String(),
  kind: Type.String(),
  namespace: Type.Optional(Type.String()),
  name: Type.String(),
  uid: Type.Optional(Type.String({ description: 'absent between the intent to apply and its answer' })),
});
export type InventoryEntry = Static<typeof inventoryEntry>;

/** What the hub knows of one unit on this cluster (docs/protocols.md#e1 to #e6). */
export const unitStatus = Type.Object({
  unit: Type.String({ description: 'Kind/[namespace/]name' }),
  fleet: Type.String(),
  digest: Type.Optional(
    Type.String({ description: 'last digest that was wholly applied; absent while the first is under way or after removal' }),
  ),
  begun: Type.Optional(
    Type.String({ description: 'digest whose objects are being applied over `digest`, or "Removal"; absent when no apply is under way' }),
  ),
  commit: Type.Optional(Type.String({ description: 'commit the digest came with' })),
  appliedAt: Type.Optional(time()),
  lane: Type.Optional(Type.Enum(['Forward', 'Restore'], { description: 'how `digest` came here' })),
  evidence: Type.Optional(Type.String({ description: 'equals `digest` once there was evidence for it since it was last applied here' })),
  verified: Type.Optional(
    atomic(
      Type.Object({
        digest: Type.String(),
        commit: Type.String(),
        at: time(),
        heldSeconds: Type.Optional(
          Type.Integer({
            minimum: 0,
            description: 'this digest ran here with evidence for so long before `at`; revoked evidence does not count',
          }),
        ),
        order: Type.Optional(
          Type.Integer({
            minimum: 1,
            description: 'rank by when it first had evidence here: the higher of two is the newer content',
          }),
        ),
        upheld: Type.Optional(
          Type.Boolean({
            description: 'other clusters went back from it while it was wanted here with evidence: their revocation does not count here',
          }),
        ),
      }),
      { maxItems: 10, description: 'digests with evidence here, newest first' },
    ),
  ),
  revoked: Type.Optional(
    atomic(Type.String(), {
      maxItems: 20,
      description: 'digests that a halt or a restore left; they go forward through the stages only, until a human retries their rollout',
    }),
  ),
  halt: Type.Optional(
    Type.Object(
      {
        digest: Type.String(),
        message: Type.String({ maxLength: 1024, description: 'the message of the cell' }),
        since: time('when the hub saw it first'),
        refused: Type.Optional(
          Type.Boolean({ description: 'the cell refuses it, which no retry there can change: it ends also with evidence for it there' }),
        ),
      },
      {
        description:
          'the cell halted `digest`: it begins on no cluster until a human retries it, other content replaces it here, or it is wanted nowhere; the record stays where the cluster is away, paused, or has left the fleet',
      },
    ),
  ),
  writtenAt: Type.Optional(
    time(
      'when what was begun here last was begun, later than any before: what the cell has with a later one was given to it by a hub that knew more',
    ),
  ),
  added: Type.Optional(
    Type.Object(
      {
        commit: Type.String({ description: 'that brought the unit here' }),
        verifiedAt: Type.Optional(time('of the first evidence for any content of it here')),
      },
      {
        description:
          'the unit is new here: absent once what that commit added is verified on every cluster for as long as the longest soak. Until then its removal is a going back',
      },
    ),
  ),
  removal: Type.Optional(
    Type.Object(
      {
        lane: Type.Enum(['Forward', 'Restore'], { description: 'Restore: what was just added is taken back' }),
        at: Type.Optional(time('when it was completely removed here: its soak counts from then')),
        after: Type.Optional(time('the last time that was recorded of the unit before')),
      },
      { description: 'of a removal that is under way, or is over and soaks' },
    ),
  ),
  retried: Type.Optional(Type.String({ description: 'last `spec.retry` of a Rollout that was carried out here' })),
  inventory: Type.Optional(atomic(inventoryEntry, { maxItems: 64 })),
});
export type UnitStatus = Static<typeof unitStatus>;

/** Something in the cell that a person should know of, as the cell's own controllers report it in a condition. */
export const attention = Type.Object({
  object: Type.String({ maxLength: 512, description: 'Kind/[namespace/]name' }),
  type: Type.String({ maxLength: 64, description: 'of its condition' }),
  reason: Type.String({ maxLength: 256 }),
  message: Type.String({ maxLength: 256 }),
  since: time("when the condition became so, by the cell's clock"),
});
export type Attention = Static<typeof attention>;
export const ATTENTION_LIMIT = 20;

/** An object in the cell with the label of a Fleet that is neither in a record here nor in a commit in force. */
export const orphan = Type.Object({
  object: Type.String({ maxLength: 512, description: 'Kind/[namespace/]name' }),
  fleet: Type.String({ maxLength: 253, description: 'name in its label `kubenode.io/fleet`' }),
  reason: Type.Enum(['NotDeclared', 'FleetAbsent'], { description: 'FleetAbsent: there is no such Fleet' }),
});
export type Orphan = Static<typeof orphan>;
export const ORPHANS_LIMIT = 20;

const orphans = Type.Object(
  {
    total: Type.Integer({ minimum: 1 }),
    first: atomic(orphan, { maxItems: ORPHANS_LIMIT, description: 'by name' }),
  },
  {
    description:
      'what was applied there by a hub that knew more, or by a Fleet that is gone: KubeNode neither changes nor removes it; as it was when the cluster was last reached',
  },
);
export type Orphans = Static<typeof orphans>;

/** As many MachineSets of one cluster as the hub reports. */
export const MOST_SETS = 500;

const setMachines = Type.Object({
  set: Type.String({ description: 'namespace/name' }),
  replicas: Type.Integer({ minimum: 0, description: 'machines that are not being deleted' }),
  wanted: Type.Integer({ minimum: 0, description: 'how many of these there are to be' }),
  deleting: Type.Optional(Type.Integer({ minimum: 0, description: 'beside `replicas`' })),
});
export type SetMachines = Static<typeof setMachines>;

export const Clusters = defineKind({
  kind: 'Cluster',
  plural: 'clusters',
  shortNames: ['kcl'],
  namespaced: false,
  description: 'A business cluster that KubeNode manages.',
  spec: Type.Object({
    type: Type.Optional(Type.Enum(['External'], { default: 'External', description: 'External: reached by a kubeconfig' })),
    kubeconfigSecret: Type.Optional(
      Type.Object(
        { namespace: Type.Optional(Type.String()), name: Type.String({ minLength: 1 }) },
        { description: 'Secret on the hub with key `kubeconfig`; default kubenode-system/cluster-<name>' },
      ),
    ),
    paused: Type.Optional(Type.Boolean({ description: 'the hub applies nothing here' })),
    cellUID: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 128,
        description:
          'UID of the Namespace kube-system of the cluster that is meant; default: of the one that the hub reached first. Set it where a cluster was made again',
      }),
    ),
    unitDigest: Type.Optional(Type.String()),
  }),
  status: Type.Object({
    epoch: Type.Optional(
      Type.Integer({
        minimum: 0,
        description: 'term of the hub that last began to decide: one with a lower number records nothing here any more',
      }),
    ),
    units: Type.Optional(listMap(unitStatus, ['unit'], { maxItems: 500 })),
    cellUID: Type.Optional(
      Type.String({ maxLength: 128, description: 'UID of the Namespace kube-system of the cluster that was reached' }),
    ),
    machines: Type.Optional(
      Type.Object({
        total: Type.Integer(),
        ready: Type.Integer(),
        sets: Type.Optional(
          listMap(setMachines, ['set'], {
            maxItems: MOST_SETS,
            description: 'its MachineSets; absent where there are more, and then no commit lets a machine of this cluster go',
          }),
        ),
      }),
    ),
    attention: Type.Optional(
      atomic(attention, {
        maxItems: ATTENTION_LIMIT,
        description: 'what in the cell needs a person, the oldest first; as it was when the cluster was last reached',
      }),
    ),
    orphans: Type.Optional(orphans),
    observedGeneration: Type.Optional(Type.Integer()),
    conditions: conditions(),
  }),
  columns: [
    { name: 'Reachable', type: 'string', jsonPath: '.status.conditions[?(@.type=="Reachable")].status' },
    { name: 'Machines', type: 'integer', jsonPath: '.status.machines.total' },
    { name: 'Ready', type: 'integer', jsonPath: '.status.machines.ready' },
  ],
});
export type Cluster = ReturnType<typeof Clusters.parse>;
