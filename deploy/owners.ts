/**
 * Who writes what: DESIGN's owner table as data, for every kind and every field of `spec`. The admission policies are made from it, and a
 * test fails for a field that is not in it.
 */

/** `human` is everyone who is none of KubeNode's own: people, autoscalers, pipelines. */
export type Writer = 'human' | 'hub' | 'sync' | 'machine' | 'machineSet' | 'machineComponentSet' | 'defender' | 'remedy' | 'remedyJob';

export interface Owners {
  create: Writer[];
  delete: Writer[];
  /** Labels: they choose members of sets and say what sync may prune. */
  labels: Writer[];
  /** Absent: as labels. */
  finalizers?: Writer[];
  ownerReferences?: Writer[];
  /** By field of `spec`. */
  fields: Record<string, Writer[]>;
  /** What else `human` may say of an object that nothing controls: one that a person made. */
  byHand?: { create: string[]; update: string[] };
}

const all = (writers: Writer[], fields: string[]): Record<string, Writer[]> => Object.fromEntries(fields.map((field) => [field, writers]));

const git = (fields: string[], others: Record<string, Writer[]> = {}): Owners => ({
  create: ['sync'],
  delete: ['sync'],
  labels: ['sync'],
  fields: { ...all(['sync'], fields), ...others },
});

const TEMPLATE = ['labels', 'taints', 'failureDomain', 'drainTimeoutSeconds', 'operationTimeoutSeconds'];

export const CELL_OWNERS: Record<string, Owners> = {
  machines: {
    create: ['machineSet', 'human'],
    delete: ['machineSet', 'human'],
    labels: ['machineSet'],
    finalizers: ['machine'],
    ownerReferences: ['machineSet'],
    fields: {
      ...all(['machineSet'], [...TEMPLATE, 'provider']),
      components: ['machineComponentSet'],
      // And an operator's release (PROTOCOLS D5).
      operation: ['machine'],
      hold: ['human'],
      paused: ['human'],
    },
    byHand: { create: [...TEMPLATE, 'provider'], update: TEMPLATE },
  },
  machinesets: git(['provider', 'failureDomains', 'template', 'maxInFlight', 'minReadySeconds', 'unitDigest'], {
    // Constructs leave these out unless they are set.
    replicas: ['human', 'sync'],
    paused: ['human', 'sync'],
  }),
  machinecomponents: {
    ...git([
      'componentName',
      'version',
      'platforms',
      'files',
      'units',
      'hooks',
      'probes',
      'healthDeadlineSeconds',
      'disruption',
      'requires',
    ]),
    // A cell collects what nothing has named for 30 days (A7).
    delete: ['machineComponentSet'],
  },
  machinecomponentsets: git(
    [
      'componentName',
      'version',
      'values',
      'action',
      'pools',
      'selector',
      'batches',
      'soakSeconds',
      'maxUnavailable',
      'maxFailed',
      'offlinePolicy',
      'canary',
      'unitDigest',
      'ceiling',
    ],
    { rolloutID: ['human', 'sync'], paused: ['human', 'sync'] },
  ),
  defenderpolicies: git(['limits', 'unitDigest']),
  noderemediers: git([
    'when',
    'holdsForSeconds',
    'clearsAfterSeconds',
    'ladder',
    'healedWhen',
    'forgetAfterSeconds',
    'priority',
    'mode',
    'pools',
    'selector',
    'unitDigest',
  ]),
  freezes: { create: ['human'], delete: ['human'], labels: ['human'], fields: all(['human'], ['stops', 'pools', 'reason']) },
  disruptionledgers: { create: ['machine'], delete: [], labels: ['machine'], fields: {} },
  remedyoperationjobs: {
    create: ['remedy'],
    delete: ['remedy', 'remedyJob'],
    labels: ['remedy'],
    fields: all(
      ['remedy'],
      [
        'rule',
        'ruleUID',
        'unitDigest',
        'machine',
        'node',
        'rung',
        'attempt',
        'action',
        'args',
        'timeoutSeconds',
        'healedWhen',
        'priority',
        'matchedSince',
        'why',
      ],
    ),
  },
};

export const HUB_OWNERS: Record<string, Owners> = {
  fleets: {
    create: ['human'],
    delete: ['human'],
    labels: ['human'],
    fields: all(['human'], ['source', 'entry', 'include', 'signatures', 'isolation', 'stages', 'prune', 'acceptRewrittenHead', 'paused']),
  },
  clusters: {
    create: ['hub'],
    // One that no commit declares any more is left alone until a person removes it.
    delete: ['human'],
    labels: ['hub'],
    fields: { ...all(['hub'], ['type', 'kubeconfigSecret', 'unitDigest']), paused: ['human', 'hub'] },
  },
  rollouts: {
    create: ['hub'],
    delete: ['hub'],
    labels: ['hub'],
    fields: {
      ...all(['hub'], ['fleet', 'commit', 'subject', 'author', 'sequence', 'stages', 'units']),
      paused: ['human'],
      retry: ['human'],
    },
  },
};

/** Top-level fields of `Machine.status` and types of conditions that only the machine's agent writes; the rest is the cell's controllers'. */
export const AGENT_STATUS = ['agent', 'components', 'operation'];
export const AGENT_CONDITIONS = ['AgentReady'];
