import { describe, expect, test } from 'vitest';
import { unitDigest } from '../api/digest.ts';
import type { Fleet } from '../api/fleet.ts';
import { API_VERSION } from '../api/kind.ts';
import { CodedError } from '../api/errors.ts';
import { machinesGoing, mostIn, replicasOf } from './going.ts';
import { plan } from './plan.ts';

const set = (replicas: number | undefined) => ({
  apiVersion: API_VERSION,
  kind: 'MachineSet',
  metadata: { name: 'a', namespace: 'web' },
  spec: { provider: { name: 'local' }, ...(replicas === undefined ? {} : { replicas }) },
});
const UNIT = 'MachineSet/web/a';
const REPLICAS = new Map<string, number | null>([
  ['none', null],
  ...[0, 1, 3, 38, 40].map((replicas): [string, number] => [String(replicas), replicas]),
]);

describe('E9: each machine that a commit would let go counts', () => {
  test.each<[string | undefined, string | undefined, number]>([
    ['40', '1', 39],
    ['40', '38', 2],
    ['1', '40', 0],
    ['40', '40', 0],
    ['40', undefined, 40],
    [undefined, '40', 0],
    // Left out: the set keeps what it has.
    ['40', 'none', 0],
    ['none', 'none', 0],
    ['lost', 'none', 0],
    // Nobody knows how many there are.
    ['none', '3', 1997],
    ['none', undefined, 2000],
    ['lost', '3', 1997],
    ['lost', undefined, 2000],
    ['40', 'lost', 40],
  ])('%s → %s: %i', (from, to, going) => {
    expect(machinesGoing(UNIT, from, to, REPLICAS)).toBe(going);
  });
  test('of MachineSets alone', () => {
    expect(machinesGoing('MachineComponentSet/kubelet', '40', undefined, REPLICAS)).toBe(0);
  });
});

describe('E9: the budget', () => {
  const fleet = (maxDeletions: number): Fleet => ({
    apiVersion: API_VERSION,
    kind: 'Fleet',
    metadata: { name: 'main' },
    spec: { source: { path: '/x' }, stages: [{ name: 'all', clusterSelector: { a: 'b' } }], prune: { maxDeletions } },
  });
  const planned = (maxDeletions: number, from: Record<string, string>, to: Record<string, string>, replicas = REPLICAS) => {
    const of = (units: Record<string, string>) => new Map(['eu', 'us'].map((cluster) => [cluster, new Map(Object.entries(units))]));
    const labels = new Map(['eu', 'us'].map((cluster) => [cluster, { a: 'b' }]));
    return plan({ fleet: fleet(maxDeletions), wanted: of(from), rendered: of(to), labels, replicas });
  };
  const both = { [UNIT]: '40', x: '1' };

  test('one line that lowers replicas is refused at maxDeletions 0, and says which set and how many', () => {
    expect(() => planned(0, both, { ...both, [UNIT]: '38' })).toThrow(
      expect.objectContaining({
        code: 'PruneBudget',
        message: expect.stringContaining('4 machines, 0 are allowed: MachineSet/web/a in eu: 40 → 38, MachineSet/web/a in us: 40 → 38'),
      }),
    );
  });
  test('is over all clusters, and for objects and machines together', () => {
    expect(planned(4, both, { ...both, [UNIT]: '38' }).units).toHaveLength(1);
    expect(() => planned(3, both, { ...both, [UNIT]: '38' })).toThrow('4 machines, 3 are allowed');
    expect(() => planned(5, both, { [UNIT]: '38' })).toThrow('2 objects and 4 machines, 5 are allowed');
    expect(planned(6, both, { [UNIT]: '38' }).units).toHaveLength(2);
    expect(() => planned(81, both, { x: '1' })).toThrow('2 objects and 80 machines, 81 are allowed: MachineSet/web/a');
  });
  test('a line that is left out lets nobody go', () => {
    expect(planned(0, both, { ...both, [UNIT]: 'none' }).units).toHaveLength(1);
  });
  test('what was there before and is not known is refused', () => {
    expect(() => planned(100, { ...both, [UNIT]: 'lost' }, both)).toThrow('MachineSet/web/a in eu: unknown → 40');
    expect(() => planned(100, both, { ...both, [UNIT]: '38' }, new Map())).toThrow('unknown');
  });
});

test('replicas are found in what is rendered and in what is kept, and nowhere else', async () => {
  const [old, lost, now] = [set(40), set(7), set(undefined)].map((object) => unitDigest([object]));
  const kept = new Map([[old, { key: UNIT, objects: [set(40)], origins: [undefined] }]]);
  const wanted = new Map([
    [
      'eu',
      new Map([
        [UNIT, old ?? ''],
        ['MachineSet/web/b', lost ?? ''],
        ['x', 'not asked for'],
      ]),
    ],
  ]);
  const asked: string[] = [];
  const get = (digest: string) => {
    asked.push(digest);
    return Promise.resolve(kept.get(digest));
  };
  const found = await replicasOf([{ units: [{ digest: now ?? '', objects: [set(undefined)] }] }], wanted, { get });
  expect([...found]).toEqual([
    [now, null],
    [old, 40],
  ]);
  expect(asked).toEqual([old, lost]);
});

describe('E8, E9: what the cache lost', () => {
  const [old, next] = [set(5), set(6)];
  const wanted = new Map([['eu', new Map([[UNIT, unitDigest([old])]])]]);
  const rendered = (object: typeof old) => [{ units: [{ digest: unitDigest([object]), objects: [object] }] }];
  const get = () => Promise.resolve(undefined);

  test('is found by rendering the accepted commit again: more machines are no deletion', async () => {
    const found = await replicasOf(rendered(next), wanted, { get }, () => Promise.resolve(rendered(old)));
    expect(machinesGoing(UNIT, unitDigest([old]), unitDigest([next]), found)).toBe(0);
  });
  test('stays unknown when that commit no longer renders, and refuses nothing when it could not be rendered just now', async () => {
    const fails = (verdict: boolean) => () => Promise.reject(new CodedError('X', 'why', { verdict }));
    const found = await replicasOf(rendered(next), wanted, { get }, fails(true));
    expect(machinesGoing(UNIT, unitDigest([old]), unitDigest([next]), found)).toBe(1994);
    await expect(replicasOf(rendered(next), wanted, { get }, fails(false))).rejects.toThrow('why');
  });
});

test('E9: a number that was left out counts as the machines that there are, where a reached cell says so', () => {
  const cluster = (status: 'True' | 'False') => ({
    apiVersion: API_VERSION,
    kind: 'Cluster',
    metadata: { name: status },
    spec: {},
    status: {
      machines: { total: 5, ready: 5 },
      conditions: [{ type: 'Reachable', status, reason: 'X', message: '', lastTransitionTime: '2026-01-01T00:00:00Z' }],
    },
  });
  const most = mostIn([cluster('True'), cluster('False')]);
  expect([...most]).toEqual([['True', 5]]);
  expect(machinesGoing(UNIT, 'none', '3', REPLICAS, most.get('True'))).toBe(2);
  expect(machinesGoing(UNIT, 'none', '38', REPLICAS, most.get('True'))).toBe(0);
  expect(machinesGoing(UNIT, 'none', '3', REPLICAS, most.get('False'))).toBe(1997);
});
