import { expect, test } from 'vitest';
import type { RemedyOperationJobStatus } from '../../api/remedy-operation-job.ts';
import { begin, end, endAll, explain, sameButNumbers, stepsOf } from './steps.ts';

const [t0, t1, t2] = ['2026-01-01T00:00:00Z', '2026-01-01T00:00:01Z', '2026-01-01T00:00:02Z'];
const none: RemedyOperationJobStatus = { phase: 'Granted' };
const begun = begin(none, 'Cordon', t0);

test('a step begins once, and ends once, with what came of it', () => {
  expect(begun).toEqual({ phase: 'Granted', step: 'Cordon', steps: [{ name: 'Cordon', startedAt: t0 }] });
  expect(begin(begun, 'Cordon', t1)).toBe(begun);
  const ended = end(begun, 'Cordon', t1, 'Succeeded');
  expect(ended.steps).toEqual([{ name: 'Cordon', startedAt: t0, finishedAt: t1, outcome: 'Succeeded' }]);
  expect(end(ended, 'Cordon', t2, 'PermanentFailure', 'late')).toBe(ended);
  expect(begin(ended, 'Cordon', t2)).toBe(ended);
});

test('a step that was not seen to begin has begun when it ended', () => {
  expect(end(none, 'Drain', t1, 'Succeeded', 'all left').steps).toEqual([
    { name: 'Drain', startedAt: t1, finishedAt: t1, outcome: 'Succeeded', message: 'all left' },
  ]);
});

test('why a step takes its time is noted when it is new, of a step that is under way', () => {
  const noted = explain(begun, 'Cordon', '3 pods left');
  expect(noted.steps).toEqual([{ name: 'Cordon', startedAt: t0, message: '3 pods left' }]);
  expect(explain(noted, 'Cordon', '2 pods left')).toBe(noted);
  expect(explain(noted, 'Cordon', 'a budget refuses').steps?.[0]?.message).toBe('a budget refuses');
  expect(explain(begun, 'Drain', '3 pods left')).toBe(begun);
  const ended = end(noted, 'Cordon', t1, 'Succeeded');
  expect(ended.steps?.[0]).not.toHaveProperty('message');
  expect(explain(ended, 'Cordon', 'late')).toBe(ended);
  const long = explain(begun, 'Cordon', 'x'.repeat(5000));
  expect(long.steps?.[0]?.message).toHaveLength(1024);
  expect(explain(long, 'Cordon', `${'x'.repeat(4999)}y`)).toBe(long);
});

test('the end of a job ends what is under way, and nothing that has ended', () => {
  const two = begin(end(begun, 'Cordon', t1, 'Succeeded'), 'Drain', t1);
  expect(endAll(two, t2, 'Cancelled', 'it recovered').steps).toEqual([
    { name: 'Cordon', startedAt: t0, finishedAt: t1, outcome: 'Succeeded' },
    { name: 'Drain', startedAt: t1, finishedAt: t2, outcome: 'Cancelled', message: 'it recovered' },
  ]);
  expect(endAll(none, t2, 'Cancelled', 'x')).toBe(none);
});

test('other numbers in the same text are nothing new, other words are', () => {
  expect([sameButNumbers('3 of 12 left', '11 of 12 left'), sameButNumbers('3 left', '3 gone'), sameButNumbers('', '')]).toEqual([
    true,
    false,
    true,
  ]);
});

test('an action takes the steps that it needs', () => {
  expect(stepsOf('CleanDisk')).toEqual(['Ask', 'Order', 'Act', 'Verify']);
  expect(stepsOf('MigratePods')).toEqual(['Ask', 'Cordon', 'Order', 'Act']);
  expect(stepsOf('Reboot')).toEqual(['Ask', 'Cordon', 'Drain', 'Order', 'Act', 'Verify']);
  expect(stepsOf('Replace')).toEqual(['Ask', 'Cordon', 'Drain', 'Order', 'Act']);
});
