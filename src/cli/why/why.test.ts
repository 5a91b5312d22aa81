import { describe, expect, it } from 'vitest';
import { CustomResourceDefinitions, Leases, Namespaces, Nodes, type Node } from '../../api/builtin.ts';
import { sha256Hex } from '../../api/digest.ts';
import { API_VERSION } from '../../api/kind.ts';
import { CELL_KINDS } from '../../api/kinds.ts';
import type { Cluster } from '../../api/cluster.ts';
import type { Fleet } from '../../api/fleet.ts';
import { MachineComponentSets, type MachineComponentSet } from '../../api/machine-component-set.ts';
import { MachineSets, type MachineSet } from '../../api/machine-set.ts';
import { Machines, type ComponentStatus, type Machine } from '../../api/machine.ts';
import { NodeRemediers, type NodeRemedier, type NodeRemedierSpec } from '../../api/node-remedier.ts';
import { JOB_LABELS, RemedyOperationJobs, type RemedyOperationJob } from '../../api/remedy-operation-job.ts';
import type { Rollout } from '../../api/rollout.ts';
import type { Stored } from '../../api/wire.ts';
import { openCluster } from '@kubenode/embedded';
import { systemClock } from '../../kube/clock.ts';
import { createClient } from '../../kube/http-client.ts';
import { compileRule } from '../../rules/index.ts';
import { ruleKey } from '../../rules/marks.ts';
import { answer, machineLines } from '../commands/why.ts';
import { findSubject } from './find.ts';
import { fleetLines } from './fleet.ts';
import { jobLines } from './job.ts';
import { whyMachine, type MachineInput } from './machine.ts';
import { rolloutLines } from './rollout.ts';
import { clusterLines } from './cluster.ts';
import { ruleLines } from './rule.ts';
import { componentSetLines, machineSetLines } from './set.ts';

const NOW = Date.parse('2026-01-01T12:00:00Z');
const before = (seconds: number): string => new Date(NOW - seconds * 1000).toISOString().replace('.000Z', 'Z');
const stored = (name: string, namespace?: string) => ({
  name,
  ...(namespace === undefined ? {} : { namespace }),
  uid: `uid-${name}`,
  resourceVersion: '1',
  creationTimestamp: before(40),
  generation: 1,
});

const rule = (name: string, spec: Partial<NodeRemedierSpec> = {}): Stored<NodeRemedier> => ({
  apiVersion: API_VERSION,
  kind: 'NodeRemedier',
  metadata: stored(name),
  spec: {
    when: { all: [{ fact: 'condition.KernelDeadlock.status', operator: 'equal', value: 'True' }] },
    holdsForSeconds: 30,
    ladder: [{ action: 'Reboot' }, { action: 'Human' }],
    healedWhen: { condition: 'KernelDeadlock', is: 'False', forSeconds: 300 },
    mode: 'Enforce',
    ...spec,
  },
});

const machine = (status: Partial<NonNullable<Machine['status']>> = {}, spec: Machine['spec'] = {}): Stored<Machine> => ({
  apiVersion: API_VERSION,
  kind: 'Machine',
  metadata: stored('web-1', 'web'),
  spec,
  status: { phase: 'Running', nodeRef: { name: 'web-1', uid: 'uid-node' }, ...status },
});

const node = (conditions: Record<string, string>, beat = 20): Stored<Node> => ({
  apiVersion: 'v1',
  kind: 'Node',
  metadata: { ...stored('web-1'), uid: 'uid-node' },
  status: {
    conditions: Object.entries(conditions).map(([type, status]) => ({
      type,
      status: status as 'True',
      reason: `${type}Is${status}`,
      lastHeartbeatTime: before(beat),
      lastTransitionTime: before(100),
    })),
  },
});

const job = (status: RemedyOperationJob['status'], spec: Partial<RemedyOperationJob['spec']> = {}): Stored<RemedyOperationJob> => ({
  apiVersion: API_VERSION,
  kind: 'RemedyOperationJob',
  metadata: { ...stored('hung-x7k2p', 'web'), labels: { [JOB_LABELS.rule]: 'hung', [JOB_LABELS.machine]: 'web-1' } },
  spec: {
    rule: 'hung',
    machine: { name: 'web-1', uid: 'uid-web-1' },
    node: 'web-1',
    rung: 0,
    attempt: 1,
    action: 'Reboot',
    timeoutSeconds: 600,
    healedWhen: { condition: 'KernelDeadlock', is: 'False', onNewBoot: true, forSeconds: 300 },
    priority: 0,
    matchedSince: before(70),
    why: 'condition.KernelDeadlock.status is "True"; found "True" (DockerHung), for 30 s (asked: 30 s)',
    ...spec,
  },
  ...(status === undefined ? {} : { status }),
});

const renewed = (seconds: number) => ({
  apiVersion: 'coordination.k8s.io/v1',
  kind: 'Lease',
  metadata: { name: 'web-1' },
  spec: { renewTime: before(seconds).replace('Z', '.000000Z'), leaseDurationSeconds: 40 },
});

async function machineText(input: Partial<MachineInput>): Promise<string> {
  return `${machineLines(await whyMachine(inputOf(input))).join('\n')}\n`;
}

function inputOf(input: Partial<MachineInput>): MachineInput {
  return {
    nowMs: NOW,
    machine: machine(),
    node: node({ Ready: 'True', KernelDeadlock: 'True' }),
    rules: [rule('hung')],
    componentSets: [],
    jobs: [],
    jobsOfSet: [],
    reservations: [],
    freezes: [],
    kubeletLease: renewed(10),
    agentLease: renewed(10),
    peers: {},
    ...input,
  };
}

const golden = (text: string, name: string) => expect(text).toMatchFileSnapshot(`golden/${name}.txt`);
const reservation = (id: string, name: string) => ({
  id,
  machineUID: `uid-${name}`,
  machine: `web/${name}`,
  kind: 'Repair' as const,
  class: 'Repair' as const,
  requesterUID: 'uid-job',
  requester: 'RemedyOperationJob/web/hung-a1',
  scopes: ['cluster'],
  since: before(130),
  notAfter: before(-770),
});

const componentSet = (uid: string): Stored<MachineComponentSet> => ({
  apiVersion: API_VERSION,
  kind: 'MachineComponentSet',
  metadata: { ...stored('hello'), uid },
  spec: { componentName: 'hello', version: '1.0.0' },
});

describe('why a machine', () => {
  it('still runs what no set owns', async () => {
    const entry = {
      name: 'hello',
      action: 'Install' as const,
      version: '1.0.0',
      setUID: 'gone',
      setRevision: 1,
      joinedRevision: 0,
      revision: 1,
      attempt: 1,
    };
    const text = 'component hello 1.0.0 still runs and no set owns it';
    expect(await machineText({ machine: machine({}, { components: [entry] }) })).toContain(text);
    expect(await machineText({ machine: machine({}, { components: [entry] }), componentSets: [componentSet('gone')] })).not.toContain(text);
  });

  it('is not repaired though a rule matches: its budget is full, who uses it, and what would change that', async () => {
    const verdict = {
      allowed: false,
      limit: 'default/one-in-a-pool',
      used: 1,
      of: 1,
      holders: ['web/web-2'],
      wouldPassWhen: 'a reservation of pool/web is released',
    };
    await golden(
      await machineText({
        machine: machine({ verdict, observations: [observed('hung', 60)] }),
        rules: [
          rule('hung'),
          rule('shadow', { mode: 'Shadow', holdsForSeconds: 600 }),
          rule('other-pool', { pools: ['db'] }),
          rule('wrong', { when: { all: [] } }),
          rule('rack', {
            when: {
              all: [
                { fact: 'condition.Ready.status', operator: 'in', value: ['False', 'Unknown'] },
                { fact: 'peers.rack.unhealthy', operator: 'lessThan', value: 2 },
              ],
            },
            healedWhen: { condition: 'Ready', is: 'True', forSeconds: 60 },
          }),
        ],
        jobs: [job({ phase: 'Pending', verdict, explanation: 'asks Defender' })],
        reservations: [reservation('reservation-7', 'web-2')],
      }),
      'machine-refused',
    );
  });

  it('is left alone: it is frozen, held, paused, and its detector is stale', async () => {
    const freeze = {
      apiVersion: API_VERSION,
      kind: 'Freeze',
      metadata: { name: 'black-friday' },
      spec: { reason: 'no changes this week' },
    };
    await golden(
      await machineText({
        machine: machine({}, { hold: true, paused: true }),
        node: node({ Ready: 'True', KernelDeadlock: 'True' }, 900),
        freezes: [freeze],
      }),
      'machine-frozen',
    );
  });

  it('is under repair: its order, its reservation and its job', async () => {
    const operation = { id: 'reservation-9', epoch: 3, kind: 'Repair' as const, action: 'Reboot', notAfter: before(-700) };
    await golden(
      await machineText({
        machine: machine({ operation: { id: 'reservation-9', state: 'Running' } }, { operation }),
        jobs: [job({ phase: 'Running', operationID: 'reservation-9', orderedAt: before(20), explanation: 'the agent reboots the node' })],
        reservations: [{ ...reservation('reservation-9', 'web-1'), requesterUID: 'uid-hung-x7k2p' }],
      }),
      'machine-ordered',
    );
  });

  it('does not work itself: what is dead, what failed and what runs instead of it come first', async () => {
    const entry = (name: string, version: string, revision: number) => ({
      name,
      version,
      revision,
      action: 'Install' as const,
      setUID: 'uid-set',
      setRevision: 2,
      joinedRevision: 0,
      attempt: 1,
    });
    const report = (name: string, version: string, revision: number): ComponentStatus => ({
      name,
      version,
      revision,
      content: 'x',
      running: revision,
      state: 'Healthy',
    });
    const failed = { revision: 2, reason: 'ProbeFailed', message: 'GET /healthz: 500', restored: true };
    const components = [
      { ...report('kubelet', '1.33.13', 2), failed },
      { ...report('exporter', '', 2), state: 'Failed' as const, failed: { ...failed, restored: false } },
      // Of an entry before the present one.
      { ...report('cni', '2.0.0', 4), failed },
      { ...report('agentless', '', 3), refused: { revision: 3, reason: 'SignatureMissing' } },
      { ...report('npd', '1.0.0', 1), state: 'Unhealthy' as const, message: 'it ends at once' },
    ];
    const wanted = [
      entry('kubelet', '1.34.4', 2),
      entry('exporter', '1.5.0', 2),
      entry('cni', '2.0.0', 4),
      entry('agentless', '1.0.0', 3),
      entry('npd', '1.0.0', 1),
    ];
    const is = (type: string, status: 'True' | 'False', message: string) => ({
      type,
      status,
      message,
      reason: `${type}Is${status}`,
      lastTransitionTime: before(60),
    });
    const conditions = [is('Ready', 'False', 'its Node is not ready'), is('Admitted', 'False', ''), is('Drained', 'False', 'not ours')];
    const agent = { version: '1.0.0', apiLevel: 1, bootID: 'b', os: 'linux', arch: 'amd64' };
    await golden(
      await machineText({
        machine: machine({ components, conditions, agent }, { components: wanted }),
        rules: [],
        componentSets: [componentSet('uid-set')],
        kubeletLease: renewed(600),
        agentLease: undefined,
      }),
      'machine-trouble',
    );
  });

  const budget = { namespace: 'web', name: 'keep', disruptionsAllowed: 0, waiting: 1, pods: ['db-0'] };
  const draining = { operation: { id: 'r1', epoch: 1, kind: 'Cancelled' as const, notAfter: before(5) } };

  it('is drained: which PodDisruptionBudgets keep which pods, and what they allow', async () => {
    const never = { ...budget, currentHealthy: 2, desiredHealthy: 2, expectedPods: 2, never: true, waiting: 7, pods: ['a', 'b'] };
    const drain = { podsLeft: 9, budgets: [never, { ...budget, name: 'web' }] };
    await golden(await machineText({ machine: machine({ drain }), rules: [] }), 'machine-drain');
    const { defender } = await whyMachine(inputOf({ machine: machine({ drain: { podsLeft: 1 } }), rules: [] }));
    expect(defender).toEqual(['its drain waits for 1 pod']);
  });

  it('was not drained in time: what was in the way then', async () => {
    const reason = 'DrainTimeout: pods were left at 2026-01-01T11:59:55.000Z; PodDisruptionBudget web/keep never allows it';
    const given = { operation: { ...draining.operation, cause: 'DrainTimeout' as const, reason } };
    const { defender } = await whyMachine(inputOf({ machine: machine({}, given), rules: [] }));
    expect(defender).toEqual([`its last drain was given up: ${reason}`]);
    const other = { operation: { ...given.operation, cause: 'Refused' as const } };
    expect((await whyMachine(inputOf({ machine: machine({}, other), rules: [] }))).defender).toEqual([
      'no disruption is requested, held or frozen',
    ]);
  });

  it('has nothing to report: no Node and no rules', async () => {
    const bare = machine();
    delete bare.status;
    await golden(
      await machineText({ machine: bare, node: undefined, rules: [], kubeletLease: undefined, agentLease: undefined }),
      'machine-bare',
    );
  });

  /** The controller's note that a rule matches since so many seconds. */
  function observed(name: string, seconds: number) {
    const stamp = sha256Hex(before(100)).slice(0, 8);
    return { key: `${ruleKey(compileRule(rule(name)))}#${stamp}`, firstSeen: before(seconds), lastSeen: before(1) };
  }
});

describe('why a job', () => {
  it('waits: what Defender answered', async () => {
    await golden(
      `${jobLines(job({ phase: 'Pending', verdict: { allowed: false, limit: 'Freeze/night', wouldPassWhen: 'Freeze night is deleted' } }), NOW).join('\n')}\n`,
      'job-pending',
    );
  });

  it('ended so: its steps with their times', async () => {
    const steps = [
      { name: 'Ask' as const, startedAt: before(40), finishedAt: before(38), outcome: 'Succeeded' as const, message: 'granted' },
      { name: 'Drain' as const, startedAt: before(38), finishedAt: before(20), outcome: 'Succeeded' as const },
      { name: 'Verify' as const, startedAt: before(15) },
    ];
    const status = {
      phase: 'Failed' as const,
      outcome: 'PermanentFailure' as const,
      steps,
      orderedAt: before(20),
      operationID: 'reservation-9',
      actedAt: before(15),
      finishedAt: before(1),
      explanation: 'not proved within 600 s: it is still boot boot-1',
    };
    await golden(`${jobLines(job(status), NOW).join('\n')}\n`, 'job-failed');
  });

  it('asks a human: what it diagnosed', async () => {
    const status = {
      phase: 'NeedsHuman' as const,
      explanation: 'nothing helped',
      diagnosis: ['tried Reboot: PermanentFailure', 'it is still True'],
    };
    await golden(`${jobLines(job(status, { action: 'Human', mode: 'Enforce' }), NOW).join('\n')}\n`, 'job-human');
  });

  it('is not answered', () => {
    expect(jobLines(job(undefined), NOW).at(-1)).toContain('is a controller of this cell running?');
  });
});

it('why a rollout waits: unit by unit and cluster by cluster', async () => {
  const rollout: Stored<Rollout> = {
    apiVersion: API_VERSION,
    kind: 'Rollout',
    metadata: stored('main-7'),
    spec: {
      fleet: 'main',
      commit: 'abcdef0123456789',
      subject: 'Enforce the rule of hung tasks',
      sequence: 7,
      stages: [
        { name: 'test', clusters: ['test'], soakSeconds: 60, maxClusters: 1 },
        { name: 'prod', clusters: ['prod-1', 'prod-2'], soakSeconds: 0, maxClusters: 1 },
      ],
      units: [
        'NodeRemedier/hung',
        'MachineComponentSet/kubelet',
        'MachineSet/web/web',
        'NodeRemedier/new',
        'MachineComponentSet/paused',
        'MachineComponentSet/gone',
      ].map((unit) => ({
        unit,
        clusters: unit.endsWith('/gone') ? [{ name: 'test' }] : [],
      })),
    },
    status: {
      phase: 'Halted',
      units: [
        {
          unit: 'NodeRemedier/hung',
          phase: 'Progressing',
          lane: 'Forward',
          stage: 'test',
          message: 'test: in Shadow first, until 2026-01-01T12:09:48.000Z; would-be jobs: 0 of at most 3',
          cluster: 'test',
          clusters: [
            {
              name: 'test',
              phase: 'Waiting',
              lane: 'Forward',
              appliedAt: before(30),
              message: 'in Shadow first, until 2026-01-01T12:09:48.000Z; would-be jobs: 0 of at most 3',
            },
            { name: 'prod-1', phase: 'Pending', lane: 'Forward' },
          ],
        },
        {
          unit: 'MachineComponentSet/kubelet',
          phase: 'Soaking',
          lane: 'Forward',
          stage: 'test',
          soakUntil: before(-45),
          clusters: [
            { name: 'test', phase: 'Verified', lane: 'Forward', appliedAt: before(30), verifiedAt: before(15) },
            { name: 'prod-1', phase: 'Pending', lane: 'Forward' },
          ],
        },
        {
          unit: 'MachineSet/web/web',
          phase: 'Halted',
          lane: 'Forward',
          stage: 'prod',
          message: 'prod-1: Unreachable',
          clusters: [
            { name: 'prod-1', phase: 'Halted', lane: 'Forward', message: 'the provider refuses' },
            { name: 'prod-2', phase: 'Pending', lane: 'Forward' },
          ],
        },
        {
          unit: 'MachineComponentSet/paused',
          phase: 'Progressing',
          lane: 'Forward',
          stage: 'test',
          pausedBy: 'main-6',
          message: 'rollout main-6 is paused, of the same content',
          clusters: [{ name: 'test', phase: 'Pending', lane: 'Forward' }],
        },
        {
          unit: 'MachineComponentSet/gone',
          phase: 'Done',
          lane: 'Forward',
          clusters: [{ name: 'test', phase: 'Verified', lane: 'Forward' }],
        },
      ],
    },
  };
  await golden(`${rolloutLines(rollout, NOW).join('\n')}\n`, 'rollout');
});

it('why a rule does nothing: its validation errors, its mode and its jobs', async () => {
  const status = {
    observedGeneration: 1,
    validationErrors: [{ path: 'spec.when.all', message: 'is empty', hint: 'name at least one condition' }],
    counters: { since: before(3600), wouldBeJobs: 2, jobs: 0, succeeded: 0, failed: 0, needsHuman: 0 },
    conditions: [{ type: 'Accepted', status: 'False' as const, reason: 'RuleInvalid', message: 'm', lastTransitionTime: before(9) }],
  };
  const asked = job({ phase: 'NeedsHuman', explanation: 'nothing helped' });
  await golden(`${ruleLines({ ...rule('hung', { mode: 'Shadow' }), status }, [asked], NOW).join('\n')}\n`, 'rule');
});

const condition = (type: string, status: 'True' | 'False', reason: string, message: string) => ({
  type,
  status,
  reason,
  message,
  lastTransitionTime: before(65),
});

describe('a set', () => {
  const machineSet = (status: MachineSet['status'], spec: Partial<MachineSet['spec']> = {}): Stored<MachineSet> => ({
    apiVersion: API_VERSION,
    kind: 'MachineSet',
    metadata: stored('workers', 'web'),
    spec: { replicas: 5, provider: { name: 'local' }, ...spec },
    status: { observedGeneration: 1, ...status },
  });
  const componentSet = (
    status: MachineComponentSet['status'],
    spec: Partial<MachineComponentSet['spec']> = {},
  ): Stored<MachineComponentSet> => ({
    apiVersion: API_VERSION,
    kind: 'MachineComponentSet',
    metadata: stored('kubelet'),
    spec: { componentName: 'kubelet', version: '1.34.4', ...spec },
    status: { observedGeneration: 1, ...status },
  });

  it('of machines reports first what blocks it', async () => {
    const status = {
      replicas: 6,
      readyReplicas: 5,
      retiringReplicas: 1,
      createFailure: 'QuotaExceeded',
      conditions: [
        condition('Progressing', 'True', 'ScalingDown', '1 of 6 machines are to go'),
        condition('ScaleDownBlocked', 'True', 'DrainTimeout', 'web/web-2 cannot be drained'),
      ],
    };
    await golden(`${machineSetLines(machineSet(status), NOW).join('\n')}\n`, 'machine-set');
  });

  it('of a component names each machine that failed, before the conditions', async () => {
    const status = {
      desired: 40,
      updated: 3,
      failed: 1,
      offline: 2,
      waiting: 4,
      batch: 2,
      batches: 4,
      soakUntil: before(-30),
      failures: [
        { machine: 'web/web-3', attempt: 1, reason: 'ProbeFailed', message: 'http://127.0.0.1:10248/healthz: refused', at: before(70) },
      ],
      conditions: [
        condition('Progressing', 'False', 'Halted', 'halted'),
        condition('Halted', 'True', 'TooManyFailed', '1 of 40 machines failed, maxFailed is 1'),
      ],
    };
    await golden(`${componentSetLines(componentSet(status), NOW).join('\n')}\n`, 'component-set');
  });

  it('that waits for Defender leads to one of its machines', () => {
    const status = { desired: 4, waiting: 2, conditions: [condition('Progressing', 'True', 'Batch', 'batch 1 of 4')] };
    expect(componentSetLines(componentSet(status), NOW)).toMatchObject({ 1: '  Batch: batch 1 of 4', 2: '  2 wait for Defender' });
    expect(componentSetLines(componentSet(status), NOW).at(-1)).toContain('kubenode why machine/POOL/NAME');
  });

  it('that has what it wants reports so in a word', () => {
    const done = { replicas: 5, readyReplicas: 5, conditions: [condition('Progressing', 'False', 'Complete', '')] };
    expect(machineSetLines(machineSet(done), NOW).slice(0, 2)).toEqual(['machineset/web/workers  5 of 5 machines, 5 ready', '  Complete']);
    const lost = {
      ...done,
      readyReplicas: 4,
      conditions: [...done.conditions, condition('Available', 'False', 'TooFew', '4 of 5 machines')],
    };
    expect(machineSetLines(machineSet(lost), NOW)[1]).toBe('  TooFew: 4 of 5 machines');
  });

  it('without a report, or with one for an older spec only, is not reported as healthy', () => {
    const { status: _, ...fresh } = machineSet({});
    expect(machineSetLines(fresh, NOW)[1]).toContain('do the cell controllers run here?');
    const changed = componentSet({ conditions: [condition('Progressing', 'True', 'Batch', 'batch 1 of 4')] });
    changed.metadata.generation = 2;
    expect(componentSetLines(changed, NOW)[1]).toBe('  Batch: batch 1 of 4 (of the spec before)');
    expect(componentSetLines(componentSet({}, { paused: true, action: 'Remove' }), NOW)[0]).toBe(
      'machinecomponentset/kubelet  removal of kubelet 1.34.4, on 0 of 0 machines (paused)',
    );
  });
});

it('why a cluster is as it is: whether it answers, what needs a person, and each unit', async () => {
  const unit = (name: string, more: object) => ({ unit: name, fleet: 'main', ...more });
  const cluster = {
    apiVersion: API_VERSION,
    kind: 'Cluster',
    metadata: { ...stored('prod'), deletionTimestamp: before(20), finalizers: ['kubenode.io/records'] },
    spec: {},
    status: {
      attention: [
        {
          object: 'MachineSet/web/workers',
          type: 'ScaleDownBlocked',
          reason: 'DrainTimeout',
          message: 'web-2 cannot be drained',
          since: before(600),
        },
      ],
      units: [
        unit('NodeRemedier/hung', { digest: 'a', evidence: 'a', appliedAt: before(300) }),
        unit('MachineComponentSet/kubelet', {
          digest: 'b',
          appliedAt: before(30),
          halt: { digest: 'b', message: 'maxFailed is 1', since: before(10) },
        }),
        unit('MachineSet/web/workers', { digest: 'c', begun: 'd' }),
        unit('MachineSet/web/old', { digest: 'c', begun: 'Removal' }),
        unit('MachineSet/web/gone', {}),
        unit('DefenderPolicy/cell', { digest: 'e' }),
      ],
      orphans: { total: 1, first: [{ object: 'MachineSet/web/before', fleet: 'main', reason: 'NotDeclared' }] },
      conditions: [condition('Reachable', 'True', 'Connected', 'answers as the cluster it was')],
    },
  } as unknown as Stored<Cluster>;
  await golden(`${clusterLines(cluster, NOW).join('\n')}\n`, 'cluster');
});

it('why a fleet waits: the last commit, what does not pass and which cluster blocks it', async () => {
  const fleet: Stored<Fleet> = {
    apiVersion: API_VERSION,
    kind: 'Fleet',
    metadata: stored('main'),
    spec: { source: { path: '/x' }, stages: ['test', 'prod'].map((name) => ({ name, clusterSelector: { stage: name } })) },
    status: {
      head: 'bbbbbbbbbbbbbb',
      commit: 'aaaaaaaaaaaaaa',
      commitTime: before(300),
      clusters: ['test', 'prod'],
      units: 7,
      conditions: [condition('Ready', 'False', 'PruneBudget', 'bbbbbbbbbb deletes too much')],
    },
  };
  const of = (name: string, phase: 'Halted' | 'Progressing', message: string): Stored<Rollout> => ({
    apiVersion: API_VERSION,
    kind: 'Rollout',
    metadata: stored(name),
    spec: { fleet: 'main', commit: 'aaaaaaaaaaaaaa', subject: 'Upgrade', sequence: 1, stages: [], units: [] },
    status: {
      phase,
      units: [
        { unit: 'MachineComponentSet/kubelet', phase, lane: 'Forward', stage: 'test', message, cluster: 'test' },
        { unit: 'MachineSet/web/web', phase: 'Done', lane: 'Forward' },
      ],
    },
  });
  const prod: Stored<Cluster> = {
    apiVersion: API_VERSION,
    kind: 'Cluster',
    metadata: stored('prod'),
    spec: {},
    status: { conditions: [condition('Reachable', 'False', 'Unreachable', 'connect ECONNREFUSED')] },
  };
  const rollouts = [
    of('main-3', 'Halted', 'test: TooManyFailed: 1 failed'),
    of('main-4', 'Progressing', 'test: 1/2 machines, batch 1 of 2'),
  ];
  await golden(`${fleetLines({ fleet, rollouts, clusters: [prod] }, NOW).join('\n')}\n`, 'fleet');
  const { conditions: _conditions, head: _head, ...status } = fleet.status ?? {};
  const passed = fleetLines({ fleet: { ...fleet, status }, rollouts: [], clusters: [] }, NOW);
  expect(passed[0]).toBe('fleet/main  not reported yet: does the hub controller run?');
  expect(passed).toContain('  nothing: no rollout is under way');
  const held = { ...status, conditions: [condition('Ready', 'False', 'HeldBack', '4 of its 8 machines would go')] };
  const waits = fleetLines({ fleet: { ...fleet, status: held }, rollouts: [], clusters: [] }, NOW);
  expect(waits.join('\n')).toMatch(/DOES NOT PASS YET\n {2}HeldBack.*4 of its 8 machines would go/);
});

describe('a name', () => {
  it('is found in a cell by what it is, or reported as missing or ambiguous, with what to do next', async () => {
    const clock = systemClock({ ref: true });
    const cluster = await openCluster({ name: 'cell', state: 'memory', clock });
    try {
      const client = createClient(cluster.asUser(), { fieldManager: 'a-test' });
      for (const kind of CELL_KINDS) await client.create(CustomResourceDefinitions, CustomResourceDefinitions.parse(kind.crd()));
      for (const name of ['web', 'db'])
        await client.create(Namespaces, Namespaces.parse({ apiVersion: 'v1', kind: 'Namespace', metadata: { name } }));
      const bare = (namespace: string, name: string): Machine => ({
        apiVersion: API_VERSION,
        kind: 'Machine',
        metadata: { namespace, name },
        spec: {},
      });
      await client.create(Machines, bare('web', 'a'));
      await client.create(Machines, bare('web', 'twice'));
      await client.create(Machines, bare('db', 'twice'));
      const made = await client.create(Nodes, Nodes.parse({ apiVersion: 'v1', kind: 'Node', metadata: { name: 'ip-10-0-0-1' } }));
      await client.patch(
        Machines,
        { namespace: 'web', name: 'a' },
        { merge: { status: { nodeRef: { name: 'ip-10-0-0-1', uid: made.metadata.uid } } } },
        { subresource: 'status' },
      );
      await client.create(Leases, Leases.parse({ ...renewed(1), metadata: { namespace: 'kube-node-lease', name: 'ip-10-0-0-1' } }));
      const { metadata, ...rest } = job(undefined);
      await client.create(RemedyOperationJobs, { ...rest, metadata: { namespace: 'web', name: 'hung-1', labels: metadata.labels ?? {} } });
      const { spec } = rule('hung', { when: { all: [{ fact: 'peers.pool.total', operator: 'equal', value: 1 }] } });
      await client.create(NodeRemediers, { apiVersion: API_VERSION, kind: 'NodeRemedier', metadata: { name: 'hung' }, spec });

      await client.create(MachineSets, {
        apiVersion: API_VERSION,
        kind: 'MachineSet',
        metadata: { namespace: 'web', name: 'workers' },
        spec: { provider: { name: 'local' } },
      });
      await client.create(MachineComponentSets, {
        apiVersion: API_VERSION,
        kind: 'MachineComponentSet',
        metadata: { name: 'kubelet' },
        spec: { componentName: 'kubelet', version: '1' },
      });

      const kindOf = async (text: string, namespace?: string) => (await findSubject(client, text, namespace)).kind;
      expect(await kindOf('a')).toBe('machine');
      expect(await kindOf('ip-10-0-0-1')).toBe('machine');
      expect(await kindOf('node/ip-10-0-0-1')).toBe('machine');
      expect(await kindOf('hung-1')).toBe('job');
      expect(await kindOf('rule/hung')).toBe('rule');
      // As `status` and Events print them.
      for (const name of ['MachineSet/web/workers', 'machineset/workers', 'mset/workers', 'workers'])
        expect(await kindOf(name), name).toBe('machineset');
      for (const name of ['MachineComponentSet/kubelet', 'mcs/kubelet', 'kubelet'])
        expect(await kindOf(name), name).toBe('machinecomponentset');
      expect(await kindOf('twice', 'db')).toBe('machine');
      expect((await findSubject(client, 'machine/db/twice', undefined)).object.metadata.namespace).toBe('db');
      expect(await kindOf('machine.kubenode.io/a')).toBe('machine');
      await expect(findSubject(client, 'twice', undefined)).rejects.toMatchObject({
        code: 'Ambiguous',
        message: '"twice" is machine/db/twice and machine/web/twice',
        next: 'kubenode why machine/twice -n db',
      });
      await expect(findSubject(client, 'nothing', 'web')).rejects.toMatchObject({
        code: 'NotFound',
        message: 'this API server has no object "nothing" in web',
        next: expect.stringContaining('--context') as unknown,
      });
      // Who has named the cluster is not asked to name one.
      await expect(findSubject(client, 'machine/gone', undefined, { context: 'prod' })).rejects.toMatchObject({
        code: 'NotFound',
        message: 'the API server of context "prod" has no machine "gone": it is gone, or never was there',
        next: 'what was reported of it lately: kubectl get events -A --field-selector involvedObject.name=gone --context prod',
      });
      await expect(findSubject(client, 'twice', undefined, { context: 'prod' })).rejects.toMatchObject({
        next: 'kubenode why machine/twice -n db --context prod',
      });
      await expect(findSubject(client, 'pod/a', undefined)).rejects.toMatchObject({ code: 'Usage', next: 'kubenode why a' });
      for (const wrong of ['node/', '/a', 'machine//a', 'machine/web/a/b', 'machine.example.com/a'])
        await expect(findSubject(client, wrong, undefined), wrong).rejects.toMatchObject({ code: 'Usage' });

      // The whole way, peers counted: one other machine in the pool.
      const { lines } = await answer(client, await findSubject(client, 'a', undefined), Date.now());
      expect(lines.join('\n')).toContain('yes   peers.pool.total is 1; found 1');
      expect((await answer(client, await findSubject(client, 'rule/hung', undefined), Date.now())).lines[0]).toBe(
        'rule/hung  Enforce, not reconciled yet',
      );
    } finally {
      await cluster.close();
    }
  });
});
