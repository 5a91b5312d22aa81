import { expect, test } from 'vitest';
import { limitsOn } from './limits.ts';
import { machineSetScope, poolScope, setScope } from './scopes.ts';
import { policy } from './testing/rows.ts';

const sources = {
  policies: [
    policy('p', { name: 'cell', scope: 'Cluster', maxUnavailable: 3 }, { name: 'web', scope: 'Pool', maxUnavailable: 1, pools: ['web'] }),
    policy('q', { name: 'each', scope: 'Pool', maxUnavailable: '20%' }, { name: 'sets', scope: 'Set', maxUnavailable: 2, pools: ['web'] }),
  ],
  sets: new Map([['s1', { name: 'kubelet', maxUnavailable: 4 }]]),
};
const names = (scope: string): string[] => limitsOn(scope, sources).map((limit) => limit.name);

test('all limits of all policies apply where they say', () => {
  expect(names('cluster')).toEqual(['p/cell']);
  expect(names(poolScope('web'))).toEqual(['p/web', 'q/each']);
  expect(names(poolScope('db'))).toEqual(['q/each']);
  expect(names(machineSetScope('web', 'x'))).toEqual(['q/sets']);
  expect(names(machineSetScope('db', 'x'))).toEqual([]);
  expect(limitsOn(setScope('s1'), sources)).toEqual([{ name: 'MachineComponentSet/kubelet', scope: 'set/s1', max: 4 }]);
});

test('a set that is gone and a scope of a later build have no limit of their own', () => {
  expect(names(setScope('gone'))).toEqual([]);
  expect(names('rack/7')).toEqual([]);
});

test('where no policy limits anything the built-in limit of the cell holds, and only there', () => {
  for (const policies of [[], [policy('empty')]]) {
    expect(limitsOn('cluster', { policies, sets: new Map() })).toEqual([{ name: 'builtin/cluster', scope: 'cluster', max: '10%' }]);
    expect(limitsOn(poolScope('web'), { policies, sets: new Map() })).toEqual([]);
  }
  // One who limits pools alone has said what he wants of the cell: nothing.
  const pools = [policy('p', { name: 'web', scope: 'Pool', maxUnavailable: 1 })];
  expect(limitsOn('cluster', { policies: pools, sets: new Map() })).toEqual([]);
});
