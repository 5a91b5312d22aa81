import { expect, test } from 'vitest';
import type { UnitStatus } from '../api/cluster.ts';
import { API_VERSION } from '../api/kind.ts';
import { LABELS } from '../api/names.ts';
import type { Rollout } from '../api/rollout.ts';
import type { KubeObject } from '../api/wire.ts';
import { orphansOf, wantedUnits } from './orphans.ts';

const object = (name: string, labels: unknown = { [LABELS.fleet]: 'main' }, more: object = {}): KubeObject =>
  ({ apiVersion: API_VERSION, kind: 'MachineSet', metadata: { namespace: 'web', name, labels, ...more } }) as KubeObject;

const found = (objects: KubeObject[], units: UnitStatus[] = [], wanted: string[] = [], fleets: string[] = ['main']) =>
  orphansOf(objects, { status: { units } }, new Set(wanted), new Set(fleets));

const A = { object: 'MachineSet/web/a', fleet: 'main', reason: 'NotDeclared' };

test('E17: what bears the label of a Fleet is an orphan where no record and no commit has it', () => {
  expect(found([object('a')])).toEqual({ total: 1, first: [A] });
  expect(found([object('a')], [], ['MachineSet/web/a'])).toBeUndefined();
  expect(found([object('a')], [{ unit: 'MachineSet/web/a', fleet: 'main', digest: 'd' }])).toBeUndefined();
  const entry = { apiVersion: API_VERSION, kind: 'MachineSet', namespace: 'web', name: 'a' };
  expect(found([object('a')], [{ unit: 'ConfigMap/web/b', fleet: 'main', inventory: [entry] }])).toBeUndefined();
  expect(found([object('a', { [LABELS.fleet]: 'gone' })])).toEqual({ total: 1, first: [{ ...A, fleet: 'gone', reason: 'FleetAbsent' }] });
});

test('E17: a record of what is gone, or of a Fleet that is gone, has nothing', () => {
  const removed: UnitStatus = { unit: 'MachineSet/web/a', fleet: 'main', removal: { lane: 'Forward', at: '2026-01-01T00:00:00Z' } };
  expect(found([object('a')], [removed])?.total).toBe(1);
  expect(found([object('a')], [{ unit: 'MachineSet/web/a', fleet: 'gone', digest: 'd' }])?.total).toBe(1);
});

test('E17: what no Fleet applied, or what goes already, is none; nor is a label that is no text', () => {
  expect(found([object('a', {}), object('b', null), object('c', 7), object('d', { [LABELS.fleet]: { a: 1 } })])).toBeUndefined();
  expect(found([object('a', { [LABELS.fleet]: 'main' }, { deletionTimestamp: '2026-01-01T00:00:00Z' })])).toBeUndefined();
});

test('E17: names of a cell are bounded and made plain', () => {
  const [first] = found([object(`\u001b[2J${'x'.repeat(1e6)}`, { [LABELS.fleet]: 'y'.repeat(1e6) })])?.first ?? [];
  expect(first?.object).toMatch(/^MachineSet\/web\/\\u001b\[2Jx+…$/);
  expect([first?.object.length, first?.fleet.length]).toEqual([512, 253]);
});

test('E17: a commit in force wants what the newest Rollout of a unit reports, and not what it removes', () => {
  const rollout = (sequence: number, digest?: string): Rollout => ({
    apiVersion: API_VERSION,
    kind: 'Rollout',
    metadata: { name: `main-${sequence}` },
    spec: {
      fleet: 'main',
      commit: 'c',
      sequence,
      stages: [],
      units: [{ unit: 'MachineSet/web/a', clusters: [{ name: 'prod', ...(digest === undefined ? {} : { digest }) }] }],
    },
  });
  expect(wantedUnits([[rollout(1, 'd')]]).get('prod')).toEqual(new Set(['MachineSet/web/a']));
  expect(wantedUnits([[rollout(1, 'd'), rollout(2)]]).get('prod')).toBeUndefined();
  // Two fleets: what one removes, the other may want.
  expect(wantedUnits([[rollout(1, 'd')], [rollout(2)]]).get('prod')).toEqual(new Set(['MachineSet/web/a']));
});
