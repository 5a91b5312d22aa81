import { describe, expect, it } from 'vitest';
import { Leases } from '../../api/builtin.ts';
import { Machines, type Machine } from '../../api/machine.ts';
import { MachineComponentSets } from '../../api/machine-component-set.ts';
import type { Stored } from '../../api/wire.ts';
import { inOrder } from './order.ts';
import { createWorld, OTHER, type World } from './testing/world.ts';

/** A world in which 1.0.0 runs and is verified everywhere. */
async function verifiedWorld(options: Parameters<typeof createWorld>[0], spec: Parameters<World['set']>[0] = {}): Promise<World> {
  const world = createWorld(options);
  world.set({ version: '1.0.0', batches: ['100%'], ...spec });
  await world.rest();
  expect(world.status().verified?.version).toBe('1.0.0');
  return world;
}

function stopAgents(world: World, ...names: string[]): void {
  for (const name of names) {
    const agent = world.agents.get(name);
    if (agent !== undefined) agent.online = false;
  }
}

describe('B1: order of machines', () => {
  it('spreads a batch over the failure domains', async () => {
    const world = await verifiedWorld({ machines: 9, domains: ['a', 'b', 'c'] });
    world.set({ version: '2.0.0', batches: [3, '100%'] });
    await world.round();
    const domains = world.given('2.0.0').map((name) => world.machine(name).spec.failureDomain);
    expect(new Set(domains)).toEqual(new Set(['a', 'b', 'c']));
  });

  it('is the same for the next revision', async () => {
    const world = await verifiedWorld({ machines: 12 });
    world.set({ version: '2.0.0', batches: [4, '100%'] });
    await world.round();
    const first = world.given('2.0.0');
    world.set({ version: '3.0.0' });
    await world.round();
    expect(first).toHaveLength(4);
    expect(world.given('3.0.0')).toEqual(first);
  });

  it('is another for another set, and no joiner or leaver changes the order of the others', () => {
    const machines = createWorld({ machines: 20, domains: ['a', 'b'] })
      .machines()
      .map((machine) => ({ machine }));
    const names = (list: typeof machines): string[] => list.map(({ machine }) => machine.metadata.name);
    const inDomainA = (list: typeof machines): string[] => names(list.filter(({ machine }) => machine.spec.failureDomain === 'a'));
    expect(names(inOrder('set-1', machines))).not.toEqual(names(inOrder('set-2', machines)));
    expect(names(inOrder('set-1', machines.toReversed()))).toEqual(names(inOrder('set-1', machines)));
    const fewer = machines.filter((_each, index) => index % 3 !== 0);
    const kept = new Set(names(fewer));
    expect(inDomainA(inOrder('set-1', fewer))).toEqual(inDomainA(inOrder('set-1', machines)).filter((name) => kept.has(name)));
  });
});

describe('B3: batches', () => {
  it('gives a batch, waits until every member has content and evidence, soaks, and gives the next', async () => {
    const world = await verifiedWorld({ machines: 10 }, { soakSeconds: 60 });
    world.set({ version: '2.0.0', batches: [1, '50%', '100%'] });
    const sizes: number[] = [];
    for (let round = 0; round < 60; round++) {
      await world.round();
      sizes.push(world.given('2.0.0').length);
    }
    expect([...new Set(sizes)]).toEqual([1, 5, 10]);
    // 10 s a round: a few for the agent, then six of soak.
    expect(sizes.filter((size) => size === 1).length).toBeGreaterThanOrEqual(8);
    expect(world.condition('Progressing')).toBe('False/Complete');
  });

  it('has no barrier inside a batch: all of it is written at once', async () => {
    const world = await verifiedWorld({ machines: 10 });
    world.set({ version: '2.0.0', batches: ['80%', '100%'] });
    await world.round();
    expect(world.given('2.0.0')).toHaveLength(8);
  });

  it('reports what a member waits for: the limit that refuses it, and when it passes', async () => {
    const world = await verifiedWorld({ machines: 4, waits: (_machine, entry) => entry.version === '2.0.0' });
    world.set({ version: '2.0.0', batches: [1, '100%'] });
    await world.round();
    const [name = ''] = world.given('2.0.0');
    const progress = async (verdict: NonNullable<Machine['status']>['verdict']): Promise<string> => {
      world.editMachine(name, ({ status }) => Object.assign(status ?? {}, { verdict }));
      await world.round();
      return world.status().conditions?.find(({ type }) => type === 'Progressing')?.message ?? '';
    };
    const frozen = { allowed: false, limit: 'Freeze/sale', wouldPassWhen: 'Freeze sale (the sale) is deleted' };
    expect(await progress(frozen)).toBe(
      `batch 1 of 2; web/${name} waits for Freeze/sale, which lets it pass when Freeze sale (the sale) is deleted`,
    );
    expect(await progress({ allowed: false, limit: 'ledger/reservations' })).toBe(
      `batch 1 of 2; web/${name} waits for ledger/reservations`,
    );
    expect(await progress({ allowed: true })).toBe('batch 1 of 2');
  });

  it('does not give the next batch while one member waits for Defender', async () => {
    const world = await verifiedWorld({ machines: 4, waits: (_machine, entry) => entry.version === '2.0.0' });
    world.set({ version: '2.0.0', batches: [1, '100%'] });
    await world.rounds(60);
    expect(world.given('2.0.0')).toHaveLength(1);
    expect(world.status()).toMatchObject({ waiting: 1, batch: 1, batches: 2, progress: '0/4' });
  });

  it('a reboot during soak starts the soak of that machine again', async () => {
    const world = await verifiedWorld({ machines: 4 }, { soakSeconds: 60 });
    world.set({ version: '2.0.0', batches: [1, '100%'] });
    await world.rounds(8);
    const [first = ''] = world.given('2.0.0');
    expect(world.condition('Progressing')).toBe('True/Soaking');
    world.agents.get(first)?.reboot();
    await world.rounds(6);
    expect(world.given('2.0.0')).toEqual([first]);
    await world.rest();
    const [record] = world.machine(first).status?.verified ?? [];
    expect(record).toMatchObject({ version: '2.0.0', bootID: 'boot-2' });
  });

  it('a soak survives the death of the controller', async () => {
    const world = await verifiedWorld({ machines: 4 }, { soakSeconds: 60 });
    world.set({ version: '2.0.0', batches: [1, '100%'] });
    await world.rounds(5);
    for (let round = 0; round < 6; round++) {
      world.restart();
      await world.round();
    }
    expect(world.given('2.0.0')).toHaveLength(4);
  });

  it('an unhealthy machine of an earlier batch stops the next one, also after its soak', async () => {
    const world = await verifiedWorld({ machines: 8 });
    world.set({ version: '2.0.0', batches: [2, 4, '100%'] });
    await world.rounds(8);
    expect(world.given('2.0.0')).toHaveLength(4);
    const [first = ''] = world.given('2.0.0');
    const agent = world.agents.get(first);
    if (agent !== undefined) agent.healthy = false;
    await world.rounds(40);
    expect(world.given('2.0.0')).toHaveLength(4);
    if (agent !== undefined) agent.healthy = true;
    await world.rest();
    expect(world.given('2.0.0')).toHaveLength(8);
  });

  it('a first batch of one whose machine stopped is tried on the next machine', async () => {
    const world = await verifiedWorld({ machines: 10 });
    world.set({ version: '2.0.0', batches: [1, '100%'] });
    await world.round();
    const [first = ''] = world.given('2.0.0');
    stopAgents(world, first);
    await world.rounds(50);
    expect(world.given('2.0.0')).toEqual([first]);
    await world.rounds(15);
    await world.rest();
    expect(world.given('2.0.0')).toHaveLength(10);
    expect(world.status()).toMatchObject({ offline: 1, updated: 9 });
  });

  it('a machine that is being deleted is not waited for', async () => {
    const world = await verifiedWorld({ machines: 4 });
    world.editMachine('m2', ({ metadata }) => void (metadata.finalizers = ['kubenode.io/machine']));
    world.api.remove(Machines, { namespace: 'web', name: 'm2' });
    world.set({ version: '2.0.0' });
    await world.rest();
    expect(world.entry('m2')?.version).toBe('1.0.0');
    expect(world.status()).toMatchObject({ desired: 3, updated: 3, verified: { version: '2.0.0' } });
  });

  it('a first batch of one whose machine failed is tried on the next machine before it grows', async () => {
    const world = await verifiedWorld({ machines: 8, fails: (_machine, entry) => entry.version === '2.0.0' });
    world.set({ version: '2.0.0', batches: [1, '50%', '100%'], maxFailed: 2 });
    await world.rest();
    expect(world.status()).toMatchObject({ failed: 2, updated: 0, batch: 1 });
    expect(world.condition('Halted')).toBe('True/MaxFailed');
  });
});

describe('B3: a machine that the set selects no more', () => {
  async function leftInFlight(spec: Parameters<World['set']>[0]): Promise<{ world: World; away: string }> {
    const world = createWorld({ machines: 0, fails: (_machine, entry) => entry.version === '2.0.0' });
    for (let count = 0; count < 3; count++) world.join({ in: 'yes' });
    world.set({ version: '1.0.0', selector: { in: 'yes' }, batches: ['100%'] });
    await world.rest();
    world.set({ version: '2.0.0', unitDigest: 'B', ...spec });
    world.process.relist();
    await world.process.runSet();
    const [away = ''] = world.given('2.0.0');
    expect(world.given('2.0.0')).toEqual([away]);
    world.editMachine(away, ({ metadata }) => void (metadata.labels = {}));
    world.process.relist();
    await world.process.runSet();
    return { world, away };
  }

  it.each([
    ['its batch', { batches: [1, '100%'] }],
    ['the ceiling', { ceiling: { unitDigest: 'B', nodes: 1 }, maxFailed: 3 }],
  ])('keeps its slot in %s until it is known whether the content works there', async (_what, spec) => {
    const { world, away } = await leftInFlight(spec);
    expect(world.given('2.0.0'), 'no other machine is tried').toEqual([away]);
    await world.rest();
    expect(world.entry(away)?.failed).toBeDefined();
    expect(world.status().failures?.map((each) => each.machine)).toEqual([`web/${away}`]);
    expect(world.machines().filter(({ metadata }) => world.entry(metadata.name)?.failed !== undefined)).toHaveLength(1);
  });

  it('keeps its slot where it is selected again in the middle of it', async () => {
    const { world, away } = await leftInFlight({ batches: [1, '100%'] });
    expect(world.entry(away)).toMatchObject({ version: '2.0.0', left: true });
    world.editMachine(away, ({ metadata }) => void (metadata.labels = { in: 'yes' }));
    for (let round = 0; round < 3; round++) {
      world.process.relist();
      await world.process.runSet();
    }
    expect(world.entry(away)?.left).toBeUndefined();
    expect(world.given('2.0.0'), 'no other machine is tried').toEqual([away]);
    await world.rest();
    expect(world.machines().filter(({ metadata }) => world.entry(metadata.name)?.failed !== undefined)).toHaveLength(1);
  });

  it('is named as what is waited for', async () => {
    const { world, away } = await leftInFlight({ batches: [1, '100%'] });
    world.process.relist();
    await world.process.runSet();
    const { message = '' } = world.status().conditions?.find((each) => each.type === 'Progressing') ?? {};
    expect(message).toContain(`web/${away} was given this content and is selected no more`);
  });

  it.each([
    ['is deleted', (machine: Stored<Machine>) => void (machine.metadata.deletionTimestamp = '2026-11-20T00:10:00Z')],
    ['is held', (machine: Stored<Machine>) => void (machine.spec.hold = true)],
  ])('gives its slot to another once it %s', async (_what, change) => {
    const { world, away } = await leftInFlight({ batches: [1, '100%'] });
    world.editMachine(away, (machine) => {
      machine.metadata.finalizers = ['kubenode.io/machine'];
      change(machine);
    });
    world.process.relist();
    await world.process.runSet();
    expect(world.given('2.0.0')).toHaveLength(2);
  });

  it('gives its slot to another once the content is proved there', async () => {
    const world = createWorld({ machines: 0 });
    for (let count = 0; count < 3; count++) world.join({ in: 'yes' });
    world.set({ version: '1.0.0', selector: { in: 'yes' }, batches: [1, '100%'] });
    await world.round();
    await world.round();
    const [away = ''] = world.given('1.0.0');
    world.editMachine(away, ({ metadata }) => void (metadata.labels = {}));
    await world.rest();
    expect(world.condition('Progressing')).toBe('False/Complete');
  });
});

describe('B3: new machines', () => {
  it('all get their first content at once: batches have nothing to protect', async () => {
    const world = createWorld({ machines: 0 });
    for (let count = 0; count < 8; count++) world.joinNew();
    world.set({ version: '1.0.0', batches: [1, '50%', '100%'], soakSeconds: 60 });
    await world.rounds(2);
    expect(world.given('1.0.0')).toHaveLength(8);
    await world.rest();
    expect(world.condition('Progressing')).toBe('False/Complete');
  });

  it('get it also when others of their cell have their Nodes already, and are still being proved', async () => {
    const world = createWorld({ machines: 0 });
    const first = [world.joinNew(), world.joinNew()];
    world.set({ version: '1.0.0', batches: [1, '100%'], soakSeconds: 600 });
    await world.rounds(2);
    for (const name of first) world.register(name);
    const second = [world.joinNew(), world.joinNew()];
    await world.rounds(2);
    expect(world.given('1.0.0')).toEqual([...first, ...second]);
  });

  it('wait like all others once one in use waits', async () => {
    const world = createWorld({ machines: 0 });
    const inUse = world.joinNew();
    world.register(inUse);
    for (let count = 0; count < 7; count++) world.joinNew();
    world.set({ version: '1.0.0', batches: [1, '50%', '100%'], soakSeconds: 60 });
    await world.rounds(2);
    expect(world.given('1.0.0')).toHaveLength(1);
    await world.rest();
    expect(world.given('1.0.0')).toHaveLength(8);
  });

  it('are in use from then on', async () => {
    const world = createWorld({ machines: 0 });
    const names = Array.from({ length: 4 }, () => world.joinNew());
    world.set({ version: '1.0.0', batches: [1, '100%'] });
    await world.rounds(2);
    for (const name of names) world.register(name);
    await world.rest();
    world.set({ componentName: OTHER, version: '1.0.0', batches: [1, '100%'] }, OTHER);
    await world.rounds(2);
    expect(names.filter((name) => world.component(name, OTHER) !== undefined)).toHaveLength(1);
  });

  it('are not those that came with a Node, however little they were given before', async () => {
    const world = createWorld({ machines: 0 });
    for (let count = 0; count < 4; count++) world.register(world.join());
    await world.rounds(2);
    world.set({ version: '1.0.0', batches: [1, '100%'] });
    await world.rounds(2);
    expect(world.given('1.0.0')).toHaveLength(1);
  });

  it('are given nothing while no report shows whether they are in use, and lose no evidence', async () => {
    const world = await verifiedWorld({ machines: 2 }, { unitDigest: 'A' });
    const names = Array.from({ length: 6 }, () => world.join());
    for (const name of names) world.editMachine(name, (machine) => void delete machine.status);
    await world.rounds(3);
    expect(world.given('1.0.0')).toHaveLength(2);
    expect(world.status()).toMatchObject({ evidence: { unitDigest: 'A' }, revision: { number: 1 } });
    for (const name of names) world.editMachine(name, (machine) => void (machine.status = { ...machine.status, phase: 'Pending' }));
    await world.rounds(1);
    expect(world.given('1.0.0')).toHaveLength(8);
    expect(world.status()).toMatchObject({ evidence: { unitDigest: 'A' }, revision: { number: 1 } });
  });

  it('get nothing beyond the ceiling, and nothing of a set that is halted', async () => {
    const world = createWorld({ machines: 0, fails: (machine) => machine === 'm0' });
    for (let count = 0; count < 4; count++) world.joinNew();
    world.set({ version: '1.0.0', unitDigest: 'A', ceiling: { unitDigest: 'A', nodes: 2 }, batches: [1, '100%'] });
    await world.rounds(3);
    expect(world.given('1.0.0')).toHaveLength(2);
    world.set({ ceiling: undefined });
    await world.rest();
    expect(world.condition('Halted')).toBe('True/MaxFailed');
    const late = world.joinNew();
    await world.rest();
    expect(world.entry(late)).toBeUndefined();
  });
});

describe('B4: maxFailed', () => {
  it('halts the set at that many failures, and a halted set gives nothing forward', async () => {
    const bad = new Set<string>();
    const world = await verifiedWorld({ machines: 10, fails: (machine, entry) => entry.version === '2.0.0' && bad.has(machine) });
    world.set({ version: '2.0.0', batches: ['30%', '100%'], maxFailed: 2 });
    await world.round();
    for (const name of world.given('2.0.0').slice(0, 2)) bad.add(name);
    await world.rest();
    expect(world.condition('Halted')).toBe('True/MaxFailed');
    expect(world.status().failures).toHaveLength(2);
    expect(world.given('2.0.0')).toHaveLength(1);
    expect(world.given('1.0.0')).toHaveLength(9);
    expect(world.events.filter((event) => event.reason === 'RolloutHalted')).toHaveLength(1);
  });

  it('counts a failure in the very pass in which it is reported, before it is recorded', async () => {
    const world = await verifiedWorld({ machines: 4, fails: (_machine, entry) => entry.version === '2.0.0' });
    world.set({ version: '2.0.0', batches: [1, '100%'] });
    await world.round();
    const [first = ''] = world.given('2.0.0');
    for (let step = 0; step < 3; step++) world.agentStep(first);
    world.process.relist();
    await world.process.runSet();
    expect(world.entry(first)?.failed).toBeUndefined();
    expect(world.condition('Halted')).toBe('True/MaxFailed');
  });

  it('one failure below maxFailed does not halt, and the rest goes on without that machine', async () => {
    const world = await verifiedWorld({ machines: 6, fails: (machine, entry) => entry.version === '2.0.0' && machine === 'm2' });
    world.set({ version: '2.0.0', batches: [2, '100%'], maxFailed: 2 });
    await world.rest();
    expect(world.condition('Halted')).toBe('False/WithinLimits');
    expect(world.given('2.0.0')).toHaveLength(5);
    expect(world.entry('m2')).toMatchObject({ version: '1.0.0', failed: { reason: 'ProbesFailed' } });
    expect(world.status()).toMatchObject({ updated: 5, desired: 6, failed: 1, verified: { version: '2.0.0' } });
  });

  it('a new rolloutID lifts the halt and tries again, counting the attempt', async () => {
    let broken = true;
    const world = await verifiedWorld({ machines: 3, fails: (_machine, entry) => broken && entry.version === '2.0.0' });
    world.set({ version: '2.0.0', batches: [1, '100%'] });
    await world.rest();
    expect(world.condition('Halted')).toBe('True/MaxFailed');
    broken = false;
    await world.rounds(5);
    expect(world.given('2.0.0')).toHaveLength(0);
    world.set({ rolloutID: 'again' });
    await world.round();
    const [again = ''] = world.given('2.0.0');
    expect(world.entry(again)).toMatchObject({ attempt: 2 });
    await world.rest();
    expect(world.given('2.0.0')).toHaveLength(3);
    expect(world.status().failed).toBe(0);
  });
});

describe('safety 4, B4: failures outlive their machines', () => {
  const fails = (_machine: string, entry: { version: string }): boolean => entry.version === '2.0.0';

  it('a halt does not lift itself when the failed machine is replaced', async () => {
    const world = await verifiedWorld({ machines: 12, fails }, { unitDigest: 'A' });
    world.set({ version: '2.0.0', unitDigest: 'B', batches: [1, '100%'] });
    const tried = new Set<string>();
    for (let turn = 0; turn < 12; turn++) {
      await world.rest();
      for (const { metadata, spec } of world.machines()) {
        if (spec.components?.[0]?.failed === undefined) continue;
        tried.add(metadata.name);
        world.leave(metadata.name);
        world.register(world.joinNew());
      }
    }
    expect(tried.size).toBe(1);
    expect(world.condition('Halted')).toBe('True/MaxFailed');
    const [failure] = world.status().failures ?? [];
    expect(failure).toMatchObject({ machine: `web/${[...tried][0]}`, reason: 'ProbesFailed', attempt: 1, setRevision: 2 });
    expect(failure?.uid).toBeTruthy();
    world.set({ rolloutID: 'again' });
    await world.rounds(2);
    expect(world.status()).toMatchObject({ failed: 0 });
    world.set({ version: '3.0.0' });
    await world.rest();
    expect(world.condition('Progressing')).toBe('False/Complete');
  });

  it('counts the failure of a machine that is being deleted, or that the set selects no more', async () => {
    for (const goes of ['deleted', 'unselected'] as const) {
      const world = createWorld({ machines: 0, fails });
      for (let count = 0; count < 4; count++) world.join({ in: 'yes' });
      world.set({ version: '1.0.0', selector: { in: 'yes' }, batches: ['100%'] });
      await world.rest();
      world.set({ version: '2.0.0', batches: [1, '100%'], maxFailed: 1 });
      await world.round();
      const [name = ''] = world.given('2.0.0');
      for (let step = 0; step < 3; step++) world.agentStep(name);
      world.editMachine(name, ({ metadata }) => {
        metadata.finalizers = ['kubenode.io/machine'];
        if (goes === 'unselected') metadata.labels = {};
        else metadata.deletionTimestamp = new Date(world.clock.now()).toISOString();
      });
      await world.rest();
      expect(world.condition('Halted')).toBe('True/MaxFailed');
      expect(world.status().failures).toMatchObject([{ machine: `web/${name}` }]);
      expect(world.status().failures).toHaveLength(1);
    }
  });

  it('a record that is full halts, with any maxFailed', async () => {
    const world = await verifiedWorld({ machines: 120, fails });
    world.set({ version: '2.0.0', batches: ['100%'], maxFailed: 1000 });
    await world.rounds(8);
    expect(world.condition('Halted')).toBe('True/FailuresFull');
    expect(world.status().failures).toHaveLength(100);
  });
});

describe('B5: joiners', () => {
  it('get the verified content until the last batch has passed, then follow', async () => {
    let isGranted = false;
    const world = await verifiedWorld({ machines: 4, waits: (_machine, entry) => !isGranted && entry.version === '2.0.0' });
    world.set({ version: '2.0.0', batches: [1, '100%'] });
    await world.round();
    const joiner = world.joinNew();
    await world.rounds(20);
    expect(world.entry(joiner)).toMatchObject({ version: '1.0.0', joinedRevision: 2 });
    expect(world.status().batch).toBe(1);
    isGranted = true;
    await world.rest();
    expect(world.entry(joiner)?.version).toBe('2.0.0');
  });

  it('do not count in the batches of the revision during which they came', async () => {
    const world = await verifiedWorld({ machines: 2, waits: (_machine, entry) => entry.version === '2.0.0' });
    world.set({ version: '2.0.0', batches: ['50%', '100%'] });
    await world.round();
    for (let count = 0; count < 6; count++) world.joinNew();
    await world.rounds(10);
    expect(world.given('2.0.0')).toHaveLength(1);
  });

  it('count at once while nothing is verified', async () => {
    const world = createWorld({ machines: 2 });
    world.set({ version: '1.0.0', batches: ['50%', '100%'], soakSeconds: 600 });
    await world.rounds(3);
    for (let count = 0; count < 6; count++) world.joinNew();
    await world.rounds(10);
    expect(world.given('1.0.0')).toHaveLength(4);
  });

  it('are members of the next revision', async () => {
    const world = await verifiedWorld({ machines: 2 });
    const joiner = world.joinNew();
    await world.rest();
    expect(world.entry(joiner)).toMatchObject({ version: '1.0.0', joinedRevision: 1 });
    world.register(joiner);
    world.set({ version: '2.0.0', batches: [1, '100%'] });
    await world.rest();
    expect(world.entry(joiner)?.version).toBe('2.0.0');
  });

  it('with nothing on them get the verified content also while the set is halted', async () => {
    const world = await verifiedWorld({ machines: 3, fails: (_machine, entry) => entry.version === '2.0.0' });
    world.set({ version: '2.0.0' });
    await world.rest();
    expect(world.condition('Halted')).toBe('True/MaxFailed');
    const joiner = world.joinNew();
    await world.rest();
    expect(world.entry(joiner)?.version).toBe('1.0.0');
    expect(world.agents.get(joiner)?.running).toBe('1.0.0');
  });

  it('are what a revision is tried on once no other is left', async () => {
    const world = await verifiedWorld({ machines: 2 });
    world.set({ version: '2.0.0', paused: true });
    await world.round();
    world.set({ paused: false, ceiling: { unitDigest: 'none', nodes: 0 } });
    const joiners = [world.joinNew(), world.joinNew()];
    await world.rounds(10);
    expect(joiners.map((name) => world.entry(name)?.version)).toEqual(['1.0.0', '1.0.0']);
    world.leave('m0');
    world.leave('m1');
    world.set({ ceiling: undefined, batches: [1, '100%'] });
    await world.rest();
    expect(joiners.map((name) => world.entry(name)?.version)).toEqual(['2.0.0', '2.0.0']);
  });
});

describe('B5: joiners', () => {
  it('keep the target that they have when an older machine comes back', async () => {
    let isGranted = true;
    const world = createWorld({ machines: 0, waits: () => !isGranted });
    const [away, member] = [world.join({ in: 'yes' }), world.join({ in: 'yes' })];
    world.set({ version: '1.0.0', selector: { in: 'yes' }, batches: ['100%'] });
    await world.rest();
    world.editMachine(away, ({ metadata }) => void (metadata.labels = {}));
    isGranted = false;
    world.set({ version: '2.0.0' });
    await world.round();
    const joiner = world.joinNew({ in: 'yes' });
    await world.rounds(3);
    expect(world.entry(joiner)).toMatchObject({ version: '1.0.0', joinedRevision: 2 });
    world.leave(member);
    await world.round();
    expect(world.entry(joiner)?.version).toBe('2.0.0');
    world.editMachine(away, ({ metadata }) => void (metadata.labels = { in: 'yes' }));
    await world.rounds(5);
    expect(world.entry(joiner)?.version).toBe('2.0.0');
  });

  it('are members in batches of their own once they are in use', async () => {
    let isGranted = false;
    const world = await verifiedWorld({ machines: 2, waits: (_machine, entry) => !isGranted && entry.version === '2.0.0' });
    world.set({ version: '2.0.0', batches: [1, '50%', '100%'], soakSeconds: 60 });
    await world.round();
    const joiners = Array.from({ length: 8 }, () => world.joinNew());
    await world.rounds(5);
    for (const name of joiners) world.register(name);
    isGranted = true;
    const most = new Map<number, number>();
    for (let round = 0; round < 60; round++) {
      await world.round();
      const given = joiners.filter((name) => world.entry(name)?.version === '2.0.0');
      const proved = given.filter((name) => world.machine(name).status?.verified?.[0]?.version === '2.0.0').length;
      most.set(proved, Math.max(most.get(proved) ?? 0, given.length));
    }
    expect(most.get(0)).toBe(1);
    expect(most.get(1)).toBe(4);
    expect(most.get(8)).toBe(8);
  });

  it('with other content on them are left alone while the set is halted', async () => {
    const world = createWorld({ machines: 0, fails: (_machine, entry) => entry.version === '2.0.0' });
    const old = world.join({ in: 'no' });
    world.join({ in: 'yes' });
    world.set({ version: '3.0.0', selector: { in: 'no' } }, 'second');
    world.set({ version: '1.0.0', selector: { in: 'yes' } });
    await world.rest();
    world.set({ version: '2.0.0' });
    await world.rest();
    expect(world.condition('Halted')).toBe('True/MaxFailed');
    world.api.remove(MachineComponentSets, { name: 'second' });
    world.editMachine(old, ({ metadata }) => void (metadata.labels = { in: 'yes' }));
    await world.rest();
    expect(world.entry(old)?.version).toBe('3.0.0');
    world.set({ version: '1.0.0' });
    await world.rest();
    expect(world.entry(old)?.version).toBe('1.0.0');
  });
});

describe('safety 3, B5: machines in use that a set selects later', () => {
  const widenings: [string, (world: World) => void][] = [
    ['because its selector was widened', (world) => world.set({ selector: undefined })],
    ['because its pools were widened', (world) => world.set({ selector: undefined, pools: ['web'] })],
    [
      'because they were labelled',
      (world) => {
        for (const { metadata } of world.machines()) {
          world.editMachine(metadata.name, (machine) => void (machine.metadata.labels = { in: 'yes' }));
        }
      },
    ],
  ];
  async function narrow(bad: (machine: string) => boolean = () => false): Promise<World> {
    const world = createWorld({ machines: 0, fails: (machine) => bad(machine) });
    for (let count = 0; count < 2; count++) world.join({ in: 'yes' });
    world.set({ version: '1.0.0', selector: { in: 'yes' }, unitDigest: 'A', batches: [1, '25%', '100%'], soakSeconds: 20 });
    await world.rest();
    for (let count = 0; count < 30; count++) world.join({ in: 'no' });
    await world.rest();
    expect(world.status()).toMatchObject({ desired: 2, evidence: { unitDigest: 'A' }, batch: 0 });
    return world;
  }

  it.each(widenings)('%s take batches of their own, and the evidence is lost until all of them have proved it', async (_why, widen) => {
    const world = await narrow();
    widen(world);
    await world.round();
    expect(world.given('1.0.0')).toHaveLength(3);
    expect(world.status()).toMatchObject({ desired: 32, revision: { number: 2, since: 1 } });
    const steps = new Set<number>();
    while (world.status().evidence === undefined) {
      steps.add(world.given('1.0.0').length);
      await world.round();
    }
    expect([...steps]).toEqual([3, 9, 32]);
    expect(world.status().evidence).toMatchObject({ unitDigest: 'A' });
    await world.rest();
    expect(world.status()).toMatchObject({ updated: 32, revision: { number: 2 } });
  });

  it.each(widenings)('%s and fail halt the set at maxFailed', async (_why, widen) => {
    const world = await narrow((machine) => Number(machine.slice(1)) >= 2);
    widen(world);
    await world.rest();
    expect(world.condition('Halted')).toBe('True/MaxFailed');
    expect(world.machines().filter(({ spec }) => spec.components !== undefined)).toHaveLength(3);
    expect(world.status().evidence).toBeUndefined();
  });

  it('of a set whose rollout is under way come after those that were there', async () => {
    const world = await narrow();
    world.set({ version: '2.0.0', unitDigest: 'B' });
    await world.rounds(2);
    world.set({ selector: undefined });
    const order: number[] = [];
    for (let round = 0; round < 40; round++) {
      await world.round();
      const given = world.given('2.0.0').length;
      if (order.at(-1) !== given) order.push(given);
    }
    expect(order).toEqual([1, 2, 3, 9, 32]);
  });

  it('come in batches of their own also when they were there before, and were away when the content changed', async () => {
    const world = createWorld({ machines: 0 });
    for (let count = 0; count < 32; count++) world.join({ in: 'yes' });
    world.set({ version: '1.0.0', selector: { in: 'yes' }, unitDigest: 'A', batches: [1, '25%', '100%'], soakSeconds: 20 });
    await world.rest();
    const label = (value: string): void => {
      for (const { metadata } of world.machines().slice(2))
        world.editMachine(metadata.name, (machine) => void (machine.metadata.labels = { in: value }));
    };
    label('no');
    world.set({ version: '2.0.0', unitDigest: 'B' });
    await world.rest();
    expect(world.status()).toMatchObject({ desired: 2, evidence: { unitDigest: 'B' } });
    label('yes');
    await world.round();
    expect(world.status().evidence).toBeUndefined();
    const order: number[] = [];
    for (let round = 0; round < 40; round++) {
      await world.round();
      const given = world.given('2.0.0').length;
      if (order.at(-1) !== given) order.push(given);
    }
    expect(order).toEqual([3, 9, 32]);
    expect(world.status()).toMatchObject({ evidence: { unitDigest: 'B' }, revision: { number: 3, since: 2 } });
  });

  it('that return with what the set gives are not added, and lose no evidence', async () => {
    const world = createWorld({ machines: 0 });
    for (let count = 0; count < 4; count++) world.join({ in: 'yes' });
    world.set({ version: '1.0.0', selector: { in: 'yes' }, unitDigest: 'A', batches: [1, '100%'], soakSeconds: 20 });
    await world.rest();
    const label = (value: string): void => world.editMachine('m1', (machine) => void (machine.metadata.labels = { in: value }));
    label('no');
    await world.rest();
    expect(world.entry('m1')).toMatchObject({ revision: 1, left: true });
    label('yes');
    for (let round = 0; round < 5; round++) {
      await world.round();
      expect(world.status()).toMatchObject({ evidence: { unitDigest: 'A' }, revision: { number: 1 } });
    }
    expect(world.entry('m1')).toMatchObject({ revision: 1 });
    expect(world.entry('m1')?.left).toBeUndefined();
  });

  it('are not counted again when a selector changes and adds no machine', async () => {
    const world = await narrow();
    const { evidence } = world.status();
    world.set({ selector: { in: 'yes', nothing: 'else' } });
    world.set({ selector: { in: 'yes' }, pools: ['web'] });
    await world.rest();
    expect(world.status()).toMatchObject({ revision: { number: 1 } });
    expect(world.status().evidence, 'the evidence is the one that was given, and no other').toEqual(evidence);
  });
});

describe('B6: offline machines', () => {
  it('are waited for until the policy ends that, then set aside', async () => {
    const world = await verifiedWorld({ machines: 10 });
    stopAgents(world, 'm3');
    world.set({ version: '2.0.0', batches: ['100%'] });
    await world.rounds(30);
    expect(world.condition('Progressing')).not.toBe('False/Complete');
    await world.rounds(60);
    expect(world.status()).toMatchObject({ offline: 1, updated: 9, verified: { version: '2.0.0' } });
  });

  it('are not given new content while set aside, and catch up when they return, under the same rules', async () => {
    const world = await verifiedWorld({ machines: 10 });
    stopAgents(world, 'm3');
    await world.rounds(70);
    expect(world.status().offline).toBe(1);
    world.set({ version: '2.0.0' });
    await world.rest();
    expect(world.entry('m3')?.version).toBe('1.0.0');
    const agent = world.agents.get('m3');
    if (agent !== undefined) agent.online = true;
    await world.rest();
    expect(world.entry('m3')?.version).toBe('2.0.0');
  });

  it('beyond the cap halt the set, until they are back', async () => {
    const world = await verifiedWorld({ machines: 10 });
    stopAgents(world, 'm1', 'm2', 'm3');
    await world.rounds(70);
    world.set({ version: '2.0.0' });
    await world.rest();
    expect(world.condition('Halted')).toBe('True/TooManyOffline');
    expect(world.given('2.0.0')).toHaveLength(0);
    for (const agent of world.agents.values()) agent.online = true;
    await world.rest();
    expect(world.condition('Halted')).toBe('False/WithinLimits');
    expect(world.given('2.0.0')).toHaveLength(10);
  });

  it('a stored policy below what renewals need counts as the least that is allowed: machines that are well are not set aside', async () => {
    const world = await verifiedWorld({ machines: 4 });
    world.set({ offlinePolicy: { afterSeconds: 15 } });
    const begin = world.clock.now();
    stopAgents(world, 'm0', 'm1', 'm2', 'm3');
    while (world.clock.now() - begin < 170_000) await world.round();
    expect(world.status().offline ?? 0).toBe(0);
    expect(world.condition('Halted')).toBe('False/WithinLimits');
    while (world.clock.now() - begin < 200_000) await world.round();
    expect(world.condition('Halted')).toBe('True/TooManyOffline');
  });

  async function kubeletAlone(world: World, name: string, rounds: number): Promise<void> {
    stopAgents(world, name);
    for (let round = 0; round < rounds; round++) {
      world.api.edit(Leases, { namespace: 'kube-node-lease', name }, (lease) => {
        lease.spec = { ...lease.spec, renewTime: new Date(world.clock.now()).toISOString() };
      });
      await world.round();
    }
  }

  it('a machine whose agent is dead blocks no other for ever, though its kubelet lives', async () => {
    const world = await verifiedWorld({ machines: 6 });
    await kubeletAlone(world, 'm0', 80);
    expect(world.status().offline).toBe(1);
    world.set({ version: '2.0.0', unitDigest: 'B' });
    await kubeletAlone(world, 'm0', 60);
    expect(world.status()).toMatchObject({ updated: 5, failed: 0, evidence: { unitDigest: 'B' } });
  });

  it('an agent that stops under new content, while its kubelet lives, has failed at it until it proves otherwise', async () => {
    const world = await verifiedWorld({ machines: 6, waits: (_machine, entry) => entry.version === '2.0.0' });
    world.set({ version: '2.0.0', batches: [1, '100%'] });
    await world.rounds(2);
    const [name = ''] = world.given('2.0.0');
    await kubeletAlone(world, name, 80);
    expect(world.condition('Halted')).toBe('True/MaxFailed');
    expect(world.status().failures).toMatchObject([{ machine: `web/${name}`, reason: 'AgentStale' }]);
    expect(world.given('2.0.0')).toEqual([name]);
    const agent = world.agents.get(name);
    if (agent !== undefined) agent.online = true;
    await world.rounds(3);
    expect(world.condition('Halted')).toBe('False/WithinLimits');
    expect(world.status().failures).toBeUndefined();
  });
});

const RESTORE_A = { unitDigest: 'A', lane: { unitDigest: 'A', lane: 'Restore' as const } };

describe('B7: restore', () => {
  it('safety 15: a reverted version that goes out again is none: it takes batches, soaks, and is marked Forward', async () => {
    const world = await verifiedWorld({ machines: 10 }, { unitDigest: 'A' });
    world.set({ version: '2.0.0', unitDigest: 'B' });
    await world.rest();
    world.set({ version: '1.0.0', ...RESTORE_A });
    await world.rest();
    expect(world.machines().every((machine) => machine.spec.components?.[0]?.lane === 'Restore')).toBe(true);
    // What was declared for another digest means nothing for this one.
    world.set({ version: '2.0.0', unitDigest: 'B', batches: [1, '50%', '100%'], soakSeconds: 60 });
    await world.rounds(5);
    expect(world.given('2.0.0')).toHaveLength(1);
    expect(world.entry(world.given('2.0.0')[0] ?? '')?.lane).toBeUndefined();
    await world.rounds(5);
    expect(world.given('2.0.0')).toHaveLength(5);
  });

  it('is marked so while it is declared, and not any more when that is taken back before it is proved', async () => {
    const world = await verifiedWorld(
      { machines: 2, waits: (_machine, { version, revision }) => version === '1.0.0' && revision > 1 },
      { unitDigest: 'A' },
    );
    world.set({ version: '2.0.0', unitDigest: 'B' });
    await world.rest();
    world.set({ version: '1.0.0', ...RESTORE_A });
    await world.rounds(2);
    const before = world.entry('m0');
    expect(before).toMatchObject({ version: '1.0.0', lane: 'Restore' });
    world.set({ lane: { unitDigest: 'A', lane: 'Forward' } });
    await world.rounds(2);
    expect(world.entry('m0')).toEqual({ ...before, lane: undefined });
  });

  it('skips batch order, ceiling and soak', async () => {
    const world = await verifiedWorld({ machines: 10 }, { unitDigest: 'A' });
    world.set({ version: '2.0.0', unitDigest: 'B', batches: ['100%'] });
    await world.rest();
    expect(world.given('2.0.0')).toHaveLength(10);
    world.set({ version: '1.0.0', ...RESTORE_A, batches: [1, '100%'], soakSeconds: 3600, ceiling: { unitDigest: 'B', nodes: 10 } });
    await world.round();
    expect(world.given('1.0.0')).toHaveLength(10);
    await world.rounds(4);
    expect(world.status()).toMatchObject({ verified: { version: '1.0.0' }, evidence: { unitDigest: 'A' }, revision: { number: 3 } });
  });

  it('skips a halt', async () => {
    const world = await verifiedWorld({ machines: 6 });
    world.set({ version: '2.0.0', batches: ['100%'] });
    await world.rest();
    stopAgents(world, 'm1', 'm2');
    await world.rounds(70);
    expect(world.condition('Halted')).toBe('True/TooManyOffline');
    world.set({ version: '1.0.0', ...RESTORE_A });
    await world.rounds(10);
    // Also where no agent reads it: the node must not come back and go on with what was withdrawn.
    expect(world.given('1.0.0')).toHaveLength(6);
  });

  it('is for machines on which the content was verified, and no others', async () => {
    const world = await verifiedWorld({ machines: 4, waits: (_machine, entry) => entry.version === '2.0.0' });
    world.set({ version: '2.0.0', batches: [1, '100%'] });
    await world.rounds(5);
    const [first = ''] = world.given('2.0.0');
    world.set({ version: '1.0.0', ...RESTORE_A });
    await world.round();
    expect(world.entry(first)).toMatchObject({ version: '1.0.0' });
    expect(world.given('1.0.0')).toHaveLength(4);
  });

  it('is not for a set or a machine that is paused, nor for one that is held', async () => {
    const world = await verifiedWorld({ machines: 3 });
    world.set({ version: '2.0.0', batches: ['100%'] });
    await world.rest();
    world.editMachine('m0', (machine) => void (machine.spec.hold = true));
    world.editMachine('m1', (machine) => void (machine.spec.paused = true));
    world.set({ version: '1.0.0', ...RESTORE_A, paused: true });
    await world.rest();
    expect(world.given('1.0.0')).toEqual([]);
    world.set({ paused: false });
    await world.rest();
    expect(world.given('1.0.0')).toEqual(['m2']);
  });
});

describe('B8: canary', () => {
  it('is part of its set, with the result of each machine', async () => {
    const world = createWorld({ machines: 4, fails: (machine, entry) => entry.version === '2.0.0' && machine === 'm5' });
    const [good, bad] = [world.join({ canary: 'yes' }), world.join({ canary: 'yes' })];
    world.set({ version: '1.0.0', batches: ['100%'] });
    await world.rest();
    world.set({ canary: { selector: { canary: 'yes' }, version: '2.0.0' }, maxFailed: 2 });
    await world.rest();
    expect(world.given('2.0.0')).toEqual([good]);
    expect(world.status().canary).toEqual([
      { machine: `web/${good}`, state: 'Verified' },
      { machine: `web/${bad}`, state: 'Failed', message: '2.0.0 did not come up' },
    ]);
    expect(world.status()).toMatchObject({ verified: { version: '1.0.0' }, revision: { number: 2 } });
  });

  it('B3: a machine that is no canary any more keeps its slot until it is known whether the canary content works there', async () => {
    const world = createWorld({ machines: 0, fails: (_machine, entry) => entry.version === '2.0.0' });
    for (let count = 0; count < 3; count++) world.join({ canary: 'yes' });
    world.set({ version: '1.0.0', batches: ['100%'] });
    await world.rest();
    world.set({ version: '1.0.0', canary: { selector: { canary: 'yes' }, version: '2.0.0' }, batches: [1, '100%'] });
    world.process.relist();
    await world.process.runSet();
    const [away = ''] = world.given('2.0.0');
    expect(world.given('2.0.0')).toEqual([away]);
    world.editMachine(away, ({ metadata }) => void (metadata.labels = {}));
    world.process.relist();
    await world.process.runSet();
    const others = world.given('2.0.0').filter((name) => name !== away);
    expect(others, 'no other machine is tried').toEqual([]);
  });

  it('a canary that is promoted is not written again where it runs', async () => {
    const world = await verifiedWorld({ machines: 3 });
    const canary = world.join({ canary: 'yes' });
    await world.rest();
    world.set({ canary: { selector: { canary: 'yes' }, version: '2.0.0' } });
    await world.rest();
    const before = world.entry(canary);
    world.set({ version: '2.0.0', canary: undefined, batches: [1, '100%'] });
    await world.rest();
    expect(world.given('2.0.0')).toHaveLength(4);
    expect(world.entry(canary)).toEqual(before);
  });
});
