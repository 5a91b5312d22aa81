import { describe, expect, test } from 'vitest';
import { changedReservations, requeue } from './requeue.ts';
import { machine, NOW } from './testing/objects.ts';
import type { Decision } from './view.ts';

const idle = { progressed: false, refused: false };
const waitsFor = (waits: Omit<NonNullable<Decision['waits']>, 'why'>): Decision => ({ steps: [], waits: { ...waits, why: '' } });
const running = { nowMs: NOW, machine: machine() };
const made = (secondsAgo: number) => ({
  nowMs: NOW,
  machine: machine({
    metadata: { creationTimestamp: new Date(NOW - secondsAgo * 1000).toISOString() },
    status: { phase: 'Provisioning' },
  }),
});

describe('a machine is reconciled again', () => {
  test.each<[string, Decision, typeof idle, number | undefined]>([
    ['each second while pods leave', waitsFor({ for: 'Pods' }), { progressed: true, refused: false }, 1000],
    ['less often while a budget lets no pod go', waitsFor({ for: 'Pods' }), { progressed: true, refused: true }, 5000],
    ['each second while its provider works', waitsFor({ for: 'Provider' }), { progressed: true, refused: true }, 1000],
    ['every two seconds while it boots', waitsFor({ for: 'Boot' }), { progressed: true, refused: false }, 2000],
    [
      'by the event of what was just written, at any time',
      waitsFor({ for: 'Agent', untilMs: NOW + 9000 }),
      { progressed: true, refused: false },
      undefined,
    ],
    ['when the clock changes the answer', waitsFor({ for: 'Agent', untilMs: NOW + 9000 }), idle, 9000],
    ['not at once where that is past', waitsFor({ for: 'Agent', untilMs: NOW - 9000 }), idle, 1000],
    ['not much later than others, however far off that is', waitsFor({ for: 'Agent', untilMs: NOW + 3_600_000 }), idle, 30_000],
    ['by events alone where it runs and waits for another part', waitsFor({ for: 'Defender' }), idle, undefined],
    ['by events alone where it runs and waits for nothing', { steps: [] }, idle, undefined],
  ])('%s', (_, decision, { progressed, refused }, expected) => {
    expect(requeue(running, decision, { progressed, refused })?.requeueAfterMs).toBe(expected);
  });

  test.each([
    [0, 1000],
    [100, 5000],
    [3600, 30_000],
  ])('while it does not run, %i s after it was made, in %i ms: the provider is asked the less often the older it is', (age, expected) => {
    expect(requeue(made(age), { steps: [] }, idle)).toEqual({ requeueAfterMs: expected });
  });
});

test('of a ledger those machines are reconciled whose reservation came, went or is another now, each once', () => {
  const reservations = (...ids: [string, string][]) => ids.map(([id, machine]) => ({ id, machine }));
  const before = reservations(['r1', 'web/a'], ['r2', 'web/b'], ['r3', 'web/c']);
  expect(changedReservations(before, before)).toEqual([]);
  expect(changedReservations(before, [])).toEqual(['web/a', 'web/b', 'web/c']);
  expect(changedReservations(reservations(['r1', 'web/a'], ['r4', 'web/c'], ['r5', 'web/d']), before).toSorted()).toEqual([
    'web/b',
    'web/c',
    'web/d',
  ]);
});
