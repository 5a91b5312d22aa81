import { describe, expect, test } from 'vitest';
import { rememberRefusedReports } from './refused-reports.ts';

function world() {
  let nowMs = 0;
  const reports = rememberRefusedReports(() => 1, { monotonic: () => nowMs });
  return { reports, pass: (ms: number) => void (nowMs += ms) };
}

describe('a status that the server refuses', () => {
  test('is sent again ever later', () => {
    const { reports, pass } = world();
    const waits = [1, 2, 3, 4].map(() => {
      const { againMs } = reports.note('web/a', 'no') ?? { againMs: 0 };
      pass(againMs);
      return againMs;
    });
    expect(waits).toEqual([1000, 2000, 4000, 8000]);
  });

  test('is sent no later for turns of the machine that find it refused before it is due', () => {
    const { reports, pass } = world();
    reports.note('web/a', 'no');
    for (let turn = 0; turn < 9; turn++) {
      pass(100);
      expect(reports.note('web/a', 'no')).toEqual({ againMs: 900 - turn * 100, isNew: false, message: 'no' });
    }
    pass(100);
    expect(reports.note('web/a', 'no')?.againMs).toBe(2000);
  });

  test('is an Event for each new reason, and forgotten once it is taken', () => {
    const { reports } = world();
    const isNew = (message: string | undefined, key = 'web/a') => reports.note(key, message)?.isNew;
    expect([isNew('no'), isNew('no'), isNew('other'), isNew('no', 'web/b')]).toEqual([true, false, true, true]);
    expect([isNew(undefined), isNew('other')]).toEqual([undefined, true]);
    reports.forget('web/a');
    expect(reports.note('web/a', 'other')).toEqual({ againMs: 1000, isNew: true, message: 'other' });
  });
});
