import { describe, expect, it } from 'vitest';
import type { Machine, Observation } from '../api/machine.ts';
import type { NodeRemedier } from '../api/node-remedier.ts';
import { observeHeartbeats } from './heartbeats.ts';
import type { HistoryEvent } from './history.ts';
import { compileRule, indexRules } from './index.ts';
import { runPass, type RulePassResult } from './pass.ts';
import { RecordedMachine } from './recorded.ts';
import { takeSnapshot } from './snapshot.ts';
import { bad, history, rule } from './testing.ts';

interface Given {
  names?: readonly string[];
  observations?: readonly Observation[];
  paused?: boolean;
  edit?: (machine: Machine) => Machine;
}
type At = (seconds: number, given?: Given) => Promise<RulePassResult>;

/** Observes a machine to which the event happened at 0. */
function machineWith(event: Omit<HistoryEvent, 'at'>, ...rules: NodeRemedier[]): { at: At; world: RecordedMachine } {
  const world = new RecordedMachine(history([{ at: 0 }]));
  world.apply({ at: 0, ...event }, world.startMs);
  const index = indexRules(rules.map(compileRule));
  const at: At = async (seconds, { names, observations = [], paused = false, edit = (machine: Machine) => machine } = {}) => {
    const nowMs = world.startMs + seconds * 1000;
    const node = world.node(nowMs);
    const snapshot = takeSnapshot({
      nowMs,
      machine: edit(world.machine()),
      node,
      heartbeats: observeHeartbeats(undefined, 'node-uid-1', node.status?.conditions ?? [], nowMs),
      kubeletFreshUntilMs: nowMs,
      agentFreshUntilMs: nowMs,
      peers: world.peers,
      pause: { paused, releasedAtMs: undefined },
    });
    return await runPass({ index, names: names ?? [...index.rules.keys()], snapshot, observations });
  };
  return { at, world };
}

const hung = rule('hung', { holdsForSeconds: 600 });
const ILL = { conditions: { KernelDeadlock: 'True' } } as const;

it('a name of a rule that is gone names no rule', async () => {
  const { at } = machineWith(ILL, hung);
  expect((await at(0, { names: ['gone', 'hung'] })).outcomes.map((outcome) => outcome.rule.name)).toEqual(['hung']);
});

it('a rule that leaves a machine, and comes back to it, has not matched meanwhile', async () => {
  const inWeb = rule('hung', { holdsForSeconds: 600, selector: { tier: 'web' } });
  const { at } = machineWith(ILL, inWeb);
  const tier = (value: string) => (machine: Machine) => ({ ...machine, metadata: { ...machine.metadata, labels: { tier: value } } });
  const first = await at(0, { edit: tier('web') });
  expect(first.observations).toHaveLength(1);
  const left = await at(30, { edit: tier('db'), observations: first.observations });
  expect([left.outcomes, left.changed]).toEqual([[], true]);
  const back = await at(50, { edit: tier('web'), observations: left.observations });
  expect(back.outcomes[0]?.matchedMs).toBe(0);
  const late = await at(300, { edit: tier('db'), observations: left.observations });
  expect(late.observations).toEqual([]);
});

it('since when it matches is not reported while it does not, though its clock waits for it to come back', async () => {
  const { at, world } = machineWith(ILL, hung);
  const first = await at(0);
  expect(first.outcomes).toMatchObject([{ sinceMs: world.startMs, matchedMs: 0 }]);
  world.apply({ at: 0, conditions: { KernelDeadlock: 'False' } }, world.startMs + 10_000);
  const gap = await at(10, { observations: first.observations });
  expect(gap.outcomes).toMatchObject([{ truth: 'False', sinceMs: undefined, matchedMs: 0, due: false }]);
  world.apply({ at: 0, conditions: { KernelDeadlock: 'True' } }, world.startMs + 20_000);
  expect((await at(20, { observations: gap.observations })).outcomes).toMatchObject([
    { sinceMs: world.startMs + 10_000, matchedMs: 10_000 },
  ]);
});

it('for a fact without transitions only the time counts in which it was observed', async () => {
  const running = rule('running', {
    when: { all: [{ fact: 'machine.phase', operator: 'equal', value: 'Running' }] },
    holdsForSeconds: 600,
  });
  const { at } = machineWith({}, running);
  const first = await at(0);
  const matchedAt = async (seconds: number) => (await at(seconds, { observations: first.observations })).outcomes[0]?.matchedMs;
  expect([await matchedAt(90), await matchedAt(91)]).toEqual([90_000, 0]);
});

describe('the next pass', () => {
  it('at a rule that matches is when it is due, and well within the time that counts as flapping until then', async () => {
    expect((await machineWith(ILL, hung).at(0)).nextAtMs).toBe(Date.parse('2026-01-01T00:00:30Z'));
    const soon = machineWith(ILL, rule('hung', { holdsForSeconds: 10 }));
    const first = await soon.at(0);
    expect(first).toMatchObject({ nextAtMs: soon.world.startMs + 10_000, outcomes: [{ due: false, waits: 'Time' }] });
    const due = await soon.at(10, { observations: first.observations });
    expect(due).toMatchObject({ nextAtMs: undefined, outcomes: [{ due: true, waits: undefined, matchedMs: 10_000 }] });
  });

  it('at one that does not match is none, and of several it is the earliest', async () => {
    expect((await machineWith({}, hung).at(0)).nextAtMs).toBeUndefined();
    const { at, world } = machineWith(ILL, hung, rule('soon', { holdsForSeconds: 5 }), rule('later', { holdsForSeconds: 20 }));
    expect((await at(0)).nextAtMs).toBe(world.startMs + 5000);
  });

  it('at one that waits for an age is regular, since only watched time counts, and when the age is reached', async () => {
    const aging = rule('aging', { when: { all: [{ fact: 'condition.KernelDeadlock.ageSeconds', operator: 'greaterThan', value: 600 }] } });
    const { at, world } = machineWith(ILL, aging);
    expect((await at(0)).nextAtMs).toBe(world.startMs + 30_000);
    const young = machineWith(
      ILL,
      rule('aging', { when: { all: [{ fact: 'condition.KernelDeadlock.ageSeconds', operator: 'greaterThan', value: 20 }] } }),
    );
    expect((await young.at(0)).nextAtMs).toBe(young.world.startMs + 20_000);
    expect((await at(0, { paused: true })).nextAtMs).toBeUndefined();
    const old = { fact: 'condition.KernelDeadlock.ageSeconds', operator: 'greaterThan', value: 600 };
    const both = machineWith(ILL, rule('both', { when: { all: [old, { fact: 'machine.phase', operator: 'equal', value: 'Running' }] } }));
    expect((await both.at(0)).nextAtMs).toBe(both.world.startMs + 30_000);
  });

  it('at one that waits for an age to pass is when it has passed, and none after that', async () => {
    const young = { fact: 'condition.KernelDeadlock.ageSeconds', operator: 'lessThanInclusive', value: 20 };
    const { at, world } = machineWith(ILL, rule('young', { when: { all: [young] } }));
    const first = await at(0);
    expect(first.nextAtMs).toBe(world.startMs + 20_000);
    const next = async (seconds: number) => (await at(seconds, { observations: first.observations })).nextAtMs;
    expect([await next(20), await next(21)]).toEqual([world.startMs + 21_000, undefined]);
    const band = {
      fact: 'hysteresis.condition.KernelDeadlock.ageSeconds',
      operator: 'equal',
      value: true,
      params: { enter: 15, leave: 5 },
    };
    const banded = machineWith(ILL, rule('banded', { when: { all: [band] } }));
    const begun = await banded.at(0);
    expect(begun.nextAtMs).toBe(world.startMs + 1000);
    expect((await banded.at(7, { observations: begun.observations })).nextAtMs).toBe(world.startMs + 15_000);
  });

  it('at one that counts rises is when the oldest leaves the window, and no sooner', async () => {
    const leaf = { fact: 'condition.KernelDeadlock.rises', operator: 'greaterThan', value: 2, params: { windowSeconds: 900 } };
    const { at, world } = machineWith(ILL, rule('often', { when: { all: [leaf] } }));
    expect((await at(0)).nextAtMs).toBe(world.startMs + 900_001);
  });
});

it('a rule names the peers whose counts could change its result, and none where they could not', async () => {
  const few = (scope: string) => ({ fact: `peers.${scope}.unhealthy`, operator: 'lessThan', value: 2 });
  const guarded = rule('guarded', { when: { all: [bad('KernelDeadlock'), few('rack'), few('zone'), { ...few('rack'), value: 3 }] } });
  const [matching] = (await machineWith({ ...ILL, peers: { rack: { total: 3, unhealthy: 0 } } }, guarded).at(0)).outcomes;
  expect(matching?.peers).toEqual(['rack', 'zone']);
  const [well] = (await machineWith({ conditions: { KernelDeadlock: 'False' } }, guarded).at(0)).outcomes;
  expect(well).toMatchObject({ truth: 'False', peers: [] });
  const [alone] = (await machineWith(ILL, hung).at(0)).outcomes;
  expect(alone?.peers).toEqual([]);
});

it('of a condition of the Machine as of one of the Node, time counts only while it has no transition that was not observed', async () => {
  const full = rule('full', { when: { all: [{ fact: 'machine.condition.DiskFull.status', operator: 'equal', value: 'True' }] } });
  const both = rule('both', {
    when: { all: [bad('KernelDeadlock'), { fact: 'machine.condition.DiskFull.status', operator: 'equal', value: 'True' }] },
  });
  const { at, world } = machineWith({ ...ILL, machineConditions: { DiskFull: 'True' } }, full, both);
  const first = await at(0);
  const matchedAt = async (seconds: number) =>
    (await at(seconds, { observations: first.observations })).outcomes.map(({ matchedMs }) => matchedMs);
  expect(await matchedAt(3600)).toEqual([3_600_000, 3_600_000]);
  for (const status of ['False', 'True'] as const) world.apply({ at: 0, conditions: { KernelDeadlock: status } }, world.startMs + 60_000);
  expect(await matchedAt(3600)).toEqual([3_600_000, 0]);
  for (const status of ['False', 'True'] as const) world.apply({ at: 0, machineConditions: { DiskFull: status } }, world.startMs + 90_000);
  expect(await matchedAt(3600)).toEqual([0, 0]);
});
