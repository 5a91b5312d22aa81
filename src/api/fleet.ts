import { Type, type Static } from 'typebox';
import { atomic, conditions, labelSelector, listMap, name, seconds, time } from './fields.ts';
import { celRules } from './kind.ts';
import { defineKind } from './kind/definition.ts';

export const ISOLATIONS = ['process', 'namespaces'] as const;

const maxMachines = (description: string) => Type.String({ pattern: '^([0-9]|[1-9][0-9]|100)%$', description });

export const stage = Type.Object({
  name: name(),
  clusterSelector: labelSelector(),
  soakSeconds: Type.Optional(seconds('after the last cluster of the stage has evidence, before the next stage', { default: 0 })),
  maxClusters: Type.Optional(Type.Integer({ minimum: 1, default: 1, description: 'clusters of the stage under way at once' })),
  prune: Type.Optional(
    Type.Object(
      {
        maxDeletions: Type.Optional(
          Type.Integer({
            minimum: 0,
            description:
              'objects and machines that one commit may delete in each cluster of this stage; default `spec.prune.maxDeletions`, else 3. Machines that go already count',
          }),
        ),
        maxMachines: Type.Optional(
          maxMachines(
            'share of its machines that each cluster of this stage, and the stage as a whole, may lose at once; default `spec.prune.maxMachines`',
          ),
        ),
      },
      { description: 'more objects than that refuse a commit, more machines keep its MachineSets from going on' },
    ),
  ),
});
export type Stage = Static<typeof stage>;

export const fleetSpec = Type.Object({
  source: Type.Object(
    {
      path: Type.Optional(Type.String({ description: 'a repository on the disk of the hub, read where it is: only commits count' })),
      url: Type.Optional(Type.String({ description: 'http(s) repository; no credentials in it' })),
      branch: Type.Optional(Type.String({ description: 'with path, absent: the branch checked out there' })),
      credentialsSecret: Type.Optional(Type.String({ description: 'Secret in kubenode-system with keys username and password' })),
      pollSeconds: Type.Optional(seconds('between two reads of the branch', { default: 30, minimum: 1 })),
    },
    celRules(
      { rule: 'has(self.path) != has(self.url)', message: 'must have exactly one of path and url' },
      { rule: '!has(self.url) || has(self.branch)', message: 'must be set with url', fieldPath: '.branch' },
    ),
  ),
  entry: Type.Optional(Type.String({ default: 'fleet/main.ts', description: 'module that declares the fleet' })),
  include: Type.Optional(
    atomic(Type.String({ minLength: 1 }), {
      minItems: 1,
      description: 'folders of the commit that rendering sees; default fleet and rules',
    }),
  ),
  signatures: Type.Optional(
    Type.Object({
      allowedSigners: Type.String({
        minLength: 1,
        description: 'lines as in ssh-keygen(1) ALLOWED SIGNERS; every commit must be signed by one',
      }),
    }),
  ),
  isolation: Type.Optional(
    Type.Enum([...ISOLATIONS], {
      description: 'the weakest wall around rendering that is accepted, where the hub itself accepts a weaker one',
    }),
  ),
  stages: listMap(stage, ['name'], { minItems: 1, maxItems: 20 }),
  prune: Type.Optional(
    Type.Object({
      maxDeletions: Type.Optional(
        Type.Integer({
          minimum: 0,
          description:
            'objects and machines of one commit over all clusters; absent, only the limits of each cluster and stage apply. It is also the limit of each cluster whose stage has none',
        }),
      ),
      maxMachines: Type.Optional(
        maxMachines(
          'for stages that have none: share of the machines of each cluster, and of each stage, that may go at once, rounded down, and one where there are three or more; default 10%. 100% lets the last one go',
        ),
      ),
    }),
  ),
  acceptRewrittenHead: Type.Optional(Type.String({ description: 'commit id: a rewritten history is accepted at exactly this head' })),
  acceptMoves: Type.Optional(
    Type.String({ description: 'commit id: at exactly this head known clusters may go to another stage, cell or name' }),
  ),
  paused: Type.Optional(Type.Boolean()),
});
export type FleetSpec = Static<typeof fleetSpec>;

export const Fleets = defineKind({
  kind: 'Fleet',
  plural: 'fleets',
  namespaced: false,
  description: 'A Git source, who may sign its commits, and the stages that its changes pass through. Applied by hand.',
  spec: fleetSpec,
  status: Type.Object({
    head: Type.Optional(Type.String({ description: 'commit seen at the branch' })),
    commit: Type.Optional(Type.String({ description: 'last commit accepted: rendered, valid, split into units' })),
    commitTime: Type.Optional(time()),
    bundle: Type.Optional(Type.String({ description: 'digest of everything rendered from it' })),
    rollout: Type.Optional(
      Type.Object(
        { sequence: Type.Integer({ minimum: 0 }), uid: Type.Optional(Type.String()) },
        {
          description:
            'newest Rollout in force; one with a higher sequence, or with this one and another UID, was left by a hub that no longer leads',
        },
      ),
    ),
    removing: Type.Optional(
      Type.String({ description: 'UID of a Rollout that was not in force and is removed for the next one; it never comes into force' }),
    ),
    clusters: Type.Optional(
      atomic(Type.String(), {
        description: 'clusters that `commit` declares; another one has left the fleet, and its rollouts do not wait for it',
      }),
    ),
    isolation: Type.Optional(Type.Enum([...ISOLATIONS])),
    units: Type.Optional(Type.Integer()),
    observedGeneration: Type.Optional(Type.Integer()),
    conditions: conditions(),
  }),
  columns: [
    { name: 'Ready', type: 'string', jsonPath: '.status.conditions[?(@.type=="Ready")].status' },
    { name: 'Commit', type: 'string', jsonPath: '.status.commit' },
    { name: 'Reason', type: 'string', jsonPath: '.status.conditions[?(@.type=="Ready")].reason' },
    { name: 'Message', type: 'string', jsonPath: '.status.conditions[?(@.type=="Ready")].message', priority: 1 },
  ],
});
export type Fleet = ReturnType<typeof Fleets.parse>;
