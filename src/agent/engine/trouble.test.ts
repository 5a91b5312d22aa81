import { expect, test } from 'vitest';
import type { DiskOperation } from '../testing/disk.ts';
import { failure } from '../testing/inodes.ts';
import { begin, live } from '../testing/life.ts';
import { announced, app, find, give, node, outcome, put, rest, unit, waiting, want } from '../testing/node.ts';
import { entry, order, release, ROOT, START_MS, type World } from '../testing/world.ts';

/* What the agent does where the disk, the units or the host fail, or where the disk belongs to another machine. */

const RECEIPT = '/var/lib/kubenode/components/app/receipt.json';
const condition = (world: World) => world.status.conditions?.[0];
const eventsOf = (world: World, reason: string): string[] => world.events.filter((each) => each.startsWith(`${reason}: `));
const JOURNAL = `${ROOT}/var/lib/kubenode/journal`;

/** A disk on which one operation fails while `failing` is true. */
function failing(which: (operation: DiskOperation) => boolean, code = 'EIO') {
  const state = { on: false, at: [] as number[] };
  return {
    state,
    faults: (world: World) => ({
      disk: {
        lags: true,
        before(operation: DiskOperation) {
          if (!state.on || !which(operation)) return;
          state.at.push(world.ms);
          throw failure(code, operation.path);
        },
      },
    }),
  };
}

test('a disk that takes no journal stops all that is new, is tried ever more rarely, and is gone on with when it works again', async () => {
  const { world, life } = await node();
  life.end();
  const { state, faults } = failing(({ path }) => path.startsWith(JOURNAL));
  const next = begin(world, faults(world));
  await rest(world, next);
  state.on = true;
  release(world, '1.1.0', { spec: { probes: [], disruption: { minor: 'None' } } });
  want(world, next, [entry('app', '1.1.0', 2)]);
  await rest(world, next, 600_000);
  expect(condition(world)).toMatchObject({ status: 'False', reason: 'DiskFailing', message: expect.stringContaining('EIO') });
  expect(app(world)).toMatchObject({ version: '1.0.0', running: 1 });
  expect(world.effects).toEqual([]);
  const gaps = [...new Set(state.at)].map((at, index, all) => at - (all[index - 1] ?? at)).slice(1);
  expect(gaps[0]).toBeLessThan(3_000);
  expect(Math.max(...gaps)).toBeLessThanOrEqual(60_000);
  expect(gaps.length).toBeGreaterThan(10);
  expect(gaps.length).toBeLessThan(40);
  state.on = false;
  await live(world, next, () => app(world)?.version === '1.1.0' && app(world)?.state === 'Healthy');
  expect(condition(world)).toMatchObject({ status: 'True' });
});

test('a disk that fails under a change is read again, and the change goes on where it was, once', async () => {
  const { world, life } = await announced();
  life.end();
  const { state, faults } = failing(({ path }) => path.startsWith(JOURNAL));
  const next = begin(world, faults(world));
  await waiting(world, next);
  give(world, next, order(world, 'op'));
  await live(world, next, () => app(world)?.state === 'Probing' || outcome(world) !== undefined).catch(() => undefined);
  state.on = true;
  await rest(world, next, 30_000);
  state.on = false;
  await live(world, next, () => outcome(world) !== undefined);
  expect(outcome(world)).toBe('Succeeded');
  expect(app(world)).toMatchObject({ version: '1.1.0', running: 2 });
  expect(world.effects.filter((each) => each.what === 'restart')).toHaveLength(1);
});

test('a receipt that is damaged stops everything, reports what to do, and is written again once that was done', async () => {
  const { world, life } = await node();
  life.end();
  const receipt = find(world, RECEIPT);
  receipt.data = Buffer.from(receipt.data.toString().replace('1.0.0', '9.9.9'));
  unit(world).running = false;
  const next = begin(world);
  await rest(world, next, 60_000);
  expect(condition(world)).toMatchObject({
    reason: 'ReceiptDamaged',
    message: expect.stringMatching(/does not match its checksum; next: remove the file: the component is installed again/),
  });
  expect(world.effects).toEqual([]);
  put(world, RECEIPT, undefined);
  await live(world, next, () => world.text(RECEIPT) !== undefined && condition(world)?.status === 'True');
  expect(unit(world).running).toBe(true);
  expect(world.text(RECEIPT)).toContain('"version":"1.0.0"');
});

test('what another machine left is taken away before anything of this one is installed, and its artifacts are used', async () => {
  const { world, life } = await node();
  life.end();
  put(world, '/etc/app/other', 'of another program');
  world.machine = { ...world.machine, status: {}, spec: {}, metadata: { ...world.machine.metadata, uid: 'another-uid' } };
  world.change({});
  const next = begin(world);
  await live(world, next, () => world.journal()?.machineUID === 'another-uid');
  expect(world.events).toContain('StartedOver: the disk was another machine’s: what it had installed was taken away');
  await rest(world, next);
  expect(world.effects.map((each) => each.what)).toEqual(['stop']);
  expect(world.units.size).toBe(0);
  expect(world.text('/etc/app/app.conf')).toBeUndefined();
  expect(world.text('/etc/app/other')).toBe('of another program');
  expect(world.disk.find(`${ROOT}/var/lib/kubenode/components/app`, false)).toBeUndefined();
  expect(world.status.components ?? []).toEqual([]);
  want(world, next, [entry('app', '1.0.0', 1)]);
  await live(world, next, () => app(world)?.state === 'Healthy');
  expect(eventsOf(world, 'StartedOver')).toHaveLength(1);
});

test('the agent takes nothing away from a disk of another machine while the node is held', async () => {
  const { world, life } = await node();
  life.end();
  world.machine = { ...world.machine, status: {}, spec: {}, metadata: { ...world.machine.metadata, uid: 'another-uid' } };
  world.mkdir(`${ROOT}/etc/kubenode`);
  put(world, '/etc/kubenode/hold', '');
  const next = begin(world);
  await rest(world, next, 60_000);
  expect(world.journal()?.machineUID).toBe('machine-uid');
  expect(world.text('/etc/app/app.conf')).toBeDefined();
  expect(world.effects).toEqual([]);
});

test('what another machine left where the agent would not write stays, which is reported, and the rest goes', async () => {
  const files = [
    { path: '/etc/app/app.conf', content: 'x' },
    { path: '/etc/away/app.conf', content: 'y' },
  ];
  const { world, life } = await node({ spec: { files } });
  life.end();
  world.machine = { ...world.machine, status: {}, spec: {}, metadata: { ...world.machine.metadata, uid: 'another-uid' } };
  put(world, '/etc/away', undefined);
  world.mkdir('/outside');
  world.disk.change('/outside/app.conf', [
    ['app.conf', world.disk.add({ kind: 'file', data: Buffer.from('y'), durable: undefined, lost: false, mode: 0o644 })],
  ]);
  world.disk.change(`${ROOT}/etc/away`, [['away', world.disk.add({ kind: 'link', target: '/outside' })]]);
  const next = begin(world);
  await live(world, next, () => world.journal()?.machineUID === 'another-uid');
  expect(eventsOf(world, 'FileLeft')).toEqual([expect.stringContaining('/etc/away')]);
  expect(world.disk.find('/outside/app.conf', false)).toBeDefined();
  expect(world.text('/etc/app/app.conf')).toBeUndefined();
});

test('a unit of no component is stopped; one that does not end is reported, and tried again after a minute', async () => {
  const { world, life } = await node();
  life.end();
  let unresponsive = true;
  const tried: number[] = [];
  const next = begin(world, {
    observe(what) {
      if (what !== 'before stop stray') return;
      tried.push(world.ms);
      if (unresponsive) throw new Error('it does not end');
    },
  });
  await rest(world, next);
  world.units.set('stray', { ...unit(world), name: 'stray' });
  await rest(world, next, 200_000);
  expect(eventsOf(world, 'UnitFailed')[0]).toBe('UnitFailed: unit stray belongs to no component and does not end: it does not end');
  const gaps = tried.map((at, index) => at - (tried[index - 1] ?? at)).slice(1);
  expect(gaps.length).toBeGreaterThanOrEqual(2);
  for (const gap of gaps) expect(gap).toBeGreaterThanOrEqual(60_000);
  unresponsive = false;
  await live(world, next, () => !world.units.has('stray'));
  // Another one of that name is not waited with.
  world.units.set('stray', { ...unit(world), name: 'stray' });
  const began = world.ms;
  await live(world, next, () => !world.units.has('stray'));
  expect(world.ms - began).toBeLessThan(30_000);
  expect(unit(world).running).toBe(true);
});

test('a unit that cannot be started is reported, tried ever more rarely, and reported when it runs again', async () => {
  const { world, life } = await node();
  life.end();
  let fails = true;
  const tried: number[] = [];
  const next = begin(world, {
    observe(what) {
      if (what !== 'before start app') return;
      tried.push(world.ms);
      if (fails) throw new Error('no more processes');
    },
  });
  await rest(world, next);
  Object.assign(unit(world), { running: false, exit: 'signal SIGKILL' });
  await rest(world, next, 300_000);
  expect(eventsOf(world, 'UnitFailed')[0]).toBe('UnitFailed: app: no more processes');
  expect(eventsOf(world, 'UnitStarted')).toEqual([]);
  const gaps = tried.map((at, index) => at - (tried[index - 1] ?? at)).slice(1);
  expect(gaps[0]).toBeLessThanOrEqual(2_000);
  expect(Math.max(...gaps)).toBeGreaterThan(20_000);
  expect(Math.max(...gaps)).toBeLessThanOrEqual(61_000);
  fails = false;
  await live(world, next, () => unit(world).running);
  expect(eventsOf(world, 'UnitStarted')).toEqual(['UnitStarted: app: unit app had ended (signal SIGKILL) and was started again']);
});

test('what stayed up for long is started again at once: what was before does not count', async () => {
  const { world, life } = await node();
  const afterMs: number[] = [];
  for (let round = 0; round < 5; round++) {
    unit(world).running = false;
    const began = world.ms;
    await live(world, life, () => unit(world).running);
    afterMs.push(world.ms - began);
    await rest(world, life, 1_800_000);
  }
  for (const ms of afterMs) expect(ms).toBeLessThan(60_000);
  expect(app(world)?.state).toBe('Healthy');
  expect(eventsOf(world, 'UnitStarted')).toHaveLength(5);
});

test('a repair that fails is tried again after a minute, and keeps the other pieces from nothing', async () => {
  const files = [
    { path: '/etc/app/first', content: 'first' },
    { path: '/etc/app/second', content: 'second' },
  ];
  const { world, life } = await node({ spec: { files } });
  life.end();
  const { state, faults } = failing(({ path, what }) => what === 'rename' && path.endsWith('/first'), 'EROFS');
  const next = begin(world, faults(world));
  await rest(world, next);
  state.on = true;
  put(world, '/etc/app/first', 'x');
  put(world, '/etc/app/second', 'x');
  world.disk.notify(`${ROOT}/etc/app`);
  await rest(world, next, 200_000);
  expect(world.text('/etc/app/second')).toBe('second');
  expect(world.text('/etc/app/first')).toBe('x');
  expect(eventsOf(world, 'RepairFailed')[0]).toContain('EROFS');
  const gaps = state.at.map((at, index) => at - (state.at[index - 1] ?? at)).slice(1);
  expect(gaps.length).toBeGreaterThanOrEqual(2);
  for (const gap of gaps) expect(gap).toBeGreaterThanOrEqual(60_000);
  state.on = false;
  await live(world, next, () => world.text('/etc/app/first') === 'first');
  expect(eventsOf(world, 'DriftRepaired')).toHaveLength(1);
  expect(world.effects).toEqual([]);
});

test('a file that is put right is read again by the units that reload, and by no other', async () => {
  const units = [
    { name: 'app', exec: ['{{dir}}/bin'], reload: 'SIGHUP' },
    { name: 'helper', exec: ['{{dir}}/bin', 'helper'] },
  ];
  const { world, life } = await node({ spec: { units } });
  put(world, '/etc/app/app.conf', 'x');
  await live(world, life, () => eventsOf(world, 'DriftRepaired').length === 1);
  expect(world.effects.map((each) => `${each.what} ${each.name}`)).toEqual(['reload app']);
  put(world, '/var/lib/kubenode/components/app/current', undefined);
  await rest(world, life, 600_000);
  expect(eventsOf(world, 'DriftRepaired')).toHaveLength(2);
  expect(world.effects).toHaveLength(1);
});

test('a receipt that is gone is written again as it was', async () => {
  const { world, life } = await node();
  const before = world.text(RECEIPT);
  put(world, RECEIPT, undefined);
  await live(world, life, () => world.text(RECEIPT) !== undefined);
  expect(world.text(RECEIPT)).toBe(before);
  expect(eventsOf(world, 'DriftFound')).toEqual([expect.stringContaining('is missing or differs')]);
});

test('what is found once is reported once, and again when it comes back', async () => {
  const files = [{ path: '/etc/app/report', content: 'a', onDrift: 'Report' }];
  const { world, life } = await node({ spec: { files } });
  for (const round of [1, 2]) {
    put(world, '/etc/app/report', 'x');
    await rest(world, life, 1_300_000);
    expect(eventsOf(world, 'DriftFound')).toHaveLength(round);
    put(world, '/etc/app/report', 'a');
    find(world, '/etc/app/report').mode = 0o644;
    await rest(world, life, 1_300_000);
    expect(app(world)?.message).toBeUndefined();
  }
});

test('health that is lost and comes back is reported both times, once each', async () => {
  const { world, life } = await node();
  const { program } = unit(world);
  unit(world).program = 'broken';
  await rest(world, life, 600_000);
  expect(app(world)).toMatchObject({ state: 'Unhealthy', message: expect.stringContaining('app is not 1.0.0') });
  unit(world).program = program;
  await rest(world, life, 600_000);
  expect(app(world)?.state).toBe('Healthy');
  expect([eventsOf(world, 'Unhealthy'), eventsOf(world, 'HealthyAgain')]).toEqual([
    [expect.stringContaining('Unhealthy: app: ')],
    ['HealthyAgain: app'],
  ]);
  expect(world.effects).toEqual([]);
});

test('the agent reports nothing of a component before it knows its health, or half a minute has passed', async () => {
  const { world, life } = await node();
  life.end();
  world.reboot();
  const { status } = world.requests;
  const next = begin(world);
  await live(world, next, () => unit(world).running);
  unit(world).program = 'neither good nor bad';
  const began = world.ms;
  await live(world, next, () => world.requests.status > status);
  expect(world.ms - began).toBeLessThanOrEqual(31_000);
  expect(app(world)?.bootID).not.toBe('boot-2');
});

test.each([
  [20, 60],
  [200, 200],
])(
  'a way back that does not work is given up: with a deadline of %i s after %i s, which is reported',
  async (healthDeadlineSeconds, seconds) => {
    const { world, life } = await node({ spec: { healthDeadlineSeconds } });
    release(world, '1.1.0', { program: 'bad' });
    want(world, life, [entry('app', '1.1.0', 2)]);
    await waiting(world, life);
    life.end();
    const next = begin(world, {
      observe(what) {
        if (what === 'before start app' && world.journal()?.transaction?.back !== undefined) throw new Error('no more processes');
      },
    });
    await rest(world, next);
    give(world, next, order(world, 'op'));
    await live(world, next, () => world.journal()?.transaction?.back !== undefined || outcome(world) !== undefined).catch(() => undefined);
    const began = world.ms;
    await live(world, next, () => outcome(world) !== undefined);
    expect((world.ms - began) / 1000).toBeGreaterThanOrEqual(seconds - 31);
    expect((world.ms - began) / 1000).toBeLessThanOrEqual(seconds + 60);
    expect(app(world)?.failed).toMatchObject({
      reason: 'ProbesFailed',
      restored: false,
      message: expect.stringContaining('going back fails too: startUnits: no more processes'),
    });
  },
);

test('a restart whose unit cannot be started is tried again until its time is over, and then reports why', async () => {
  const { world, life } = await node();
  life.end();
  let tries = 0;
  const next = begin(world, {
    observe(what) {
      if (what !== 'before start app') return;
      tries++;
      throw new Error('no more processes');
    },
  });
  await rest(world, next);
  give(world, next, {
    id: 'op',
    epoch: 1,
    kind: 'Repair',
    action: 'RestartComponent',
    args: { component: 'app' },
    notAfter: new Date(START_MS + world.ms + 900_000).toISOString(),
  });
  const began = world.ms;
  await live(world, next, () => outcome(world) !== undefined);
  expect(world.status.operation).toMatchObject({ outcome: 'PermanentFailure', message: 'no more processes' });
  expect(world.ms - began).toBeGreaterThanOrEqual(20_000);
  expect(world.ms - began).toBeLessThan(22_000);
  // After 1, 2, 5 and 10 seconds.
  expect(tries).toBe(5);
});

test('a reboot that cannot be asked for is asked for each minute, and its error is part of the outcome', async () => {
  const { world, life } = await node();
  life.end();
  const asked: number[] = [];
  const next = begin(world, {
    observe(what) {
      if (what !== 'before reboot') return;
      asked.push(world.ms);
      throw new Error('shutdown is inhibited');
    },
  });
  await rest(world, next);
  give(world, next, { ...order(world, 'op'), kind: 'Repair', action: 'Reboot', components: [] });
  await live(world, next, () => outcome(world) !== undefined);
  expect(world.status.operation?.message).toBe('this node is still in boot boot-1 300 s after it was to reboot: shutdown is inhibited');
  expect(asked.map((at) => Math.round((at - (asked[0] ?? 0)) / 1000))).toEqual([0, 60, 120, 180, 240]);
  expect(eventsOf(world, 'Rebooting')).toEqual([]);
});

test('a change that reboots asks again each minute, until the node does', async () => {
  const { world, life } = await announced({ spec: { disruption: { minor: 'Reboot' } } });
  give(world, life, order(world, 'op'));
  await live(world, life, () => world.rebootAsked);
  await rest(world, life, 300_000);
  expect(eventsOf(world, 'Rebooting').length).toBeGreaterThanOrEqual(5);
  expect(eventsOf(world, 'Rebooting').length).toBeLessThanOrEqual(7);
  expect(eventsOf(world, 'Rebooting')[0]).toBe('Rebooting: for app');
  expect(outcome(world)).toBeUndefined();
});
