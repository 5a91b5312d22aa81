import { afterEach, beforeEach, expect, it } from 'vitest';
import { Freezes } from '../../api/freeze.ts';
import { API_VERSION } from '../../api/kind.ts';
import { Machines } from '../../api/machine.ts';
import { findCondition } from '../../kube/conditions.ts';
import { waitFor } from '../../kube/testing/wait-for.ts';
import { openCell, type TestCell } from '../machine-component-set/testing/cell.ts';
import { runFreezeController } from './controller.ts';

const LATE = { deadlineMs: 10_000 };
let cell: TestCell;
let running: Promise<void>[];
beforeEach(async () => {
  cell = await openCell();
  running = [runFreezeController(cell.ports)];
});
afterEach(() => cell.close(running));

const freeze = (pools?: string[]) =>
  cell.client.create(Freezes, {
    apiVersion: API_VERSION,
    kind: 'Freeze',
    metadata: { name: 'sale' },
    spec: pools === undefined ? {} : { pools },
  });
const found = async () => findCondition((await cell.client.get(Freezes, { name: 'sale' })).status?.conditions, 'PoolsFound');

it('reports a pool that has no machine, until the first is there, and again when the last goes', async () => {
  await freeze(['web', 'wep']);
  await waitFor(async () => (await found())?.status === 'False', LATE);
  expect((await found())?.message).toContain('`spec.pools` names web, wep: this cell has no Machine there');
  await cell.client.create(Machines, { apiVersion: API_VERSION, kind: 'Machine', metadata: { name: 'm1', namespace: 'web' }, spec: {} });
  await waitFor(async () => (await found())?.message.startsWith('`spec.pools` names wep:') === true, LATE);
  await cell.client.patch(Freezes, { name: 'sale' }, { merge: { spec: { pools: ['web'] } } });
  await waitFor(async () => (await found())?.status === 'True', LATE);
  await cell.client.delete(Machines, { name: 'm1', namespace: 'web' });
  await waitFor(async () => (await found())?.status === 'False', LATE);
});

it('reports nothing missing where it is for the whole cell', async () => {
  await freeze();
  await waitFor(async () => (await found())?.status === 'True', LATE);
});
