/* oxlint-disable no-new -- in cdk8s making something is enough */
import { ApiObject } from 'cdk8s';
import { describe, expect, it } from 'vitest';
import { NodeRemediers } from '../../api/node-remedier.ts';
import { rehearsalTerms } from '../../api/rehearsal.ts';
import { checkRule } from '../../rules/check.ts';
import { Fleet } from '../fleet.ts';
import {
  all,
  any,
  askHuman,
  cleanDisk,
  condition,
  fact,
  machineCondition,
  migratePods,
  NodeRemedier,
  not,
  reboot,
  release,
  replaceMachine,
  restartComponent,
  type Cluster,
  type NodeRemedierProps,
} from '../index.ts';

function made(build: (cluster: Cluster) => void): Record<string, unknown>[] {
  const fleet = new Fleet();
  fleet.cluster('prod');
  fleet.allClusters(build);
  const [cluster] = fleet.build();
  const constructs = cluster?.node.root.node.findAll() ?? [];
  return constructs.filter((each) => ApiObject.isApiObject(each)).map((each) => each.toJson() as Record<string, unknown>);
}

const HUNG: NodeRemedierProps = {
  when: all(condition('KernelDeadlock').is('True'), fact('machine.phase').equals('Running')),
  holdsForSeconds: 30,
  ladder: [migratePods({ graceSeconds: 30 }), reboot({ attempts: 1, timeoutSeconds: 600 }), replaceMachine()],
  healedWhen: { condition: 'KernelDeadlock', is: 'False', onNewBoot: true, forSeconds: 300 },
};

describe('a rule', () => {
  it('is written as the design defines, ends at a human and is in Shadow unless it sets another mode', () => {
    const [object] = made((cluster) => new NodeRemedier(cluster, 'hung', HUNG));
    expect(object).toEqual({
      apiVersion: 'kubenode.io/v1alpha1',
      kind: 'NodeRemedier',
      metadata: { name: 'hung' },
      spec: {
        when: {
          all: [
            { fact: 'condition.KernelDeadlock.status', operator: 'equal', value: 'True' },
            { fact: 'machine.phase', operator: 'equal', value: 'Running' },
          ],
        },
        holdsForSeconds: 30,
        ladder: [
          { action: 'MigratePods', args: { graceSeconds: 30 } },
          { action: 'Reboot', attempts: 1, timeoutSeconds: 600 },
          { action: 'Replace' },
          { action: 'Human' },
        ],
        healedWhen: { condition: 'KernelDeadlock', is: 'False', onNewBoot: true, forSeconds: 300 },
        mode: 'Shadow',
      },
    });
    expect(NodeRemediers.validate(object)).toEqual([]);
    expect(checkRule(object)).toEqual([]);
  });

  it('of one fact is a group of one, and keeps the human that it was given', () => {
    const [object] = made(
      (cluster) =>
        new NodeRemedier(cluster, 'disk', {
          ...HUNG,
          when: machineCondition('DiskFull').is('True'),
          ladder: [cleanDisk({ belowPercent: 80 }), askHuman({ note: 'see runbooks/disk.md' })],
          healedWhen: { condition: 'DiskFull', of: 'Machine', is: 'False', forSeconds: 60 },
          pools: [cluster.pool('web'), 'db'],
          mode: 'Enforce',
          enforceAfter: { shadowSeconds: 3600, maxJobs: 1 },
        }),
    ).filter((each) => each['kind'] === 'NodeRemedier');
    expect(object).toMatchObject({
      metadata: { annotations: { 'kubenode.io/enforce-after-shadow-seconds': '3600', 'kubenode.io/enforce-up-to-would-be-jobs': '1' } },
      spec: {
        when: { all: [{ fact: 'machine.condition.DiskFull.status', operator: 'equal', value: 'True' }] },
        ladder: [
          { action: 'CleanDisk', args: { belowPercent: 80 } },
          { action: 'Human', args: { note: 'see runbooks/disk.md' } },
        ],
        pools: ['web', 'db'],
        mode: 'Enforce',
      },
    });
    expect(rehearsalTerms(NodeRemediers.parse(object))).toEqual({ shadowSeconds: 3600, maxJobs: 1 });
  });

  it('restarts a component that is named, or that a release is of', () => {
    const kubelet = release('kubelet', '1.0.0', { any: { url: 'k.tgz', sha256: 'ab'.repeat(32) } });
    expect(restartComponent(kubelet, { attempts: 2 })).toEqual({ action: 'RestartComponent', args: { component: 'kubelet' }, attempts: 2 });
    expect(restartComponent('containerd')).toEqual({ action: 'RestartComponent', args: { component: 'containerd' } });
  });

  it('is for a cluster and not for a pool', () => {
    expect(() => made((cluster) => new NodeRemedier(cluster.pool('web'), 'hung', HUNG))).toThrow('must not be made in pool "web"');
  });
});

describe('every kind of term', () => {
  it.each([
    [condition('Ready').isOneOf('False', 'Unknown'), { fact: 'condition.Ready.status', operator: 'in', value: ['False', 'Unknown'] }],
    [condition('Ready').health.equals('Unhealthy'), { fact: 'condition.Ready.health', operator: 'equal', value: 'Unhealthy' }],
    [condition('Ready').reason.in('A', 'B'), { fact: 'condition.Ready.reason', operator: 'in', value: ['A', 'B'] }],
    [
      condition('X').rises(1200).atLeast(3),
      { fact: 'condition.X.rises', operator: 'greaterThanInclusive', value: 3, params: { windowSeconds: 1200 } },
    ],
    [condition('X').ageSeconds.above(60), { fact: 'condition.X.ageSeconds', operator: 'greaterThan', value: 60 }],
    [
      fact('peers.rack.unhealthyPercent').hysteresis({ enter: 20, leave: 5 }),
      { fact: 'hysteresis.peers.rack.unhealthyPercent', operator: 'equal', value: true, params: { enter: 20, leave: 5 } },
    ],
    [fact('peers.zone.condition.KernelDeadlock').below(3), { fact: 'peers.zone.condition.KernelDeadlock', operator: 'lessThan', value: 3 }],
    [fact('node.taints').contains('a'), { fact: 'node.taints', operator: 'contains', value: 'a' }],
    [
      fact('machine.label.tier', { default: '' }).notEquals('db'),
      { fact: 'machine.label.tier', operator: 'notEqual', value: 'db', params: { default: '' } },
    ],
    [machineCondition('X').reason.equals('Y'), { fact: 'machine.condition.X.reason', operator: 'equal', value: 'Y' }],
    [not(fact('machine.pool').equals('db')), { not: { fact: 'machine.pool', operator: 'equal', value: 'db' } }],
    [fact('machine.pool').notIn('a', 'b'), { fact: 'machine.pool', operator: 'notIn', value: ['a', 'b'] }],
    [any(fact('component.kubelet.driftRepairs').atMost(2)), { any: [expect.anything()] }],
  ])('%# passes the check of rules', (term, object) => {
    expect(term.term).toEqual(object);
    const [rule] = made((cluster) => new NodeRemedier(cluster, 'r', { ...HUNG, when: term }));
    expect(checkRule(rule)).toEqual([]);
  });

  it('is known to have an answer only where all its facts are', () => {
    expect(all(fact('machine.pool').equals('a'), fact('machine.name').equals('b')).known).toBe(true);
    expect(all(fact('machine.pool').equals('a'), condition('Ready').is('True')).known).toBe(false);
  });
});

/** Each line is refused by the compiler, and by the constructs where there is none. */
describe('what cannot be', () => {
  it.each([
    // @ts-expect-error no such fact
    ['a fact that is not there', () => fact('machine.phases'), 'there is no fact "machine.phases"; there are machine.phase'],
    // @ts-expect-error no such scope
    ['a scope that is not there', () => fact('peers.row.total'), 'there is no fact "peers.row.total"; there are peers.<scope>.total'],
    // @ts-expect-error no such phase
    ['a value that it never has', () => fact('machine.phase').equals('Runing'), 'is never "Runing"; it is one of Pending'],
    // @ts-expect-error no such status
    ['a status that there is not', () => condition('Ready').is('true'), 'is never "true"; it is one of True, False, Unknown'],
    // @ts-expect-error a number
    ['a value of another type', () => fact('peers.rack.total').below('3'), 'is a number, and is never "3"'],
    // @ts-expect-error not a number
    ['an operator of another type', () => fact('machine.phase').below(3), 'is a string: below(…) does not apply to it; equals, in'],
    // @ts-expect-error it may be missing
    ['a negation over what may be missing', () => fact('machine.phase').notEquals('Running'), 'would be true while it is missing'],
    // @ts-expect-error it may be missing, and has no default
    ['an absence without a default', () => fact('node.label.x').notEquals('a'), 'would be true while it is missing'],
    // @ts-expect-error it may be missing
    ['a not over what may be missing', () => not(condition('Ready').is('True')), 'would be true while that is not known'],
    // @ts-expect-error it needs a window
    ['a missing parameter', () => fact('condition.X.rises').below(3), 'needs "windowSeconds"'],
    // @ts-expect-error it has none
    ['a parameter that it has not', () => fact('machine.phase', { default: 'Running' }), 'has no parameter "default"'],
    // @ts-expect-error at least one
    ['an empty group', () => all(), 'needs at least one condition'],
    // @ts-expect-error at least one
    ['an empty list', () => fact('machine.phase').in(), 'needs at least one value'],
    // @ts-expect-error not a condition
    ['a group of something else', () => all({ fact: 'x' }), 'argument 1 of all(…) is not a condition'],
    // @ts-expect-error it needs one
    ['an action without its argument', () => cleanDisk({}), '`belowPercent` of CleanDisk is missing: the use of the disk'],
  ])('%s', (_, make: () => unknown, message) => {
    expect(make).toThrow(message);
  });

  it.each([
    ['an argument that cannot be', () => cleanDisk({ belowPercent: 100 }), '`belowPercent` of CleanDisk must not be 100: the use'],
    ['a band that leaves above', () => fact('peers.rack.total').hysteresis({ enter: 3, leave: 3 }), 'must leave below where it enters'],
    [
      'half a job',
      () => made((cluster) => new NodeRemedier(cluster, 'r', { ...HUNG, enforceAfter: { maxJobs: 0.5 } })),
      '`enforceAfter.maxJobs` of "r" must be a whole number from 0, got 0.5',
    ],
    [
      'a rule of nothing',
      // @ts-expect-error not a condition
      () => made((cluster) => new NodeRemedier(cluster, 'r', { ...HUNG, when: 'always' })),
      '`when` of "r" is not a condition',
    ],
  ])('%s', (_, make, message) => {
    expect(make).toThrow(message);
  });

  it('is thrown with the line of fleet code in its stack', () => {
    // @ts-expect-error no such fact
    expect(() => fact('nothing')).toThrow(
      expect.objectContaining({ code: 'FactUnknown', stack: expect.stringContaining('remedy.test.ts') as string }),
    );
  });
});
