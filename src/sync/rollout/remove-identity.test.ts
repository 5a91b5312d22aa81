/** A removal deletes what the hub applied, and is not Done while something else of that name is there (docs/protocols.md#e9). */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ConfigMaps } from '../../api/builtin.ts';
import { MachineSets } from '../../api/machine-set.ts';
import { LABELS } from '../../api/names.ts';
import { removeUnit } from '../apply-unit.ts';
import { KEY, machineCells, setOf, type MachineCells } from './testing/machine-cells.ts';

const WAITS = 'a user deleted it in its cell and made another one of its name: delete that one there';

let world: MachineCells;

beforeEach(async () => {
  world = await machineCells(['prod']);
  world.commit(setOf(4));
  world.start();
  await world.pass();
  await world.has('prod', 4);
});
afterEach(async () => {
  await world.close();
});

/** As `kubectl replace --force` does with what `kubectl get` gave. */
async function replaceByForce(): Promise<void> {
  const client = world.cell('prod');
  const live = await client.get(MachineSets, KEY);
  await client.delete(MachineSets, KEY, { propagationPolicy: 'Background' });
  const { labels = {}, annotations = {} } = live.metadata;
  const again = MachineSets.parse({ ...live, status: undefined, metadata: { ...KEY, labels, annotations } });
  await client.create(MachineSets, again, { fieldManager: 'kubectl-replace' });
}

async function expectWaiting(name: string): Promise<void> {
  expect([world.status(name)?.phase, world.placement(name, 'prod')?.message]).toEqual(['Progressing', expect.stringContaining(WAITS)]);
  expect((await world.live('prod'))?.spec.replicas).toBeDefined();
}

async function expectDoneOnceItIsGone(name: string): Promise<void> {
  await world.cell('prod').delete(MachineSets, KEY, { propagationPolicy: 'Background' });
  await world.pass(120_000);
  expect([await world.live('prod'), world.status(name)?.phase]).toEqual([undefined, 'Done']);
}

describe('E9: the removal of a set that was made again with its label', () => {
  it('waits until that one is gone, where it was made again in the middle of the removal', async () => {
    const name = world.commit(null);
    await world.pass();
    expect((await world.live('prod'))?.spec.replicas).toBe(0);
    await replaceByForce();
    await world.pass(120_000);
    await expectWaiting(name);
    await expectDoneOnceItIsGone(name);
  });

  it('waits until that one is gone, where it was made again before the removal', async () => {
    world.pause('prod', true);
    await world.pass();
    await replaceByForce();
    const name = world.commit(null);
    await world.pass();
    world.pause('prod', false);
    await world.pass(120_000);
    await expectWaiting(name);
    await expectDoneOnceItIsGone(name);
  });

  it('is taken back by a later commit, which puts the set back', async () => {
    world.commit(null);
    await world.pass();
    await replaceByForce();
    await world.pass(20_000);
    world.commit(setOf(4));
    await world.pass(20_000);
    const live = await world.live('prod');
    expect([live?.spec.replicas, world.record('prod')?.inventory?.[0]?.uid]).toEqual([4, live?.metadata.uid]);
  });
});

describe('E9: the removal of an object that the hub does not watch', () => {
  const entry = { apiVersion: 'v1', kind: 'ConfigMap', namespace: 'web', name: 'settings', uid: 'applied' };
  const { signal } = new AbortController();
  const removal = async (labels: Record<string, string>): Promise<unknown> => {
    const client = world.cell('prod');
    const metadata = { namespace: entry.namespace, name: entry.name, labels };
    await client.create(ConfigMaps, { apiVersion: 'v1', kind: 'ConfigMap', metadata });
    const target = { client, resourceOf: () => Promise.resolve(ConfigMaps) };
    return await removeUnit(target, [entry], 'main', () => Promise.resolve(), signal);
  };

  it('waits where another one of its name bears the label of the Fleet', async () => {
    await expect(removal({ [LABELS.fleet]: 'main' })).rejects.toMatchObject({ code: 'NotOurs', message: expect.stringContaining(WAITS) });
  });

  it('is complete where another one of its name bears another label, or none', async () => {
    expect(await removal({ [LABELS.fleet]: 'other' })).toEqual({ left: [], empties: false });
  });
});
