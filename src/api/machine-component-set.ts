import { Type, type Static } from 'typebox';
import { validateBatches } from './batches.ts';
import { isCoded } from './errors.ts';
import { LANES, LONGEST_COMPONENT_NAME } from './machine/values.ts';
import { atomic, conditions, countOrPercent, labelSelector, listMap, seconds, time, values } from './fields.ts';
import { celRules } from './kind.ts';
import { defineKind } from './kind/definition.ts';
import { AGENT_LEASE_SECONDS } from './names.ts';

export const DEFAULT_BATCHES = [1, '10%', '50%', '100%'];

/** docs/protocols.md#b6. What was stored below it, before this was refused, counts as this. */
export const SHORTEST_OFFLINE_SECONDS = AGENT_LEASE_SECONDS;

const content = {
  version: Type.String({ minLength: 1 }),
  values: Type.Optional(values('small inline values that templates see')),
};

export const machineComponentSetSpec = Type.Object({
  componentName: Type.String({ minLength: 1, maxLength: LONGEST_COMPONENT_NAME }),
  ...content,
  action: Type.Optional(
    Type.Enum(['Install', 'Remove'], {
      default: 'Install',
      description: 'only Remove uninstalls; deleting the set leaves everything running',
    }),
  ),
  pools: Type.Optional(atomic(Type.String({ minLength: 1 }), { minItems: 1, description: 'namespaces; absent: all' })),
  selector: Type.Optional(labelSelector()),
  batches: Type.Optional(
    atomic(countOrPercent('cumulative size of a batch'), {
      minItems: 1,
      maxItems: 10,
      description: 'cumulative; the last is "100%"; default 1, 10%, 50%, 100%',
    }),
  ),
  soakSeconds: Type.Optional(
    seconds('after a batch has its content with evidence, before the next; each of the default batches soaks for a minute', {
      default: 60,
    }),
  ),
  maxUnavailable: Type.Optional(countOrPercent('of this set, a scope of the ledger; default 1')),
  maxFailed: Type.Optional(Type.Integer({ minimum: 1, default: 1, description: 'this many failures halt the set' })),
  offlinePolicy: Type.Optional(
    Type.Object({
      afterSeconds: Type.Optional(
        seconds('an agent that renewed no Lease for this long: its machine is set aside; what is stored below 180 counts as 180', {
          default: 600,
          ...celRules({
            rule: `self >= ${SHORTEST_OFFLINE_SECONDS}`,
            message: `must be at least ${SHORTEST_OFFLINE_SECONDS}: up to 72 seconds pass between two renewals of the Lease of an agent that is well`,
          }),
        }),
      ),
      maxOfflineFraction: Type.Optional(countOrPercent('beyond this the set halts; default 20%')),
    }),
  ),
  canary: Type.Optional(Type.Object({ selector: labelSelector(), ...content })),
  rolloutID: Type.Optional(Type.String({ description: 'a human sets a new one to try failures again' })),
  paused: Type.Optional(Type.Boolean({ description: 'no machine is given new content' })),
  unitDigest: Type.Optional(Type.String({ description: 'written by sync' })),
  lane: Type.Optional(
    Type.Object(
      { unitDigest: Type.String({ minLength: 1 }), lane: Type.Enum([...LANES]) },
      {
        description:
          'written by rollouts: Restore where that digest was verified in this cluster and is not revoked; for another digest it counts as Forward',
      },
    ),
  ),
  ceiling: Type.Optional(
    Type.Object(
      { unitDigest: Type.String(), nodes: Type.Integer({ minimum: 0 }) },
      { description: 'written by rollouts: at most this many machines get the content of that digest; for another digest it counts as 0' },
    ),
  ),
});
export type MachineComponentSetSpec = Static<typeof machineComponentSetSpec>;

/** How the content that the set carries now goes (docs/protocols.md#b7): nothing that was declared for another digest counts. */
export function laneOf({ lane, unitDigest }: Pick<MachineComponentSetSpec, 'lane' | 'unitDigest'>): (typeof LANES)[number] {
  return lane !== undefined && unitDigest !== undefined && lane.unitDigest === unitDigest ? lane.lane : 'Forward';
}

export const MachineComponentSets = defineKind({
  kind: 'MachineComponentSet',
  plural: 'machinecomponentsets',
  shortNames: ['mcs'],
  namespaced: false,
  description: 'Which machines get which version of a component, in which batches.',
  spec: machineComponentSetSpec,
  status: Type.Object({
    revision: Type.Optional(
      Type.Object(
        {
          number: Type.Integer({ minimum: 1 }),
          ...content,
          action: Type.Enum(['Install', 'Remove']),
          canary: Type.Optional(values('spec.canary')),
          since: Type.Optional(
            Type.Integer({
              minimum: 1,
              description: 'number with which this content began; higher ones count machines that were added since',
            }),
          ),
          selection: Type.Optional(Type.String({ description: 'digest of spec.pools and spec.selector' })),
          completedAt: Type.Optional(time('every batch had passed; machines in use that are selected later make the next number')),
          startedAt: time(),
        },
        { description: 'the content that `number` counts; a change of spec makes the next one (v2 → v1 → v2 is three)' },
      ),
    ),
    desired: Type.Optional(Type.Integer()),
    updated: Type.Optional(Type.Integer({ description: 'have the content of this revision, with evidence' })),
    failed: Type.Optional(Type.Integer({ description: 'of this content, also those whose Machine is gone' })),
    offline: Type.Optional(Type.Integer({ description: 'set aside' })),
    waiting: Type.Optional(Type.Integer({ description: 'announced, not yet granted' })),
    batch: Type.Optional(Type.Integer({ description: 'the batch under way, from 1; 0 when none' })),
    batches: Type.Optional(Type.Integer()),
    progress: Type.Optional(Type.String({ description: '3/4, for people' })),
    soakUntil: Type.Optional(time()),
    evidence: Type.Optional(
      Type.Object(
        { unitDigest: Type.String(), at: time() },
        { description: 'all members that neither failed nor are set aside had the content of this digest through soak; stays true' },
      ),
    ),
    verified: Type.Optional(Type.Object({ unitDigest: Type.Optional(Type.String()), ...content, at: time() })),
    failures: Type.Optional(
      atomic(
        Type.Object({
          machine: Type.String({ description: 'namespace/name' }),
          uid: Type.Optional(Type.String({ description: 'of the Machine, which may be gone' })),
          setRevision: Type.Optional(Type.Integer()),
          attempt: Type.Integer(),
          rolloutID: Type.Optional(Type.String({ description: 'as it was then' })),
          reason: Type.String(),
          message: Type.String(),
          at: Type.Optional(time()),
        }),
        {
          maxItems: 100,
          description: 'oldest first; they outlive their Machines and end with the content or rolloutID; a full list halts the set',
        },
      ),
    ),
    epoch: Type.Optional(
      Type.Integer({ minimum: 0, description: 'of the term that wrote this; a leader of an earlier one decides nothing more' }),
    ),
    writing: Type.Optional(
      atomic(
        Type.Object({
          machine: Type.String({ description: 'namespace/name' }),
          resourceVersion: Type.String(),
          generation: Type.Optional(Type.Integer({ description: 'absent: the entry is conditioned on the resourceVersion' })),
          fence: Type.Optional(Type.String({ description: 'annotation kubenode.io/entry-fence; absent: none' })),
        }),
        {
          maxItems: 100,
          description: 'entries that may be written at any moment, on condition of that generation and fence of the Machine; no others are',
        },
      ),
    ),
    canary: Type.Optional(
      listMap(Type.Object({ machine: Type.String(), state: Type.String(), message: Type.Optional(Type.String()) }), ['machine'], {
        maxItems: 50,
      }),
    ),
    observedGeneration: Type.Optional(Type.Integer()),
    conditions: conditions(),
  }),
  rules: [{ rule: 'self.spec.componentName == oldSelf.spec.componentName', message: 'is immutable', fieldPath: '.spec.componentName' }],
  columns: [
    { name: 'Component', type: 'string', jsonPath: '.spec.componentName' },
    { name: 'Action', type: 'string', jsonPath: '.spec.action' },
    { name: 'Version', type: 'string', jsonPath: '.spec.version' },
    { name: 'Updated', type: 'string', jsonPath: '.status.progress' },
    { name: 'Batch', type: 'integer', jsonPath: '.status.batch' },
    { name: 'Failed', type: 'integer', jsonPath: '.status.failed' },
    { name: 'Halted', type: 'string', jsonPath: '.status.conditions[?(@.type=="Halted")].status' },
  ],
  /** CEL compares no item of a list with the one before it; and what resolves batches asks the same function. */
  check(object) {
    try {
      validateBatches(object.spec.batches ?? DEFAULT_BATCHES);
      return [];
    } catch (error) {
      if (!isCoded(error)) throw error;
      return [{ path: 'spec.batches', message: error.message }];
    }
  },
});
export type MachineComponentSet = ReturnType<typeof MachineComponentSets.parse>;
