import { expect, test } from 'vitest';
import { contentOf } from '../../api/machine/values.ts';
import { begin, live } from '../testing/life.ts';
import { announced, app, give, node, ordered, outcome, rest, waiting, want } from '../testing/node.ts';
import { entry, order, release, World } from '../testing/world.ts';

test('a first install that disrupts no pod is carried out at once, and reported with its evidence', async () => {
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
  const { world, life } = await announced();
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
  const { world, life } = await ordered();
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

test('a MachineComponent that is not there yet is waited for', async () => {
  const { world, life } = await node();
  want(world, life, [entry('app', '1.1.0', 2)]);
  await rest(world, life, 600_000);
  expect(app(world)).toMatchObject({ state: 'Fetching', message: expect.stringContaining('no MachineComponent app-1.1.0') });
  release(world, '1.1.0');
  await waiting(world, life);
});

test('a machine that goes away is not kept by a hook that fails', async () => {
  const { world, life } = await node({ spec: { hooks: { preRemove: { command: ['hook', 'app', 'fail'] } } } });
  give(world, life, order(world, 'op', { kind: 'Delete' }));
  await live(world, life, () => outcome(world) !== undefined);
  expect(outcome(world)).toBe('Succeeded');
  expect(world.events).toContainEqual(expect.stringContaining('HookFailed: app: preRemove: exit code 1'));
  expect(world.units.size).toBe(0);
});
