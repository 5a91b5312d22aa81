import { expect, test } from 'vitest';
import { contentOf } from './content.ts';
import { World, entry, order, release, ROOT } from './testing/world.ts';
import { begin, live } from './testing/life.ts';
import type { Life } from './testing/life.ts';
import type { ComponentEntry, Operation } from '../api/machine.ts';

/** A node on which app 1.0.0 runs, and its agent. */
async function node(options: Parameters<typeof release>[2] = {}): Promise<{ world: World; life: Life }> {
  const world = new World();
  release(world, '1.0.0', options);
  world.change({ components: [entry('app', '1.0.0', 1)] });
  const life = begin(world);
  await live(world, life, () => app(world)?.state === 'Healthy');
  world.effects = [];
  world.events = [];
  return { world, life };
}

function unit(world: World) {
  const found = world.units.get('app');
  if (found === undefined) throw new Error('the unit is not there');
  return found;
}

const app = (world: World) => world.component('app');
const outcome = (world: World) => world.status.operation?.outcome;

function want(world: World, life: Life, components: ComponentEntry[]): void {
  world.change({ components });
  life.tell();
}

function give(world: World, life: Life, operation: Operation): void {
  world.change({ operation });
  life.tell();
}

/** Until the agent has nothing to do but wait for others. */
async function rest(world: World, life: Life, ms = 5_000): Promise<void> {
  const until = world.ms + ms;
  await live(world, life, () => world.ms >= until);
}

async function waiting(world: World, life: Life): Promise<void> {
  await live(world, life, () => app(world)?.state === 'Waiting' && app(world)?.needs !== undefined);
}

function put(world: World, path: string, text: string | undefined): void {
  const full = `${ROOT}${path}`;
  if (text === undefined) world.disk.change(full, [[full.slice(full.lastIndexOf('/') + 1), undefined]]);
  else
    world.disk.change(full, [
      [
        full.slice(full.lastIndexOf('/') + 1),
        world.disk.add({ kind: 'file', data: Buffer.from(text), durable: undefined, lost: false, mode: 0o640 }),
      ],
    ]);
}

test('a first install that disrupts nothing is carried out at once, and reported with its evidence', async () => {
  const { world } = await node();
  expect(app(world)).toMatchObject({
    version: '1.0.0',
    content: contentOf(entry('app', '1.0.0', 1)),
    revision: 1,
    running: 1,
    state: 'Healthy',
    bootID: 'boot-1',
  });
  expect(world.text('/etc/app/app.conf')).toBe('version=1.0.0 color=blue\n');
  expect(world.requests.machine).toBe(0);
});

test('what restarts is announced and not done without an order', async () => {
  const { world, life } = await node();
  release(world, '1.1.0');
  want(world, life, [entry('app', '1.1.0', 2)]);
  await waiting(world, life);
  await rest(world, life, 600_000);
  expect(app(world)).toMatchObject({
    version: '1.0.0',
    revision: 2,
    running: 1,
    state: 'Waiting',
    needs: 'Restart',
    needsFor: 'Change',
    bootID: 'boot-1',
  });
  expect(world.effects).toEqual([]);
});

test('an order that names the announced revision is carried out, once', async () => {
  const { world, life } = await node();
  release(world, '1.1.0');
  want(world, life, [entry('app', '1.1.0', 2)]);
  await waiting(world, life);
  give(world, life, order(world, 'op'));
  await live(world, life, () => outcome(world) === 'Succeeded' && app(world)?.state === 'Healthy');
  expect(app(world)).toMatchObject({ version: '1.1.0', running: 2, previous: '1.0.0' });
  expect(world.effects.map((each) => each.what)).toEqual(['hook', 'restart', 'hook']);
  expect(world.requests.machine).toBe(1);
  await rest(world, life, 600_000);
  expect(world.effects).toHaveLength(3);
});

test('the same content under a higher revision disrupts nothing', async () => {
  const { world, life } = await node();
  want(world, life, [entry('app', '1.0.0', 7, { setUID: 'another set' })]);
  await live(world, life, () => app(world)?.running === 7);
  expect(app(world)).toMatchObject({ revision: 7, state: 'Healthy' });
  expect(world.effects).toEqual([]);
});

test('a revision that goes back, or that changes its content, is refused and what runs goes on', async () => {
  const { world, life } = await node();
  want(world, life, [entry('app', '1.0.0', 5)]);
  await live(world, life, () => app(world)?.running === 5);
  want(world, life, [entry('app', '0.9.0', 4)]);
  await live(world, life, () => app(world)?.refused !== undefined);
  expect(app(world)).toMatchObject({ revision: 5, version: '1.0.0', refused: { revision: 4, reason: 'RevisionWentBack' } });
  want(world, life, [entry('app', '1.0.0', 5, { values: { color: 'red' } })]);
  await live(world, life, () => app(world)?.refused?.revision === 5);
  expect(app(world)?.refused).toEqual({ revision: 5, reason: 'ContentChanged' });
  want(world, life, [entry('app', '1.0.0', 6)]);
  await live(world, life, () => app(world)?.running === 6);
  expect(app(world)?.refused).toBeUndefined();
});

test('C5: an operation is begun only after the Machine was read again, live', async () => {
  const { world, life } = await node();
  release(world, '1.1.0');
  want(world, life, [entry('app', '1.1.0', 2)]);
  await waiting(world, life);
  give(world, life, order(world, 'op'));
  world.reachable = false;
  await rest(world, life, 120_000);
  expect(world.effects).toEqual([]);
  expect(world.requests.machine).toBeGreaterThan(1);
  world.reachable = true;
  await live(world, life, () => outcome(world) === 'Succeeded');
});

test('C5: an order that was taken back meanwhile is found out by reading again', async () => {
  const { world, life } = await node();
  release(world, '1.1.0');
  want(world, life, [entry('app', '1.1.0', 2)]);
  await waiting(world, life);
  give(world, life, order(world, 'op'));
  // Not told: the watch is behind.
  world.change({ operation: order(world, 'op-2', { kind: 'Cancelled' }) });
  await live(world, life, () => world.status.operation?.id === 'op-2');
  expect(outcome(world)).toBe('Cancelled');
  expect(world.effects).toEqual([]);
});

test('C5: once begun, an operation is finished without the API server', async () => {
  const { world, life } = await node();
  release(world, '1.1.0');
  want(world, life, [entry('app', '1.1.0', 2)]);
  await waiting(world, life);
  give(world, life, order(world, 'op'));
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
  const { world, life } = await node();
  release(world, '1.1.0');
  want(world, life, [entry('app', '1.1.0', 2)]);
  await waiting(world, life);
  give(world, life, order(world, 'op', others));
  await live(world, life, () => world.status.operation?.id === 'op' && outcome(world) !== undefined);
  expect(outcome(world)).toBe(expected);
  expect(world.effects).toEqual([]);
  expect(app(world)).toMatchObject({ state: 'Waiting', needs: 'Restart' });
});

test('D3: an order of an epoch below one seen before is cancelled, and says so', async () => {
  const { world, life } = await node();
  release(world, '1.1.0');
  want(world, life, [entry('app', '1.1.0', 2)]);
  await waiting(world, life);
  give(world, life, order(world, 'op-1', { epoch: 9, kind: 'Cancelled' }));
  await live(world, life, () => outcome(world) === 'Cancelled');
  give(world, life, order(world, 'op-2', { epoch: 8 }));
  await live(world, life, () => world.status.operation?.id === 'op-2');
  expect(world.status.operation).toMatchObject({ outcome: 'Cancelled', message: expect.stringContaining('epoch 8 is below 9') });
  expect(world.effects).toEqual([]);
});

test('C5, invariant 5: an order that was carried out is not repeated after a reboot, nor after the disk was lost', async () => {
  const { world, life } = await node();
  release(world, '1.1.0');
  want(world, life, [entry('app', '1.1.0', 2)]);
  await waiting(world, life);
  give(world, life, order(world, 'op'));
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
  // Installed anew, since nothing was there: without an order, which it does not need.
  expect(world.effects.every((each) => each.transaction?.operation === undefined)).toBe(true);
});

test('C7: an operation that was under way when the disk was lost ends as one whose effect cannot be told', async () => {
  const { world, life } = await node();
  release(world, '1.1.0');
  want(world, life, [entry('app', '1.1.0', 2)]);
  await waiting(world, life);
  give(world, life, order(world, 'op'));
  await live(world, life, () => world.status.operation?.state === 'Running');
  life.end();
  Object.assign(world, { disk: new World().disk, units: new Map() });
  const next = begin(world);
  await live(world, next, () => world.status.operation?.state === 'Done');
  expect(world.status.operation).toMatchObject({ id: 'op', outcome: 'PermanentFailure', message: expect.stringContaining('no record') });
});

test('invariant 4: what fails its probes goes back to what ran before, and is not tried again until its revision changes', async () => {
  const { world, life } = await node();
  release(world, '1.1.0', { program: 'bad' });
  want(world, life, [entry('app', '1.1.0', 2)]);
  await waiting(world, life);
  give(world, life, order(world, 'op'));
  await live(world, life, () => outcome(world) !== undefined && app(world)?.state === 'Healthy');
  expect(outcome(world)).toBe('PermanentFailure');
  expect(app(world)).toMatchObject({
    version: '1.0.0',
    revision: 2,
    running: 1,
    failed: { revision: 2, reason: 'ProbesFailed', message: expect.stringContaining('app is not 1.1.0'), restored: true },
  });
  expect(world.text('/etc/app/app.conf')).toBe('version=1.0.0 color=blue\n');
  const effects = world.effects.length;
  await rest(world, life, 600_000);
  expect(world.effects).toHaveLength(effects);
  expect(app(world)?.needs).toBeUndefined();

  release(world, '1.1.1');
  want(world, life, [entry('app', '1.1.1', 3)]);
  await waiting(world, life);
  expect(app(world)?.failed).toBeUndefined();
});

test('the content that failed may be tried again under a new revision', async () => {
  const { world, life } = await node();
  release(world, '1.1.0', { program: 'bad' });
  want(world, life, [entry('app', '1.1.0', 2)]);
  await waiting(world, life);
  give(world, life, order(world, 'op'));
  await live(world, life, () => outcome(world) !== undefined);
  want(world, life, [entry('app', '1.1.0', 3)]);
  await waiting(world, life);
  expect(app(world)).toMatchObject({ revision: 3, needs: 'Restart' });
});

test('a first install that fails stops what it started, and reports that nothing was restored', async () => {
  const world = new World();
  release(world, '1.0.0', { program: 'bad' });
  world.change({ components: [entry('app', '1.0.0', 1)] });
  const life = begin(world);
  await live(world, life, () => app(world)?.state === 'Failed');
  expect(app(world)).toMatchObject({
    version: '',
    content: '',
    running: 0,
    failed: { revision: 1, reason: 'ProbesFailed', restored: false },
  });
  expect(world.units.size).toBe(0);
  expect(world.text('/etc/app/app.conf')).toBeUndefined();
});

test('when what ran before fails too, it is reported as not restored', async () => {
  const { world, life } = await node();
  release(world, '1.1.0', { program: 'bad' });
  want(world, life, [entry('app', '1.1.0', 2)]);
  await waiting(world, life);
  give(world, life, order(world, 'op'));
  await live(world, life, () => app(world)?.state === 'Probing');
  // Whatever is started from now on does not work.
  const generation = world.journal()?.transaction?.from ?? '';
  put(world, `/var/lib/kubenode/components/app/${generation}/bin`, 'broken meanwhile');
  await live(world, life, () => outcome(world) !== undefined);
  expect(app(world)).toMatchObject({ state: 'Failed', failed: { reason: 'ProbesFailed', restored: false } });
  expect(outcome(world)).toBe('PermanentFailure');
});

test('a hook that fails before the switch leaves what runs untouched', async () => {
  const { world, life } = await node();
  release(world, '1.1.0', { spec: { hooks: { preInstall: { command: ['hook', 'app', 'fail'] } } } });
  want(world, life, [entry('app', '1.1.0', 2)]);
  await waiting(world, life);
  give(world, life, order(world, 'op'));
  await live(world, life, () => outcome(world) !== undefined && app(world)?.state === 'Healthy');
  expect(app(world)?.failed).toMatchObject({ reason: 'HookFailed', restored: true });
  expect(world.effects.map((each) => each.what)).toEqual(['hook']);
});

test('a unit that crashes after the switch is not waited for until the deadline when a probe names it', async () => {
  const { world, life } = await node({ spec: { probes: [{ name: 'up', unit: 'app' }] } });
  release(world, '1.1.0', { program: 'crash', spec: { probes: [{ name: 'up', unit: 'app' }], healthDeadlineSeconds: 600 } });
  want(world, life, [entry('app', '1.1.0', 2)]);
  await waiting(world, life);
  give(world, life, order(world, 'op'));
  const began = world.ms;
  await live(world, life, () => outcome(world) !== undefined);
  expect(world.ms - began).toBeLessThan(30_000);
  expect(app(world)?.failed).toMatchObject({ reason: 'ProbesFailed', restored: true, message: expect.stringContaining('exit code 1') });
});

test('a change whose class is below Restart needs no order, and reloads', async () => {
  const spec = { units: [{ name: 'app', exec: ['{{dir}}/bin'], reload: 'SIGHUP' }], disruption: { config: 'Reload' } };
  const { world, life } = await node({ spec });
  want(world, life, [entry('app', '1.0.0', 2, { values: { color: 'red' } })]);
  await live(world, life, () => app(world)?.running === 2 && app(world)?.state === 'Healthy');
  expect(world.text('/etc/app/app.conf')).toContain('red');
  expect(world.effects.map((each) => each.what)).toEqual(['hook', 'reload', 'hook']);
});

test('removal waits for an order, leaves nothing behind, and is forgotten with its entry', async () => {
  const { world, life } = await node();
  want(world, life, [entry('app', '1.0.0', 2, { action: 'Remove' })]);
  await waiting(world, life);
  give(world, life, order(world, 'op'));
  await live(world, life, () => app(world)?.state === 'Removed');
  expect(app(world)).toMatchObject({ version: '', content: '', revision: 2, running: 2 });
  expect(world.effects.map((each) => each.what)).toEqual(['hook', 'stop']);
  expect(world.text('/etc/app/app.conf')).toBeUndefined();
  expect(world.disk.key()).not.toContain('receipt.json');
  want(world, life, []);
  await live(world, life, () => world.status.components?.length === 0);
  expect(world.disk.key()).not.toContain('components/app');
});

test('an entry that vanishes uninstalls nothing', async () => {
  const { world, life } = await node();
  want(world, life, []);
  await rest(world, life, 60_000);
  expect(app(world)).toMatchObject({ state: 'Healthy', running: 1 });
  expect(world.effects).toEqual([]);
});

test('removal of what was never here needs no order', async () => {
  const world = new World();
  world.change({ components: [entry('app', '1.0.0', 3, { action: 'Remove' })] });
  const life = begin(world);
  await live(world, life, () => app(world)?.state === 'Removed');
  expect(app(world)).toMatchObject({ revision: 3, running: 3 });
});

test('a Delete order takes everything away, those first that others require last, and installs nothing any more', async () => {
  const { world, life } = await node();
  release(world, '2.0.0', { name: 'web', spec: { requires: [{ componentName: 'app', versionRange: '>=1' }] } });
  want(world, life, [entry('app', '1.0.0', 1), entry('web', '2.0.0', 1)]);
  await live(world, life, () => world.component('web')?.state === 'Healthy');
  world.effects = [];
  give(world, life, order(world, 'op', { kind: 'Delete' }));
  await live(world, life, () => outcome(world) !== undefined);
  expect(outcome(world)).toBe('Succeeded');
  expect(world.effects.filter((each) => each.what === 'stop').map((each) => each.name)).toEqual(['web', 'app']);
  expect(world.status.components?.map((each) => each.state)).toEqual(['Removed', 'Removed']);
  want(world, life, [entry('app', '1.0.0', 2), entry('web', '2.0.0', 2)]);
  await rest(world, life, 60_000);
  expect(world.units.size).toBe(0);
});

test('a component waits until what it requires is installed and healthy, in the range it names', async () => {
  const world = new World();
  release(world, '2.0.0', { name: 'web', spec: { requires: [{ componentName: 'app', versionRange: '^1.1.0' }] } });
  release(world, '1.0.0');
  release(world, '1.1.0');
  world.change({ components: [entry('web', '2.0.0', 1)] });
  const life = begin(world);
  await live(world, life, () => world.component('web')?.message !== undefined);
  expect(world.component('web')).toMatchObject({
    state: 'Waiting',
    message: expect.stringContaining('requires app ^1.1.0, which is not installed'),
  });
  expect(world.component('web')?.needs).toBeUndefined();
  want(world, life, [entry('web', '2.0.0', 1), entry('app', '1.0.0', 1)]);
  await live(world, life, () => world.component('web')?.message?.includes('installed is 1.0.0') === true);
  want(world, life, [entry('web', '2.0.0', 1), entry('app', '1.1.0', 2)]);
  await waiting(world, life);
  give(world, life, order(world, 'op'));
  await live(world, life, () => world.component('web')?.state === 'Healthy' && outcome(world) === 'Succeeded');
});

test('two components do not own one file', async () => {
  const { world, life } = await node();
  release(world, '2.0.0', { name: 'web', spec: { files: [{ path: '/etc/app/app.conf', content: 'mine' }] } });
  want(world, life, [entry('app', '1.0.0', 1), entry('web', '2.0.0', 1)]);
  await live(world, life, () => world.component('web')?.message !== undefined);
  expect(world.component('web')).toMatchObject({ state: 'Waiting', message: '/etc/app/app.conf belongs to component app' });
  await rest(world, life, 60_000);
  expect(world.text('/etc/app/app.conf')).toContain('version=1.0.0');
});

test('C6: a newer revision is taken under the same operation while the older one is probed', async () => {
  const { world, life } = await node();
  release(world, '1.1.0', { program: 'bad' });
  release(world, '1.1.1');
  want(world, life, [entry('app', '1.1.0', 2)]);
  await waiting(world, life);
  give(world, life, order(world, 'op'));
  await live(world, life, () => app(world)?.state === 'Probing');
  want(world, life, [entry('app', '1.1.1', 3)]);
  await live(world, life, () => outcome(world) !== undefined && app(world)?.state === 'Healthy');
  expect(outcome(world)).toBe('Succeeded');
  expect(app(world)).toMatchObject({ version: '1.1.1', running: 3, previous: '1.0.0' });
});

test('a newer revision that is what ran before is a way back that nothing failed on', async () => {
  const { world, life } = await node();
  release(world, '1.1.0', { program: 'bad' });
  want(world, life, [entry('app', '1.1.0', 2)]);
  await waiting(world, life);
  give(world, life, order(world, 'op'));
  await live(world, life, () => app(world)?.state === 'Probing');
  want(world, life, [entry('app', '1.0.0', 3)]);
  await live(world, life, () => outcome(world) !== undefined && app(world)?.state === 'Healthy');
  expect(outcome(world)).toBe('Succeeded');
  expect(app(world)).toMatchObject({ version: '1.0.0', running: 3 });
  expect(app(world)?.failed).toBeUndefined();
});

test('C6: a newer revision that disrupts more than was ordered is not taken under the operation', async () => {
  const { world, life } = await node();
  release(world, '1.1.0');
  release(world, '2.0.0');
  want(world, life, [entry('app', '1.1.0', 2)]);
  await waiting(world, life);
  give(world, life, order(world, 'op'));
  await live(world, life, () => app(world)?.state === 'Probing');
  want(world, life, [entry('app', '2.0.0', 3)]);
  await live(world, life, () => outcome(world) !== undefined && app(world)?.state === 'Waiting');
  expect(outcome(world)).toBe('Superseded');
  expect(app(world)).toMatchObject({ version: '1.1.0', running: 2, needs: 'Drain' });
});

test('a change of class Reboot is finished after the boot, with one reboot', async () => {
  const { world, life } = await node();
  release(world, '1.1.0', { spec: { disruption: { minor: 'Reboot' } } });
  want(world, life, [entry('app', '1.1.0', 2)]);
  await waiting(world, life);
  expect(app(world)?.needs).toBe('Reboot');
  give(world, life, order(world, 'op'));
  await live(world, life, () => world.rebootAsked);
  life.end();
  // Killed and started again in the same boot: it asks again, and nobody counts that.
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

test('hold on the Machine: nothing new starts, what is here is kept', async () => {
  const { world, life } = await node();
  release(world, '1.1.0', { spec: { probes: [], disruption: { minor: 'None' } } });
  world.change({ hold: true });
  want(world, life, [entry('app', '1.1.0', 2)]);
  unit(world).running = false;
  await rest(world, life, 60_000);
  expect(app(world)).toMatchObject({ version: '1.0.0', state: 'Waiting', message: 'the Machine is held' });
  expect(world.effects.map((each) => each.what)).toEqual(['start']);
  life.end();
  // It is remembered where the API server cannot be asked.
  world.reachable = false;
  const next = begin(world);
  await rest(world, next, 60_000);
  expect(world.text('/etc/app/app.conf')).toContain('1.0.0');
  next.end();
  world.reachable = true;
  const third = begin(world);
  world.change({ hold: false });
  third.tell();
  await live(world, third, () => app(world)?.version === '1.1.0' && app(world)?.state === 'Healthy');
});

test('hold on the node: nothing is changed at all, and it says so', async () => {
  const { world, life } = await node();
  put(world, '/etc/kubenode', undefined);
  world.mkdir(`${ROOT}/etc/kubenode`);
  put(world, '/etc/kubenode/hold', '');
  release(world, '1.1.0', { spec: { probes: [], disruption: { minor: 'None' } } });
  want(world, life, [entry('app', '1.1.0', 2)]);
  put(world, '/etc/app/app.conf', 'drift');
  unit(world).running = false;
  const before = world.disk.key();
  await rest(world, life, 1_200_000);
  expect(world.disk.key()).toBe(before);
  expect(world.effects).toEqual([]);
  expect(world.status.agent?.hold).toBe(true);
  expect(world.status.conditions?.[0]).toMatchObject({ type: 'AgentReady', status: 'True', reason: 'Held' });
  put(world, '/etc/kubenode/hold', undefined);
  await live(world, life, () => app(world)?.version === '1.1.0' && app(world)?.state === 'Healthy');
  expect(world.status.agent?.hold).toBeUndefined();
});

test('a file that drifts is put right at once, within a budget, and then only reported', async () => {
  const { world, life } = await node();
  for (let round = 1; round <= 6; round++) {
    put(world, '/etc/app/app.conf', `drift ${round}`);
    const began = world.ms;
    await live(world, life, () => world.text('/etc/app/app.conf') === 'version=1.0.0 color=blue\n');
    expect(world.ms - began).toBeLessThan(5_000);
  }
  expect(app(world)).toMatchObject({ state: 'Healthy', driftRepairs: 6 });
  put(world, '/etc/app/app.conf', 'drift 7');
  await rest(world, life, 60_000);
  expect(world.text('/etc/app/app.conf')).toBe('drift 7');
  expect(app(world)?.message).toContain('repaired too often within the hour');
  await rest(world, life, 3_600_000);
  expect(world.text('/etc/app/app.conf')).toBe('version=1.0.0 color=blue\n');
  expect(world.events.filter((each) => each.startsWith('DriftRepaired'))).toHaveLength(7);
  expect(world.effects).toEqual([]);
});

test.each([
  ['the mode of a file', (world: World) => (find(world, '/etc/app/app.conf').mode = 0o666), '/etc/app/app.conf has mode 0666'],
  ['a file that is gone', (world: World) => put(world, '/etc/app/app.conf', undefined), '/etc/app/app.conf is missing'],
  [
    'the link to the current generation',
    (world: World) => put(world, '/var/lib/kubenode/components/app/current', undefined),
    'does not lead',
  ],
])('drift of %s is found and repaired', async (_what, disturb, message) => {
  const { world, life } = await node();
  const before = world.disk.key();
  disturb(world);
  world.disk.notify(`${ROOT}/etc/app`);
  await rest(world, life);
  // Save for the journal, which tells of the repair.
  const others = (key: string): string =>
    key
      .split('\n')
      .filter((line) => !/journal|^[0-9a-f]{16} /.test(line))
      .join('\n');
  expect(others(world.disk.key())).toBe(others(before));
  expect(world.events).toEqual([expect.stringContaining(message), expect.stringContaining('DriftRepaired')]);
});

function find(world: World, path: string): { data: Buffer; mode: number } {
  const inode = world.disk.inodes.get(world.disk.find(`${ROOT}${path}`, true) ?? 0);
  if (inode?.kind !== 'file') throw new Error(`${path} is no file`);
  return inode;
}

test('onDrift: what says Report is reported, what says Ignore is not looked at', async () => {
  const files = [
    { path: '/etc/app/report', content: 'a', onDrift: 'Report' },
    { path: '/etc/app/ignore', content: 'b', onDrift: 'Ignore' },
  ];
  const { world, life } = await node({ spec: { files } });
  put(world, '/etc/app/report', 'x');
  put(world, '/etc/app/ignore', 'y');
  await rest(world, life, 60_000);
  expect(world.text('/etc/app/report')).toBe('x');
  expect(world.text('/etc/app/ignore')).toBe('y');
  expect(app(world)).toMatchObject({ state: 'Healthy', message: 'drift: /etc/app/report has other content' });
  expect(world.events).toEqual(['DriftFound: app: /etc/app/report has other content (only reported)']);
});

test('an artifact that was tampered with is found within ten minutes and put right from the store', async () => {
  const { world, life } = await node();
  const bin = '/var/lib/kubenode/components/app/current/bin';
  find(world, bin).data = Buffer.from('tampered');
  await rest(world, life, 620_000);
  expect(world.text(bin)).toContain('app 1.0.0 good');
  expect(world.effects).toEqual([]);
});

test('a unit that is down is always started, ever more slowly when it does not stay up', async () => {
  const { world, life } = await node();
  unit(world).running = false;
  await rest(world, life, 2_000);
  expect(world.units.get('app')?.running).toBe(true);
  find(world, '/var/lib/kubenode/components/app/current/bin').data = Buffer.from('crash');
  unit(world).running = false;
  world.effects = [];
  await rest(world, life, 120_000);
  const starts = world.effects.length;
  expect(starts).toBeGreaterThan(3);
  expect(starts).toBeLessThan(12);
  expect(app(world)).toMatchObject({ state: 'Unhealthy', message: expect.stringContaining('ends again and again (exit code 1)') });
});

test('a unit that runs with another definition is announced as drift, and restarted when ordered', async () => {
  const { world, life } = await node();
  unit(world).hash = 'started by hand';
  await waiting(world, life);
  expect(app(world)).toMatchObject({ needs: 'Restart', needsFor: 'Drift', running: 1 });
  expect(world.effects).toEqual([]);
  give(world, life, order(world, 'op'));
  await live(world, life, () => outcome(world) !== undefined && app(world)?.state === 'Healthy');
  expect(outcome(world)).toBe('Succeeded');
  expect(world.effects.map((each) => each.what)).toEqual(['restart']);
});

test('a generation that was deleted while the agent was away is built again, without touching what runs', async () => {
  const { world, life } = await node();
  life.end();
  const generation = world.journal() === undefined ? '' : (world.units.get('app')?.generation ?? '');
  put(world, `/var/lib/kubenode/components/app/${generation}`, undefined);
  const next = begin(world);
  await live(
    world,
    next,
    () => world.text('/var/lib/kubenode/components/app/current/bin')?.includes('good') === true && app(world)?.state === 'Healthy',
  );
  expect(world.effects).toEqual([]);
});

test('after a reboot units are started from what the disk says, and health counts only in the new boot', async () => {
  const { world, life } = await node();
  life.end();
  world.reboot();
  world.reachable = false;
  const next = begin(world);
  await rest(world, next);
  expect(world.units.get('app')?.running).toBe(true);
  world.reachable = true;
  next.tell();
  await live(world, next, () => app(world)?.bootID === 'boot-2');
  expect(app(world)?.state).toBe('Healthy');
});

test('an agent that is started again says nothing new when nothing is', async () => {
  const { world, life } = await node();
  life.end();
  const { status } = world.requests;
  const since = app(world)?.healthySince;
  world.ms += 3_600_000;
  const next = begin(world);
  await rest(world, next, 60_000);
  expect(world.requests.status - status).toBe(1);
  expect(app(world)?.healthySince).toBe(since);
});

test('without the API server the last desired state is gone on with', async () => {
  const world = new World();
  release(world, '1.0.0');
  world.change({ components: [entry('app', '1.0.0', 1)] });
  const life = begin(world);
  for (let steps = 0; steps < 4; steps++) await life.step();
  await live(world, life, () => world.requests.component === 1);
  life.end();
  world.reachable = false;
  const next = begin(world);
  await rest(world, next, 60_000);
  expect(world.units.get('app')?.running).toBe(true);
});

test('only what is needed is kept: what runs, what ran before, and the two last verified', async () => {
  const { world, life } = await node();
  const versions = ['1.1.0', '1.2.0', '1.3.0', '1.4.0'];
  for (const [index, version] of versions.entries()) {
    release(world, version, { spec: { probes: [], disruption: { minor: 'None' } } });
    want(world, life, [entry('app', version, index + 2)]);
    await live(world, life, () => app(world)?.version === version && app(world)?.state === 'Healthy');
  }
  await rest(world, life);
  const generations = (): number => new Set(world.disk.key().match(/components\/app\/[0-9a-f]{24}\/ ?/g)).size;
  const stored = (): number => new Set(world.disk.key().match(/store\/[0-9a-f]{64}/g)).size;
  expect([generations(), stored()]).toEqual([2, 2]);
  world.machine.status = {
    ...world.status,
    verified: ['1.4.0', '1.3.0'].map((version) => ({
      name: 'app',
      version,
      values: { color: 'blue' },
      revision: 1,
      setUID: 's',
      bootID: 'b',
      since: '',
    })),
  };
  release(world, '1.5.0', { spec: { probes: [], disruption: { minor: 'None' } } });
  want(world, life, [entry('app', '1.5.0', 9)]);
  await live(world, life, () => app(world)?.version === '1.5.0' && app(world)?.state === 'Healthy');
  await rest(world, life);
  expect([generations(), stored()]).toEqual([3, 3]);
});

test.each([
  ['an unknown template variable', { files: [{ path: '/etc/app/x', content: '{{values.missing}}' }] }, 'TemplateUnknown', 'values.missing'],
  ['a path of the agent', { files: [{ path: '/var/lib/kubenode/journal', content: '' }] }, 'PathRefused', '/var/lib/kubenode'],
  ['nothing for this platform', { platforms: [{ os: 'darwin', arch: 'arm64', artifacts: [] }] }, 'NoPlatform', 'linux/amd64'],
  ['plain http from elsewhere', { platforms: [artifact('http://example.com/x')] }, 'UrlRefused', 'https'],
  ['a probe that leaves the node', { probes: [{ name: 'p', http: { url: 'http://example.com/' } }] }, 'SpecInvalid', 'loopback'],
  ['an archive that is none', { platforms: [{ ...artifact('app-1.1.0', 'TarGz') }] }, 'ArchiveInvalid', 'gzip'],
])('%s: it is not switched to, and says why', async (_what, spec, reason, message) => {
  const { world, life } = await node();
  release(world, '1.1.0');
  const own = world.components.get('app-1.1.0') as { platforms: { artifacts: { sha256: string }[] }[] };
  const text = JSON.stringify({ ...own, ...spec }).replaceAll('SHA', own.platforms[0]?.artifacts[0]?.sha256 ?? '');
  world.components.set('app-1.1.0', JSON.parse(text) as object);
  want(world, life, [entry('app', '1.1.0', 2)]);
  await live(world, life, () => app(world)?.failed !== undefined);
  expect(app(world)).toMatchObject({
    state: 'Healthy',
    version: '1.0.0',
    failed: { revision: 2, reason, message: expect.stringContaining(message), restored: true },
  });
  expect(world.effects).toEqual([]);
});

function artifact(url: string, unpack = 'None'): object {
  return { os: 'any', arch: 'any', artifacts: [{ name: 'bin', url, sha256: 'SHA', unpack }] };
}

test.each([
  ['wrong bytes', (world: World) => world.artifacts.set('http://127.0.0.1:1/app-1.1.0', Buffer.from('something else')), 'DigestMismatch'],
  ['404', (world: World) => world.artifacts.delete('http://127.0.0.1:1/app-1.1.0'), 'ArtifactRefused'],
])('a mirror that answers with %s is asked again, and given up in the end', async (_what, break_, reason) => {
  const { world, life } = await node();
  release(world, '1.1.0');
  break_(world);
  want(world, life, [entry('app', '1.1.0', 2)]);
  await live(world, life, () => app(world)?.message !== undefined);
  expect(app(world)).toMatchObject({ state: 'Fetching', message: expect.stringContaining(reason) });
  await live(world, life, () => app(world)?.failed !== undefined);
  expect(app(world)).toMatchObject({ state: 'Healthy', version: '1.0.0', failed: { reason, restored: true } });
  expect(world.requests.artifact).toBe(6);
  expect(world.disk.key()).not.toContain('.part');
});

test('a MachineComponent that is not there yet is waited for', async () => {
  const { world, life } = await node();
  want(world, life, [entry('app', '1.1.0', 2)]);
  await rest(world, life, 600_000);
  expect(app(world)).toMatchObject({ state: 'Fetching', message: expect.stringContaining('no MachineComponent app-1.1.0') });
  release(world, '1.1.0');
  await waiting(world, life);
});

test('a folder on the way that is a symbolic link out of the root is refused, and what ran before stays', async () => {
  const { world, life } = await node();
  world.mkdir('/outside');
  world.disk.change(`${ROOT}/etc/escape`, [['escape', world.disk.add({ kind: 'link', target: '/outside' })]]);
  release(world, '1.1.0', { spec: { files: [{ path: '/etc/escape/x', content: 'x' }], probes: [], disruption: { minor: 'None' } } });
  want(world, life, [entry('app', '1.1.0', 2)]);
  await live(world, life, () => app(world)?.failed !== undefined && app(world)?.state === 'Healthy');
  expect(app(world)?.failed).toMatchObject({
    reason: 'PathRefused',
    message: expect.stringContaining('leads out of /node'),
    restored: true,
  });
  expect(world.disk.find('/outside/x', false)).toBeUndefined();
});

test('a symbolic link in the place of a file is replaced, not followed', async () => {
  const { world, life } = await node();
  put(world, '/etc/target', 'precious');
  world.disk.change(`${ROOT}/etc/app/app.conf`, [['app.conf', world.disk.add({ kind: 'link', target: '/node/etc/target' })]]);
  await live(world, life, () => world.events.some((each) => each.startsWith('DriftRepaired')));
  expect(world.text('/etc/target')).toBe('precious');
  expect(world.text('/etc/app/app.conf')).toBe('version=1.0.0 color=blue\n');
});

test('a journal that is damaged in the middle stops everything, and says so', async () => {
  const { world, life } = await node();
  want(world, life, [entry('app', '1.0.0', 2)]);
  await live(world, life, () => app(world)?.running === 2);
  life.end();
  const journal = find(world, '/var/lib/kubenode/journal');
  journal.data = Buffer.from(journal.data.toString().replace('"accept"', '"accepT"'));
  release(world, '1.1.0', { spec: { probes: [], disruption: { minor: 'None' } } });
  world.change({ components: [entry('app', '1.1.0', 3)] });
  const next = begin(world);
  await rest(world, next, 60_000);
  expect(world.status.conditions?.[0]).toMatchObject({
    status: 'False',
    reason: 'JournalDamaged',
    message: expect.stringContaining('nothing is changed'),
  });
  expect(app(world)).toMatchObject({ version: '1.0.0', running: 2 });
  expect(world.effects).toEqual([]);
});

test('while the node is held no deadline runs: what was being probed is probed afresh', async () => {
  const { world, life } = await node();
  world.mkdir(`${ROOT}/etc/kubenode`);
  release(world, '1.1.0', { program: 'bad' });
  want(world, life, [entry('app', '1.1.0', 2)]);
  await waiting(world, life);
  give(world, life, order(world, 'op'));
  await live(world, life, () => app(world)?.state === 'Probing');
  put(world, '/etc/kubenode/hold', '');
  await rest(world, life, 1_200_000);
  expect(app(world)).toMatchObject({ state: 'Probing' });
  expect(outcome(world)).toBeUndefined();
  put(world, '/etc/kubenode/hold', undefined);
  // It works by now.
  unit(world).program = 'app 1.1.0 good';
  await live(world, life, () => outcome(world) === 'Succeeded');
  expect(app(world)).toMatchObject({ version: '1.1.0', state: 'Healthy' });
});

test('a restart that does not put a unit right is reported, and not tried again', async () => {
  const { world, life } = await node();
  unit(world).hash = 'started by hand';
  await waiting(world, life);
  find(world, '/var/lib/kubenode/components/app/current/bin').data = Buffer.from('app 1.0.0 is broken');
  give(world, life, order(world, 'op'));
  await live(world, life, () => outcome(world) !== undefined);
  expect(world.status.operation).toMatchObject({ outcome: 'PermanentFailure', message: 'app: a restart did not put it right' });
  unit(world).hash = 'again by hand';
  await rest(world, life, 60_000);
  expect(app(world)?.needs).toBeUndefined();
  expect(world.effects.map((each) => each.what)).toEqual(['restart']);
});

test('a folder in the place of a file is reported and kept, and the rest goes on', async () => {
  const { world, life } = await node();
  put(world, '/etc/app/app.conf', undefined);
  world.mkdir(`${ROOT}/etc/app/app.conf`);
  put(world, '/etc/app/app.conf/precious', 'x');
  release(world, '2.0.0', { name: 'web' });
  want(world, life, [entry('app', '1.0.0', 1), entry('web', '2.0.0', 1)]);
  await live(world, life, () => world.component('web')?.state === 'Healthy');
  expect(world.text('/etc/app/app.conf/precious')).toBe('x');
  expect(world.events).toContainEqual(expect.stringContaining('RepairFailed: app: /node/etc/app/app.conf is a folder'));
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

test('when one of two fails the other is still carried out, and the operation tells which', async () => {
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

test('D3: a Machine that was made again under the same name gives this node no orders', async () => {
  const { world, life } = await node();
  release(world, '1.1.0');
  want(world, life, [entry('app', '1.1.0', 2)]);
  await waiting(world, life);
  give(world, life, order(world, 'op'));
  world.machine = { ...world.machine, metadata: { ...world.machine.metadata, uid: 'another' } };
  await rest(world, life, 120_000);
  expect(world.effects).toEqual([]);
  expect(world.requests.machine).toBeGreaterThan(1);
});

test('C5: what was read live is good for the very next step only', async () => {
  const { world, life } = await node();
  release(world, '1.1.0');
  want(world, life, [entry('app', '1.1.0', 2)]);
  await waiting(world, life);
  give(world, life, order(world, 'op'));
  // The live read finds an entry that has to be accepted first.
  world.change({ components: [entry('app', '1.1.0', 2), entry('web', '2.0.0', 1)] });
  await live(world, life, () => outcome(world) === 'Succeeded');
  expect(world.requests.machine).toBe(2);
});

test('the failure of a revision is not that of a newer one, which could not be taken in time', async () => {
  const { world, life } = await node();
  release(world, '1.1.0', { program: 'bad' });
  want(world, life, [entry('app', '1.1.0', 2)]);
  await waiting(world, life);
  give(world, life, order(world, 'op'));
  await live(world, life, () => app(world)?.state === 'Probing');
  // Nobody has this version yet.
  want(world, life, [entry('app', '1.1.1', 3)]);
  await live(world, life, () => outcome(world) !== undefined);
  expect(app(world)).toMatchObject({ revision: 3, running: 1, state: 'Fetching' });
  expect(app(world)?.failed).toBeUndefined();
  release(world, '1.1.1');
  await waiting(world, life);
});

test('after a reboot the evidence of the boot before is not that of this one', async () => {
  const { world, life } = await node();
  life.end();
  world.reboot();
  const next = begin(world);
  while (!unit(world).running) await next.step();
  unit(world).program = 'app 1.0.0 does not answer in this boot';
  await live(world, next, () => app(world)?.state === 'Unhealthy');
  expect(app(world)?.bootID).toBe('boot-1');
  expect(app(world)?.healthySince).toBeUndefined();
});

test('a folder that was deleted with its files is made again, and watched again', async () => {
  const { world, life } = await node();
  for (const round of [1, 2]) {
    put(world, '/etc/app', undefined);
    // As inotify tells it: of the folder that is gone.
    world.disk.watches.forEach((watch) => watch.onChange());
    const began = world.ms;
    await live(world, life, () => world.text('/etc/app/app.conf') !== undefined);
    expect([round, world.ms - began < 5_000]).toEqual([round, true]);
  }
  put(world, '/etc/app/app.conf', 'drift');
  await rest(world, life);
  expect(world.text('/etc/app/app.conf')).toBe('version=1.0.0 color=blue\n');
});

test('a machine that goes away is not kept by a hook that fails', async () => {
  const { world, life } = await node({ spec: { hooks: { preRemove: { command: ['hook', 'app', 'fail'] } } } });
  give(world, life, order(world, 'op', { kind: 'Delete' }));
  await live(world, life, () => outcome(world) !== undefined);
  expect(outcome(world)).toBe('Succeeded');
  expect(world.events).toContainEqual(expect.stringContaining('HookFailed: app: preRemove: exit code 1'));
  expect(world.units.size).toBe(0);
});
