/** An agent whose Machine is deleted leaves by itself (docs/protocols.md#c14). */
import { describe, expect, test } from 'vitest';
import { begin, live, type Life } from '../testing/life.ts';
import { announced, app, give, node, ordered, outcome, put, rest, unit } from '../testing/node.ts';
import { accepted, machine, node as observed, state, tx } from '../testing/observed.ts';
import { order, ROOT, type World } from '../testing/world.ts';
import { announceStep } from './decide.ts';

const IDENTITY = '/var/lib/kubenode/identity/current.json';
const kept = (world: World) => ({ unit: world.units.get('app')?.invocation, file: world.text('/etc/app/app.conf') });
const hasFolder = (world: World, path: string): boolean => world.disk.find(`${ROOT}${path}`, false) !== undefined;

function identify(world: World): void {
  world.mkdir(`${ROOT}/var/lib/kubenode/identity`);
  put(world, IDENTITY, '{}');
}

async function deleted(world: World, life: Life, policy: 'Orphan' | 'Reset' | 'Delete'): Promise<void> {
  world.delete(policy);
  life.notify();
  await rest(world, life, 20_000);
}

describe('C14: Orphan', () => {
  test('the agent reports that it leaves, removes its identity and what it keeps, and is taken away; what runs is not touched', async () => {
    const { world, life } = await node();
    identify(world);
    const before = kept(world);
    await deleted(world, life, 'Orphan');
    expect(world.status.agent).toMatchObject({ leaving: true });
    expect(world.status.conditions?.[0]).toMatchObject({ type: 'AgentReady', reason: 'Leaving' });
    expect(world.takenAway).toBe(1);
    expect([IDENTITY, '/var/lib/kubenode/store', '/var/lib/kubenode/specs'].map((path) => hasFolder(world, path))).toEqual([
      false,
      false,
      false,
    ]);
    expect(kept(world)).toEqual(before);
    expect(world.effects).toEqual([]);
    // The programs that run are there.
    expect(hasFolder(world, '/var/lib/kubenode/components/app')).toBe(true);
    expect(world.events).toContain('Leaving: the agent takes itself away, and changes nothing any more');
  });

  test('nothing is kept any more once that is recorded', async () => {
    const { world, life } = await node();
    world.reportsLost = true;
    await deleted(world, life, 'Orphan');
    put(world, '/etc/app/app.conf', 'drift');
    unit(world).running = false;
    await rest(world, life, 1_200_000);
    expect(world.text('/etc/app/app.conf')).toBe('drift');
    expect(world.effects).toEqual([]);
  });

  test('it keeps its identity until the cell has its report, however long that takes', async () => {
    const { world, life } = await node();
    identify(world);
    world.reportsLost = true;
    await deleted(world, life, 'Orphan');
    world.reachable = false;
    await rest(world, life, 3_600_000);
    expect([world.takenAway, hasFolder(world, IDENTITY)]).toEqual([0, true]);
    world.reachable = true;
    world.reportsLost = false;
    await live(world, life, () => world.takenAway === 1);
  });

  test.each(['NotFound', 'Forbidden'] as const)(
    'the answer to its report was lost, and the Machine is gone (%s): it leaves',
    async (answer) => {
      const { world, life } = await node();
      world.reportsLost = true;
      await deleted(world, life, 'Orphan');
      expect(world.takenAway).toBe(0);
      life.end();
      world.machineGone = answer;
      const next = begin(world);
      await live(world, next, () => world.takenAway === 1);
    },
  );

  test('a process that is ended half-way is followed by one that goes on, also without a network and without an identity', async () => {
    const { world, life } = await node();
    await deleted(world, life, 'Orphan');
    life.end();
    world.reboot();
    world.reachable = false;
    const next = begin(world);
    await live(world, next, () => world.takenAway === 2);
    expect(world.effects).toEqual([]);
  });

  test('it is taken away again where that did not end it', async () => {
    const { world, life } = await node();
    await deleted(world, life, 'Orphan');
    await rest(world, life, 40_000);
    expect(world.takenAway).toBe(2);
  });

  test('a Machine that is gone, without that policy or before it was recorded, ends nothing', async () => {
    const { world, life } = await node();
    world.machineGone = 'NotFound';
    await rest(world, life, 3_600_000);
    expect([world.takenAway, app(world)?.state]).toEqual([0, 'Healthy']);
    const other = await node();
    await deleted(other.world, other.life, 'Delete');
    expect([other.world.takenAway, other.world.journal()?.leaving]).toEqual([0, undefined]);
  });

  test('what is under way ends first, and what is announced and not ordered never begins', async () => {
    const { world, life } = await ordered();
    await live(world, life, () => app(world)?.state === 'Probing' || outcome(world) !== undefined);
    await deleted(world, life, 'Orphan');
    expect(outcome(world)).toBe('Succeeded');
    expect([app(world)?.version, world.takenAway]).toEqual(['1.1.0', 1]);
    const waits = await announced();
    await deleted(waits.world, waits.life, 'Orphan');
    expect([app(waits.world)?.version, waits.world.takenAway]).toEqual(['1.0.0', 1]);
  });

  test('a hold keeps the agent, on the Machine or as a file', async () => {
    const { world, life } = await node();
    world.change({ hold: true });
    await deleted(world, life, 'Orphan');
    expect(world.status.agent?.leaving).toBeUndefined();
    world.change({ hold: false });
    world.mkdir(`${ROOT}/etc/kubenode`);
    put(world, '/etc/kubenode/hold', '');
    life.notify();
    await rest(world, life, 60_000);
    expect(world.journal()?.leaving).toBeUndefined();
    put(world, '/etc/kubenode/hold', undefined);
    await live(world, life, () => world.takenAway === 1);
  });

  test('the watch may be late: it leaves only by what it has just read', async () => {
    const { world, life } = await node();
    const before = world.machine;
    world.delete('Orphan');
    life.notify();
    world.machine = { ...before, metadata: { ...before.metadata, resourceVersion: '1000' } };
    await rest(world, life, 20_000);
    expect([world.takenAway, world.journal()?.leaving]).toEqual([0, undefined]);
  });

  test('a deletion that was ordered is carried out as one, and an order that is not begun is waited for', () => {
    const given = (kind: 'Delete' | 'Change', more = {}) =>
      announceStep(
        observed({
          reread: 'op',
          wanted: machine({
            deleting: true,
            deletionPolicy: 'Orphan',
            operation: { id: 'op', epoch: 1, kind, notAfter: '2036-01-01T00:00:00Z' },
          }),
          ...more,
        }),
        () => undefined,
      )?.do;
    expect(given('Change')).toBeUndefined();
    const operations = [
      { id: 'op', epoch: 1, kind: 'Change', startedAt: 1, components: [], class: 'None' as const, outcome: 'Succeeded' as const },
    ];
    expect(given('Change', { state: state(accepted('1.0.0', 1), { operations }) })).toBe('leave');
    for (const kind of ['Delete', 'Change'] as const)
      expect(given(kind, { state: state(accepted('1.0.0', 1), { operations, transaction: tx() }) })).toBeUndefined();
    expect(given('Delete', { state: state(accepted('1.0.0', 1), { operations }) })).toBeUndefined();
  });
});

describe('C14: Reset', () => {
  test('what was installed is removed in order, and then the agent goes too', async () => {
    const { world, life } = await node();
    await deleted(world, life, 'Reset');
    expect(world.takenAway).toBe(0);
    const { components: _none, ...of } = order(world, 'op-delete', { kind: 'Delete' });
    give(world, life, of);
    await live(world, life, () => world.takenAway > 0);
    expect(outcome(world)).toBe('Succeeded');
    expect([world.units.size, world.text('/etc/app/app.conf'), world.takenAway]).toEqual([0, undefined, 1]);
  });

  test('also where the process ends in between and the API server does not answer', async () => {
    const { world, life } = await node();
    await deleted(world, life, 'Reset');
    const { components: _none, ...of } = order(world, 'op-delete', { kind: 'Delete' });
    give(world, life, of);
    while (world.journal()?.transaction === undefined) await life.step();
    life.end();
    world.reachable = false;
    const next = begin(world);
    await rest(world, next, 60_000);
    expect([world.journal()?.leaving, world.takenAway]).toEqual(['Announced', 0]);
    world.reachable = true;
    await live(world, next, () => world.takenAway === 1);
  });

  test('with Delete the agent stays, as it always did', async () => {
    const { world, life } = await node();
    await deleted(world, life, 'Delete');
    const { components: _none, ...of } = order(world, 'op-delete', { kind: 'Delete' });
    give(world, life, of);
    await rest(world, life, 60_000);
    expect([outcome(world), world.status.conditions?.[0]?.reason, world.takenAway]).toEqual(['Succeeded', 'Cleared', 0]);
  });
});
