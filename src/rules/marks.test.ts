import { expect, it } from 'vitest';
import { MAX_RISES } from '../api/facts.ts';
import type { Observation } from '../api/machine.ts';
import { compileRule, indexRules } from './index.ts';
import { Marks } from './marks.ts';
import type { ConditionFacts } from './snapshot.ts';
import { rule } from './testing.ts';

const T0 = Date.parse('2026-01-01T00:00:00Z');
const WINDOW_MS = 3_600_000;
const flapping = rule('flapping', {
  when: { all: [{ fact: 'condition.Ours.rises', operator: 'greaterThan', value: 1, params: { windowSeconds: WINDOW_MS / 1000 } }] },
});
const index = indexRules([compileRule(flapping)]);
const condition = (health: 'Healthy' | 'Unhealthy', transitionMs: number): ConditionFacts => ({
  status: health === 'Healthy' ? 'False' : 'True',
  reason: '',
  transition: new Date(transitionMs).toISOString(),
  heartbeat: '',
  health,
  doubt: undefined,
});
const look = (observations: readonly Observation[], nowMs: number, health: 'Healthy' | 'Unhealthy', transitionMs = nowMs): Marks => {
  const marks = new Marks(index, observations, nowMs, undefined);
  marks.notice('Ours', condition(health, transitionMs));
  return marks;
};

it('a rise is written down, and read again by whoever looks next', () => {
  const first = look([], T0, 'Unhealthy');
  expect(first.rises('Ours', WINDOW_MS)).toEqual([T0]);
  const written = first.observations();
  expect(look(written, T0 + 1000, 'Unhealthy', T0).rises('Ours', WINDOW_MS)).toEqual([T0]);
  // Also by one that only sees it pass.
  const [risen] = written.filter(({ key }) => key.startsWith('rise/'));
  expect(risen).toMatchObject({ key: 'rise/Ours/1', firstSeen: new Date(T0).toISOString() });
  expect(look(written, T0 + WINDOW_MS, 'Healthy').rises('Ours', WINDOW_MS)).toEqual([T0]);
  expect(look(written, T0 + WINDOW_MS + 1, 'Healthy').rises('Ours', WINDOW_MS)).toEqual([]);
});

it('of many rises the newest are kept, no more than are counted', () => {
  let observations: Observation[] = [];
  for (let at = 0; at < MAX_RISES + 4; at += 1) {
    observations = look(observations, T0 + at * 60_000, 'Unhealthy').observations();
    observations = look(observations, T0 + at * 60_000 + 30_000, 'Healthy').observations();
    expect(observations.filter(({ key }) => key.startsWith('rise/'))).toHaveLength(Math.min(at + 1, MAX_RISES));
  }
  const rises = new Marks(index, observations, T0 + 20 * 60_000, undefined).rises('Ours', WINDOW_MS);
  expect(rises).toEqual(Array.from({ length: MAX_RISES }, (_, at) => T0 + (at + 4) * 60_000));
});
