import { describe, expect, it } from 'vitest';
import { parseHistory, type History } from './history.ts';
import { replay } from './replay.ts';
import { bad, history, rule } from './testing.ts';

const HEALS: History['events'] = [
  { at: 0, conditions: { KernelDeadlock: 'False' } },
  { at: 60, conditions: { KernelDeadlock: { status: 'True', reason: 'DockerHung' } } },
  { at: 120, boot: true, detectors: 'Restarted' },
  { at: 130, acted: 'Succeeded' },
];

describe('a history is a test of rules', () => {
  it('that passes when everything happened as it states', async () => {
    const expected = [{ at: 90, rule: 'hung', action: 'Reboot', ends: 'Succeeded', endsAt: 490 }] satisfies History['expect'];
    expect((await replay([rule('hung')], history(HEALS, { expect: expected }))).differences).toEqual([]);
  });

  it('and reports what happened instead', async () => {
    const differences = async (expect: History['expect'], spec = {}) =>
      (await replay([rule('hung', spec)], history(HEALS, { expect }))).differences;
    expect(await differences([])).toEqual([
      'expect[0]: nothing more was expected, but Reboot by hung at 90 s, Succeeded at 490 s: condition.KernelDeadlock.status is "True"; found "True" (DockerHung), for 30 s (asked: 30 s)',
    ]);
    expect(await differences([{ at: 90, action: 'Replace' }])).toEqual([
      'expect[0]: expected Replace at 90 s, but Reboot by hung at 90 s, Succeeded at 490 s (KernelDeadlock has been False for 300 s)',
    ]);
    expect(await differences([{ at: 90, rule: 'hung', action: 'Reboot', ends: 'Failed', endsAt: 500 }])).toEqual([
      'expect[0]: expected Reboot by hung at 90 s, Failed at 500 s, but Reboot by hung at 90 s, Succeeded at 490 s (KernelDeadlock has been False for 300 s)',
    ]);
    expect(await differences([{ at: 90, action: 'Reboot', ends: 'Failed' }])).toEqual([
      'expect[0]: expected Reboot at 90 s, Failed, but Reboot by hung at 90 s, Succeeded at 490 s (KernelDeadlock has been False for 300 s)',
    ]);
    const shadow = await replay([rule('hung', { mode: 'Shadow' })], history(HEALS, { expect: [{ at: 90, action: 'Replace' }] }), {
      mode: 'AsWritten',
    });
    expect(shadow.differences).toEqual(['expect[0]: expected Replace at 90 s, but Reboot by hung at 90 s, Shadow at 90 s (first rung)']);
    const open = await replay([rule('hung')], history(HEALS.slice(0, 2), { expect: [{ at: 90, action: 'Replace' }], untilSeconds: 90 }));
    expect(open.differences).toEqual([
      'expect[0]: expected Replace at 90 s, but Reboot by hung at 90 s, Open (Reboot is not reported as done yet)',
    ]);
    expect(await differences([{ at: 90, action: 'Reboot' }], { holdsForSeconds: 3600 })).toEqual([
      'expect[0]: expected Reboot at 90 s, but nothing more happened',
    ]);
  });

  it('of a rule in Shadow as if it were enforced, unless it is to be as written', async () => {
    const shadow = rule('hung', { mode: 'Shadow' });
    expect((await replay([shadow], history(HEALS))).jobs[0]?.ends).toBe('Succeeded');
    expect((await replay([shadow], history(HEALS), { mode: 'AsWritten' })).jobs[0]?.ends).toBe('Shadow');
  });

  it('in which actions may take a fixed time', async () => {
    const events = HEALS.slice(0, 3);
    expect((await replay([rule('hung')], history(events, { actionSeconds: 40 }))).jobs[0]).toMatchObject({ at: 90, ends: 'Succeeded' });
    expect((await replay([rule('hung')], history(events, { actionSeconds: 0 }))).jobs[0]).toMatchObject({ at: 90, ends: 'Succeeded' });
  });

  it('that refuses rules which fail their check', async () => {
    await expect(replay([rule('r', { when: { all: [] } })], history(HEALS))).rejects.toMatchObject({ code: 'RuleRefused' });
  });
});

it('names every error in a history', () => {
  const paths = (value: unknown) => parseHistory(value).errors.map(({ path }) => path);
  const base = { name: 'h', expect: [] };
  expect(paths({ ...base, events: [{ at: 5 }, { at: 3 }] })).toEqual(['events[1].at']);
  expect(paths({ ...base, events: [{ at: 0, condition: {} }] })).toEqual(['events[0].condition']);
  expect(paths({ ...base, events: [{ at: 0, acted: 'Fine' }] })).toEqual(['events[0].acted']);
  expect(paths({ ...base, events: [{ at: 0, components: { a: { state: 'Ill' } } }] })).toEqual(['events[0].components.a.state']);
  expect(paths({ ...base, events: [{ at: 0 }], start: 'yesterday' })).toEqual(['start']);
  expect(paths({ ...base, events: [{ at: 0, peers: { row: { total: 1, unhealthy: 0 } } }] })).toEqual(['events[0].peers.row']);
  expect(paths({ ...base, events: [] }).length).toBeGreaterThan(0);
  expect(paths({ events: [{ at: -1 }], expect: [{ at: 1, action: 'Explode' }] })).toEqual(
    expect.arrayContaining(['events[0].at', 'expect[0].action']),
  );
  expect(paths(null).length).toBeGreaterThan(0);
  expect(parseHistory({ ...base, events: [{ at: 0, conditions: { A: 'true' } }] }).errors.length).toBeGreaterThan(0);
});

it('names a field that a history does not have, and the values that one may have', () => {
  const errors = (value: object) => parseHistory({ name: 'h', expect: [], events: [{ at: 0 }], ...value }).errors;
  expect(errors({ foo: 1 })).toEqual([{ path: 'foo', message: 'unknown field', hint: 'remove it' }]);
  expect(errors({ events: [{ at: 0, agent: 'Dead' }] })).toMatchObject([{ path: 'events[0].agent', hint: 'write one of Alive, Stale' }]);
  expect(errors({ name: 3 })).toMatchObject([{ path: 'name', hint: 'write it as the history format defines' }]);
});

it('a rule that reads nothing it can know ends without a failure', async () => {
  const { jobs, last } = await replay([rule('r', { when: { all: [bad('Nowhere')] } })], history([{ at: 0 }]));
  expect([jobs, last[0]?.truth]).toEqual([[], 'Unknown']);
});
