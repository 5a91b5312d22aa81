import { expect, test } from 'vitest';
import { live } from '../testing/life.ts';
import { announced, app, give, node, outcome, put, rest, unit, waiting, want } from '../testing/node.ts';
import { wantedOf } from '../cell/wanted.ts';
import { entry, order, putOld, release, repair, START_MS, type World } from '../testing/world.ts';

/* Which input the agent trusts, and what it reports. */

const eventsOf = (world: World, reason: string): string[] => world.events.filter((each) => each.startsWith(`${reason}: `));
const ended = (world: World, id = 'op') => world.status.operation?.id === id && world.status.operation.state === 'Done';
const did = (world: World) => world.effects.map((each) => `${each.what} ${each.name}`.trim());

test('C5: an answer without a date begins nothing', async () => {
  const { world, life } = await announced();
  world.undated = true;
  give(world, life, order(world, 'op'));
  await rest(world, life, 120_000);
  expect(world.effects).toEqual([]);
  expect(outcome(world)).toBeUndefined();
  world.undated = false;
  await live(world, life, () => ended(world));
  expect(outcome(world)).toBe('Succeeded');
});

test('C5: what the watch brings while the Machine is read again is not undone by the answer, which is older', async () => {
  const { world, life } = await announced();
  const ordered = order(world, 'op');
  let answer: World['machine'] | undefined;
  Object.defineProperty(world, 'answer', {
    get() {
      if (answer === undefined) {
        answer = world.machine;
        world.change({ operation: { ...ordered, kind: 'Cancelled', reason: 'frozen' } });
        life.notify();
      }
      return answer;
    },
  });
  // A report would bring news of the Machine by itself.
  world.reportsLost = true;
  give(world, life, ordered);
  await rest(world, life, 120_000);
  world.reportsLost = false;
  world.change({});
  life.notify();
  await rest(world, life);
  expect(answer).toBeDefined();
  expect(world.effects).toEqual([]);
  expect(world.status.operation).toMatchObject({ id: 'op', outcome: 'Cancelled' });
});

test('C5: an API server that was away for long is asked again without the pauses of before', async () => {
  const { world, life } = await announced();
  for (const [index, version] of ['1.2.0', '1.3.0'].entries()) {
    world.reachable = index > 0;
    if (index === 0) {
      world.change({ operation: order(world, 'op') });
      life.engine.seen(wantedOf(world.machine));
      await rest(world, life, 120_000);
      expect(world.requests.machine).toBeGreaterThan(3);
      expect(world.requests.machine).toBeLessThan(31);
      world.reachable = true;
      life.notify();
      await live(world, life, () => ended(world));
    }
    release(world, version);
    want(world, life, [entry('app', version, index + 3)]);
    await waiting(world, life);
    const began = world.ms;
    give(world, life, order(world, `op-${index}`));
    await live(world, life, () => ended(world, `op-${index}`));
    expect(world.ms - began).toBeLessThan(2_500);
  }
});

test('H5: when an operation ended is reported in the time of the API server', async () => {
  const { world, life } = await announced();
  world.serverAheadMs = 100_000;
  give(world, life, order(world, 'op'));
  await live(world, life, () => ended(world));
  const finished = Date.parse(world.status.operation?.finishedAt ?? '');
  expect(Math.abs(finished - (START_MS + world.ms + 100_000))).toBeLessThanOrEqual(1_000);
});

test('a Repair that is refused is reported by its id, one that was done by what it was', async () => {
  const { world, life } = await node();
  give(world, life, repair(world, 'op', 'Reinstall'));
  await live(world, life, () => ended(world));
  give(world, life, repair(world, 'next', 'CleanDisk', { belowPercent: 99 }));
  await live(world, life, () => ended(world, 'next'));
  expect(eventsOf(world, 'RepairEnded')).toEqual([
    'RepairEnded: op: PermanentFailure: this agent knows no Repair Reinstall',
    expect.stringContaining('RepairEnded: CleanDisk below 99 % (operation next): Succeeded: '),
  ]);
  expect(world.warnings).toEqual(['RepairEnded']);
});

test('what a person should check is a Warning, what went as it should is not', async () => {
  const { world, life } = await node();
  put(world, '/etc/app/app.conf', 'drift');
  await rest(world, life);
  unit(world).running = false;
  await rest(world, life);
  expect([...world.warnings]).toEqual(['DriftFound', 'UnitStarted']);
  release(world, '1.1.0');
  want(world, life, [entry('app', '1.1.0', 2)]);
  await waiting(world, life);
  give(world, life, order(world, 'op'));
  await live(world, life, () => ended(world));
  expect(eventsOf(world, 'Switched')).toEqual(['Switched: app 1.1.0']);
  expect(world.warnings).toHaveLength(2);
  release(world, '1.2.0', { program: 'bad' });
  want(world, life, [entry('app', '1.2.0', 3)]);
  await live(world, life, () => app(world)?.revision === 3 && app(world)?.needs !== undefined);
  give(world, life, order(world, 'op-2'));
  await live(world, life, () => ended(world, 'op-2'));
  expect(eventsOf(world, 'Restored')).toEqual([
    'Restored: app revision 3: ProbesFailed: probe answers: exit code 1: app is not 1.2.0; what ran before runs again',
  ]);
  expect(world.warnings.slice(2)).toEqual(['Restored']);
  want(world, life, [entry('app', '1.1.0', 4, { action: 'Remove' })]);
  await live(world, life, () => app(world)?.revision === 4 && app(world)?.needs !== undefined);
  give(world, life, order(world, 'op-3'));
  await live(world, life, () => ended(world, 'op-3'));
  expect(eventsOf(world, 'Removed')).toEqual(['Removed: app']);
  expect(world.warnings).toHaveLength(3);
});

test('a first install that fails is reported with no running version, and no part of it as healthy', async () => {
  const { world, life } = await node();
  release(world, '2.0.0', { name: 'web', program: 'bad' });
  want(world, life, [entry('app', '1.0.0', 1), entry('web', '2.0.0', 1)]);
  await live(world, life, () => world.component('web')?.failed !== undefined);
  expect(eventsOf(world, 'Failed')).toEqual([
    expect.stringMatching(/^Failed: web revision 1: ProbesFailed: .*; nothing could be restored$/),
  ]);
  expect(world.component('web')).toMatchObject({ state: 'Failed', running: 0 });
  expect(app(world)?.state).toBe('Healthy');
});

test('what is refused before anything was done leaves what another component is at alone', async () => {
  const { world, life } = await announced({ program: 'bad' });
  give(world, life, order(world, 'op'));
  await live(world, life, () => app(world)?.state === 'Probing');
  release(world, '2.0.0', { name: 'web', spec: { files: [{ path: '/etc/web/web.conf', content: '{{nothing}}' }] } });
  want(world, life, [entry('app', '1.1.0', 2), entry('web', '2.0.0', 1)]);
  await live(world, life, () => world.component('web')?.failed !== undefined && ended(world));
  expect(app(world)).toMatchObject({ version: '1.0.0', failed: { revision: 2, restored: true } });
  expect(world.text('/etc/app/app.conf')).toBe('version=1.0.0 color=blue\n');
  expect(unit(world).running).toBe(true);
});

const reloads = { units: [{ name: 'app', exec: ['{{dir}}/bin'], reload: 'SIGHUP' }], disruption: { config: 'Reload' } };

test('the way back restarts nothing that was not restarted on the way there', async () => {
  const { world, life } = await node({ spec: reloads });
  // Runs for the generation before, since a reload was enough.
  want(world, life, [entry('app', '1.0.0', 2, { values: { color: 'red' } })]);
  await live(world, life, () => app(world)?.running === 2);
  world.effects = [];
  release(world, '1.1.0', { spec: { ...reloads, hooks: { preInstall: { command: ['hook', 'app', 'fail', 'no', 'way'] } } } });
  want(world, life, [entry('app', '1.1.0', 3)]);
  await waiting(world, life);
  give(world, life, order(world, 'op'));
  await live(world, life, () => ended(world));
  expect(app(world)).toMatchObject({
    running: 2,
    failed: { reason: 'HookFailed', message: expect.stringContaining('no way'), restored: true },
  });
  expect(did(world).filter((each) => each !== 'hook app')).toEqual([]);
  expect(world.text('/etc/app/app.conf')).toContain('color=red');
});

test('a unit that the next version lacks is stopped, a file that it lacks goes, and what both have stays where it is', async () => {
  const units = [
    { name: 'app', exec: ['{{dir}}/bin'] },
    { name: 'helper', exec: ['{{dir}}/bin', 'helper'] },
  ];
  const files = [
    { path: '/etc/app/app.conf', content: 'same' },
    { path: '/etc/app/old', content: 'old' },
  ];
  const { world, life } = await node({ spec: { units, files } });
  release(world, '1.1.0', { spec: { units: units.slice(0, 1), files: files.slice(0, 1) } });
  want(world, life, [entry('app', '1.1.0', 2)]);
  await waiting(world, life);
  give(world, life, order(world, 'op'));
  await live(world, life, () => ended(world));
  expect(did(world).filter((each) => !each.startsWith('hook'))).toEqual(['stop helper', 'restart app']);
  expect(world.text('/etc/app/old')).toBeUndefined();
  expect(world.text('/etc/app/app.conf')).toBe('same');
  expect([...world.units.keys()]).toEqual(['app']);
});

test('what a cleaning keeps: the program of the version that the agent would go back to, though it does not run', async () => {
  const program = (path: string) => ({
    units: [{ name: 'app', exec: [path] }],
    disposable: [{ path: '/var/cache/tools', olderThanSeconds: 60 }],
    probes: [],
  });
  const { world, life } = await node();
  for (const name of ['one', 'two', 'three', 'none']) putOld(world, `/var/cache/tools/${name}`, 1_000, 86_400_000);
  for (const [index, [version, path]] of Object.entries({ '1.1.0': 'one', '1.2.0': 'two', '1.3.0': 'three' }).entries()) {
    release(world, version, { spec: program(`/node/var/cache/tools/${path}`) });
    want(world, life, [entry('app', version, index + 2)]);
    await live(world, life, () => app(world)?.revision === index + 2 && app(world)?.needs !== undefined);
    give(world, life, order(world, `op-${index}`));
    await live(world, life, () => ended(world, `op-${index}`));
  }
  world.disk.capacity = world.disk.used;
  give(world, life, repair(world, 'op', 'CleanDisk', { belowPercent: 1 }));
  await live(world, life, () => ended(world));
  const left = ['one', 'two', 'three', 'none'].filter((name) => world.text(`/var/cache/tools/${name}`) !== undefined);
  expect(left).toEqual(['two', 'three']);
  expect(world.status.operation?.message).toContain('freed 2000 bytes in 2 files');
});

test('a cleaning that takes too long ends by its time, with what it has done', async () => {
  const disposable = { disposable: [{ path: '/var/cache/app', olderThanSeconds: 86_400 }] };
  const { world, life } = await node({ spec: disposable });
  for (let index = 0; index < 300; index++) putOld(world, `/var/cache/app/${index}`, 10, 2 * 86_400_000 + index);
  world.disk.capacity = world.disk.used;
  give(world, life, repair(world, 'op', 'CleanDisk', { belowPercent: 1 }));
  for (let cleaned = 0; cleaned < 3;) {
    const { step, waitUntilMs } = await life.step();
    if (step === 'clean') cleaned++;
    if (waitUntilMs !== undefined) await life.sleep(waitUntilMs);
  }
  world.ms += 599_000;
  await life.step();
  expect(ended(world)).toBe(false);
  world.ms += 3_600_000;
  await live(world, life, () => ended(world));
  expect(world.status.operation).toMatchObject({
    outcome: 'TransientFailure',
    message: expect.stringMatching(/^still at .* after \d+ minutes; freed/),
  });
});
