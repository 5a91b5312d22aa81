/** Failure stories of others' healers, and what the rules do in them. The numbers come from the checklist of concrete tests. */
import { describe, expect, it } from 'vitest';
import type { NodeRemedier } from '../api/node-remedier.ts';
import { checkRule } from './check.ts';
import { explanationLines } from './explain.ts';
import type { History } from './history.ts';
import { replay } from './replay.ts';
import { bad, good, history, rule, ruleObject } from './testing.ts';

const well = { KernelDeadlock: 'False', KubeletUnhealthy: 'False' } as const;
const ill = (at: number): History['events'][number] => ({ at, conditions: { KernelDeadlock: 'True' } });
const run = (rules: NodeRemedier[], events: History['events'], rest: Partial<History> = {}) =>
  replay(rules, history([{ at: 0, conditions: well }, ...events], rest));
const jobsOf = async (...args: Parameters<typeof run>) =>
  (await run(...args)).jobs.map(({ rule, action, at, ends }) => `${rule} ${action} ${at} ${ends}`);

const hung = rule('hung');
const LADDER: NodeRemedier['spec']['ladder'] = [
  { action: 'MigratePods' },
  { action: 'Reboot', attempts: 2, timeoutSeconds: 300, cooldownSeconds: 120 },
  { action: 'Replace' },
  { action: 'Human' },
];

it('kubelets lost their API path (MCM #679): with many unhealthy peers the rule does not match, and reports that', async () => {
  const guarded = rule('not-ready', {
    when: {
      all: [
        { fact: 'condition.Ready.status', operator: 'in', value: ['False', 'Unknown'] },
        { fact: 'peers.rack.unhealthyPercent', operator: 'lessThan', value: 20 },
      ],
    },
    healedWhen: { condition: 'Ready', is: 'True', forSeconds: 60 },
  });
  const rack = (unhealthy: number) => ({ peers: { rack: { total: 10, unhealthy } } });
  expect(await jobsOf([guarded], [{ at: 10, kubelet: 'Stale', ...rack(9) }], { untilSeconds: 3000 })).toEqual([]);
  const passes: History['events'] = [
    { at: 10, kubelet: 'Stale', ...rack(9) },
    { at: 500, ...rack(1) },
  ];
  expect(await jobsOf([guarded], passes, { untilSeconds: 600 })).toEqual(['not-ready Reboot 530 Open']);
  const { last } = await run([guarded], [{ at: 10, kubelet: 'Stale', ...rack(9) }]);
  expect(last[0]?.missing).toEqual(['peers.rack.unhealthyPercent is below 20; found 90']);
});

it('F6: of two rules that are due at once the stronger action happens, with any names of the rules', async () => {
  const also = (name: string, action: 'RestartComponent' | 'Reboot' | 'Human') =>
    rule(name, { ladder: [action === 'RestartComponent' ? { action, args: { component: 'kubelet' } } : { action }, { action: 'Human' }] });
  const first = async (...rules: NodeRemedier[]) => (await jobsOf(rules, [ill(10)], { untilSeconds: 60 }))[0];
  expect(await first(also('a', 'RestartComponent'), also('b', 'Reboot'))).toBe('b Reboot 40 Open');
  expect(await first(also('b', 'RestartComponent'), also('a', 'Reboot'))).toBe('a Reboot 40 Open');
  expect(await first(also('a', 'Human'), also('b', 'RestartComponent'))).toBe('b RestartComponent 40 Open');
});

it('an unknown rack is no rack without trouble', async () => {
  const guarded = rule('guarded', {
    when: { all: [bad('KernelDeadlock'), { fact: 'peers.rack.unhealthy', operator: 'lessThan', value: 2 }] },
  });
  const { jobs, last } = await run([guarded], [ill(10)]);
  expect(jobs).toEqual([]);
  expect(last[0]).toMatchObject({ truth: 'Unknown', missing: ['peers.rack.unhealthy is below 2; found unknown: its rack is not known'] });
});

it('a restart replays a stale event and reboots a busy node (NVSentinel #1280): what was done is in the jobs, and is not done again', async () => {
  const events: History['events'] = [
    ill(100),
    { at: 140, controller: 'Restarts' },
    { at: 150, acted: 'Succeeded' },
    { at: 200, controller: 'Restarts' },
  ];
  expect(await jobsOf([hung], events, { untilSeconds: 500 })).toEqual(['hung Reboot 130 Open']);
});

it('timers in memory were lost (draino #63): a restart neither forgets how long it matched nor begins again', async () => {
  const slow = rule('slow', { holdsForSeconds: 600 });
  const restarts: History['events'] = [
    ill(100),
    { at: 400, controller: 'Restarts' },
    { at: 650, controller: 'Stops' },
    { at: 695, controller: 'Restarts' },
  ];
  expect(await jobsOf([slow], restarts, { untilSeconds: 800 })).toEqual(['slow Reboot 700 Open']);
});

it('and no sample was taken while it flapped: that time does not count', async () => {
  const slow = rule('slow', { holdsForSeconds: 60 });
  const events: History['events'] = [
    ill(100),
    { at: 101, controller: 'Stops' },
    { at: 105, conditions: { KernelDeadlock: 'False' } },
    { at: 155, conditions: { KernelDeadlock: 'True' } },
    { at: 160, controller: 'Restarts' },
  ];
  expect(await jobsOf([slow], events, { untilSeconds: 400 })).toEqual(['slow Reboot 220 Open']);
});

it('breaker reset replays days of events (NVSentinel #450): what has cleared meanwhile fires nothing', async () => {
  const events: History['events'] = [
    ill(100),
    { at: 101, controller: 'Stops' },
    { at: 200, conditions: { KernelDeadlock: 'False' } },
    { at: 300_000, controller: 'Restarts' },
  ];
  expect(await jobsOf([hung], events)).toEqual([]);
});

it('two healers (NHC #116): while an operation has reserved the machine no rule is due, and the clock begins again when it ends', async () => {
  const events: History['events'] = [ill(100), { at: 110, operation: 'Begins' }, { at: 500, operation: 'Ends' }];
  expect(await jobsOf([hung], events, { untilSeconds: 600 })).toEqual(['hung Reboot 530 Open']);
  const { last } = await run([hung], events.slice(0, 2), { untilSeconds: 300 });
  expect(last[0]?.summary).toBe('matches; its clock stops while an operation has reserved the machine');
});

it('an operation that came and went between two samples restarts the clock as well', async () => {
  const events: History['events'] = [
    ill(100),
    { at: 101, controller: 'Stops' },
    { at: 110, operation: 'Begins' },
    { at: 120, operation: 'Ends' },
    { at: 128, controller: 'Restarts' },
  ];
  expect(await jobsOf([hung], events, { untilSeconds: 200 })).toEqual(['hung Reboot 158 Open']);
});

it('an error resets the timer (EKS agent PR #52): flapping extends it', async () => {
  const slow = rule('slow', { holdsForSeconds: 120 });
  const events = [100, 200, 300].flatMap((at): History['events'] => [ill(at), { at: at + 50, conditions: { KernelDeadlock: 'False' } }]);
  expect(await jobsOf([slow], events, { untilSeconds: 360 })).toEqual(['slow Reboot 320 Open']);
});

it('an empty set meant everything (Google Diskerase): an empty selector is refused, and selects nothing', async () => {
  expect(checkRule(ruleObject('r', { selector: {} }))[0]?.message).toContain('matches nothing');
  expect(await jobsOf([rule('all', { selector: {} })], [ill(10)])).toEqual([]);
});

it('rules of other pools and labels leave a machine alone', async () => {
  const rules = [
    rule('pool', { pools: ['other'] }),
    rule('label', { selector: { tier: 'db' } }),
    rule('here', { pools: ['web'], selector: { tier: 'web' } }),
  ];
  expect(await jobsOf(rules, [ill(10)], { pool: 'web', machineLabels: { tier: 'web' }, untilSeconds: 100 })).toEqual([
    'here Reboot 40 Open',
  ]);
});

it('endless replace loop (CAPI #7353, NVSentinel #1543): the ladder is climbed once, and then a human is asked, once', async () => {
  const ladder = rule('hung', { ladder: LADDER });
  const acts: History['events'] = [150, 250, 800, 1300].map((at) => ({ at, acted: 'Succeeded' }));
  expect(await jobsOf([ladder], [ill(100), ...acts], { untilSeconds: 90_000 })).toEqual([
    'hung MigratePods 130 Succeeded',
    'hung Reboot 180 Failed',
    'hung Reboot 600 Failed',
    'hung Replace 1020 Succeeded',
    'hung Human 1330 NeedsHuman',
  ]);
});

it('the human who is asked reads what was seen, what was tried and how it ended', async () => {
  const short = rule('hung', {
    ladder: [
      { action: 'Reboot', timeoutSeconds: 60 },
      { action: 'Human', args: { note: 'see runbooks/hung.md' } },
    ],
  });
  const { jobs } = await run([short], [ill(100), { at: 140, acted: 'Succeeded' }], { untilSeconds: 300 });
  expect(jobs.at(-1)?.diagnosis).toEqual([
    'nothing helped: Reboot: PermanentFailure',
    'see runbooks/hung.md',
    'tried Reboot at 2026-01-01T00:02:10.000Z (hung-1): PermanentFailure: not proved within 60 s: it is still boot boot-1',
    'hung matches for 30 s of 30 s: due',
    '  yes all of',
    '  yes   condition.KernelDeadlock.status is "True"; found "True" (KernelDeadlockIsTrue)',
  ]);
});

it('a repair that helps for a while climbs as one that does not help', async () => {
  const short = rule('hung', { healedWhen: { condition: 'KernelDeadlock', is: 'False', forSeconds: 60 } });
  const heals = (at: number): History['events'] => [
    ill(at),
    { at: at + 40, acted: 'Succeeded' },
    { at: at + 50, boot: true, detectors: 'Restarted' },
  ];
  expect(await jobsOf([short], [...heals(100), ...heals(4000)], { untilSeconds: 5000 })).toEqual([
    'hung Reboot 130 Succeeded',
    'hung Human 4030 NeedsHuman',
  ]);
  expect(await jobsOf([short], [...heals(100), ...heals(100_000)], { untilSeconds: 101_000 })).toEqual([
    'hung Reboot 130 Succeeded',
    'hung Reboot 100030 Succeeded',
  ]);
});

it('a human who was asked is asked again only when it comes back', async () => {
  const page = rule('page', { ladder: [{ action: 'Human' }] });
  const events: History['events'] = [ill(100), { at: 5000, conditions: { KernelDeadlock: 'False' } }, ill(9000)];
  expect(await jobsOf([page], events)).toEqual(['page Human 130 NeedsHuman', 'page Human 9030 NeedsHuman']);
});

it('nor while it goes on under another reason, or while it is unknown whether it does', async () => {
  const page = rule('page', { ladder: [{ action: 'Human' }] });
  const events: History['events'] = [
    ill(100),
    { at: 300, conditions: { KernelDeadlock: { status: 'True', reason: 'Another' } } },
    { at: 400, detectors: 'Stale' },
    { at: 3000, detectors: 'Alive' },
  ];
  expect(await jobsOf([page], events)).toEqual(['page Human 130 NeedsHuman']);
});

it('20: the agent acts, its answer is lost, the controller restarts: one reboot, proved by its boot ID', async () => {
  const events: History['events'] = [
    ill(100),
    { at: 140, boot: true, detectors: 'Restarted' },
    { at: 150, controller: 'Restarts' },
    { at: 200, acted: 'Succeeded' },
  ];
  expect(await jobsOf([hung], events)).toEqual(['hung Reboot 130 Succeeded']);
});

it('21: a drain that was cancelled is no success, and counts as an attempt', async () => {
  const ladder = rule('hung', { ladder: LADDER });
  const events: History['events'] = [ill(100), { at: 150, acted: 'Cancelled' }];
  expect(await jobsOf([ladder], events, { untilSeconds: 200 })).toEqual(['hung MigratePods 130 Failed', 'hung Reboot 180 Open']);
});

describe('22: two rules that match one machine', () => {
  const kubelet = (spec: object) =>
    rule('kubelet', {
      when: { all: [bad('KubeletUnhealthy')] },
      ladder: [{ action: 'RestartComponent', args: { component: 'kubelet' } }, { action: 'Human' }],
      healedWhen: { condition: 'KubeletUnhealthy', is: 'False', forSeconds: 60 },
      ...spec,
    });
  const both: History['events'] = [{ at: 100, conditions: { KernelDeadlock: 'True', KubeletUnhealthy: 'True' } }];
  it('never act at once: the stronger action goes first', async () => {
    expect(await jobsOf([kubelet({}), hung], both, { untilSeconds: 400 })).toEqual(['hung Reboot 130 Open']);
  });
  it('go by priority before strength', async () => {
    expect(await jobsOf([hung, kubelet({ priority: 1 })], both, { untilSeconds: 400 })).toEqual(['kubelet RestartComponent 130 Open']);
  });
});

it('23: a node that recovers before its time fires nothing', async () => {
  expect(await jobsOf([hung], [ill(100), { at: 129, conditions: { KernelDeadlock: 'False' } }])).toEqual([]);
});

it.each([-3600, 3600])(
  '24: a clock that jumps by %i seconds makes nothing due earlier, and nothing healed earlier',
  async (clockSkewSeconds) => {
    const events: History['events'] = [
      ill(100),
      { at: 110, clockSkewSeconds },
      { at: 140, boot: true, detectors: 'Restarted' },
      { at: 141, acted: 'Succeeded' },
      { at: 200, clockSkewSeconds: -clockSkewSeconds },
    ];
    const { jobs } = await run([hung], events);
    expect(jobs.map(({ at, ends, endsAt }) => [at, ends, endsAt])).toEqual([[130, 'Succeeded', 500]]);
  },
);

it('an event from a node that was replaced under the same name is about another node', async () => {
  const { jobs, last } = await run([hung], [{ at: 50, nodeReplaced: true }, ill(100)]);
  expect(jobs).toEqual([]);
  expect(last.flatMap((each) => each.missing)[0]).toContain('replaced under the same name');
});

it('a rule in Shadow reports what it would have done, once', async () => {
  const shadow = rule('hung', { mode: 'Shadow', ladder: LADDER });
  const found = await replay([shadow], history([{ at: 0, conditions: well }, ill(100)]), { mode: 'AsWritten' });
  expect(found.jobs.map(({ action, at, ends }) => [action, at, ends])).toEqual([['MigratePods', 130, 'Shadow']]);
});

it('reports why it fired or did not, fact by fact', async () => {
  const subject = rule('hung', {
    when: { all: [bad('KernelDeadlock'), { any: [good('Other'), { not: { fact: 'machine.pool', operator: 'equal', value: 'pool' } }] }] },
  });
  const { last } = await run([subject], [{ at: 10, conditions: { KernelDeadlock: { status: 'True', reason: 'DockerHung' } } }], {
    untilSeconds: 20,
  });
  expect(last.flatMap(explanationLines)).toEqual([
    'hung does not match: something it needs is not known',
    '  ?   all of',
    '  yes   condition.KernelDeadlock.status is "True"; found "True" (DockerHung)',
    '  ?     any of',
    '  ?       condition.Other.status is "False"; found unknown: Node node-1 has no condition Other',
    '  no      not',
    '  yes       machine.pool is "pool"; found "pool"',
    '  would match with: any of: condition.Other.status is "False"; found unknown: Node node-1 has no condition Other | not: machine.pool is "pool"',
  ]);
});
