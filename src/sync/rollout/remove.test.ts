/** What a commit removes waits as any other change does (docs/protocols.md#e5); taking back what was just added does not (docs/protocols.md#e6). */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { UnitStatus } from '../../api/cluster.ts';
import { API_VERSION } from '../../api/kind.ts';
import type { Rollout } from '../../api/rollout.ts';
import { REMOVAL } from '../records.ts';
import { isGone } from '../soak.ts';
import { judge } from './judge.ts';
import { fleetWorld, type FleetWorld } from './testing/fleet-world.ts';
import type { ClusterView, Step, World } from './world.ts';

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

  it('leads to another pass when its soak is over, though nothing waits for it', () => {
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

  it('waits also where content that is not proven yet replaced proven content', () => {
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
    const world = fleetWorld({ soakSeconds: SOAK, clusters: { prod: ['a', 'b', 'c'] }, maxClusters: 3 });
    world.commit({ [OTHER]: 'M' });
    world.settle();
    world.commit({ [UNIT]: 'A', [OTHER]: 'M' });
    world.turn();
    for (const cluster of ['a', 'b', 'c']) world.prove(cluster);
    world.turns();
    expect(world.phase(UNIT)).toBe('Done');
    world.commit({ [OTHER]: 'M' });
    expect(removed(world, 1).toSorted()).toEqual(['a', 'b', 'c']);
    world.pass(PAST_SOAK);
    world.turns();
    for (const cluster of ['a', 'b', 'c']) expect(world.record(cluster, UNIT)).toBeUndefined();
  });

  it('goes at once in the clusters where that is so, and stage by stage in those that had it before', () => {
    const world = fleetWorld({ soakSeconds: SOAK });
    world.commit({ [OTHER]: 'M' });
    world.settle();
    world.commit({ [UNIT]: 'A', [OTHER]: 'M' });
    until(world, 'prod A');
    world.prove('prod');
    world.turns();
    expect(world.phase(UNIT)).toBe('Done');
    world.commit({ [OTHER]: 'M' });
    expect(world.turn()).toMatchObject([
      { do: 'Remove', cluster: 'prod', lane: 'Restore' },
      { do: 'Remove', cluster: 'test', lane: 'Forward' },
    ]);
    expect(removed(world)).toEqual([]);
    world.pass(PAST_SOAK);
    expect(removed(world)).toEqual(['pre']);
  });

  it.each<[string, (world: FleetWorld) => void, string[]]>([
    ['is under way', () => undefined, ['prod', 'test']],
    ['is halted', (world) => world.halt('prod', 'MaxFailed'), ['prod', 'test']],
    ['is under way and paused', (world) => world.pause(true), ['prod', 'test']],
    ['cannot be observed where it was begun', (world) => world.away('prod', 'no answer'), ['test']],
    ['was begun in a cluster that left the fleet', (world) => world.drop('prod'), ['test']],
  ])('waits where it was proven longer ago than the soak, though its rollout elsewhere %s', (_what, trouble, first) => {
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
    expect(removed(world).toSorted()).toEqual(first);
    expect(world.record('pre', UNIT)).toMatchObject({ digest: 'A' });
    world.pass(PAST_SOAK);
    expect(removed(world)).toEqual(['pre']);
  });

  it('waits where the unit was in the cell before the hub had a record of it', () => {
    const world = established();
    world.forget('prod');
    world.turns();
    world.prove('prod');
    world.turns();
    expect(world.record('prod', UNIT)).toMatchObject({ digest: 'A', evidence: 'A' });
    world.commit({ [OTHER]: 'M' });
    expect(removed(world)).toEqual(['test']);
    for (const next of ['pre', 'prod']) {
      world.pass(PAST_SOAK);
      expect(removed(world)).toEqual([next]);
    }
  });

  it('counts for the soak of its stage, for which later stages wait where the unit is old', () => {
    const world = established();
    // Made again with nothing in its cell: it is new there, and nowhere else.
    world.forget('test');
    world.empty('test');
    world.turns();
    world.prove('test');
    world.turns();
    world.commit({ [OTHER]: 'M' });
    expect(world.turn()).toMatchObject([{ do: 'Remove', cluster: 'test', lane: 'Restore' }]);
    expect(removed(world)).toEqual([]);
    expect(world.status().units?.[0]).toMatchObject({ phase: 'Soaking', stage: 'test' });
    world.pass((SOAK - 20) * 1000);
    expect(removed(world, 1)).toEqual([]);
    world.pass(PAST_SOAK);
    expect(removed(world)).toEqual(['pre']);
    world.pass(PAST_SOAK);
    expect(removed(world)).toEqual(['prod']);
    world.pass(PAST_SOAK);
    world.turns();
    for (const cluster of ['test', 'pre', 'prod']) expect(world.record(cluster, UNIT)).toBeUndefined();
  });

  it('goes at once where it has no evidence, however long that is so, and waits where it has', () => {
    const world = fleetWorld({ soakSeconds: SOAK, clusters: { prod: ['dead', 'well'] }, maxClusters: 2 });
    world.commit({ [OTHER]: 'M' });
    world.settle();
    world.commit({ [UNIT]: 'A', [OTHER]: 'M' });
    world.turns();
    world.prove('well');
    world.turns();
    world.pass(10 * PAST_SOAK);
    world.commit({ [OTHER]: 'M' });
    expect(world.turn()).toMatchObject([
      { do: 'Remove', cluster: 'dead', lane: 'Restore' },
      { do: 'Remove', cluster: 'well', lane: 'Forward' },
    ]);
  });

  it('waits for each stage where only the last cluster never proved it', () => {
    const world = fleetWorld({ soakSeconds: SOAK, clusters: { prod: ['prod', 'other'] } });
    world.commit({ [OTHER]: 'M' });
    world.settle();
    // Inside a stage clusters go by a hash.
    const [well = '', dead = ''] = world
      .applied()
      .slice(-2)
      .map((each) => each.replace(' M', ''));
    world.commit({ [UNIT]: 'A', [OTHER]: 'M' });
    for (const cluster of ['test', 'pre', well]) {
      until(world, `${cluster} A`);
      world.prove(cluster);
      world.turns();
    }
    world.pass(10 * PAST_SOAK);
    expect(world.applied()).toContain(`${dead} A`);
    world.commit({ [OTHER]: 'M' });
    expect(removed(world)).toEqual([dead, 'test']);
    for (const next of ['pre', well]) {
      world.pass(PAST_SOAK);
      expect(removed(world)).toEqual([next]);
    }
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

  it('is not judged by a time that is not reached yet: it waits', () => {
    const world = fleetWorld({ soakSeconds: SOAK });
    world.commit({ [UNIT]: 'A', [OTHER]: 'M' });
    world.settle(PAST_SOAK / 1000);
    world.pass(-3_600_000);
    world.turns();
    world.commit({ [OTHER]: 'M' });
    expect(removed(world)).toEqual(['test']);
  });

  it('is over with its soak: then no record reports any more that the unit is new', () => {
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

describe('E5, E6, property: by which lane a removal goes', () => {
  const NOW = Date.UTC(2026, 0, 2);
  const ago = (seconds: number): string => new Date(NOW - seconds * 1000).toISOString();
  const record = fc.record({
    /** Seconds since the first evidence; null: none yet; undefined: it is not new, or an earlier version recorded it. */
    proven: fc.option(fc.option(fc.integer({ min: -3600, max: 10 * SOAK }), { nil: null }), { nil: undefined }),
    added: fc.constantFrom('c1', 'c2'),
    fleet: fc.constantFrom('main', 'main', 'other'),
    begun: fc.constantFrom(undefined, 'B'),
    removal: fc.constantFrom(undefined, 'Forward' as const, 'Restore' as const),
    away: fc.boolean(),
    here: fc.constantFrom(true, true, false),
  });

  it('is reported by what its own cluster recorded, whatever all others did', () => {
    fc.assert(
      fc.property(fc.array(record, { minLength: 1, maxLength: 5 }), fc.boolean(), (clusters, paused) => {
        const names = clusters.map((_, index) => `c${index}`);
        const stages = names.map((name) => ({ name, clusters: [name], soakSeconds: SOAK, maxClusters: 1 }));
        const rolloutOf = (sequence: number, digest: object, more: object): Rollout => ({
          apiVersion: API_VERSION,
          kind: 'Rollout',
          metadata: { name: `main-${sequence}` },
          spec: {
            fleet: 'main',
            commit: `c${sequence}`,
            sequence,
            stages,
            units: [{ unit: UNIT, clusters: names.map((name) => ({ name, ...digest })) }],
            ...more,
          },
        });
        const removing = rolloutOf(2, {}, {});
        const rollouts = [rolloutOf(1, { digest: 'A' }, { paused }), removing];
        const views = clusters.map((each, index): ClusterView => {
          const added = {
            commit: each.added,
            ...(each.proven === null || each.proven === undefined ? {} : { verifiedAt: ago(each.proven) }),
          };
          const its: UnitStatus = {
            unit: UNIT,
            fleet: each.fleet,
            digest: 'A',
            ...(each.removal === undefined ? (each.begun === undefined ? {} : { begun: each.begun }) : { begun: REMOVAL }),
            ...(each.removal === undefined ? {} : { removal: { lane: each.removal } }),
            ...(each.proven === undefined ? {} : { added }),
          };
          return {
            name: names[index] ?? '',
            blocked: each.away ? 'away' : undefined,
            units: new Map(each.here ? [[UNIT, its]] : []),
            live: () => ({ state: 'Unknown' }),
            failing: () => undefined,
          };
        });
        const world: World = {
          now: NOW,
          fleet: 'main',
          members: undefined,
          rollouts,
          clusters: new Map(views.map((view) => [view.name, view])),
        };
        for (const [index, each] of clusters.entries()) {
          const name = names[index] ?? '';
          const { lane } = judge(world, removing, UNIT, { name });
          const isNew = each.proven === null || (each.proven !== undefined && each.proven >= -10 && each.proven < SOAK);
          const expected = !each.here ? 'Forward' : (each.removal ?? (isNew ? 'Restore' : 'Forward'));
          expect(lane, name).toBe(expected);
        }
      }),
      { numRuns: 500 },
    );
  });
});
