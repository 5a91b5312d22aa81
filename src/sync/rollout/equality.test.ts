/** Content that becomes equal to what the server stores, and equal again after a user changed it there. */
import { afterEach, beforeEach, expect, it } from 'vitest';
import { MachineSets } from '../../api/machine-set.ts';
import { digestOf, KEY, machineCells, setOf, type MachineCells } from './testing/machine-cells.ts';

let world: MachineCells;
beforeEach(async () => {
  world = await machineCells(['test']);
});
afterEach(async () => {
  await world.close();
});

it.each<[string, object]>([
  ['null', { a: null }],
  ['null below', { a: { b: null, c: 1 } }],
  ['an empty map and list', { a: {}, b: [], c: { d: {} } }],
  ['numbers', { a: 1.0, b: 1e3, c: 1e21, d: 0.1, e: -0, f: 9007199254740992, g: 1e-7 }],
  ['texts', { 'a<b>&': '<&>', 'x"y': 1, 'a/b': { 'c.d': 1 }, '': { '': 1 }, é: 'ü\u2028' }],
  ['lists of maps', { a: [{ name: 'x', b: null }, { name: 'y' }] }],
  ['names of records', { 'f:a': 1, '.': { '.': 1 }, 'k:{"name":"x"}': 1 }],
  ['names of JavaScript', { constructor: { toString: 1 }, valueOf: null }],
  ['what is not empty', { a: 1 }],
  ['empty', {}],
])('%s', async (_what, config) => {
  const given = setOf(2, { provider: { name: 'local', config }, template: { metadata: { labels: { tier: 'web' } }, taints: [] } });
  world.commit(given);
  world.start();
  await world.pass();
  await world.has('test', 2);
  await world.pass(5000);
  expect(world.record('test')?.evidence).toBe(digestOf(given));
  const before = (await world.live('test'))?.metadata.resourceVersion;
  await world.pass(70_000);
  expect((await world.live('test'))?.metadata.resourceVersion).toBe(before);
  const spec = (await world.live('test'))?.spec;
  const merge = {
    spec: {
      provider: { config: { extra: { deep: [1], '.': 2, 'f:x': {} } } },
      maxInFlight: 7,
      template: { metadata: { labels: { x: 'y' } } },
    },
  };
  await world.cell('test').patch(MachineSets, KEY, { merge }, { fieldManager: 'kubectl-edit' });
  await world.pass(5000);
  expect((await world.live('test'))?.spec).toEqual(spec);
  const after = (await world.live('test'))?.metadata.resourceVersion;
  await world.pass(70_000);
  expect((await world.live('test'))?.metadata.resourceVersion).toBe(after);
});
