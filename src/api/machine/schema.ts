/** Schemas of a Machine, and of its parts that other kinds have too. */
import { Type } from 'typebox';
import { DISRUPTIONS } from '../disruption.ts';
import { atomic, conditions, listMap, labels as nodeLabels, seconds, taint, time, values } from '../fields.ts';
import { celRules } from '../kind.ts';
import { LONGEST_CONDITION_MESSAGE } from '../plain-text.ts';
import {
  CANCEL_CAUSES,
  COMPONENT_STATES,
  DELETION_POLICIES,
  ENTRY_ACTIONS,
  LANES,
  LAST_REVISION,
  LONGEST_COMPONENT_NAME,
  OUTCOMES,
  PHASES,
} from './values.ts';

const COUNT = { minimum: 0, maximum: LAST_REVISION };

/** What a node should have of one component. Written whole by the set controller (docs/protocols.md#a1 to #a3). */
export const componentEntry = Type.Object({
  name: Type.String({ minLength: 1, maxLength: LONGEST_COMPONENT_NAME }),
  action: Type.Enum([...ENTRY_ACTIONS]),
  version: Type.String({ minLength: 1 }),
  values: Type.Optional(values('small inline values that templates see')),
  setUID: Type.String({ description: 'UID of the MachineComponentSet that wrote this' }),
  setRevision: Type.Integer({ minimum: 1, description: "counts changes of the set's content" }),
  joinedRevision: Type.Integer({ minimum: 0, description: "the set's revision when this machine joined it" }),
  revision: Type.Integer({
    minimum: 1,
    maximum: LAST_REVISION,
    description: 'only grows; an agent refuses a lower one, or the same with other content',
  }),
  attempt: Type.Integer({ minimum: 1 }),
  left: Type.Optional(
    Type.Boolean({ description: 'the set selected this machine no more; if it does again, the machine joins as one that was never in it' }),
  ),
  lane: Type.Optional(
    Type.Enum([...LANES], {
      description: 'Restore: back to what was verified here, because the set wants it or this machine failed; absent: Forward',
    }),
  ),
  failed: Type.Optional(
    Type.Object({
      setRevision: Type.Integer(),
      attempt: Type.Integer(),
      rolloutID: Type.Optional(Type.String({ description: "the set's rolloutID then; a new one tries again" })),
      reason: Type.String({ maxLength: 256 }),
      message: Type.Optional(Type.String({ maxLength: 1024 })),
    }),
  ),
});

/** The one operation of a machine. Never removed, only replaced; `epoch` is the fence (docs/protocols.md#c1, #d3). */
export const operation = Type.Object({
  id: Type.String({ minLength: 1, description: "the ledger reservation's id" }),
  epoch: Type.Integer({ minimum: 0 }),
  kind: Type.Enum(['Change', 'Repair', 'Delete', 'Cancelled']),
  components: Type.Optional(
    atomic(Type.Object({ name: Type.String(), revision: Type.Integer() }), { description: 'Change: exactly these entries may switch' }),
  ),
  action: Type.Optional(Type.String({ description: 'Repair: what to do' })),
  args: Type.Optional(values('arguments of the action')),
  notAfter: time('an order past this is reported Cancelled, by the Date header of the API server'),
  cause: Type.Optional(Type.Enum([...CANCEL_CAUSES], { description: 'Cancelled: why' })),
  reason: Type.Optional(Type.String({ description: 'Cancelled: why, for people' })),
  retry: Type.Optional(
    Type.Object(
      {
        of: atomic(Type.String({ maxLength: 512 }), { maxItems: 64, description: 'what was asked for' }),
        tries: Type.Integer({
          minimum: 1,
          description: 'how often in a row one of these was, this time included, and came to nothing before',
        }),
        at: time('when this was written'),
      },
      { description: 'if it has no effect (Cancelled, Superseded, TransientFailure) the next try waits, longer each time' },
    ),
  ),
  restores: Type.Optional(
    atomic(
      Type.Object({
        name: Type.String(),
        setUID: Type.String(),
        setRevision: Type.Integer(),
        attempt: Type.Integer(),
        content: Type.String({ description: 'contentOf() the entry' }),
        tries: Type.Integer({ minimum: 1, description: 'reservations of class Restore that were ordered or given up' }),
        last: Type.String({ description: 'id of the last of them' }),
        isOver: Type.Optional(Type.Boolean({ description: 'it came to an end: what asks again asks as a Change' })),
      }),
      { maxItems: 128, description: 'what was restored here, for the entries that still want it; carried from one operation to the next' },
    ),
  ),
});

/** The mark by which a set lets a machine go. Until the Machine is deleted it can be taken back by removing it (docs/protocols.md#c8a). */
const retire = Type.Object(
  {
    epoch: Type.Integer({ minimum: 0, description: 'term of the leader that last confirmed it; a mark of another term has no effect' }),
    reason: Type.Optional(Type.String({ maxLength: 256 })),
  },
  { description: 'its MachineSet has one machine too many: it is drained under a reservation, then deleted' },
);

/** What the agent found of one component. Written by the agent alone. */
export const componentStatus = Type.Object({
  name: Type.String({ minLength: 1, maxLength: LONGEST_COMPONENT_NAME }),
  /** What runs here. Empty strings and 0 while nothing does. */
  version: Type.String({ maxLength: 128, description: 'version that is switched to here; empty while none is' }),
  content: Type.String({ maxLength: 128, description: 'contentOf() what is switched to here; empty while none is' }),
  revision: Type.Integer({ ...COUNT, description: 'highest revision accepted from spec; the floor of the next' }),
  running: Type.Integer({
    ...COUNT,
    description: 'revision whose content is switched to here: equals `revision` once it is carried out',
  }),
  state: Type.Enum([...COMPONENT_STATES]),
  needs: Type.Optional(Type.Enum([...DISRUPTIONS], { description: 'while Waiting: class of the announced change' })),
  needsFor: Type.Optional(
    Type.Enum(['Change', 'Drift'], { description: 'while Waiting: a new entry, or a repair of drift that would restart or more' }),
  ),
  previous: Type.Optional(Type.String({ maxLength: 128, description: 'version that ran before' })),
  failed: Type.Optional(
    Type.Object({
      revision: Type.Integer({ ...COUNT, description: 'the entry that failed here' }),
      reason: Type.String({ maxLength: 256 }),
      message: Type.String({ maxLength: 1024 }),
      restored: Type.Boolean({ description: 'what ran before runs again and passes its probes' }),
    }),
  ),
  refused: Type.Optional(Type.Object({ revision: Type.Integer(COUNT), reason: Type.String({ maxLength: 256 }) })),
  bootID: Type.Optional(Type.String({ maxLength: 128, description: 'boot in which the probes last passed since the switch' })),
  switchedAt: Type.Optional(time("by the agent's clock; to read, not to decide")),
  healthySince: Type.Optional(time("by the agent's clock; to read, not to decide")),
  driftRepairs: Type.Optional(Type.Integer(COUNT)),
  message: Type.Optional(Type.String({ maxLength: 1024 })),
});

export const operationStatus = Type.Object({
  id: Type.String({ maxLength: 256 }),
  state: Type.Enum(['Running', 'Done']),
  outcome: Type.Optional(Type.Enum([...OUTCOMES])),
  message: Type.Optional(Type.String({ maxLength: 1024 })),
  bootID: Type.Optional(Type.String({ maxLength: 128, description: 'boot in which it ended' })),
  startedAt: Type.Optional(time()),
  finishedAt: Type.Optional(time()),
});

/** How far the controller is with a repair that it carries out itself. */
export const repairStatus = Type.Object({
  ...operationStatus.properties,
  cutsPower: Type.Optional(Type.Boolean({ description: 'the provider may have been asked to cut the power; written before it is' })),
});

export const verifiedContent = Type.Object({
  name: Type.String(),
  version: Type.String(),
  values: Type.Optional(values('as in the entry')),
  revision: Type.Integer(),
  setUID: Type.String(),
  unitDigest: Type.Optional(Type.String()),
  bootID: Type.String(),
  since: time("by the controller's clock"),
});

/** Since when a component has passed its probes without a break. A soak of another revision or boot is another soak. */
export const soak = Type.Object({
  name: Type.String({ minLength: 1 }),
  revision: Type.Integer({ minimum: 1, description: 'of the entry whose probes pass' }),
  bootID: Type.Optional(
    Type.String({ maxLength: 128, description: 'boot in which its probes pass; absent: it was removed, and has no boot to survive' }),
  ),
  since: time("by the controller's clock"),
  done: Type.Optional(
    Type.Boolean({ description: 'a removal that lasted through its soak; what was installed becomes `verified` instead' }),
  ),
});

/** What a rule with time needs to know over restarts: when a controller first and last saw what the key names (docs/protocols.md#f2). */
export const observation = Type.Object({
  key: Type.String({ minLength: 1, maxLength: 512 }),
  firstSeen: time("by the controller's clock, without the gaps since"),
  lastSeen: time("by the controller's clock"),
});

/**
 * Who may be this machine's agent (docs/protocols.md#g1). Recorded before the request it names is approved; in one epoch no other request for
 * admission is.
 */
export const bootstrap = Type.Object({
  epoch: Type.Integer({ minimum: 1, description: 'counts admissions; raised when the node gets a new bootstrap' }),
  accountUID: Type.String({ description: 'the ServiceAccount whose tokens admit in this epoch' }),
  tokenUntil: time('the last token given out in this epoch ends then'),
  csrUID: Type.Optional(Type.String({ description: 'the one request that was admitted; never another in this epoch' })),
  deniedUID: Type.Optional(Type.String({ description: 'the last request for admission in this epoch that was denied' })),
  keySHA256: Type.Optional(Type.String({ description: "of the agent's newest public key, which vouches for the next" })),
  formerKeySHA256: Type.Optional(Type.String({ description: 'of the key before it, which the agent has until its renewal arrived' })),
  by: Type.Optional(
    Type.Enum(['Certificate', 'Token'], { description: 'Token: the cluster signs no client certificates; a ServiceAccount is used' }),
  ),
  until: Type.Optional(time("end of the newest certificate asked for, by the controller's clock; later the node gets a new bootstrap")),
});

/** What KubeNode put on the Node, so that it changes and removes only its own. Written before the Node is (docs/protocols.md#c11). */
export const nodeKeys = Type.Object(
  {
    nodeUID: Type.String(),
    nodeVersion: Type.String({
      description:
        "mark of the controller's last write of the Node (annotation kubenode.io/node-write) on which the last write that puts something there is conditioned",
    }),
    labels: atomic(Type.String(), { maxItems: 256, description: 'key=value' }),
    taints: atomic(Type.String(), { maxItems: 256, description: 'key=value:effect' }),
  },
  { description: 'what the machine controller put on the Node; it changes and removes only this there' },
);

/** Which PodDisruptionBudgets keep a drain from ending: the ones that block most pods, and no more than people read. */
export const drainStatus = Type.Object(
  {
    podsLeft: Type.Integer({ minimum: 0 }),
    budgets: Type.Optional(
      atomic(
        Type.Object({
          namespace: Type.String({ maxLength: 253 }),
          name: Type.String({ maxLength: 253 }),
          disruptionsAllowed: Type.Optional(Type.Integer()),
          currentHealthy: Type.Optional(Type.Integer()),
          desiredHealthy: Type.Optional(Type.Integer()),
          expectedPods: Type.Optional(Type.Integer()),
          never: Type.Optional(Type.Boolean({ description: 'as it stands it wants all of its pods, so no waiting helps' })),
          waiting: Type.Integer({ minimum: 1, description: 'pods of this node that it covers, and that were refused' }),
          pods: atomic(Type.String({ maxLength: 253 }), { maxItems: 5, description: 'the first of these' }),
        }),
        { maxItems: 5, description: 'PodDisruptionBudgets of the pods whose eviction was refused' },
      ),
    ),
  },
  { description: 'while pods are taken off the node; written by the machine controller' },
);

export const machineTemplateSpec = {
  labels: Type.Optional(nodeLabels('labels of the Node; removed from it when removed here')),
  taints: Type.Optional(
    atomic(taint(), {
      maxItems: 64,
      description: 'one with effect NoExecute is put on a node only while that is new or drained',
      ...celRules({
        rule: 'self.all(a, self.exists_one(b, a.key == b.key && a.effect == b.effect))',
        message: 'must have no two taints of one key and effect: a Node has one',
      }),
    }),
  ),
  failureDomain: Type.Optional(Type.String()),
  drainTimeoutSeconds: Type.Optional(seconds('after this a drain gives up', { default: 600 })),
  operationTimeoutSeconds: Type.Optional(seconds('an order not begun within this time is cancelled', { default: 900, minimum: 1 })),
};

export const machineSpec = Type.Object({
  ...machineTemplateSpec,
  provider: Type.Optional(Type.Object({ name: Type.String({ minLength: 1 }), config: Type.Optional(values("the provider's own")) })),
  components: Type.Optional(listMap(componentEntry, ['name'], { maxItems: 64 })),
  operation: Type.Optional(operation),
  retire: Type.Optional(retire),
  deletionPolicy: Type.Optional(
    Type.Enum([...DELETION_POLICIES], {
      description:
        'what becomes of an imported machine when this object is deleted. Delete, the default: drained, its components removed; the agent stays. Reset: the agent goes too. Orphan: nothing is drained or removed but the agent, and the Node stays',
    }),
  ),
  hold: Type.Optional(Type.Boolean({ description: 'nothing new starts here' })),
  paused: Type.Optional(Type.Boolean({ description: 'not reconciled' })),
});

export const machineStatus = Type.Object({
  phase: Type.Optional(Type.Enum([...PHASES])),
  providerID: Type.Optional(Type.String()),
  nodeRef: Type.Optional(Type.Object({ name: Type.String(), uid: Type.String() })),
  nodeKeys: Type.Optional(nodeKeys),
  bootstrap: Type.Optional(bootstrap),
  addresses: Type.Optional(atomic(Type.Object({ type: Type.String(), address: Type.String() }))),
  agent: Type.Optional(
    Type.Object({
      version: Type.String({ maxLength: 128 }),
      apiLevel: Type.Integer(COUNT),
      bootID: Type.String({ maxLength: 128 }),
      os: Type.String({ maxLength: 64 }),
      arch: Type.String({ maxLength: 64 }),
      hold: Type.Optional(Type.Boolean({ description: '/etc/kubenode/hold is there' })),
      leaving: Type.Optional(
        Type.Boolean({ description: 'it has recorded on its disk that it does nothing more here but take itself away' }),
      ),
    }),
  ),
  components: Type.Optional(listMap(componentStatus, ['name'], { maxItems: 64 })),
  operation: Type.Optional(operationStatus),
  repair: Type.Optional(repairStatus),
  verified: Type.Optional(
    atomic(verifiedContent, { maxItems: 128, description: 'the two last verified contents of each component, newest first' }),
  ),
  soaks: Type.Optional(atomic(soak, { maxItems: 64, description: 'components whose probes pass and that are not verified yet' })),
  firstReadyAt: Type.Optional(
    time(
      "when its Node was first seen Ready, by the controller's clock; never changed. Without it the machine is new: nothing ever ran there",
    ),
  ),
  lastDisruption: Type.Optional(time()),
  underWay: Type.Optional(
    Type.Enum(['Change', 'Repair', 'Delete'], {
      description: 'kind of the operation that has a reservation now, for people; `spec.operation` stays when it is over',
    }),
  ),
  drain: Type.Optional(drainStatus),
  repairRules: Type.Optional(
    atomic(Type.String({ maxLength: 253 }), {
      maxItems: 128,
      description: 'RepairNeeded: the rules that want it; written by the remedy controller',
    }),
  ),
  observations: Type.Optional(listMap(observation, ['key'], { maxItems: 128, description: 'written by the remedy controller' })),
  observedGeneration: Type.Optional(Type.Integer()),
  verdict: Type.Optional(
    Type.Object(
      {
        allowed: Type.Boolean(),
        requester: Type.Optional(Type.String({ description: 'kind/name of what was asked for' })),
        limit: Type.Optional(Type.String()),
        used: Type.Optional(Type.Integer()),
        of: Type.Optional(Type.Integer()),
        holders: Type.Optional(atomic(Type.String(), { maxItems: 5 })),
        wouldPassWhen: Type.Optional(Type.String()),
      },
      { description: "Defender's last word on what this machine asks" },
    ),
  ),
  conditions: conditions({ maxItems: 32, longestMessage: LONGEST_CONDITION_MESSAGE }),
});
