import { expect, test } from 'vitest';
import { begin, live } from '../testing/life.ts';
import { app, find, give, node, outcome, put, rest, unit, waiting, want } from '../testing/node.ts';
import { entry, order, release, ROOT, World } from '../testing/world.ts';

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
  // Except for the journal, which records the repair.
  const others = (key: string): string =>
    key
      .split('\n')
      .filter((line) => !/journal|^[0-9a-f]{16} /.test(line))
      .join('\n');
  expect(others(world.disk.key())).toBe(others(before));
  expect(world.events).toEqual([expect.stringContaining(message), expect.stringContaining('DriftRepaired')]);
});

test('onDrift: what has Report is reported, what has Ignore is not checked', async () => {
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

test('a folder that was deleted with its files is made again, and watched again', async () => {
  const { world, life } = await node();
  for (const round of [1, 2]) {
    put(world, '/etc/app', undefined);
    // As inotify reports it: of the folder that is gone.
    world.disk.watches.forEach((watch) => watch.onChange(undefined));
    const began = world.ms;
    await live(world, life, () => world.text('/etc/app/app.conf') !== undefined);
    expect([round, world.ms - began < 5_000]).toEqual([round, true]);
  }
  put(world, '/etc/app/app.conf', 'drift');
  await rest(world, life);
  expect(world.text('/etc/app/app.conf')).toBe('version=1.0.0 color=blue\n');
});

test('a symbolic link instead of a file is replaced, not followed', async () => {
  const { world, life } = await node();
  put(world, '/etc/target', 'precious');
  world.disk.change(`${ROOT}/etc/app/app.conf`, [['app.conf', world.disk.add({ kind: 'link', target: '/node/etc/target' })]]);
  await live(world, life, () => world.events.some((each) => each.startsWith('DriftRepaired')));
  expect(world.events[0]).toBe('DriftFound: app: /etc/app/app.conf is a link');
  expect(world.text('/etc/target')).toBe('precious');
  expect(world.text('/etc/app/app.conf')).toBe('version=1.0.0 color=blue\n');
});

test('a folder instead of a file is reported and kept, and the rest goes on', async () => {
  const { world, life } = await node();
  put(world, '/etc/app/app.conf', undefined);
  world.mkdir(`${ROOT}/etc/app/app.conf`);
  put(world, '/etc/app/app.conf/precious', 'x');
  release(world, '2.0.0', { name: 'web' });
  want(world, life, [entry('app', '1.0.0', 1), entry('web', '2.0.0', 1)]);
  await live(world, life, () => world.component('web')?.state === 'Healthy');
  expect(world.text('/etc/app/app.conf/precious')).toBe('x');
  expect(world.events[0]).toBe('DriftFound: app: /etc/app/app.conf is a folder');
  expect(world.events).toContainEqual(expect.stringContaining('RepairFailed: app: /node/etc/app/app.conf is a folder'));
});

test('after a reboot units are started from what is on the disk, and health counts only in the new boot', async () => {
  const { world, life } = await node();
  life.end();
  world.reboot();
  world.reachable = false;
  const next = begin(world);
  await rest(world, next);
  expect(world.units.get('app')?.running).toBe(true);
  world.reachable = true;
  next.notify();
  await live(world, next, () => app(world)?.bootID === 'boot-2');
  expect(app(world)?.state).toBe('Healthy');
});

test('after a reboot the evidence of the boot before does not count for this one', async () => {
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

test('an agent that is started again reports nothing new when nothing changed', async () => {
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

test('what was unhealthy meanwhile is healthy only since it is again, though that was not reported', async () => {
  const { world, life } = await node();
  const before = Date.parse(app(world)?.healthySince ?? '');
  world.reportsLost = true;
  const { program } = unit(world);
  unit(world).program = 'broken';
  await rest(world, life, 400_000);
  expect(world.events.some((each) => each.startsWith('Unhealthy'))).toBe(true);
  unit(world).program = program;
  await rest(world, life, 400_000);
  world.reportsLost = false;
  world.change({});
  life.notify();
  await rest(world, life);
  expect(app(world)?.state).toBe('Healthy');
  expect(Date.parse(app(world)?.healthySince ?? '') - before).toBeGreaterThan(300_000);
});
