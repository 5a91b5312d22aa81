/** One object of each kind, and for each field of its spec another value that the schema takes. */
import { API_VERSION } from '../../src/api/kind.ts';
import type { JsonObject, KubeObject } from '../../src/api/wire.ts';

export interface Sample {
  plural: string;
  object: KubeObject & { spec: JsonObject };
  /** Another value for each field; `null` where nothing but removing it can be tried. */
  others: JsonObject;
  /** What a second object, called the same with `-2`, needs besides. */
  second?: JsonObject;
}

const SHA = 'ab'.repeat(32);
const NOW = '2026-11-20T12:00:00Z';
const make = (kind: string, name: string, spec: JsonObject, namespace?: string): Sample['object'] => ({
  apiVersion: API_VERSION,
  kind,
  metadata: { name, ...(namespace === undefined ? {} : { namespace }), labels: { color: 'blue' } },
  spec,
});

export const ENTRY = {
  name: 'kubelet',
  action: 'Install',
  version: '1.0.0',
  setUID: 'set',
  setRevision: 1,
  joinedRevision: 1,
  revision: 3,
  attempt: 1,
};
export const ORDER = {
  id: 'reservation-1',
  epoch: 7,
  kind: 'Change',
  components: [{ name: 'kubelet', revision: 3 }],
  notAfter: NOW,
};

export const MACHINE_SPEC: JsonObject = {
  provider: { name: 'local' },
  labels: { tier: 'web' },
  taints: [{ key: 'a', effect: 'NoSchedule' }],
  failureDomain: 'h',
  drainTimeoutSeconds: 60,
  operationTimeoutSeconds: 60,
  components: [ENTRY],
  operation: ORDER,
  retire: { epoch: 7 },
  hold: false,
  paused: false,
};

const healed = { condition: 'KernelDeadlock', is: 'False', forSeconds: 60 };

export const SAMPLES: Sample[] = [
  {
    plural: 'machines',
    object: make('Machine', 'm1', MACHINE_SPEC, 'web'),
    others: {
      provider: { name: 'other' },
      labels: { tier: 'db' },
      taints: [{ key: 'b', effect: 'NoExecute' }],
      failureDomain: 'i',
      drainTimeoutSeconds: 61,
      operationTimeoutSeconds: 61,
      components: [{ ...ENTRY, version: '2.0.0', revision: 4 }],
      operation: { ...ORDER, id: 'reservation-2', epoch: 8 },
      retire: { epoch: 8 },
      hold: true,
      paused: true,
    },
  },
  {
    plural: 'machinesets',
    object: make(
      'MachineSet',
      'web',
      {
        replicas: 3,
        provider: { name: 'local' },
        failureDomains: ['h'],
        template: {},
        maxInFlight: 1,
        maxRetiring: 1,
        maxFailed: 1,
        readyWithinSeconds: 1,
        minReadySeconds: 1,
        paused: false,
        unitDigest: 'a',
      },
      'web',
    ),
    others: {
      replicas: 4,
      provider: { name: 'other' },
      failureDomains: ['i'],
      template: { failureDomain: 'x' },
      maxInFlight: 2,
      maxRetiring: '10%',
      maxFailed: 2,
      readyWithinSeconds: 2,
      minReadySeconds: 2,
      paused: true,
      unitDigest: 'b',
    },
  },
  {
    plural: 'machinecomponents',
    object: make('MachineComponent', 'kubelet-1.0.0', {
      componentName: 'kubelet',
      version: '1.0.0',
      platforms: [{ os: 'any', arch: 'any', artifacts: [{ name: 'k', url: 'k.tgz', sha256: SHA }] }],
    }),
    // Immutable: not even sync changes one.
    others: {},
    second: { version: '1.0.0-2' },
  },
  {
    plural: 'machinecomponentsets',
    object: make('MachineComponentSet', 'kubelet', {
      componentName: 'kubelet',
      version: '1.0.0',
      values: { a: 1 },
      action: 'Remove',
      pools: ['web'],
      selector: { a: 'b' },
      batches: [1, '100%'],
      soakSeconds: 1,
      maxUnavailable: 1,
      maxFailed: 3,
      offlinePolicy: { afterSeconds: 600 },
      canary: { selector: { c: 'd' }, version: '1.0.0' },
      rolloutID: 'a',
      paused: false,
      unitDigest: 'a',
      ceiling: { unitDigest: 'a', nodes: 1 },
    }),
    others: {
      version: '2.0.0',
      values: { a: 2 },
      action: 'Install',
      pools: ['db'],
      selector: { a: 'c' },
      batches: ['100%'],
      soakSeconds: 2,
      maxUnavailable: 2,
      maxFailed: 2,
      offlinePolicy: { afterSeconds: 900 },
      canary: { selector: { c: 'e' }, version: '1.0.0' },
      rolloutID: 'b',
      paused: true,
      unitDigest: 'b',
      ceiling: { unitDigest: 'a', nodes: 2 },
    },
  },
  {
    plural: 'defenderpolicies',
    object: make('DefenderPolicy', 'default', { limits: [{ name: 'cell', scope: 'Cluster', maxUnavailable: 1 }], unitDigest: 'a' }),
    others: { limits: [{ name: 'cell', scope: 'Cluster', maxUnavailable: '100%' }], unitDigest: 'b' },
  },
  {
    plural: 'noderemediers',
    object: make('NodeRemedier', 'hung', {
      when: { all: [] },
      holdsForSeconds: 1,
      clearsAfterSeconds: 1,
      ladder: [{ action: 'Human' }],
      healedWhen: healed,
      forgetAfterSeconds: 60,
      priority: 1,
      mode: 'Shadow',
      pools: ['web'],
      selector: { a: 'b' },
      unitDigest: 'a',
    }),
    others: {
      when: { any: [] },
      holdsForSeconds: 2,
      clearsAfterSeconds: 2,
      ladder: [{ action: 'Reboot' }, { action: 'Human' }],
      healedWhen: { ...healed, forSeconds: 61 },
      forgetAfterSeconds: 61,
      priority: 2,
      mode: 'Enforce',
      pools: ['db'],
      selector: { a: 'c' },
      unitDigest: 'b',
    },
  },
  {
    plural: 'freezes',
    object: make('Freeze', 'now', { stops: ['Change'], pools: ['web'], reason: 'a' }),
    others: { stops: ['Repair'], pools: ['db'], reason: 'b' },
  },
  { plural: 'disruptionledgers', object: make('DisruptionLedger', 'cell', {}), others: {} },
  {
    plural: 'remedyoperationjobs',
    object: make(
      'RemedyOperationJob',
      'job',
      {
        rule: 'hung',
        machine: { name: 'm1', uid: 'x' },
        node: 'm1',
        rung: 0,
        attempt: 1,
        action: 'Human',
        timeoutSeconds: 1,
        healedWhen: healed,
        priority: 0,
        matchedSince: NOW,
        why: 'because',
      },
      'web',
    ),
    // Immutable.
    others: {},
  },
  {
    plural: 'fleets',
    object: make('Fleet', 'main', {
      source: { path: '/repo' },
      entry: 'a.ts',
      stages: [{ name: 'a', clusterSelector: { a: 'b' } }],
      paused: false,
    }),
    others: { source: { path: '/other' }, entry: 'b.ts', stages: [{ name: 'b', clusterSelector: { a: 'b' } }], paused: true },
  },
  {
    plural: 'clusters',
    object: make('Cluster', 'prod', { kubeconfigSecret: { name: 'a' }, paused: false, unitDigest: 'a' }),
    others: { kubeconfigSecret: { name: 'b' }, paused: true, unitDigest: 'b' },
  },
  {
    plural: 'rollouts',
    object: make('Rollout', 'main-1', {
      fleet: 'main',
      commit: 'abc',
      subject: 'a',
      author: 'a',
      sequence: 1,
      stages: [{ name: 'a', clusters: ['prod'], soakSeconds: 0, maxClusters: 1 }],
      units: [],
      paused: false,
      retry: 'a',
    }),
    // A rule of the kind keeps the rest as it is.
    others: { paused: true, retry: 'b' },
  },
];
