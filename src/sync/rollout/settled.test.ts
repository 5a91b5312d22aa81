/** The write that settles sync's records loses against a status write of the cell's controller (docs/protocols.md#e3). The whole rollout controller runs. */
import { afterEach, beforeEach, expect, it } from 'vitest';
import { surplusOf } from '../../controllers/machine-set/retire.ts';
import { MachineSets } from '../../api/machine-set.ts';
import { KEY, machineCells, setOf, type MachineCells } from './testing/machine-cells.ts';

let world: MachineCells;
beforeEach(async () => {
  world = await machineCells(['test']);
});
afterEach(async () => {
  await world.close();
});
async function going(machines: number): Promise<number> {
  const set = await world.cell('test').get(MachineSets, KEY);
  return surplusOf({ set, machines: Array.from({ length: machines }, () => ({ metadata: {} })) as never, now: world.clock.now() });
}
const labels = (each: object) => ({ template: { metadata: { labels: each } } });
/** The cell's controller writes the status of a set just after each apply of the hub. */
function busy(): void {
  let count = 0;
  world.after = async (_name, request) => {
    if (request.method !== 'PATCH' || !JSON.stringify(request.headers).includes('apply-patch') || !request.path.includes('/machinesets/'))
      return;
    const merge = { status: { readyReplicas: (count += 1) % 2 } };
    await world.cell('test').patch(MachineSets, KEY, { merge }, { subresource: 'status' });
  };
}

it('E3: a revert of a commit that paused a set and emptied its labels resumes it', async () => {
  const first = setOf(4, labels({ x: 'y' }));
  world.commit(first);
  world.start();
  await world.pass();
  await world.has('test', 4);
  busy();
  world.commit(setOf(4, { ...labels({}), paused: true }));
  await world.pass(10_000);
  world.after = undefined;
  await world.has('test', 4);
  await world.pass(120_000);
  expect((await world.live('test'))?.spec.paused).toBe(true);
  world.commit(first);
  await world.pass(120_000);
  await world.has('test', 4);
  await world.pass(120_000);
  expect((await world.live('test'))?.spec.template).toMatchObject({ metadata: { labels: { x: 'y' } } });
  expect((await world.live('test'))?.spec).not.toHaveProperty('paused');
});

it('C8e: a number by hand lets no machine go where a commit gives the number, after one that left it out', async () => {
  world.commit(setOf(4, labels({ x: 'y' })));
  world.start();
  await world.pass();
  await world.has('test', 4);
  busy();
  world.commit(setOf(undefined, labels({})));
  await world.pass(10_000);
  await world.has('test', 4);
  await world.pass(10_000);
  world.commit(setOf(4, labels({})));
  await world.pass(10_000);
  await world.has('test', 4);
  await world.pass(60_000);
  await world.stop();
  await world.cell('test').patch(MachineSets, KEY, { merge: { spec: { replicas: 0 } } }, { fieldManager: 'kubectl' });
  expect(await going(4)).toBe(0);
});
