import { expect, test } from 'vitest';
import { begin, live } from '../testing/life.ts';
import { app, give, node, ordered, outcome, put, rest, waiting, want } from '../testing/node.ts';
import { entry, order, release, World } from '../testing/world.ts';

test('invariant 4: what fails its probes goes back to what ran before, and is not tried again until its revision changes', async () => {
  const { world, life } = await ordered({ program: 'bad' });
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
  const { world, life } = await ordered({ program: 'bad' });
  await live(world, life, () => outcome(world) !== undefined);
  want(world, life, [entry('app', '1.1.0', 3)]);
  await waiting(world, life);
  expect(app(world)).toMatchObject({ revision: 3, needs: 'Restart' });
});

test('a first install that fails stops what it started, and reports that it restored nothing', async () => {
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
  const { world, life } = await ordered({ program: 'bad' });
  await live(world, life, () => app(world)?.state === 'Probing');
  // What is started from now on does not work.
  const generation = world.journal()?.transaction?.from ?? '';
  put(world, `/var/lib/kubenode/components/app/${generation}/bin`, 'broken meanwhile');
  await live(world, life, () => outcome(world) !== undefined);
  expect(app(world)).toMatchObject({ state: 'Failed', failed: { reason: 'ProbesFailed', restored: false } });
  expect(outcome(world)).toBe('PermanentFailure');
});

test('a hook that fails before the switch leaves what runs untouched', async () => {
  const { world, life } = await ordered({ spec: { hooks: { preInstall: { command: ['hook', 'app', 'fail'] } } } });
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

test('a newer revision that is what ran before is a way back that nothing failed on', async () => {
  const { world, life } = await ordered({ program: 'bad' });
  await live(world, life, () => app(world)?.state === 'Probing');
  want(world, life, [entry('app', '1.0.0', 3)]);
  await live(world, life, () => outcome(world) !== undefined && app(world)?.state === 'Healthy');
  expect(outcome(world)).toBe('Succeeded');
  expect(app(world)).toMatchObject({ version: '1.0.0', running: 3 });
  expect(app(world)?.failed).toBeUndefined();
});

test('the failure of a revision does not count for a newer one, which could not be taken in time', async () => {
  const { world, life } = await ordered({ program: 'bad' });
  await live(world, life, () => app(world)?.state === 'Probing');
  // No store has this version yet.
  want(world, life, [entry('app', '1.1.1', 3)]);
  await live(world, life, () => outcome(world) !== undefined);
  expect(app(world)).toMatchObject({ revision: 3, running: 1, state: 'Fetching' });
  expect(app(world)?.failed).toBeUndefined();
  release(world, '1.1.1');
  await waiting(world, life);
});
