import { describe, expect, test } from 'vitest';
import { DefenderPolicies, type DefenderPolicySpec } from './defender-policy.ts';
import { API_VERSION } from './kind.ts';

type Loose = { [Field in keyof DefenderPolicySpec]?: unknown };

const errors = (spec: Loose) =>
  DefenderPolicies.validate({ apiVersion: API_VERSION, kind: 'DefenderPolicy', metadata: { name: 'p' }, spec: { limits: [], ...spec } });
const first = (spec: Loose): string => errors(spec).map(({ path, message }) => `${path} ${message}`)[0] ?? 'fine';
const limited = (limit: object): string => first({ limits: [{ name: 'l', scope: 'Cluster', ...limit }] });
const nights = { name: 'nights', timeZone: 'Europe/Berlin', schedule: '0 1 * * *', durationMinutes: 240 };
const sale = { name: 'sale', timeZone: 'Asia/Shanghai', from: '2026-11-09T00:00', until: '2026-11-12T00:00', reason: 'double eleven' };

test('a policy that uses everything is fine', () => {
  expect(
    errors({
      limits: [
        { name: 'cell', scope: 'Cluster', maxUnavailable: '10%', maxConcurrent: 50 },
        { name: 'stopped', scope: 'Cluster', maxUnavailable: 0, classes: ['Delete'] },
        { name: 'racks', scope: 'Rack', maxUnavailable: 2, pools: ['web'] },
        { name: 'hung', scope: 'Condition', conditions: ['KernelDeadlock'], maxPerHour: 5, maxPerDay: 20, minIntervalSeconds: 86_400 },
      ],
      windows: [nights, { ...nights, name: 'web', pools: ['web'], classes: ['Change'] }],
      freezes: [sale, { name: 'fridays', timeZone: 'UTC', schedule: '0 12 * * 5', durationMinutes: 3600, reason: 'weekend' }],
      actions: [
        { selector: { gpu: 'true' }, allowed: ['RestartComponent'] },
        { selector: { legacy: 'true' }, allowed: [] },
      ],
      breaker: { scope: 'Rack', unavailableAbove: '30%' },
    }),
  ).toEqual([]);
});

describe('a limit', () => {
  test.each([
    [{}, 'spec.limits[0] limits nothing; set at least one of maxUnavailable'],
    [{ maxUnavailable: '101%' }, 'spec.limits[0].maxUnavailable must be a number, such as 3, or a percentage from "0%" to "100%"'],
    [{ maxUnavailable: -1 }, 'spec.limits[0].maxUnavailable'],
    [{ scope: 'Row', maxUnavailable: 1 }, 'spec.limits[0].scope must be one of "Cluster", "Zone", "Rack", "Pool", "Set", "Condition"'],
    [{ maxUnavailable: 1, classes: ['Reboot'] }, 'spec.limits[0].classes[0] must be one of "Change", "Repair", "Restore", "Delete"'],
    [{ maxUnavailable: 1, pools: ['web'] }, 'spec.limits[0].pools must not be set for scope "Cluster"'],
    [{ maxUnavailable: 1, conditions: ['X'] }, 'spec.limits[0].conditions must not be set for scope "Cluster"'],
    [{ scope: 'Condition', maxPerHour: 1, classes: ['Change'] }, 'spec.limits[0].classes must name "Repair"'],
    [{ maxPerHour: 9, maxPerDay: 5 }, 'spec.limits[0].maxPerHour must not be above maxPerDay (5), got 9'],
    [{ maxPerHour: 0 }, 'spec.limits[0].maxPerHour must be >= 1'],
    [{ maxPerWeek: 3, maxUnavailable: 1 }, 'spec.limits[0].maxPerWeek unknown field'],
  ])('%o is refused', (limit, message) => {
    expect(limited(limit)).toContain(message);
  });

  test('needs a name of its own', () => {
    const limit = { name: 'l', scope: 'Cluster', maxUnavailable: 1 };
    expect(first({ limits: [limit, limit] })).toBe('spec.limits[1].name "l" is there twice; give each a name of its own');
  });
});

describe('a window', () => {
  test.each([
    [{ timeZone: 'Europe/Berln' }, 'timeZone must be a name of the IANA database, such as "Europe/Berlin" or "UTC", got "Europe/Berln"'],
    [{ timeZone: '+01:00' }, 'timeZone must be a name of the IANA database'],
    [{ schedule: 'at night' }, 'schedule must be a cron of five fields, such as "0 2 * * 1-5", got "at night"'],
    [{ schedule: '0 61 * * *' }, 'schedule must be a cron of five fields'],
    [{ schedule: '0 0 1 * * *' }, 'schedule must be a cron of five fields'],
    [{ schedule: '0 0 30 2 *' }, 'schedule opens never: no day fits "0 0 30 2 *"'],
    [{ durationMinutes: 0 }, 'durationMinutes must be >= 1'],
    [{ classes: ['Upgrade'] }, 'classes[0] must be one of'],
  ])('with %o is refused', (change, message) => {
    expect(first({ windows: [{ ...nights, ...change }] })).toContain(`spec.windows[0].${message}`);
  });

  test('may be on a leap day alone', () => {
    expect(first({ windows: [{ ...nights, schedule: '0 0 29 2 *' }] })).toBe('fine');
  });
});

describe('a freeze', () => {
  test.each([
    [{ until: undefined }, ' must have either from and until, or schedule and durationMinutes'],
    [{ schedule: '0 0 * * *', durationMinutes: 5 }, ' must have either from and until, or schedule and durationMinutes'],
    [{ from: '2026-11-31T00:00' }, '.from must be a day and a time such as "2026-11-11T00:00", got "2026-11-31T00:00"'],
    [{ until: '2026-11-08T00:00' }, '.until must be after from ("2026-11-09T00:00"), got "2026-11-08T00:00"'],
    [{ reason: undefined }, '.reason must be set'],
    [{ name: 'nights' }, '.name "nights" is there twice'],
    [{ timeZone: 'Moon/Base' }, '.timeZone must be a name of the IANA database'],
    [{ until: '2028-01-01T00:00' }, ' leaves no time in any window for Change within a year'],
  ])('with %o is refused', (change, message) => {
    const freeze = JSON.parse(JSON.stringify({ ...sale, ...change })) as object;
    expect(first({ windows: [nights], freezes: [freeze] })).toContain(`spec.freezes[0]${message}`);
  });

  test('must leave something of the windows, for each pool and class it names', () => {
    const at = (schedule: string, durationMinutes: number, change = {}) => ({
      name: 'f',
      timeZone: 'Europe/Berlin',
      schedule,
      durationMinutes,
      reason: 'r',
      ...change,
    });
    expect(first({ windows: [nights], freezes: [at('0 1 * * *', 240)] })).toContain('leaves no time in any window for Change');
    expect(first({ windows: [nights], freezes: [at('0 1 * * *', 239)] })).toBe('fine');
    expect(first({ windows: [nights], freezes: [at('0 1 * * *', 240, { classes: ['Restore'] })] })).toBe('fine');
    expect(first({ windows: [{ ...nights, pools: ['web'] }], freezes: [at('0 1 * * *', 240)] })).toContain('leaves no time');
    expect(first({ windows: [{ ...nights, pools: ['web'] }], freezes: [at('0 1 * * *', 240, { pools: ['db'] })] })).toBe('fine');
    expect(first({ freezes: [at('0 0 * * *', 1500)] })).toContain('leaves no time for Change within a year');
    // Two that leave nothing together.
    expect(first({ windows: [nights], freezes: [at('0 1 * * *', 120), at('0 3 * * *', 120, { name: 'g' })] })).toContain('leaves no time');
  });

  test('that starts each minute is no riddle', () => {
    const always = { name: 'f', timeZone: 'UTC', schedule: '* * * * *', durationMinutes: 1, reason: 'r' };
    expect(first({ windows: [nights], freezes: [always] })).toContain('leaves no time in any window');
  });
});

describe('actions and breaker', () => {
  test.each([
    [{ actions: [{ selector: {}, allowed: [] }] }, 'spec.actions[0].selector is empty and matches nothing; name at least one label'],
    [{ actions: [{ selector: { a: 'b' }, allowed: ['Explode'] }] }, 'spec.actions[0].allowed[0] must be one of "CleanDisk"'],
    [{ actions: [{ selector: { a: 'b' }, allowed: ['Human'] }] }, 'spec.actions[0].allowed[0] must be one of "CleanDisk"'],
    [
      {
        actions: [
          { selector: { a: 'b', c: 'd' }, allowed: [] },
          { selector: { c: 'd', a: 'b' }, allowed: ['Reboot'] },
        ],
      },
      'spec.actions[1].selector is there twice (a=b,c=d)',
    ],
    [{ breaker: { scope: 'Set', unavailableAbove: 1 } }, 'spec.breaker.scope must be one of'],
    [{ breaker: { scope: 'Rack', unavailableAbove: '100%' } }, 'spec.breaker.unavailableAbove must be below "100%"'],
    [{ breaker: { scope: 'Rack', unavailableAbove: '130%' } }, 'spec.breaker.unavailableAbove'],
  ])('%o is refused', (spec, message) => {
    expect(first(spec)).toContain(message);
  });
});

test('all errors are reported at once', () => {
  expect(errors({ limits: [{ name: 'l', scope: 'Pool' }], windows: [{ ...nights, schedule: 'x', timeZone: 'y' }] })).toHaveLength(3);
});
