/** What a commit removes waits as any other change does (docs/protocols.md#e5); taking back what was just added does not (docs/protocols.md#e6). */
import { describe, expect, it } from 'vitest';
import { isGone } from '../soak.ts';
import { fleetWorld, type FleetWorld } from './testing.ts';
import type { Step } from './world.ts';

const UNIT = 'MachineComponentSet/runtime';
const OTHER = 'DefenderPolicy/a';
const SOAK = 100;
/** A turn takes a second and more. */
const PAST_SOAK = (SOAK + 10) * 1000;

const removalsIn = (steps: readonly Step[]): string[] => steps.flatMap((step) => (step.do === 'Remove' ? step.cluster : []));

/** Removals of so many turns, in order. */
function removed(world: FleetWorld, turns = 4): string[] {
  return Array.from({ length: turns }, () => removalsIn(world.turn())).flat();
}

/** All clusters have had the unit for long, and nothing is new any more. */
function established(options: Parameters<typeof fleetWorld>[0] = {}): FleetWorld {
  const world = fleetWorld({ soakSeconds: SOAK, ...options });
  world.commit({ [UNIT]: 'A', [OTHER]: 'M' });
  world.settle(PAST_SOAK / 1000);
  world.pass(PAST_SOAK);
  world.turns();
  return world;
}

/** Turns in which what is there proves itself, each as long as a soak, until the unit was applied there. */
function until(world: FleetWorld, applied: string): void {
  for (let turn = 0; turn < 50 && !world.applied().includes(applied); turn += 1) {
    for (const cluster of ['test', 'pre', 'prod']) world.prove(cluster);
    world.pass(PAST_SOAK);
    world.turn();
  }
  expect(world.applied()).toContain(applied);
}

describe('E5: a removal', () => {
  it('goes on to the next stage when its soak is over, and not before', () => {
    const world = established();
    world.commit({ [OTHER]: 'M' });
    expect(removed(world)).toEqual(['test']);
    expect(world.status().units?.[0]).toMatchObject({ phase: 'Soaking', stage: 'test', lane: 'Forward' });
    world.pass((SOAK - 20) * 1000);
    expect(removed(world, 1)).toEqual([]);
    world.pass(PAST_SOAK);
    expect(removed(world)).toEqual(['pre']);
    world.pass(PAST_SOAK);
    expect(removed(world)).toEqual(['prod']);
  });

  it('keeps its soak in the records, so that another leader goes on with it', () => {
    const world = established();
    world.commit({ [OTHER]: 'M' });
    expect(removed(world, 1)).toEqual(['test']);
    expect(world.record('test', UNIT)).toMatchObject({ removal: { lane: 'Forward', at: expect.any(String) as unknown } });
    const at = world.record('test', UNIT)?.removal?.at;
    expect(removed(world)).toEqual([]);
    expect(world.record('test', UNIT)?.removal?.at).toBe(at);
  });

  it.each<[string, (world: FleetWorld) => void]>([
    ['of another unit', (world) => world.commit({ [OTHER]: 'N' })],
    ['of the unit in another cluster', (world) => world.commit({ [OTHER]: 'M' }, { prod: { [UNIT]: 'B' } })],
  ])('E12: a later commit %s neither ends nor restarts its soak', (_what, commit) => {
    const world = established();
    world.commit({ [OTHER]: 'M' });
    expect(removed(world)).toEqual(['test']);
    world.pass((SOAK - 30) * 1000);
    commit(world);
    expect(removed(world, 10)).toEqual([]);
    world.pass(30_000);
    expect(removed(world, 2)).toEqual(['pre']);
  });

  it('E12: is not forgotten by a later commit of the unit, and what follows waits for its soak', () => {
    const world = established();
    world.commit({ [OTHER]: 'M' });
    expect(removed(world)).toEqual(['test']);
    world.commit({ [OTHER]: 'M' }, { prod: { [UNIT]: 'B' } });
    world.turns(10);
    expect(world.applied()).not.toContain('prod B');
    world.pass(PAST_SOAK);
    expect(removed(world)).toEqual(['pre']);
    expect(world.applied()).not.toContain('prod B');
    world.pass(PAST_SOAK);
    world.turns();
    expect(world.applied()).toContain('prod B');
  });

  it('leaves no record when it is complete and has soaked', () => {
    const world = established();
    world.commit({ [OTHER]: 'M' });
    world.settle(PAST_SOAK / 1000);
    world.pass(PAST_SOAK);
    world.turns();
    for (const cluster of ['test', 'pre', 'prod']) expect(world.record(cluster, UNIT)).toBeUndefined();
    expect(world.turn()).toEqual([]);
  });

  it('leads to another look when its soak is over, though nothing waits for it', () => {
    const world = established();
    world.commit({ [OTHER]: 'M' });
    for (const _ of ['test', 'pre', 'prod']) {
      world.turns();
      world.pass(PAST_SOAK);
    }
    world.pass(-PAST_SOAK);
    world.turn();
    expect(world.phase(UNIT)).toBe('Done');
    const goneAt = Date.parse(world.record('prod', UNIT)?.removal?.at ?? '');
    expect(world.again()).toBe(goneAt + SOAK * 1000);
  });

  it('waits also where content that is not proven yet took the place of proven content', () => {
    const world = established();
    world.commit({ [UNIT]: 'B', [OTHER]: 'M' });
    world.turns();
    world.halt('test', 'MaxFailed');
    world.turns();
    world.commit({ [OTHER]: 'M' });
    expect(removed(world)).toEqual(['test']);
  });

  it('soaks again where its time is not reached yet', () => {
    const world = established();
    world.commit({ [OTHER]: 'M' });
    world.turn();
    world.pass(-3_600_000);
    expect(world.turn()).toContainEqual(expect.objectContaining({ do: 'SoakAgain', cluster: 'test', digest: 'Removal' }));
    expect(removed(world)).toEqual([]);
    world.pass(PAST_SOAK);
    expect(removed(world)).toEqual(['pre']);
  });

  it('goes through the stages again where the unit comes back to where it was gone', () => {
    const world = established();
    world.commit({ [OTHER]: 'M' });
    world.turns();
    expect(isGone(world.record('test', UNIT))).toBe(true);
    const before = world.applied().length;
    world.commit({ [UNIT]: 'A', [OTHER]: 'M' });
    world.turns();
    expect(world.applied().slice(before)).toEqual(['test A']);
    expect(world.record('test', UNIT)).not.toHaveProperty('removal');
  });
});

describe('E6: the revert of an addition', () => {
  it('does not wait where its evidence is not older than the soak', () => {
    const world = fleetWorld({ soakSeconds: SOAK });
    world.commit({ [OTHER]: 'M' });
    world.settle();
    world.commit({ [UNIT]: 'A', [OTHER]: 'M' });
    until(world, 'prod A');
    for (const cluster of ['test', 'pre', 'prod']) world.prove(cluster);
    world.turns();
    expect(world.phase(UNIT)).toBe('Done');
    world.commit({ [OTHER]: 'M' });
    expect(removed(world, 1).toSorted()).toEqual(['pre', 'prod', 'test']);
    for (const cluster of ['test', 'pre', 'prod']) expect(world.record(cluster, UNIT)).toBeUndefined();
  });

  it.each<[string, (world: FleetWorld) => void]>([
    ['is under way', () => undefined],
    ['is halted', (world) => world.halt('prod', 'MaxFailed')],
    ['is under way and paused', (world) => world.pause(true)],
    ['cannot be observed where it was begun', (world) => world.away('prod', 'no answer')],
  ])('does not wait where its rollout %s, however long it was proven elsewhere', (_what, trouble) => {
    const world = fleetWorld({ soakSeconds: SOAK });
    world.commit({ [OTHER]: 'M' });
    world.settle();
    world.commit({ [UNIT]: 'A', [OTHER]: 'M' });
    until(world, 'prod A');
    trouble(world);
    world.turns();
    world.pass(10 * PAST_SOAK);
    world.turns();
    world.commit({ [OTHER]: 'M' });
    expect(removed(world, 1)).toEqual(expect.arrayContaining(['test', 'pre']));
  });

  it('does not wait where it is paused before the next stage has begun', () => {
    const world = fleetWorld({ soakSeconds: SOAK });
    world.commit({ [OTHER]: 'M' });
    world.settle();
    world.commit({ [UNIT]: 'A', [OTHER]: 'M' });
    until(world, 'pre A');
    world.prove('pre');
    world.turns();
    world.pause(true);
    world.pass(10 * PAST_SOAK);
    world.commit({ [OTHER]: 'M' });
    expect(removed(world, 1).toSorted()).toEqual(['pre', 'test']);
  });

  it('waits when it is complete and its evidence is older than the longest soak', () => {
    const world = fleetWorld({ soakSeconds: SOAK });
    world.commit({ [UNIT]: 'A', [OTHER]: 'M' });
    world.settle(PAST_SOAK / 1000);
    world.pass(PAST_SOAK);
    world.commit({ [OTHER]: 'M' });
    expect(removed(world)).toEqual(['test']);
  });

  it('lets only a cluster go at once that joined not long ago, and not those that had it before', () => {
    const world = established();
    world.declare('late', 'prod');
    world.commit({ [UNIT]: 'A', [OTHER]: 'M' });
    until(world, 'late A');
    world.commit({ [OTHER]: 'M' });
    expect(removed(world).toSorted()).toEqual(['late', 'test']);
  });

  it('is not known of what an earlier version recorded: it waits', () => {
    const world = fleetWorld({ soakSeconds: SOAK });
    world.commit({ [UNIT]: 'A', [OTHER]: 'M' });
    world.turns();
    delete world.record('test', UNIT)?.added;
    world.prove('test');
    world.turns();
    world.commit({ [OTHER]: 'M' });
    expect(world.turn()).toMatchObject([{ do: 'Remove', cluster: 'test', lane: 'Forward' }]);
  });

  it('is not told by a time that is not reached yet: it waits', () => {
    const world = fleetWorld({ soakSeconds: SOAK });
    world.commit({ [UNIT]: 'A', [OTHER]: 'M' });
    world.settle(PAST_SOAK / 1000);
    world.pass(-3_600_000);
    world.turns();
    world.commit({ [OTHER]: 'M' });
    expect(removed(world)).toEqual(['test']);
  });

  it('is over with its soak: then no record says any more that the unit is new', () => {
    const world = established();
    for (const cluster of ['test', 'pre', 'prod']) expect(world.record(cluster, UNIT)).not.toHaveProperty('added');
  });

  it('goes back in all stages also after some of them have, and time has passed', () => {
    const world = fleetWorld({ soakSeconds: SOAK });
    world.commit({ [OTHER]: 'M' });
    world.settle();
    world.commit({ [UNIT]: 'A', [OTHER]: 'M' });
    until(world, 'pre A');
    world.prove('pre');
    world.turns();
    world.away('pre', 'no answer');
    world.commit({ [OTHER]: 'M' });
    expect(removed(world)).toEqual(['test']);
    world.pass(10 * PAST_SOAK);
    world.away('pre', undefined);
    expect(removed(world, 1)).toEqual(['pre']);
  });
});
