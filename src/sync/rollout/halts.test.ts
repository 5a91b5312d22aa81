import { describe, expect, it } from 'vitest';
import { fleetWorld, settledWorld, type FleetWorld, type FleetWorldOptions } from './testing/fleet-world.ts';

const UNIT = 'MachineComponentSet/runtime';

describe('halt', () => {
  it('stays to be read in the rollout that it halted, when a newer commit takes the unit over', () => {
    const world = settledWorld(UNIT);
    world.commit({ [UNIT]: 'B' });
    world.turn();
    world.halt('test', 'MaxFailed: test-1 failed its probe');
    world.turn();
    world.turn();
    world.commit({ [UNIT]: 'A' });
    world.turn();
    world.turn();
    const halted = world.rollouts.at(-2)?.status?.units?.[0];
    expect(halted?.phase).toBe('Superseded');
    expect(halted?.message).toBe('a newer commit changes this unit, which was halted: test: MaxFailed: test-1 failed its probe');
  });

  it('stops at the first cluster of the first stage and revokes the digest everywhere', () => {
    const world = settledWorld(UNIT);
    world.commit({ [UNIT]: 'BAD' });
    world.turn();
    world.halt('test', 'MaxFailed: test-1 failed its probe');
    world.turns();
    expect(world.applied().filter((line) => line.endsWith('BAD'))).toEqual(['test BAD']);
    expect(world.phase(UNIT)).toBe('Halted');
    expect(world.status().units?.[0]?.message).toContain('test-1 failed its probe');
    for (const cluster of ['test', 'pre', 'prod']) expect(world.record(cluster, UNIT)?.revoked).toContain('BAD');
  });

  it('proof case 14: a corrected spec goes on without a human', () => {
    const world = settledWorld(UNIT);
    world.commit({ [UNIT]: 'BAD' });
    world.turn();
    world.halt('test', 'MaxFailed');
    world.turn();
    world.commit({ [UNIT]: 'GOOD' });
    world.settle();
    expect(world.phase(UNIT)).toBe('Done');
    expect(world.record('prod', UNIT)?.digest).toBe('GOOD');
  });

  it('retry asks the cell to try again and lifts the revocation', () => {
    const world = fleetWorld();
    world.commit({ [UNIT]: 'A' });
    world.turn();
    world.halt('test', 'MaxFailed');
    world.turn();
    world.retry('again-1');
    const steps = [...world.turn(), ...world.turn()].map((step) => step.do);
    expect(steps).toContain('TryAgain');
    expect(world.cell('test').rolloutID).toBe('again-1');
    expect(world.record('test', UNIT)?.revoked).toEqual([]);
    world.settle();
    expect(world.phase(UNIT)).toBe('Done');
  });

  it('E13: what halts after its evidence begins nowhere else, and a retry reaches its cell', () => {
    const world = settledWorld(UNIT, { soakSeconds: 8 });
    world.commit({ [UNIT]: 'B' });
    world.turn();
    world.prove('test');
    world.turn();
    world.turn();
    expect(world.phase(UNIT)).toBe('Soaking');
    world.cell('test').halted = 'MaxFailed';
    world.pass(8_000);
    world.turns();
    expect(world.applied()).not.toContain('pre B');
    expect(world.status().units?.[0]).toMatchObject({ phase: 'Halted', message: expect.stringContaining('MaxFailed') as unknown });
    world.retry('again');
    expect(world.turn()).toContainEqual(expect.objectContaining({ do: 'TryAgain', cluster: 'test' }));
    world.turns();
    expect(world.applied()).toContain('pre B');
  });

  it('E13: a cluster that halts long after it had soaked holds nothing that leaves it alone', () => {
    const world = settledWorld(UNIT);
    world.cell('test').halted = 'MaxFailed';
    world.pass(60_000);
    world.commit({ [UNIT]: 'A' }, { pre: { [UNIT]: 'B' } });
    world.turns(3);
    expect(world.applied()).toContain('pre B');
  });
});

describe('E12, E13: a halt is of a unit and a digest, and lasts wherever its cluster is now', () => {
  const BAD = 'BAD';
  const bad = (world: FleetWorld): string[] => world.applied().filter((line) => line.endsWith(BAD));

  /** A commit has begun in the first clusters. */
  function begun(options?: FleetWorldOptions): FleetWorld {
    const world = settledWorld(UNIT, options);
    world.commit({ [UNIT]: BAD });
    world.turn();
    return world;
  }

  /** `test` halts the first content that differs. */
  function halted(): FleetWorld {
    const world = begun();
    world.halt('test', 'MaxFailed');
    world.turns(2);
    return world;
  }

  /** It halts what it had evidence for, and what would be its soak is over. */
  function haltedLate(): FleetWorld {
    const world = begun({ soakSeconds: 8 });
    world.prove('test');
    world.turns(2);
    world.cell('test').halted = 'MaxFailed';
    world.turn();
    world.pass(20_000);
    world.turns(2);
    return world;
  }

  /** Two of three clusters of one stage have it; the first halts, the second has evidence. */
  function haltedBeside(): { world: FleetWorld; first: string; second: string } {
    const world = begun({ clusters: { prod: ['p1', 'p2', 'p3'] }, maxClusters: 2 });
    const [first = '', second = ''] = bad(world).map((line) => line.split(' ')[0] ?? '');
    world.halt(first, 'MaxFailed');
    world.turns(2);
    world.prove(second);
    world.turns();
    expect(bad(world)).toHaveLength(2);
    return { world, first, second };
  }

  it('where it has left the fleet, until a human retries', () => {
    const world = halted();
    world.drop('test');
    world.turns();
    expect(bad(world)).toEqual(['test BAD']);
    expect(world.status().units?.[0]).toMatchObject({ phase: 'Halted', message: expect.stringContaining('MaxFailed') as unknown });
    world.retry('again');
    world.turns();
    expect(bad(world)).toEqual(['test BAD', 'pre BAD']);
    expect(world.record('test', UNIT)).not.toHaveProperty('halt');
    world.prove('pre');
    world.turns();
    world.prove('prod');
    world.turns();
    expect(world.status()).toMatchObject({ phase: 'Done', retried: 'again' });
  });

  it('where the commit that it left with touches the unit in others', () => {
    const world = halted();
    world.drop('test');
    world.commit({ [UNIT]: BAD }, { prod: { [UNIT]: 'C' } });
    world.turns();
    expect(bad(world)).toEqual(['test BAD']);
    expect(world.phase(UNIT)).toBe('Halted');
  });

  it('where it left, and what it halted is wanted nowhere any more, it ends', () => {
    const world = halted();
    world.drop('test');
    world.commit({ [UNIT]: 'C' });
    world.turns();
    expect(world.applied()).toContain('pre C');
    expect(world.record('test', UNIT)).not.toHaveProperty('halt');
  });

  it('where it died without a halt and left, nothing waits for it', () => {
    const world = begun();
    world.away('test', 'no answer');
    world.turns();
    world.drop('test');
    world.turns();
    expect(bad(world)).toEqual(['test BAD', 'pre BAD']);
  });

  it.each<[string, (world: FleetWorld, cluster: string) => void]>([
    ['its Cluster is paused', (world, cluster) => world.away(cluster, 'the Cluster is paused')],
    ['it cannot be reached', (world, cluster) => world.away(cluster, 'no answer')],
    ['what is there was changed by someone else', (world, cluster) => void (world.cell(cluster).drifted = true)],
    ['its cell reports nothing of it any more', (world, cluster) => void (world.cell(cluster).halted = undefined)],
    ['its store is not synced', (world, cluster) => world.unsynced(cluster, true)],
  ])('where %s', (_what, hide) => {
    const { world, first, second } = haltedBeside();
    hide(world, first);
    world.turns();
    expect(bad(world).filter((line) => ![first, second].includes(line.split(' ')[0] ?? ''))).toEqual([]);
    expect(world.phase(UNIT)).toBe('Halted');
  });

  it('where it halted after there was evidence, and cannot be reached', () => {
    const world = haltedLate();
    world.away('test', 'no answer');
    world.turns();
    expect(bad(world)).toEqual(['test BAD']);
    expect(world.status().units?.[0]).toMatchObject({ phase: 'Halted', message: expect.stringContaining('no answer') as unknown });
  });

  it.each([[['test']], [['test', 'pre', 'prod']]])('where it halted after there was evidence, and %j are not synced yet', (names) => {
    const world = haltedLate();
    for (const name of names) world.unsynced(name, true);
    world.turns();
    expect(bad(world)).toEqual(['test BAD']);
  });

  it('where a commit touches the unit in another cluster', () => {
    const world = haltedLate();
    world.commit({ [UNIT]: BAD }, { prod: { [UNIT]: 'BAD2' } });
    world.turns();
    expect(bad(world)).toEqual(['test BAD']);
    expect(world.phase(UNIT)).toBe('Halted');
  });

  it('where a commit only declares another cluster', () => {
    const world = haltedLate();
    world.declare('p9', 'prod');
    world.commit({ [UNIT]: BAD });
    world.turns();
    expect(bad(world)).toEqual(['test BAD']);
  });

  it('where each cluster has content of its own, for all that the same commit brought', () => {
    const world = settledWorld(UNIT, { soakSeconds: 8 });
    world.commit({ [UNIT]: 'B3' }, { test: { [UNIT]: 'B1' }, pre: { [UNIT]: 'B2' } });
    world.turn();
    world.prove('test');
    world.turns(2);
    world.cell('test').halted = 'MaxFailed';
    world.turn();
    world.pass(20_000);
    world.commit({ [UNIT]: 'B4' }, { test: { [UNIT]: 'B1' }, pre: { [UNIT]: 'B2' } });
    world.turns();
    expect(world.applied()).not.toContain('pre B2');
    // What corrects it there goes on.
    world.commit({ [UNIT]: 'B4' }, { test: { [UNIT]: 'B1' }, pre: { [UNIT]: 'C2' } });
    world.turns();
    expect(world.applied()).toContain('pre C2');
  });

  it('is lifted by a retry when its cluster shows it, and holds until then', () => {
    const { world, first } = haltedBeside();
    world.away(first, 'no answer');
    world.retry('again');
    world.turns();
    expect(bad(world)).toHaveLength(2);
    expect(world.status().units?.[0]).toMatchObject({ phase: 'Progressing', reason: 'Retrying' });
    world.away(first, undefined);
    world.turns();
    expect(world.record(first, UNIT)).not.toHaveProperty('halt');
    expect(bad(world)).toHaveLength(3);
  });

  it('holds no restore, and ends where that leaves it', () => {
    const { world, first, second } = haltedBeside();
    world.away(first, 'no answer');
    world.turn();
    const before = world.applied().length;
    world.commit({ [UNIT]: 'A' });
    world.turns();
    expect(world.applied().slice(before)).toEqual([`${second} A`]);
    world.away(first, undefined);
    world.turns();
    expect(world.applied().slice(before)).toEqual([`${second} A`, `${first} A`]);
    expect(world.record(first, UNIT)).not.toHaveProperty('halt');
  });

  it('of what is refused ends also where its cell has evidence for it', () => {
    const rule = 'NodeRemedier/hung';
    const world = settledWorld(rule);
    world.commit({ [rule]: 'B' });
    world.turn();
    world.halt('test', 'RuleInvalid');
    world.turns(2);
    expect(world.record('test', rule)?.halt).toMatchObject({ digest: 'B', message: 'RuleInvalid', refused: true });
    world.away('test', 'no answer');
    world.turns();
    expect(world.phase(rule)).toBe('Halted');
    world.away('test', undefined);
    world.cell('test').halted = undefined;
    world.prove('test');
    world.turns();
    expect(world.applied()).toContain('pre B');
  });
});

describe('E13: a retry', () => {
  it('safety 11: is carried out when a cluster that was away returns', () => {
    const world = fleetWorld();
    world.commit({ [UNIT]: 'A' });
    world.turn();
    world.halt('test', 'MaxFailed');
    world.turn();
    world.away('test', 'no answer');
    world.retry('again-1');
    world.turns(3);
    expect(world.record('test', UNIT)?.revoked).toEqual([]);
    expect(world.status().retried).toBeUndefined();
    world.away('test', undefined);
    world.turn();
    expect(world.cell('test').rolloutID).toBe('again-1');
    world.settle();
    expect(world.phase(UNIT)).toBe('Done');
    expect(world.status().retried).toBe('again-1');
  });

  it('safety 11: is taken over with the unchanged digest', () => {
    const world = fleetWorld();
    world.commit({ [UNIT]: 'A' });
    world.turn();
    world.halt('test', 'MaxFailed');
    world.turn();
    world.away('test', 'no answer');
    world.retry('again-1');
    world.turn();
    world.commit({ [UNIT]: 'A' }, { prod: { [UNIT]: 'C' } });
    world.turn();
    world.away('test', undefined);
    world.turn();
    expect(world.cell('test').rolloutID).toBe('again-1');
  });

  it('safety 11: of a rule that is still refused begins no other cluster, and leaves it revoked', () => {
    const rule = 'NodeRemedier/hung';
    const world = settledWorld(rule, { clusters: { prod: ['p1', 'p2', 'p3'] }, maxClusters: 2 });
    world.commit({ [rule]: 'B' });
    world.turn();
    const begun = world.applied().filter((line) => line.endsWith('B'));
    expect(begun).toHaveLength(2);
    world.halt(begun[0]?.split(' ')[0] ?? '', 'Rejected: no such fact');
    world.turn();
    world.prove(begun[1]?.split(' ')[0] ?? '');
    world.turn();
    const halt = world.record(begun[0]?.split(' ')[0] ?? '', rule)?.halt;
    expect(halt).toMatchObject({ digest: 'B', refused: true });
    world.retry('again-1');
    for (let turn = 0; turn < 6; turn += 1) {
      world.turn();
      for (const cluster of ['p1', 'p2', 'p3']) expect(world.record(cluster, rule)?.revoked).toContain('B');
      // Its cell may be away in a moment: what it has reported is never forgotten.
      expect(world.record(begun[0]?.split(' ')[0] ?? '', rule)?.halt).toEqual(halt);
    }
    expect(world.applied().filter((line) => line.endsWith('B'))).toEqual(begun);
    expect(world.phase(rule)).toBe('Halted');
  });

  it('that failed again is over: another halt revokes, and the same retry does not lift that', () => {
    const world = fleetWorld();
    world.commit({ [UNIT]: 'A' });
    world.turn();
    world.halt('test', 'MaxFailed');
    world.turn();
    world.retry('again-1');
    world.turns(3);
    world.halt('test', 'MaxFailed');
    world.turns();
    expect(world.phase(UNIT)).toBe('Halted');
    expect(world.record('test', UNIT)?.revoked).toEqual(['A']);
  });
});
