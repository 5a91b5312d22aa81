import { describe, expect, test } from 'vitest';
import type { DefenderPolicySpec } from '../api/defender-policy.ts';
import { scopeUsage } from './scope-usage.ts';
import { createAvailabilityIndex, type IndexedMachine } from './availability-index.ts';
import { gatesOf } from './gates.ts';
import type { Request } from './request.ts';
import { counted, request } from './testing/reservations.ts';

const at = (text: string): number => Date.parse(text);
const spec = (more: Partial<DefenderPolicySpec>): DefenderPolicySpec => ({ limits: [], ...more });
const repair = (change: Partial<Request> = {}) => request('a', { kind: 'Repair', class: 'Repair', action: 'Reboot', ...change });
const deletion = request('a', { kind: 'Delete' });
const restore = request('a', { class: 'Restore' });

function refusal(
  policy: DefenderPolicySpec,
  asked: Request,
  now = '2026-11-20T12:00Z',
  machines: IndexedMachine[] = [],
  ordered: string[] = [],
) {
  const usage = scopeUsage(createAvailabilityIndex(machines), [], { ordered: new Set(ordered.map((name) => `uid-${name}`)) });
  return gatesOf({ policies: [{ metadata: { name: 'p' }, spec: policy }] }, at(now))(asked, usage);
}

describe('windows', () => {
  const nights = { name: 'nights', timeZone: 'Europe/Berlin', schedule: '0 1 * * *', durationMinutes: 240 };

  test.each([
    ['2026-11-20T23:59Z', false],
    ['2026-11-21T00:00Z', true],
    ['2026-11-21T03:59Z', true],
    ['2026-11-21T04:00Z', false],
    // Summer time: 01:00 is 23:00 UTC.
    ['2026-07-01T22:59Z', false],
    ['2026-07-01T23:00Z', true],
  ])('at %s: open is %s', (now, open) => {
    expect(refusal(spec({ windows: [nights] }), request('a'), now) === undefined).toBe(open);
  });

  test('report when they open next, in their zone and in UTC', () => {
    expect(refusal(spec({ windows: [nights] }), request('a'))).toEqual({
      allowed: false,
      limit: 'p/nights',
      wouldPassWhen: 'window nights is open: from 2026-11-21 01:00 Europe/Berlin (2026-11-21T00:00:00Z) on',
    });
  });

  test('block what they name, and all but Restore where they name nothing', () => {
    const blocked = (windows: NonNullable<DefenderPolicySpec['windows']>) =>
      [request('a'), repair(), restore, deletion].map((asked) => refusal(spec({ windows }), asked) !== undefined);
    expect(blocked([nights])).toEqual([true, true, false, true]);
    expect(blocked([{ ...nights, classes: ['Change'] }])).toEqual([true, false, false, false]);
    expect(blocked([{ ...nights, classes: ['Restore'] }])).toEqual([false, false, true, false]);
    expect(blocked([{ ...nights, pools: ['db'] }])).toEqual([false, false, false, false]);
  });

  test('of one policy open one for another; each policy must be open', () => {
    const noon = { ...nights, name: 'noon', schedule: '0 13 * * *', durationMinutes: 60 };
    expect(refusal(spec({ windows: [nights, noon] }), request('a'))).toBeUndefined();
    const policies = [nights, noon].map((window) => ({ metadata: { name: window.name }, spec: spec({ windows: [window] }) }));
    expect(gatesOf({ policies }, at('2026-11-20T12:00Z'))(request('a'), undefined)?.limit).toBe('nights/nights');
  });
});

describe('freezes', () => {
  const sale = { name: 'sale', timeZone: 'Asia/Shanghai', from: '2026-11-09T00:00', until: '2026-11-12T00:00', reason: 'double eleven' };
  const nights = { name: 'nights', timeZone: 'UTC', schedule: '0 1 * * *', durationMinutes: 60 };

  test.each([
    ['2026-11-08T15:59Z', false],
    ['2026-11-08T16:00Z', true],
    ['2026-11-11T15:59Z', true],
    ['2026-11-11T16:00Z', false],
  ])('at %s: frozen is %s', (now, frozen) => {
    expect(refusal(spec({ freezes: [sale] }), request('a'), now) !== undefined).toBe(frozen);
  });

  test('report why, and when an operation may begin again: after them, and inside a window', () => {
    expect(refusal(spec({ freezes: [sale] }), request('a'), '2026-11-10T00:00Z')).toEqual({
      allowed: false,
      limit: 'p/sale',
      wouldPassWhen: 'freeze sale (double eleven) is over: from 2026-11-12 00:00 Asia/Shanghai (2026-11-11T16:00:00Z) on',
    });
    expect(refusal(spec({ freezes: [sale], windows: [nights] }), request('a'), '2026-11-10T01:30Z')?.wouldPassWhen).toBe(
      'freeze sale (double eleven) is over and window nights is open: from 2026-11-12 09:00 Asia/Shanghai (2026-11-12T01:00:00Z) on',
    );
  });

  test('stop no Restore unless they name it, and only the pools they name', () => {
    const blocked = (change: object) =>
      [request('a'), repair(), restore, deletion].map(
        (asked) => refusal(spec({ freezes: [{ ...sale, ...change }] }), asked, '2026-11-10T00:00Z') !== undefined,
      );
    expect(blocked({})).toEqual([true, true, false, true]);
    expect(blocked({ classes: ['Restore', 'Delete'] })).toEqual([false, false, true, true]);
    expect(blocked({ pools: ['db'] })).toEqual([false, false, false, false]);
  });
});

describe('actions', () => {
  const gpu = { actions: [{ selector: { gpu: 'true' }, allowed: ['RestartComponent' as const] }] };
  const labels = { gpu: 'true', tier: 'x' };

  test('that are not allowed on a class of nodes are refused by name', () => {
    expect(refusal(spec(gpu), repair({ labels }))).toEqual({
      allowed: false,
      limit: 'p/actions',
      wouldPassWhen: 'p allows Reboot on machines with gpu=true; allowed: RestartComponent',
    });
    expect(refusal(spec({ actions: [{ selector: { gpu: 'true' }, allowed: [] }] }), repair({ labels }))?.wouldPassWhen).toContain(
      'no repair is allowed',
    );
  });

  test('that are allowed, on other nodes, and what is no repair pass', () => {
    expect(refusal(spec(gpu), repair({ labels, action: 'RestartComponent' }))).toBeUndefined();
    expect(refusal(spec(gpu), repair({ labels: { tier: 'x' } }))).toBeUndefined();
    expect(refusal(spec(gpu), request('a', { labels }))).toBeUndefined();
  });

  test('must be allowed by every entry that matches; an entry without actions allows none', () => {
    const both = { actions: [...gpu.actions, { selector: { tier: 'x' }, allowed: ['Reboot' as const] }] };
    expect(refusal(spec(both), repair({ labels, action: 'RestartComponent' }))?.wouldPassWhen).toContain('tier=x');
    const { action: _, ...unnamed } = repair({ labels });
    expect(refusal(spec(gpu), unnamed)).toBeDefined();
  });
});

describe('the breaker', () => {
  const policy = spec({ breaker: { scope: 'Rack', unavailableAbove: '40%' } });
  const inRack = (rack: string, change: Partial<Request> = {}) => repair({ scopes: ['cluster', 'pool/web', `rack/${rack}`], ...change });
  const machine = (name: string, change: Partial<IndexedMachine> = {}) =>
    counted(name, { scopes: ['cluster', 'pool/web', 'rack/7'], ...change });
  const ill = (...symptoms: string[]) => ({ unavailable: true, persistently: true, symptoms });
  const now = '2026-11-20T12:00Z';
  const healthy = ['a', 'b', 'c', 'd', 'e'].map((name) => machine(name));
  const broken = [
    machine('a', ill('NotReady', 'SwitchDown')),
    machine('b', ill('NotReady', 'SwitchDown')),
    machine('c', ill('NotReady')),
    ...healthy.slice(3),
  ];

  test('stops Repair, Change and Delete where too many are unhealthy, and names the suspect', () => {
    expect(refusal(policy, inRack('7'), now, healthy)).toBeUndefined();
    expect(refusal(policy, inRack('7'), now, broken)).toEqual({
      allowed: false,
      limit: 'p/breaker',
      used: 3,
      of: 2,
      holders: ['web/a', 'web/b', 'web/c'],
      wouldPassWhen:
        'at most 2 of the 5 machines of rack/7 are unavailable by themselves: suspect rack/7; most of them have NotReady, SwitchDown',
    });
    expect(refusal(policy, inRack('7', { kind: 'Change', class: 'Change' }), now, broken)).toBeDefined();
    expect(refusal(policy, inRack('7', { kind: 'Delete', class: 'Change', machineUID: 'uid-e' }), now, broken)).toBeDefined();
    expect(refusal(policy, inRack('8'), now, [...broken, counted('z', { scopes: ['cluster', 'rack/8'] })])).toBeUndefined();
  });

  test('never stops recovery: neither Restore nor the deletion of a machine that is unhealthy already', () => {
    expect(refusal(policy, inRack('7', { kind: 'Change', class: 'Restore' }), now, broken)).toBeUndefined();
    expect(refusal(policy, inRack('7', { kind: 'Delete', class: 'Change' }), now, broken)).toBeUndefined();
  });

  test('does not count what our own operations make unavailable', () => {
    expect(refusal(policy, inRack('7'), now, broken, ['b'])).toBeUndefined();
    const cordoned = healthy.map((each) => ({ ...each, unavailable: true, persistently: false }));
    expect(refusal(policy, inRack('7'), now, cordoned)).toBeUndefined();
  });

  test('does not count machines that have not joined yet', () => {
    const joining = { unavailable: true, persistently: true };
    expect(
      refusal(policy, inRack('7'), now, [...broken.slice(0, 2), machine('c', joining), machine('d', joining), machine('e')]),
    ).toBeUndefined();
  });

  test('D8: refuses where the zone or rack, or its size, is not known', () => {
    expect(refusal(policy, repair(), now, broken)?.wouldPassWhen).toBe('the machine or its Node has the label topology.kubenode.io/rack');
    expect(refusal(policy, inRack('9'), now, broken)?.wouldPassWhen).toBe('the machines of rack/9 are known');
  });

  test('may be of pools and of the cell', () => {
    for (const scope of ['Pool', 'Cluster'] as const)
      expect(refusal(spec({ breaker: { scope, unavailableAbove: 2 } }), repair(), now, broken)).toMatchObject({ used: 3, of: 2 });
  });
});

test('a policy with a validation error allows nothing but Restore, since what it was to forbid is not known', () => {
  const wrong = spec({
    windows: [{ name: 'w', timeZone: 'Mars/Olympus', schedule: '* * * * *', durationMinutes: 5, classes: ['Restore'] }],
  });
  for (const asked of [request('a'), repair(), deletion])
    expect(refusal(wrong, asked)).toMatchObject({
      limit: 'p',
      wouldPassWhen: expect.stringContaining('DefenderPolicy p is corrected: `spec.windows[0].timeZone`'),
    });
  expect(refusal(wrong, restore)).toBeUndefined();
});

test('so does one with a field or a scope of a later build', () => {
  const later = { ...spec({}), moonPhases: ['full'] };
  expect(refusal(later, request('a'))).toMatchObject({
    limit: 'p',
    wouldPassWhen: 'DefenderPolicy p is corrected: `spec.moonPhases` unknown field',
  });
});
