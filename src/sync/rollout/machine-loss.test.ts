/** Machines go for a number that a commit in force wants, and for no other (docs/protocols.md#e9). */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { surplusOf } from '../../controllers/machine-set/retire.ts';
import { MachineSets } from '../../api/machine-set.ts';
import { MANAGERS } from '../../api/names.ts';
import { stamped } from '../apply-unit.ts';
import { digestOf, KEY, machineCells, setOf, type MachineCells } from './testing/machine-cells.ts';

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

describe('E9: machines that a cell made after the commit was judged', () => {
  /** `test` makes 40 machines where 4 were proven, and has so many. */
  async function typo(machines: number): Promise<void> {
    await established(4);
    world.commit(setOf(40), { soakSeconds: DAY_SECONDS });
    await world.pass(10_000);
    expect((await world.live('test'))?.spec.replicas).toBe(40);
    await world.has('test', machines);
  }

  it('stay where a revert begins so late that more would go than were allowed, and no more are made', async () => {
    await typo(6);
    await world.stop();
    const name = world.commit(setOf(4), { atMost: 6 });
    await world.has('test', 30);
    world.start();
    await world.pass(10_000);
    expect(await going('test', 30)).toBe(0);
    expect((await world.live('test'))?.spec).not.toHaveProperty('replicas');
    expect(world.placement(name, 'test')).toMatchObject({ phase: 'Waiting', lane: 'Restore' });
    expect(world.placement(name, 'test')?.message).toMatch(/30 machines.*at most 6.*24.*`prune`.*`replicas: 30`/);
    expect(world.status(name)?.units?.[0]?.message).toMatch(/test: .*30 machines/);
    expect(world.record('test')).not.toHaveProperty('begun');
  });

  it('go where the commit is judged again, and so many are allowed', async () => {
    await typo(6);
    world.commit(setOf(4), { atMost: 5 });
    await world.pass(10_000);
    expect(await going('test', 6)).toBe(0);
    world.commit(setOf(4), { atMost: 6 });
    await world.pass(20_000);
    expect(await going('test', 6)).toBe(2);
  });

  it('go where they are no more than were allowed, and where an earlier version has counted none', async () => {
    await typo(6);
    world.commit(setOf(4), { atMost: 6 });
    await world.pass(20_000);
    expect(await going('test', 6)).toBe(2);
    world.commit(setOf(3));
    await world.pass(20_000);
    expect(await going('test', 6)).toBe(3);
  });

  it('stay where the whole set is removed late', async () => {
    world.start();
    world.commit(setOf(40));
    await world.pass();
    await world.has('test', 2);
    await world.stop();
    const name = world.commit(null, { atMost: 2 });
    await world.has('test', 30);
    world.start();
    await world.pass(10_000);
    expect(await going('test', 30)).toBe(0);
    expect(world.placement(name, 'test')).toMatchObject({ phase: 'Waiting' });
    expect(world.placement(name, 'test')?.message).toMatch(/30 machines.*at most 2/);
    await world.has('test', 2);
    await world.pass(20_000);
    expect(await going('test', 2)).toBe(2);
  });

  it('stay in a later stage, where the set was scaled by others until then', async () => {
    await established(4);
    world.commit(setOf(undefined));
    for (const cell of ['test', 'prod']) {
      await world.pass(10_000);
      await world.has(cell, 4);
    }
    const name = world.commit(setOf(3), { atMost: 4, soakSeconds: 60 });
    await world.pass();
    await world.has('test', 3);
    await world.cell('prod').patch(MachineSets, KEY, { merge: { spec: { replicas: 30 } } }, { fieldManager: 'kubectl' });
    await world.has('prod', 30);
    await world.pass(90_000);
    expect(world.placement(name, 'test')?.phase).toBe('Verified');
    expect((await world.live('prod'))?.spec.replicas).toBe(30);
    expect(world.placement(name, 'prod')?.message).toMatch(/30 machines.*at most 4/);
  });

  it('do not count as going once more where an earlier commit lets them go already', async () => {
    await scaledDown(2);
    world.commit(setOf(1), { atMost: 2 });
    await world.pass(20_000);
    await world.has('test', 1);
    await world.pass(20_000);
    expect(await going('prod', 4)).toBe(3);
  });

  it('stay where the hub died between what it recorded and what it wrote', async () => {
    await typo(6);
    const digest = digestOf(setOf(4));
    world.commit(setOf(4), { atMost: 6 });
    world.refuse('test');
    await world.pass(5000);
    expect(world.record('test')?.begun).toBe(digest);
    await world.has('test', 30);
    world.refuse(undefined);
    await world.pass(60_000);
    expect(await going('test', 30)).toBe(0);
  });

  /** The answer to the write is lost: the record has 40 as begun, over the 4 that were proven, and the cell has it. */
  async function typoOnlyBegun(): Promise<void> {
    await established(4);
    world.refuse('test');
    world.commit(setOf(40), { soakSeconds: DAY_SECONDS });
    await world.pass(5000);
    await world.stop();
    const digest = digestOf(setOf(40));
    const record = world.record('test');
    expect(record).toMatchObject({ digest: digestOf(setOf(4)), begun: digest });
    const written = stamped(setOf(40), true, { digest, fleet: 'main', lane: 'Forward', writtenAt: record?.writtenAt }, undefined);
    await world.cell('test').apply(MachineSets, written, { fieldManager: MANAGERS.sync, force: true });
  }

  it('stay where what makes them is recorded only as begun, also after the hub took its number out', async () => {
    await typoOnlyBegun();
    await world.has('test', 30);
    world.refuse(undefined);
    const name = world.commit(setOf(4), { atMost: 4 });
    world.start();
    await world.pass(20_000);
    expect(await going('test', 30)).toBe(0);
    expect((await world.live('test'))?.spec).not.toHaveProperty('replicas');
    expect(world.placement(name, 'test')?.message).toMatch(/30 machines.*at most 4/);
    world.commit(setOf(4), { atMost: 30 });
    await world.pass(20_000);
    expect(await going('test', 30)).toBe(26);
  });

  it('stay where the revert of that is itself recorded only as begun', async () => {
    await typoOnlyBegun();
    await world.has('test', 4);
    world.commit(setOf(4), { machines: 40, atMost: 4 });
    world.start();
    await world.pass(5000);
    expect(world.record('test')).toMatchObject({ digest: digestOf(setOf(4)), begun: digestOf(setOf(4)) });
    await world.has('test', 30);
    world.refuse(undefined);
    await world.pass(60_000);
    expect(await going('test', 30)).toBe(0);
  });
});

it('E17: what a backup had accepted is not carried out by judging it again, without a new commit', async () => {
  await established(4);
  world.commit(setOf(undefined));
  for (const name of ['test', 'prod']) {
    await world.pass(10_000);
    await world.has(name, 40);
  }
  await world.stop();
  world.commit(setOf(39), { atMost: 40, commit: 'backup' });
  // After the backup its hub went on: it gave the cell other content, by which the set has one more machine now.
  await world.clock.advance(60_000);
  const newer = setOf(undefined, { paused: false });
  const digest = digestOf(newer);
  const writtenAt = new Date(world.clock.now()).toISOString();
  const written = stamped(newer, true, { digest, fleet: 'main', lane: 'Forward', writtenAt }, undefined);
  await world.cell('test').apply(MachineSets, written, { fieldManager: MANAGERS.sync, force: true });
  await world.has('test', 41);
  await world.clock.advance(60_000);
  world.start();
  await world.pass(10_000);
  const again = world.commit(setOf(39), { machines: 41, atMost: 41, commit: 'backup' });
  await world.pass(20_000);
  expect(world.placement(again, 'test')?.message).toMatch(/put back to a backup/);
  expect((await world.live('test'))?.spec.unitDigest).toBe(digest);
  // A new one was judged with what the cell has.
  world.commit(setOf(39), { machines: 41, atMost: 41 });
  await world.pass(20_000);
  expect((await world.live('test'))?.spec.unitDigest).toBe(digestOf(setOf(39)));
});
