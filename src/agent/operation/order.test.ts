import { expect, test } from 'vitest';
import { begin, live } from '../testing/life.ts';
import { announced, app, give, node, ordered, outcome, rest, waiting, want } from '../testing/node.ts';
import { entry, order, release, World } from '../testing/world.ts';

test('C5: an operation is begun only after the Machine was read again, live', async () => {
  const { world, life } = await ordered();
  world.reachable = false;
  await rest(world, life, 120_000);
  expect(world.effects).toEqual([]);
  expect(world.requests.machine).toBeGreaterThan(1);
  world.reachable = true;
  await live(world, life, () => outcome(world) === 'Succeeded');
});

test('C5: an order that was taken back meanwhile is detected by reading again', async () => {
  const { world, life } = await ordered();
  // Not notified: the watch is behind.
  world.change({ operation: order(world, 'op-2', { kind: 'Cancelled' }) });
  await live(world, life, () => world.status.operation?.id === 'op-2');
  expect(outcome(world)).toBe('Cancelled');
  expect(world.effects).toEqual([]);
});

test('C5: once begun, an operation is finished without the API server', async () => {
  const { world, life } = await ordered();
  await live(
    world,
    life,
    () => world.effects.length > 0 || world.journal()?.transaction !== undefined,
    () => false,
  );
  world.reachable = false;
  await rest(world, life, 60_000);
  expect(world.text('/etc/app/app.conf')).toBe('version=1.1.0 color=blue\n');
  expect(world.journal()?.operations).toMatchObject([{ id: 'op', outcome: 'Succeeded' }]);
  world.reachable = true;
  await live(world, life, () => outcome(world) === 'Succeeded');
});

test.each([
  ['past its notAfter', { notAfter: '2026-11-19T00:00:00Z' }, 'Cancelled'],
  ['with nothing left to do', { components: [{ name: 'app', revision: 1 }] }, 'Superseded'],
  ['for a component that is not here', { components: [{ name: 'other', revision: 1 }] }, 'Superseded'],
  ['of kind Cancelled', { kind: 'Cancelled' as const }, 'Cancelled'],
  ['for a repair that this agent does not know', { kind: 'Repair' as const, action: 'Levitate' }, 'PermanentFailure'],
])('C5, C7: an order %s ends at once', async (_what, others, expected) => {
  const { world, life } = await announced();
  give(world, life, order(world, 'op', others));
  await live(world, life, () => world.status.operation?.id === 'op' && outcome(world) !== undefined);
  expect(outcome(world)).toBe(expected);
  expect(world.effects).toEqual([]);
  expect(app(world)).toMatchObject({ state: 'Waiting', needs: 'Restart' });
});

test('D3: an order of an epoch below one seen before is cancelled, and reported', async () => {
  const { world, life } = await announced();
  give(world, life, order(world, 'op-1', { epoch: 9, kind: 'Cancelled' }));
  await live(world, life, () => outcome(world) === 'Cancelled');
  give(world, life, order(world, 'op-2', { epoch: 8 }));
  await live(world, life, () => world.status.operation?.id === 'op-2');
  expect(world.status.operation).toMatchObject({ outcome: 'Cancelled', message: expect.stringContaining('epoch 8 is below 9') });
  expect(world.effects).toEqual([]);
});

test('D3: a Machine that was made again under the same name gives this node no orders', async () => {
  const { world, life } = await ordered();
  world.machine = { ...world.machine, metadata: { ...world.machine.metadata, uid: 'another' } };
  await rest(world, life, 120_000);
  expect(world.effects).toEqual([]);
  expect(world.requests.machine).toBeGreaterThan(1);
});

test('C5: what was read live is good for the very next step only', async () => {
  const { world, life } = await ordered();
  // The live read finds an entry that has to be accepted first.
  world.change({ components: [entry('app', '1.1.0', 2), entry('web', '2.0.0', 1)] });
  await live(world, life, () => outcome(world) === 'Succeeded');
  expect(world.requests.machine).toBe(2);
});

test('C5, invariant 5: an order that was carried out is not repeated after a reboot, nor after the disk was lost', async () => {
  const { world, life } = await ordered();
  await live(world, life, () => outcome(world) === 'Succeeded');
  life.end();
  world.reboot();
  world.effects = [];
  const next = begin(world);
  await live(world, next, () => app(world)?.bootID === 'boot-2');
  expect(world.effects.map((each) => [each.what, each.transaction])).toEqual([['start', undefined]]);
  next.end();

  const empty = new World();
  Object.assign(world, { disk: empty.disk, units: new Map() });
  world.effects = [];
  const third = begin(world);
  await live(world, third, () => app(world)?.state === 'Healthy' && app(world)?.running === 2);
  expect(world.status.operation).toMatchObject({ id: 'op', outcome: 'Succeeded' });
  // Installed again, since nothing was there: without an order, which it does not need.
  expect(world.effects.every((each) => each.transaction?.operation === undefined)).toBe(true);
});

test('C7: an operation that was under way when the disk was lost ends as one whose effect is not known', async () => {
  const { world, life } = await ordered();
  await live(world, life, () => world.status.operation?.state === 'Running');
  life.end();
  Object.assign(world, { disk: new World().disk, units: new Map() });
  const next = begin(world);
  await live(world, next, () => world.status.operation?.state === 'Done');
  expect(world.status.operation).toMatchObject({ id: 'op', outcome: 'PermanentFailure', message: expect.stringContaining('no record') });
});

test('C6: a newer revision is not taken under the operation, which ends and lets it ask for one of its own', async () => {
  const { world, life } = await node();
  release(world, '1.1.0');
  release(world, '1.1.1');
  want(world, life, [entry('app', '1.1.0', 2)]);
  await waiting(world, life);
  give(world, life, order(world, 'op'));
  await live(world, life, () => app(world)?.state === 'Probing');
  want(world, life, [entry('app', '1.1.1', 3)]);
  await live(world, life, () => outcome(world) !== undefined && app(world)?.state === 'Waiting');
  expect(outcome(world)).toBe('Superseded');
  expect(app(world)).toMatchObject({ version: '1.1.0', running: 2, revision: 3, needs: 'Restart' });
});

test('C6: what came before the order was begun is not carried out under it either', async () => {
  const { world, life } = await node();
  release(world, '1.1.0');
  release(world, '1.1.1');
  want(world, life, [entry('app', '1.1.0', 2)]);
  await waiting(world, life);
  want(world, life, [entry('app', '1.1.1', 3)]);
  give(world, life, order(world, 'op'));
  await live(world, life, () => outcome(world) !== undefined && app(world)?.state === 'Waiting');
  expect(outcome(world)).toBe('Superseded');
  expect(app(world)).toMatchObject({ version: '1.0.0', running: 1, revision: 3 });
});

test('C6: what ran before is taken back under the operation at once: nothing new goes on', async () => {
  const { world, life } = await node();
  release(world, '1.1.0', { program: 'bad' });
  want(world, life, [entry('app', '1.1.0', 2)]);
  await waiting(world, life);
  give(world, life, order(world, 'op'));
  await live(world, life, () => app(world)?.state === 'Probing');
  want(world, life, [entry('app', '1.0.0', 3)]);
  await live(world, life, () => outcome(world) !== undefined && app(world)?.state === 'Healthy');
  expect(app(world)).toMatchObject({ version: '1.0.0', running: 3 });
});

test('a change of class Reboot is finished after the boot, with one reboot', async () => {
  const { world, life } = await announced({ spec: { disruption: { minor: 'Reboot' } } });
  expect(app(world)?.needs).toBe('Reboot');
  give(world, life, order(world, 'op'));
  await live(world, life, () => world.rebootAsked);
  life.end();
  // Killed and started again in the same boot: it asks again, and that is not counted.
  const again = begin(world);
  await rest(world, again, 30_000);
  again.end();
  world.reboot();
  const next = begin(world);
  await live(world, next, () => outcome(world) !== undefined && app(world)?.state === 'Healthy');
  expect(outcome(world)).toBe('Succeeded');
  expect(app(world)).toMatchObject({ running: 2, bootID: 'boot-2' });
  expect(world.effects.map((each) => each.what)).toEqual(['hook', 'reboot', 'start', 'hook']);
});

test('C1: an order for two components switches those first that others require, and one operation is the whole of it', async () => {
  const { world, life } = await node();
  const requires = [{ componentName: 'app', versionRange: '>=1' }];
  release(world, '2.0.0', { name: 'web', spec: { requires } });
  release(world, '2.1.0', { name: 'web', spec: { requires } });
  release(world, '1.1.0');
  want(world, life, [entry('app', '1.0.0', 1), entry('web', '2.0.0', 1)]);
  await live(world, life, () => world.component('web')?.state === 'Healthy');
  world.effects = [];
  want(world, life, [entry('app', '1.1.0', 2), entry('web', '2.1.0', 2)]);
  await live(world, life, () => (world.status.components ?? []).every((each) => each.needs === 'Restart'));
  give(world, life, order(world, 'op'));
  await live(world, life, () => outcome(world) !== undefined);
  expect(outcome(world)).toBe('Succeeded');
  expect(world.effects.filter((each) => each.what === 'restart').map((each) => each.name)).toEqual(['app', 'web']);
  expect(world.requests.machine).toBe(1);
});

test('when one of two fails the other is still carried out, and the operation reports which', async () => {
  const { world, life } = await node();
  release(world, '2.0.0', { name: 'web' });
  release(world, '2.1.0', { name: 'web' });
  release(world, '1.1.0', { program: 'bad' });
  want(world, life, [entry('app', '1.0.0', 1), entry('web', '2.0.0', 1)]);
  await live(world, life, () => world.component('web')?.state === 'Healthy');
  want(world, life, [entry('app', '1.1.0', 2), entry('web', '2.1.0', 2)]);
  await live(world, life, () => (world.status.components ?? []).every((each) => each.needs === 'Restart'));
  give(world, life, order(world, 'op'));
  await live(world, life, () => outcome(world) !== undefined);
  expect(world.status.operation).toMatchObject({ outcome: 'PermanentFailure', message: expect.stringMatching(/^app: ProbesFailed/) });
  expect(world.component('web')).toMatchObject({ version: '2.1.0', running: 2 });
  expect(app(world)).toMatchObject({ version: '1.0.0', failed: { restored: true } });
});
