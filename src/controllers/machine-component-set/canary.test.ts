/** A set gives two contents where it has a canary: each is tried, and proven, by the machines that have that very content (docs/protocols.md#b3, #b4, #b8, #e2). */
import { describe, expect, it } from 'vitest';
import { createWorld, type World } from './testing/world.ts';

type WorldOptions = NonNullable<Parameters<typeof createWorld>[0]>;

/** `canaries` of `machines` have the label that the canary selects; 1.0.0 is verified on all. */
async function worldWith(machines: number, canaries: number, broken: string[], spec: Parameters<World['set']>[0] = {}): Promise<World> {
  const fails: NonNullable<WorldOptions['fails']> = (_machine, entry) => broken.includes(entry.version);
  const world = createWorld({ machines: 0, fails });
  for (let index = 0; index < machines; index++) world.join({ canary: index < canaries ? 'yes' : 'no' });
  world.set({ version: '1.0.0', unitDigest: 'A', batches: [1, '10%', '50%', '100%'], ...spec });
  await world.rest(500);
  expect(world.status().evidence?.unitDigest).toBe('A');
  return world;
}

const CANARY = { selector: { canary: 'yes' }, version: '2.0.0' };
/** Machines that were given this version, whether it works or not. */
const tried = (world: World, version: string): number => world.given(version).length + (world.status().failures?.length ?? 0);

describe('B3: batches of each content', () => {
  it('machines that keep what they have open no batch of a canary that no machine has tried', async () => {
    const world = await worldWith(40, 20, ['2.0.0']);
    world.set({ canary: CANARY });
    await world.rest(500);
    expect(tried(world, '2.0.0')).toBe(1);
    expect(world.condition('Halted')).toBe('True/MaxFailed');
  });

  it('a canary that works opens no batch of the main content that no machine has tried', async () => {
    const world = await worldWith(40, 4, ['3.0.0']);
    world.set({ canary: CANARY, unitDigest: 'B' });
    await world.rest(500);
    expect(world.given('2.0.0')).toHaveLength(4);
    world.set({ version: '3.0.0', unitDigest: 'C' });
    await world.rest(500);
    expect(tried(world, '3.0.0')).toBe(1);
    expect(world.condition('Halted')).toBe('True/MaxFailed');
  });

  it('both go at once, each in its own batches, and both end', async () => {
    const world = await worldWith(12, 4, []);
    world.set({ version: '3.0.0', canary: CANARY, unitDigest: 'B' });
    await world.rounds(2);
    expect([world.given('2.0.0').length, world.given('3.0.0').length]).toEqual([1, 1]);
    await world.rest(500);
    expect([world.given('2.0.0').length, world.given('3.0.0').length]).toEqual([4, 8]);
    expect(world.status()).toMatchObject({ evidence: { unitDigest: 'B' }, verified: { version: '3.0.0' }, batch: 0 });
  });
});

describe('B4, E2: content that works on no machine', () => {
  it.each([
    ['main', '3.0.0'],
    ['canary', '2.0.0'],
  ])('gives no evidence while the other works, with any maxFailed (%s)', async (_which, broken) => {
    const world = await worldWith(10, 2, [broken], { maxFailed: 50 });
    world.set({ version: '3.0.0', canary: CANARY, unitDigest: 'B' });
    await world.rest(500);
    expect(world.status().failures).toHaveLength(broken === '2.0.0' ? 2 : 8);
    expect(world.status().evidence).toBeUndefined();
    expect(world.status().verified?.version).toBe('1.0.0');
    expect(world.status().revision?.completedAt).toBeUndefined();
  });

  it('is never given to a new machine as verified', async () => {
    const world = await worldWith(2, 1, ['3.0.0'], { maxFailed: 50 });
    world.set({ canary: CANARY, unitDigest: 'B' });
    await world.rest(500);
    world.set({ version: '3.0.0', unitDigest: 'C' });
    await world.rest(500);
    const joiner = world.joinNew({ canary: 'no' });
    await world.rounds(2);
    expect(world.status().verified?.version).toBe('1.0.0');
    expect(world.entry(joiner)?.version).toBe('1.0.0');
  });

  it('main content is not verified where all machines are canaries', async () => {
    const world = await worldWith(2, 2, []);
    world.set({ version: '3.0.0', canary: CANARY, unitDigest: 'B' });
    await world.rest(500);
    expect(world.status()).toMatchObject({ evidence: { unitDigest: 'B' }, verified: { version: '1.0.0' } });
  });
});
