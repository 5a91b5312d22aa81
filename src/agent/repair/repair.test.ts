import { CONTROLLER_OPERATIONS } from '../../api/node-remedier/values.ts';
import { expect, test } from 'vitest';
import { begin, live } from '../testing/life.ts';
import { give, node, rest, unit } from '../testing/node.ts';
import { type World, entry, putOld, repair, ROOT, START_MS } from '../testing/world.ts';

const DAY_MS = 86_400_000;

const ended = (world: World, id = 'op') => world.status.operation?.id === id && world.status.operation.state === 'Done';
const operation = (world: World) => world.status.operation;
const did = (world: World) => world.effects.map((each) => `${each.what} ${each.name}`.trim());

/** A change of values needs no order. */
const reloads = { spec: { units: [{ name: 'app', exec: ['{{dir}}/bin'], reload: 'SIGHUP' }], disruption: { config: 'Reload' } } };

test('RestartComponent restarts every unit of the component once, and succeeds when its probes pass', async () => {
  const units = [
    { name: 'app', exec: ['{{dir}}/bin'] },
    { name: 'helper', exec: ['{{dir}}/bin', 'helper'] },
  ];
  const { world, life } = await node({ spec: { units } });
  const before = [unit(world).invocation, unit(world, 'helper').invocation];
  give(world, life, repair(world, 'op', 'RestartComponent', { component: 'app' }));
  await live(world, life, () => ended(world));
  expect(operation(world)).toMatchObject({ id: 'op', outcome: 'Succeeded', message: 'restarted app, helper; all probes pass' });
  expect(did(world)).toEqual(['restart app', 'restart helper']);
  expect([unit(world).invocation, unit(world, 'helper').invocation]).not.toEqual(before);
  await rest(world, life, 600_000);
  expect(world.effects).toHaveLength(2);
  expect(world.component('app')).toMatchObject({ state: 'Healthy', running: 1 });
  expect(world.events).toEqual([
    'RepairBegun: RestartComponent app (operation op)',
    'RepairEnded: RestartComponent app (operation op): Succeeded: restarted app, helper; all probes pass',
  ]);
});

test('a restart after which the probes do not pass in time is a PermanentFailure with their words', async () => {
  const { world, life } = await node();
  const id = world.disk.find(`${ROOT}/var/lib/kubenode/components/app/current/bin`, true);
  const inode = id === undefined ? undefined : world.disk.inodes.get(id);
  if (inode?.kind !== 'file') throw new Error('the program is there');
  inode.data = Buffer.from('app 1.0.0 bad');
  give(world, life, repair(world, 'op', 'RestartComponent', { component: 'app' }));
  await live(world, life, () => ended(world));
  expect(operation(world)?.outcome).toBe('PermanentFailure');
  expect(operation(world)?.message).toBe('restarted app: probe answers: exit code 1: app is not 1.0.0');
  expect(did(world)).toEqual(['restart app']);
});

test.each([
  ['no such component', 'RestartComponent', { component: 'other' }, 'component other is not installed on this node'],
  ['no argument', 'RestartComponent', {}, 'RestartComponent: args.component is missing: it must be the name of a component'],
  ['a wrong argument', 'RestartComponent', { component: 7 }, 'RestartComponent: args.component must be the name of a component, got 7'],
  ['no mark', 'CleanDisk', {}, 'CleanDisk: args.belowPercent is missing: it must be a whole number from 1 to 99'],
  ['a mark that is none', 'CleanDisk', { belowPercent: 0 }, 'CleanDisk: args.belowPercent must be a whole number from 1 to 99, got 0'],
  ['an unknown argument', 'Reboot', { now: true }, 'Reboot: args.now is not known'],
  ['what every object inherits', 'RestartComponent', { component: 'constructor' }, 'component constructor is not installed on this node'],
  ['an unknown action', 'Reinstall', {}, 'this agent knows no Repair Reinstall'],
])('%s: PermanentFailure that reports it, and nothing done', async (_what, action, args, message) => {
  const { world, life } = await node();
  give(world, life, repair(world, 'op', action, args));
  await live(world, life, () => ended(world));
  expect(operation(world)).toMatchObject({ outcome: 'PermanentFailure', message });
  expect(world.effects).toEqual([]);
});

test('a component that has no units cannot be restarted', async () => {
  const { world, life } = await node({ spec: { units: [], probes: [] } });
  give(world, life, repair(world, 'op', 'RestartComponent', { component: 'app' }));
  await live(world, life, () => ended(world));
  expect(operation(world)).toMatchObject({ outcome: 'PermanentFailure', message: 'component app has no units to restart' });
});

test.each(CONTROLLER_OPERATIONS.map((each) => [each]))(
  '%s is the cell’s: the agent does nothing and reports nothing, only its epoch is kept',
  async (action) => {
    const { world, life } = await node(reloads);
    const writes = world.requests.status;
    give(world, life, repair(world, 'op', action, {}, { epoch: 7 }));
    await rest(world, life, 600_000);
    expect(operation(world)).toBeUndefined();
    // One write: that this generation of the Machine was seen.
    expect(world.requests.status).toBe(writes + 1);
    expect(world.journal()).toMatchObject({ epoch: 7, operations: [] });
    // What needs no operation goes on.
    world.change({ components: [entry('app', '1.0.0', 2, { values: { color: 'red' } })] });
    life.notify();
    await live(world, life, () => world.component('app')?.running === 2);
    // docs/protocols.md#d3: what comes from a leader before that one is stale.
    give(world, life, repair(world, 'late', 'Reboot', {}, { epoch: 6 }));
    await live(world, life, () => ended(world, 'late'));
    expect(operation(world)?.outcome).toBe('Cancelled');
    expect(did(world)).not.toContain('reboot');
    give(world, life, repair(world, 'next', 'RestartComponent', { component: 'app' }, { epoch: 8 }));
    await live(world, life, () => ended(world, 'next'));
    expect(operation(world)?.outcome).toBe('Succeeded');
  },
);

test('C1: while a Repair runs no change begins, not even one that needs no order', async () => {
  const { world, life } = await node(reloads);
  give(world, life, repair(world, 'op', 'Reboot'));
  await live(world, life, () => world.rebootAsked);
  world.change({ components: [entry('app', '1.0.0', 2, { values: { color: 'red' } })] });
  life.notify();
  await rest(world, life, 100_000);
  expect(world.component('app')).toMatchObject({ running: 1, state: 'Waiting' });
  await live(world, life, () => world.component('app')?.running === 2);
  expect(operation(world)?.outcome).toBe('PermanentFailure');
});

test('Reboot: asked for once the cell knows of it; in the next boot it ends Succeeded, with that boot, and never again', async () => {
  const { world, life } = await node();
  give(world, life, repair(world, 'op', 'Reboot'));
  await live(world, life, () => world.rebootAsked);
  expect(operation(world)).toMatchObject({ id: 'op', state: 'Running', bootID: 'boot-1' });
  life.end();
  world.reboot();
  const next = begin(world);
  await live(world, next, () => ended(world) && world.component('app')?.state === 'Healthy');
  expect(operation(world)).toMatchObject({ outcome: 'Succeeded', bootID: 'boot-2' });
  expect(unit(world).running).toBe(true);
  await rest(world, next, 600_000);
  expect(did(world)).toEqual(['reboot', 'start app']);
  expect(world.events.filter((each) => each.startsWith('Repair'))).toEqual([
    'RepairBegun: Reboot (operation op)',
    'RepairEnded: Reboot (operation op): Succeeded: this node is in boot boot-2, it was in boot-1',
  ]);
});

test('proof case 20: one reboot, also when the disk comes back as it was before the order, with the order still in the Machine', async () => {
  const { world, life } = await node();
  const before = world.disk.clone();
  give(world, life, repair(world, 'op', 'Reboot'));
  await live(world, life, () => world.rebootAsked);
  life.end();
  world.losePower(before);
  const next = begin(world);
  await live(world, next, () => ended(world));
  expect(operation(world)).toMatchObject({ outcome: 'Succeeded', bootID: 'boot-2' });
  await rest(world, next, 600_000);
  expect(did(world).filter((each) => each === 'reboot')).toHaveLength(1);
  expect(world.rebootAsked).toBe(false);
});

test('a Reboot whose report the cell never got is not begun: the cell must know of it first', async () => {
  const { world, life } = await node();
  give(world, life, repair(world, 'op', 'Reboot'));
  world.reportsLost = true;
  await rest(world, life, 120_000);
  expect(world.journal()?.operations.at(-1)).toMatchObject({ id: 'op', task: { action: 'Reboot' } });
  expect(world.effects).toEqual([]);
  world.reportsLost = false;
  world.change({});
  life.notify();
  await live(world, life, () => world.rebootAsked);
});

test('a node that booted by itself between the order and the reboot is not rebooted again', async () => {
  const { world, life } = await node();
  world.reportsLost = true;
  give(world, life, repair(world, 'op', 'Reboot'));
  await rest(world, life);
  life.end();
  world.reboot();
  world.reportsLost = false;
  const next = begin(world);
  await live(world, next, () => ended(world));
  expect(operation(world)).toMatchObject({ outcome: 'Succeeded', bootID: 'boot-2' });
  expect(did(world)).not.toContain('reboot');
});

test('a host that does not reboot: PermanentFailure that names the boot, and what was asked for is taken back', async () => {
  const { world, life } = await node();
  give(world, life, repair(world, 'op', 'Reboot'));
  await live(world, life, () => ended(world));
  expect(operation(world)).toMatchObject({
    outcome: 'PermanentFailure',
    message: 'this node is still in boot boot-1 300 s after it was to reboot',
    bootID: 'boot-1',
  });
  expect(world.rebootAsked).toBe(false);
  await rest(world, life, 600_000);
  expect(world.rebootAsked).toBe(false);
});

test('the time a host has to reboot goes on over agents that are killed', async () => {
  const { world, life } = await node();
  give(world, life, repair(world, 'op', 'Reboot'));
  await live(world, life, () => world.rebootAsked);
  life.end();
  let current = life;
  for (let round = 0; round < 4; round++) {
    world.ms += 80_000;
    current = begin(world);
    await rest(world, current);
    current.end();
  }
  expect(operation(world)).toMatchObject({ outcome: 'PermanentFailure' });
  expect(world.rebootAsked).toBe(false);
});

test('C5: an order that is replaced before anything was done ends Cancelled', async () => {
  for (const action of ['Reboot', 'RestartComponent', 'CleanDisk']) {
    const { world, life } = await node();
    world.reportsLost = true;
    const args = action === 'RestartComponent' ? { component: 'app' } : action === 'CleanDisk' ? { belowPercent: 1 } : {};
    const ordered = repair(world, 'op', action, args);
    give(world, life, ordered);
    await rest(world, life);
    world.reportsLost = false;
    give(world, life, { ...ordered, kind: 'Cancelled', reason: 'released by an operator' });
    await live(world, life, () => ended(world));
    expect(operation(world)).toMatchObject({ outcome: 'Cancelled', message: 'released by an operator' });
    expect(world.effects).toEqual([]);
  }
});

test('C5: the Machine is read again just before, and what it contains then counts, not what the watch brought', async () => {
  const { world, life } = await node();
  world.reportsLost = true;
  const ordered = repair(world, 'op', 'Reboot');
  give(world, life, ordered);
  await rest(world, life);
  // The watch brings the report; that the order was replaced since, only a live read shows.
  const { machine } = world;
  const reported = { id: 'op', state: 'Running' as const, bootID: 'boot-1' };
  world.machine = { ...machine, status: { ...machine.status, operation: reported } };
  life.notify();
  world.change({ operation: { ...ordered, kind: 'Cancelled', reason: 'frozen' } });
  await live(world, life, () => world.journal()?.operations.at(-1)?.outcome !== undefined);
  expect(world.journal()?.operations.at(-1)).toMatchObject({ id: 'op', outcome: 'Cancelled', message: 'frozen' });
  expect(world.effects).toEqual([]);
  // Once before it was begun, once before it was done.
  expect(world.requests.machine).toBe(2);
});

test.each(['Reboot', 'RestartComponent', 'CleanDisk'])('C5: %s that cannot be begun by notAfter ends Cancelled', async (action) => {
  const { world, life } = await node();
  putOld(world, '/var/log/kubenode/app.log.1', 1000, 0);
  world.reportsLost = true;
  const args = action === 'RestartComponent' ? { component: 'app' } : action === 'CleanDisk' ? { belowPercent: 1 } : {};
  give(world, life, repair(world, 'op', action, args));
  await rest(world, life, 950_000);
  expect(world.journal()?.operations.at(-1)).toMatchObject({ id: 'op', outcome: 'Cancelled' });
  expect(world.journal()?.operations.at(-1)?.message).toMatch(/^not begun by /);
  expect(world.effects).toEqual([]);
  expect(world.text('/var/log/kubenode/app.log.1')).toBeDefined();
});

test.each(['Reboot', 'RestartComponent', 'CleanDisk'])(
  'C5: %s does not start while the API server cannot be asked, nor while the node is held',
  async (action) => {
    const { world, life } = await node();
    putOld(world, '/var/log/kubenode/app.log.1', 1000, 0);
    world.capacity(1.05);
    const args = action === 'RestartComponent' ? { component: 'app' } : action === 'CleanDisk' ? { belowPercent: 90 } : {};
    world.reportsLost = true;
    give(world, life, repair(world, 'op', action, args));
    await rest(world, life);
    world.reachable = false;
    world.reportsLost = false;
    await rest(world, life, 100_000);
    expect(world.effects).toEqual([]);
    putOld(world, '/etc/kubenode/hold', 0, 0);
    world.reachable = true;
    world.change({});
    life.notify();
    await rest(world, life, 100_000);
    expect(world.effects).toEqual([]);
    expect(world.text('/var/log/kubenode/app.log.1')).toBeDefined();
    world.disk.change(`${ROOT}/etc/kubenode/hold`, [['hold', undefined]]);
    await live(world, life, () => (action === 'Reboot' ? world.rebootAsked : ended(world)));
  },
);

const disposable = { disposable: [{ path: '/var/cache/app', olderThanSeconds: 86_400 }] };

test('CleanDisk deletes the oldest first, until it is below the mark, and reports how much', async () => {
  const { world, life } = await node({ spec: disposable });
  for (const day of [2, 3, 4, 5, 6]) putOld(world, `/var/cache/app/deep/er/${day}`, 10_000, day * DAY_MS);
  putOld(world, '/var/cache/app/young', 10_000, DAY_MS / 2);
  putOld(world, '/var/cache/other/old', 10_000, 9 * DAY_MS);
  putOld(world, '/var/log/kubenode/app.log', 10_000, 9 * DAY_MS);
  putOld(world, '/var/log/kubenode/app.log.1', 10_000, 7 * DAY_MS);
  const { used } = world.disk;
  // Three of them are too many.
  world.disk.capacity = Math.ceil((used - 25_000) / 0.8);
  give(world, life, repair(world, 'op', 'CleanDisk', { belowPercent: 80 }));
  await live(world, life, () => ended(world));
  expect(operation(world)?.outcome).toBe('Succeeded');
  expect(operation(world)?.message).toMatch(/^at 7\d(\.\d)? %, below 80 %; freed 30000 bytes in 3 files$/);
  const there = (path: string) => world.text(path) !== undefined;
  expect([2, 3, 4, 5, 6].filter((day) => there(`/var/cache/app/deep/er/${day}`))).toEqual([2, 3, 4]);
  expect(there('/var/log/kubenode/app.log.1')).toBe(false);
  for (const path of ['/var/cache/app/young', '/var/cache/other/old', '/var/log/kubenode/app.log']) expect(there(path)).toBe(true);
});

test('CleanDisk that cannot get below the mark is a TransientFailure that reports that, and keeps what may not go', async () => {
  const { world, life } = await node({ spec: disposable });
  putOld(world, '/var/cache/app/old', 10_000, 2 * DAY_MS);
  putOld(world, '/var/cache/app/young', 10_000, 0);
  world.disk.capacity = world.disk.used;
  give(world, life, repair(world, 'op', 'CleanDisk', { belowPercent: 10 }));
  await live(world, life, () => ended(world));
  expect(operation(world)?.outcome).toBe('TransientFailure');
  expect(operation(world)?.message).toMatch(/^still at \d+(\.\d)? %, nothing left that may go; freed 10000 bytes in 1 files$/);
  expect(world.text('/var/cache/app/young')).toBeDefined();
});

test('CleanDisk on a disk that is below the mark already deletes nothing', async () => {
  const { world, life } = await node({ spec: disposable });
  putOld(world, '/var/cache/app/old', 10_000, 2 * DAY_MS);
  give(world, life, repair(world, 'op', 'CleanDisk', { belowPercent: 50 }));
  await live(world, life, () => ended(world));
  expect(operation(world)).toMatchObject({ outcome: 'Succeeded', message: 'at 0 %, below 50 %; freed 0 bytes in 0 files' });
  expect(world.text('/var/cache/app/old')).toBeDefined();
});

test('a disk without a single free byte can be cleaned: the agent has kept what writing the order down takes', async () => {
  const { world, life } = await node({ spec: disposable });
  for (const day of [2, 3]) putOld(world, `/var/cache/app/${day}`, 200_000, day * DAY_MS);
  expect(world.text('/var/lib/kubenode/reserve')).toHaveLength(65_536);
  world.disk.capacity = world.disk.used;
  give(world, life, repair(world, 'op', 'CleanDisk', { belowPercent: 65 }));
  await live(world, life, () => ended(world));
  expect(operation(world)).toMatchObject({ outcome: 'Succeeded', message: expect.stringContaining('freed 200000 bytes in 1 files') });
  await rest(world, life);
  expect(world.text('/var/lib/kubenode/reserve')).toHaveLength(65_536);
});

test('no disposable file is deleted without an order', async () => {
  const { world, life } = await node({ spec: disposable });
  putOld(world, '/var/cache/app/old', 10_000, 9 * DAY_MS);
  world.disk.capacity = world.disk.used;
  await rest(world, life, 600_000);
  expect(world.text('/var/cache/app/old')).toBeDefined();
});

test('CleanDisk frees what the agent keeps and needs no more, and keeps what its components consist of', async () => {
  const files = [{ path: '/var/cache/app/seed', content: 'x'.repeat(1000) }];
  const { world, life } = await node({ spec: { ...disposable, files } });
  putOld(world, `/var/lib/kubenode/store/${'a'.repeat(64)}`, 10_000, 0);
  const id = world.disk.find(`${ROOT}/var/cache/app/seed`, true);
  const inode = id === undefined ? undefined : world.disk.inodes.get(id);
  if (inode?.kind !== 'file') throw new Error('the file is there');
  inode.writtenMs = START_MS - 9 * DAY_MS;
  world.disk.capacity = world.disk.used;
  const before = world.disk.used;
  give(world, life, repair(world, 'op', 'CleanDisk', { belowPercent: 1 }));
  await live(world, life, () => ended(world));
  expect(operation(world)?.message).toContain('freed 10000 bytes in 1 files');
  expect(before - world.disk.used).toBeGreaterThan(8_000);
  expect(world.text('/var/cache/app/seed')).toHaveLength(1000);
  expect(world.component('app')?.state).toBe('Healthy');
});

test('while a huge folder is cleaned upkeep goes on, and an order that is replaced ends it', async () => {
  const { world, life } = await node({ spec: disposable });
  for (let index = 0; index < 400; index++) putOld(world, `/var/cache/app/${index}`, 10, 2 * DAY_MS + index);
  world.disk.capacity = world.disk.used;
  const ordered = repair(world, 'op', 'CleanDisk', { belowPercent: 1 });
  give(world, life, ordered);
  for (let cleaned = 0; cleaned < 3;) {
    const { step, waitUntilMs } = await life.step();
    if (step === 'clean') cleaned++;
    if (waitUntilMs !== undefined) await life.sleep(waitUntilMs);
  }
  unit(world).running = false;
  expect((await life.step()).step).toBe('startUnit');
  expect(unit(world).running).toBe(true);
  give(world, life, { ...ordered, kind: 'Cancelled', reason: 'released by an operator' });
  await live(world, life, () => ended(world));
  expect(operation(world)?.outcome).toBe('Cancelled');
  expect(operation(world)?.message).toMatch(/^released by an operator; freed \d+ bytes in \d+ files$/);
  expect(world.text('/var/cache/app/0')).toBeDefined();
});
