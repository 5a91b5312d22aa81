import { expect, it } from 'vitest';
import { MAX_RISES } from '../api/facts.ts';
import type { Observation } from '../api/machine.ts';
import { appliesTo, compileRule, indexRules, rulesReading } from './index.ts';
import { Marks } from './marks.ts';
import type { ConditionFacts } from './snapshot.ts';
import { bad, rule } from './testing.ts';

const T0 = Date.parse('2026-01-01T00:00:00Z');
const WINDOW_MS = 3_600_000;
const flapping = rule('flapping', {
  when: { all: [{ fact: 'condition.Ours.rises', operator: 'greaterThan', value: 1, params: { windowSeconds: WINDOW_MS / 1000 } }] },
});
const index = indexRules([compileRule(flapping)]);
const aging = rule('aging', { when: { all: [{ fact: 'condition.Ours.ageSeconds', operator: 'greaterThan', value: 60 }] } });
const STATUSES = { Healthy: 'False', Unhealthy: 'True', Unknown: 'Unknown' } as const;
const condition = (health: ConditionFacts['health'], transitionMs: number): ConditionFacts => ({
  status: STATUSES[health],
  reason: '',
  transition: new Date(transitionMs).toISOString(),
  heartbeat: '',
  health,
  doubt: undefined,
});
const sample = (
  observations: readonly Observation[],
  nowMs: number,
  health: ConditionFacts['health'],
  transitionMs = nowMs,
  rules = index,
): Marks => {
  const marks = new Marks(rules, observations, nowMs, undefined);
  marks.notice('Ours', condition(health, transitionMs));
  return marks;
};

it('a rise is written down, and read again by the next leader', () => {
  const first = sample([], T0, 'Unhealthy');
  expect(first.rises('Ours', WINDOW_MS)).toEqual([T0]);
  const written = first.observations();
  expect(sample(written, T0 + 1000, 'Unhealthy', T0).rises('Ours', WINDOW_MS)).toEqual([T0]);
  // Also by one that only sees it pass.
  const [risen] = written.filter(({ key }) => key.startsWith('rise/'));
  expect(risen).toMatchObject({ key: 'rise/Ours/1', firstSeen: new Date(T0).toISOString() });
  expect(sample(written, T0 + WINDOW_MS, 'Healthy').rises('Ours', WINDOW_MS)).toEqual([T0]);
  expect(sample(written, T0 + WINDOW_MS + 1, 'Healthy').rises('Ours', WINDOW_MS)).toEqual([]);
});

it('of many rises the newest are kept, no more than are counted', () => {
  let observations: Observation[] = [];
  for (let at = 0; at < MAX_RISES + 4; at += 1) {
    observations = sample(observations, T0 + at * 60_000, 'Unhealthy').observations();
    observations = sample(observations, T0 + at * 60_000 + 30_000, 'Healthy').observations();
    expect(observations.filter(({ key }) => key.startsWith('rise/'))).toHaveLength(Math.min(at + 1, MAX_RISES));
  }
  const rises = new Marks(index, observations, T0 + 20 * 60_000, undefined).rises('Ours', WINDOW_MS);
  expect(rises).toEqual(Array.from({ length: MAX_RISES }, (_, at) => T0 + (at + 4) * 60_000));
});

it('an old transition that is read again is no rise, nor is the newest one after it', () => {
  for (const rules of [index, indexRules([flapping, aging].map(compileRule))]) {
    let observations = sample([], T0, 'Unhealthy', T0, rules).observations();
    observations = sample(observations, T0 + 60_000, 'Unhealthy', T0 - 60_000, rules).observations();
    expect(sample(observations, T0 + 70_000, 'Unhealthy', T0, rules).rises('Ours', WINDOW_MS)).toEqual([T0]);
    expect(sample(observations, T0 + 70_000, 'Unhealthy', T0 + 1, rules).rises('Ours', WINDOW_MS)).toEqual([T0, T0 + 70_000]);
  }
});

it('noticed twice in one sample is as once', () => {
  const marks = sample([], T0, 'Unhealthy');
  marks.notice('Ours', condition('Unhealthy', T0));
  expect(marks.observations()).toEqual(sample([], T0, 'Unhealthy').observations());
});

it('while the status is unknown, a rise that is counted is remembered, and the condition has no age', () => {
  const risen = sample([], T0, 'Unhealthy').observations();
  const doubted = sample(risen, T0 + WINDOW_MS, 'Unknown', T0);
  expect(doubted.badSinceMs('Ours')).toBeUndefined();
  expect(sample(doubted.observations(), T0 + WINDOW_MS, 'Unhealthy', T0).rises('Ours', WINDOW_MS)).toEqual([T0]);
  const later = sample(risen, T0 + WINDOW_MS + 1, 'Unknown', T0).observations();
  expect(later).toEqual([]);
});

it('where only rises are counted a condition that stays bad costs no write; where its age is read it is written now and then', () => {
  const both = indexRules([flapping, aging].map(compileRule));
  for (const [rules, written] of [
    [index, false],
    [both, true],
  ] as const) {
    const first = sample([], T0, 'Unhealthy', T0, rules).observations();
    const next = sample(first, T0 + 600_000, 'Unhealthy', T0, rules).observations();
    expect(JSON.stringify(next) !== JSON.stringify(first)).toBe(written);
  }
});

it('a number above its band is written once, and kept in the order of the keys', () => {
  const high = (fact: string) => ({ fact: `hysteresis.${fact}`, operator: 'equal', value: true, params: { enter: 4, leave: 1 } });
  const facts = ['peers.zone.unhealthy', 'peers.rack.unhealthy', 'peers.pool.unhealthy'];
  const rules = indexRules([compileRule(rule('high', { when: { any: facts.map(high) } }))]);
  const keys = facts.map((fact) => `${fact}/4/1/`);
  const marks = new Marks(rules, [], T0, undefined);
  for (const key of keys) expect(marks.band(key, 4, 4, 1)).toBe(true);
  const written = marks.observations();
  expect(written.map(({ key }) => key)).toEqual(keys.toSorted().map((key) => `high/${key}`));
  const next = new Marks(rules, written.toReversed(), T0 + 60_000, undefined);
  for (const key of keys) expect(next.band(key, 2, 4, 1)).toBe(true);
  expect(next.observations()).toEqual(written);
});

it('an index knows which conditions are timed, whose age is read, over which windows rises are counted, and the bands', () => {
  const rises = (fact: string, windowSeconds: number) => ({ fact, operator: 'greaterThan', value: 1, params: { windowSeconds } });
  const band = { fact: 'hysteresis.condition.D.rises', operator: 'equal', value: true, params: { enter: 3, leave: 1, windowSeconds: 50 } };
  const old = { fact: 'hysteresis.condition.E.ageSeconds', operator: 'equal', value: true, params: { enter: 9, leave: 1 } };
  const many = [
    rule('a', {
      when: { all: [bad('A'), rises('condition.B.rises', 60), rises('condition.B.rises', 600), rises('condition.B.rises', 30)] },
    }),
    rule('b', { when: { all: [{ fact: 'condition.C.ageSeconds', operator: 'greaterThan', value: 5 }, band, old] } }),
  ];
  expect(indexRules(many.map(compileRule))).toMatchObject({
    watched: new Set(['B', 'C', 'D', 'E']),
    aged: new Set(['C', 'E']),
    windows: new Map([
      ['B', 600_000],
      ['D', 50_000],
    ]),
    bands: new Set(['condition.D.rises/3/1/50', 'condition.E.ageSeconds/9/1/']),
  });
});

it('what is over, or what no rule asks for any more, is not kept', () => {
  const seen = (ms: number) => new Date(ms).toISOString();
  const entry = (key: string): Observation => ({ key, firstSeen: seen(T0), lastSeen: seen(T0) });
  const hung = compileRule(rule('hung', { clearsAfterSeconds: 20 }));
  const own = `for/hung/${hung.digest}`;
  const keptAfter = (ms: number, ...keys: string[]) =>
    new Marks(indexRules([hung, compileRule(flapping)]), keys.map(entry), T0 + ms, undefined).observations().map(({ key }) => key);
  expect(keptAfter(20_000, own, `${own}~`)).toEqual([`${own}~`]);
  expect(keptAfter(20_000, own)).toEqual([own]);
  expect(keptAfter(20_001, `${own}~`)).toEqual([]);
  expect(keptAfter(1_000_000, own)).toEqual([own]);
  expect(keptAfter(0, 'for/hung/another', 'for/gone/x', 'bad/Ours', 'bad/Theirs', 'rise/Theirs/1', 'high/x/1/2/', 'else/Ours')).toEqual([
    'bad/Ours',
  ]);
});

it('a change runs every rule that reads it', () => {
  const rules = indexRules(['a', 'b'].map((name) => compileRule(rule(name))));
  expect(rulesReading(rules, new Set(['condition.KernelDeadlock']))).toEqual(['a', 'b']);
});

it('a change runs the rules that read it in the order of the index', () => {
  const rules = indexRules(['c', 'a', 'b'].map((name) => compileRule(rule(name, { when: { all: [bad(name === 'b' ? 'Other' : name)] } }))));
  expect(rulesReading(rules, new Set(['condition.a', 'condition.c', 'condition.unread']))).toEqual(['c', 'a']);
});

it('a rule is about the pools and labels that it names, and no others', () => {
  const inPool = (namespace?: string) => ({
    metadata: { name: 'a', ...(namespace === undefined ? {} : { namespace }), labels: { tier: 'web' } },
  });
  const about = (spec: Parameters<typeof rule>[1], of = inPool('web')) => appliesTo(rule('r', spec), of);
  expect([about({}), about({ pools: ['db', 'web'] }), about({ selector: { tier: 'web' } })]).toEqual([true, true, true]);
  expect([about({ pools: ['db'] }), about({ pools: ['db'] }, inPool()), about({ selector: { tier: 'db' } })]).toEqual([
    false,
    false,
    false,
  ]);
});
