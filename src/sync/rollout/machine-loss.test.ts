/** Machines go for a number that a commit in force wants, and for no other (docs/protocols.md#e9). */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { surplusOf } from '../../controllers/machine-set/retire.ts';
import { MachineSets } from '../../api/machine-set.ts';
import { KEY, machineCells, setOf, type MachineCells } from './testing/machine-cells.ts';

const DAY_SECONDS = 86_400;

let world: MachineCells;

beforeEach(async () => {
  world = await machineCells(['test', 'prod']);
});
afterEach(async () => {
  await world.close();
});

/** How many of so many machines the cell would let go. */
async function going(cluster: string, machines: number): Promise<number> {
  const set = await world.cell(cluster).get(MachineSets, KEY);
  return surplusOf({ set, machines: Array.from({ length: machines }, () => ({ metadata: {} })) as never, now: world.clock.now() });
}

async function established(replicas: number): Promise<void> {
  world.commit(setOf(replicas));
  world.start();
  for (const name of ['test', 'prod']) {
    await world.pass();
    await world.has(name, replicas);
  }
}

/** Gone in `test`, begun in `prod`, where all machines are there still. */
async function removalBegun(): Promise<void> {
  await established(4);
  world.commit(null, { soakSeconds: 5 });
  await world.pass();
  await world.has('test', 0);
  await world.pass(20_000);
  expect(await world.live('test')).toBeUndefined();
  expect(await going('prod', 4)).toBe(4);
}

async function scaledDown(to: number): Promise<void> {
  await established(4);
  world.commit(setOf(to));
  await world.pass();
  await world.has('test', to);
  await world.pass(20_000);
  await world.has('prod', 4);
  expect(await going('prod', 4)).toBe(4 - to);
}

describe('E9: a removal that has begun, of a set that a later commit wants with other content', () => {
  it.each([4, 6, undefined])('lets no further machine go, before the stage of that content opens (replicas %s)', async (replicas) => {
    await removalBegun();
    const name = world.commit(setOf(replicas, { paused: false }), { soakSeconds: DAY_SECONDS });
    await world.pass(10_000);
    await world.has('test', replicas ?? 0);
    await world.pass(20_000);
    expect(await going('prod', 4)).toBe(0);
    expect((await world.live('prod'))?.spec).not.toHaveProperty('paused');
    expect(world.placement(name, 'prod')?.phase).toBe('Pending');
  });

  it('lets them go again when yet another commit removes it', async () => {
    await removalBegun();
    world.commit(setOf(6), { soakSeconds: DAY_SECONDS });
    await world.pass(10_000);
    expect(await going('prod', 4)).toBe(0);
    const name = world.commit(null);
    await world.pass(10_000);
    if ((await world.live('test')) !== undefined) await world.has('test', 0);
    await world.pass(20_000);
    expect(await going('prod', 4)).toBe(4);
    await world.has('prod', 0);
    await world.pass(20_000);
    expect(await world.live('prod')).toBeUndefined();
    expect(world.status(name)?.phase).toBe('Done');
  });

  it('lets no further machine go where the hub died before it wrote that into the cell', async () => {
    await removalBegun();
    await world.stop();
    world.commit(setOf(6), { soakSeconds: DAY_SECONDS });
    world.start();
    await world.pass(10_000);
    expect(await going('prod', 4)).toBe(0);
  });

  it('lets no further machine go where that content is lost and cannot be rendered again', async () => {
    await removalBegun();
    world.commit(setOf(6), { soakSeconds: DAY_SECONDS });
    world.units.clear();
    await world.pass(10_000);
    expect(await going('prod', 4)).toBe(0);
  });
});

describe('E9: a smaller number', () => {
  it.each([6, undefined])('that a later commit takes back lets no further machine go (replicas %s)', async (replicas) => {
    await scaledDown(1);
    world.commit(setOf(replicas), { soakSeconds: DAY_SECONDS });
    await world.pass(10_000);
    await world.has('test', replicas ?? 1);
    await world.pass(20_000);
    expect(await going('prod', 4)).toBe(0);
  });

  it.each([
    ['an even smaller one', setOf(1)],
    ['the same one with other content', setOf(2, { paused: false })],
  ])('lets machines go while a later commit, which waits for its stage, wants %s', async (_what, next) => {
    await scaledDown(2);
    world.commit(next, { soakSeconds: DAY_SECONDS });
    await world.pass(20_000);
    expect((await world.live('prod'))?.spec.replicas).toBe(2);
    expect(await going('prod', 4)).toBe(2);
  });

  it('that is being reached is left alone where more machines are wanted than the set has', async () => {
    await established(4);
    world.commit(setOf(6), { soakSeconds: DAY_SECONDS });
    await world.pass(20_000);
    expect((await world.live('prod'))?.spec.replicas).toBe(4);
  });
});

it('E9: the removal of a set that is paused reports that this keeps its machines, and goes on once it is not', async () => {
  world.commit(setOf(4, { paused: true }));
  world.start();
  for (const name of ['test', 'prod']) {
    await world.pass();
    await world.has(name, 4);
  }
  const name = world.commit(null);
  await world.pass(20_000);
  await world.has('test', 4);
  expect(await going('test', 4)).toBe(0);
  expect(world.placement(name, 'test')?.message).toMatch(/4 are there.*`spec.paused` of the set keeps them: set it to false in its cell/);
  await world.cell('test').patch(MachineSets, KEY, { merge: { spec: { paused: false } } }, { fieldManager: 'kubectl' });
  await world.pass();
  expect(await going('test', 4)).toBe(4);
  expect(world.placement(name, 'test')?.message).not.toMatch(/paused/);
  await world.has('test', 0);
  await world.pass(20_000);
  expect(await world.live('test')).toBeUndefined();
});
