/** The traps of Node Problem Detector, each through the whole path: detector, snapshot, rules, ladder, proof. */
import { describe, expect, it } from 'vitest';
import type { History } from './history.ts';
import { replay } from './replay.ts';
import { bad, history, rule } from './testing.ts';

const hung = rule('hung');
const kubelet = rule('kubelet', {
  when: { all: [bad('KubeletUnhealthy')] },
  holdsForSeconds: 60,
  ladder: [{ action: 'RestartComponent', args: { component: 'kubelet' } }, { action: 'Human' }],
  healedWhen: { condition: 'KubeletUnhealthy', is: 'False', forSeconds: 300 },
});
const well = { KernelDeadlock: 'False', ReadonlyFilesystem: 'False', KubeletUnhealthy: 'False' } as const;
const jobsOf = async (rules: Parameters<typeof replay>[0], events: History['events'], rest: Partial<History> = {}) =>
  (await replay(rules, history([{ at: 0, conditions: well }, ...events], rest))).jobs.map(({ at, action, ends, endsAt }) =>
    [action, at, ends, endsAt].filter((each) => each !== undefined).join(' '),
  );

describe('log conditions latch True until the detector restarts', () => {
  it('so a reboot is proved by the new boot, and not by the False that any restart brings', async () => {
    const events: History['events'] = [
      { at: 100, conditions: { KernelDeadlock: 'True' } },
      { at: 140, acted: 'Succeeded', note: 'the agent reports that it rebooted' },
      { at: 150, detectors: 'Restarted', note: 'and that was only the detector' },
    ];
    expect(await jobsOf([hung], events, { untilSeconds: 2000 })).toEqual(['Reboot 130 Failed 730']);
    expect(await jobsOf([hung], [...events, { at: 160, boot: true, detectors: 'Restarted' }])).toEqual(['Reboot 130 Succeeded 460']);
  });
});

describe('a restart of the detector resets everything to False', () => {
  it('which does not end a fault that was about to be repaired', async () => {
    const events: History['events'] = [
      { at: 100, conditions: { KubeletUnhealthy: 'True' } },
      { at: 130, detectors: 'Restarted' },
      { at: 135, conditions: { KubeletUnhealthy: 'True' } },
    ];
    expect(await jobsOf([kubelet], events, { untilSeconds: 200 })).toEqual(['RestartComponent 165 Open']);
  });

  it('which is no recovery: the hold-down begins with the next heartbeat after it', async () => {
    const events: History['events'] = [
      { at: 100, conditions: { KubeletUnhealthy: 'True' } },
      { at: 170, acted: 'Succeeded' },
      { at: 200, detectors: 'Restarted' },
    ];
    const [job] = await jobsOf([kubelet], events, { untilSeconds: 1000 });
    expect(job).toBe('RestartComponent 160 Succeeded 560');
  });
});

describe("a transition carries the log line's time, by the node's clock", () => {
  it('so an old one does not make the wait shorter', async () => {
    const event = { at: 400, conditions: { KernelDeadlock: { status: 'True' as const, transitionAt: 100 } } };
    expect(await jobsOf([hung], [event], { untilSeconds: 500 })).toEqual(['Reboot 430 Open']);
  });

  it('nor one of the future', async () => {
    const event = { at: 400, conditions: { KernelDeadlock: { status: 'True' as const, transitionAt: 9000 } } };
    expect(await jobsOf([hung], [event], { untilSeconds: 500 })).toEqual(['Reboot 430 Open']);
  });

  it.each([-3600, 3600])('nor a clock that is %i seconds off', async (clockSkewSeconds) => {
    const events: History['events'] = [
      { at: 10, clockSkewSeconds },
      { at: 400, conditions: { KernelDeadlock: 'True' } },
    ];
    expect(await jobsOf([hung], events, { untilSeconds: 500 })).toEqual(['Reboot 430 Open']);
  });
});

describe('a dead detector leaves stale conditions behind', () => {
  it('which are Unknown after two periods, and fire nothing', async () => {
    const slow = rule('slow', { holdsForSeconds: 900 });
    const dead: History['events'] = [
      { at: 100, conditions: { KernelDeadlock: 'True' } },
      { at: 110, detectors: 'Stale' },
    ];
    expect(await jobsOf([slow], dead, { untilSeconds: 7200 })).toEqual([]);
    expect(await jobsOf([slow], dead.slice(0, 1), { untilSeconds: 1001 })).toEqual(['Reboot 1000 Open']);
  });

  it('and a rule that asks for Unknown by name matches it', async () => {
    const notReady = rule('not-ready', {
      when: { all: [{ fact: 'condition.Ready.status', operator: 'in', value: ['False', 'Unknown'] }] },
      holdsForSeconds: 120,
      healedWhen: { condition: 'Ready', is: 'True', forSeconds: 60 },
    });
    // 40 s until its Lease is stale, and the 120 s of the rule.
    expect(await jobsOf([notReady], [{ at: 100, kubelet: 'Stale' }], { untilSeconds: 300 })).toEqual(['Reboot 260.001 Open']);
  });

  it('nor prove that anything was healed', async () => {
    const events: History['events'] = [
      { at: 100, conditions: { KubeletUnhealthy: 'True' } },
      { at: 161, conditions: { KubeletUnhealthy: 'False' } },
      { at: 162, detectors: 'Stale' },
      { at: 163, acted: 'Succeeded' },
    ];
    expect(await jobsOf([kubelet], events, { untilSeconds: 3000 })).toEqual(['RestartComponent 160 Failed 760']);
  });
});

describe('Events are lossy', () => {
  const flapping = rule('flapping', {
    when: {
      all: [{ fact: 'condition.KubeletUnhealthy.rises', operator: 'greaterThanInclusive', value: 3, params: { windowSeconds: 1200 } }],
    },
    holdsForSeconds: 0,
    healedWhen: { condition: 'KubeletUnhealthy', is: 'False', forSeconds: 300 },
  });
  const rises = (...at: number[]): History['events'] =>
    at.flatMap((each) => [
      { at: each, conditions: { KubeletUnhealthy: 'True' as const } },
      { at: each + 5, conditions: { KubeletUnhealthy: 'False' as const } },
    ]);

  it('so how often is counted from what the controller saw of the condition', async () => {
    expect(await jobsOf([flapping], rises(100, 400, 700), { untilSeconds: 800 })).toEqual(['Reboot 700 Open']);
    expect(await jobsOf([flapping], rises(100, 400, 1301), { untilSeconds: 1400 })).toEqual([]);
  });

  it('and a detector that stops reporting and starts again has seen nothing new', async () => {
    const often = {
      ...flapping.spec,
      when: { all: [{ fact: 'condition.KubeletUnhealthy.rises', operator: 'greaterThan', value: 1, params: { windowSeconds: 7200 } }] },
    };
    const stale: History['events'] = [
      { at: 100, conditions: { KubeletUnhealthy: 'True' } },
      { at: 110, detectors: 'Stale' },
      { at: 2000, detectors: 'Alive' },
    ];
    expect(await jobsOf([rule('often', often)], stale, { untilSeconds: 3000 })).toEqual([]);
  });

  it('over restarts of the controller', async () => {
    const [a, b, c] = [rises(100), rises(400), rises(700)];
    const restart: History['events'] = [{ at: 500, controller: 'Restarts' }];
    expect(await jobsOf([flapping], [...a, ...b, ...restart, ...c], { untilSeconds: 800 })).toEqual(['Reboot 700 Open']);
  });

  it('and an old log line that a restarted detector reads again is no new rise', async () => {
    const once = { KubeletUnhealthy: { status: 'True' as const, reason: 'R', transitionAt: 100 } };
    const replayed = (at: number): History['events'] => [
      { at, detectors: 'Restarted' },
      { at: at + 1, conditions: once },
    ];
    expect(
      await jobsOf([flapping], [{ at: 100, conditions: once }, ...replayed(200), ...replayed(300), ...replayed(400)], {
        untilSeconds: 500,
      }),
    ).toEqual([]);
  });
});

describe('polarity', () => {
  const ready = rule('kernel-ready', {
    when: { all: [{ fact: 'condition.KernelReady.health', operator: 'equal', value: 'Unhealthy' }] },
    healedWhen: { condition: 'KernelReady', is: 'True', forSeconds: 60 },
  });
  it('is part of the fact: KernelReady is bad when False', async () => {
    expect(await jobsOf([ready], [{ at: 10, conditions: { KernelReady: 'True' } }], { untilSeconds: 300 })).toEqual([]);
    expect(await jobsOf([ready], [{ at: 10, conditions: { KernelReady: 'False' } }], { untilSeconds: 300 })).toEqual(['Reboot 40 Open']);
  });
});

it('a condition that is not there fires nothing, and reports why', async () => {
  const { jobs, last } = await replay([rule('r', { when: { all: [bad('Absent')] } })], history([{ at: 0, conditions: well }]));
  expect(jobs).toEqual([]);
  expect(last[0]).toMatchObject({
    truth: 'Unknown',
    missing: ['condition.Absent.status is "True"; found unknown: Node node-1 has no condition Absent'],
  });
});
