import { spawn, type ChildProcess } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { Clock } from '../../api/ports.ts';
import { systemClock } from '../../kube/clock.ts';
import { recordingLog } from '../../kube/testing/log.ts';
import { waitFor } from '../../kube/testing/wait-for.ts';
import { shellUnit } from '../testing/units-conformance.ts';
import { nodeFiles } from './files.ts';
import { startOf } from './processes.ts';
import { createSystemdUnits } from './systemd.ts';
import { systemHost } from './system-host.ts';
import { markOf } from './unit-file.ts';
import type { LastingUnits } from './units.ts';

/*
 * What the agent makes of the output of systemctl, also where that is strange. That systemd itself does as it is understood here, and all of the conformance
 * of units, runs on machines with systemd (test/nodes).
 */

interface Manager {
  /** Properties of units, as `systemctl show` prints them. */
  units: Map<string, Record<string, string>>;
  calls: string[];
  timeouts: (number | undefined)[];
  /** Orders that fail, with their output. */
  fails: Map<string, string>;
  /** What a unit is after its start. */
  started: (name: string) => Record<string, string>;
  /** Of the file, when the unit was stopped. */
  textAtStop: string[];
}

let folder = '';
let manager: Manager;
let processes: ChildProcess[] = [];
let opened: LastingUnits[] = [];
const UNIT = 'app.service';
const file = (): string => join(folder, UNIT);
const ABSENT = { LoadState: 'not-found', ActiveState: 'inactive', MainPID: '0', InvocationID: '', FragmentPath: '', Result: 'success' };

function mainProcess(): string {
  const child = spawn('/bin/sleep', ['1000'], { stdio: 'ignore' });
  processes.push(child);
  return String(child.pid);
}

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'kubenode-systemd-'));
  let invocations = 0;
  manager = {
    units: new Map(),
    calls: [],
    timeouts: [],
    fails: new Map(),
    textAtStop: [],
    started: () => ({ ActiveState: 'active', MainPID: mainProcess(), InvocationID: `i${++invocations}` }),
  };
});
afterEach(() => {
  for (const each of opened.splice(0)) each.close();
  for (const child of processes.splice(0)) child.kill('SIGKILL');
  rmSync(folder, { recursive: true });
});

const is = (properties: Record<string, string>, name = UNIT): void =>
  void manager.units.set(name, {
    ...ABSENT,
    LoadState: 'loaded',
    FragmentPath: join(folder, name),
    ...manager.units.get(name),
    ...properties,
  });

async function systemctl(args: readonly string[], timeoutMs?: number): Promise<{ code: number; stdout: string; stderr: string }> {
  const names = args.slice(args.indexOf('--') + 1);
  const [verb = ''] = args;
  // Who does not wait for an order is overtaken by the next.
  for (let turn = 0; turn < (['show', 'start'].includes(verb) ? 0 : 5); turn++) await new Promise((done) => setImmediate(done));
  manager.calls.push(args.filter((each) => !each.startsWith('--property=') && each !== '--').join(' '));
  manager.timeouts.push(timeoutMs);
  const failure = manager.fails.get(verb);
  if (failure !== undefined) return await Promise.resolve({ code: 5, stdout: 'and more', stderr: ` ${failure}\n` });
  for (const name of names) {
    if (verb === 'stop') {
      manager.textAtStop.push(existsSync(join(folder, name)) ? readFileSync(join(folder, name), 'utf8') : '');
      is({ ActiveState: 'inactive', MainPID: '0' }, name);
    }
    if (verb === 'start') is(manager.started(name), name);
  }
  const blocks = verb === 'show' ? names.map((name) => Object.entries({ Id: name, ...(manager.units.get(name) ?? ABSENT) })) : [];
  return { code: 0, stdout: blocks.map((block) => block.map((pair) => pair.join('=')).join('\n')).join('\n\n'), stderr: '' };
}

/** Time that passes only in pauses, at once. */
function hasty(): Clock & { passed: () => number } {
  let nowMs = 0;
  return {
    now: () => nowMs,
    monotonic: () => nowMs,
    setTimer(ms, fn) {
      if (ms >= 1000) return () => undefined;
      const timer = setImmediate(() => {
        nowMs += ms;
        fn();
      });
      return () => clearImmediate(timer);
    },
    passed: () => nowMs,
  };
}

function open(clock: Clock = systemClock()): LastingUnits {
  const units = createSystemdUnits({ files: nodeFiles(), systemctl, clock, log: recordingLog(), folder });
  opened.push(units);
  return units;
}

test('a first start writes the file, links it for the boot, loads it, and does not wait until it is ready', async () => {
  const units = open();
  const status = await units.start(shellUnit('x', { generation: 'g7' }));
  expect(status).toEqual({ name: 'app', running: true, invocation: 'i1', hash: 'h1', generation: 'g7' });
  expect(manager.calls).toEqual([`show ${UNIT}`, 'daemon-reload', `start --no-block ${UNIT}`, `show ${UNIT}`]);
  expect(markOf(readFileSync(file(), 'utf8'))).toMatchObject({ hash: 'h1', generation: 'g7', stopTimeoutSeconds: 5, whole: true });
  expect(statSync(file()).mode & 0o777).toBe(0o644);
  expect(readlinkSync(join(folder, 'multi-user.target.wants', UNIT))).toBe(`../${UNIT}`);
  expect(await units.list()).toEqual([status]);
});

test('a unit that is loaded is stopped before its file changes, with the time that it was written with', async () => {
  const units = open();
  await units.start(shellUnit('first', { stopTimeoutSeconds: 7 }));
  manager.calls = [];
  manager.timeouts = [];
  const status = await units.start(shellUnit('second', { stopTimeoutSeconds: 90, hash: 'h2' }));
  expect(manager.calls).toEqual([
    `show ${UNIT}`,
    `stop ${UNIT}`,
    `show ${UNIT}`,
    'daemon-reload',
    `reset-failed ${UNIT}`,
    `start --no-block ${UNIT}`,
    `show ${UNIT}`,
  ]);
  expect(manager.timeouts[1]).toBe(37_000);
  expect(manager.textAtStop[0]).toContain('first');
  expect(readFileSync(file(), 'utf8')).toContain('second');
  expect(status).toMatchObject({ invocation: 'i2', hash: 'h2' });
});

test('systemd is not asked about a unit while its main process lives and its file is as it was; a next agent asks once', async () => {
  const units = open();
  await units.start(shellUnit('x'));
  manager.calls = [];
  for (let turn = 0; turn < 3; turn++) expect((await units.list())[0]).toMatchObject({ running: true });
  expect(manager.calls).toEqual([]);
  const next = open();
  expect(await next.list()).toEqual(await units.list());
  await next.list();
  expect(manager.calls).toEqual([`show ${UNIT}`]);
  writeFileSync(file(), readFileSync(file(), 'utf8').replace('ExecStart=', 'ExecStart=-'));
  for (const calls of [2, 3]) {
    expect((await next.list())[0]).toMatchObject({ hash: 'edited', running: true });
    expect(manager.calls).toHaveLength(calls);
  }
});

test.each([
  ['that it has another text than the file', { NeedDaemonReload: 'yes' }],
  ['that it read it elsewhere', { FragmentPath: '/run/systemd/transient/app.service' }],
])('where systemd reports %s, it is not known what runs', async (_what, properties) => {
  const units = open();
  await units.start(shellUnit('x'));
  is(properties);
  const next = open();
  expect(await next.list()).toMatchObject([{ hash: 'edited', generation: 'g1' }]);
});

test.each([
  ['exit code 3', { ExecMainCode: '1', ExecMainStatus: '3', Result: 'exit-code' }],
  ['signal SIGKILL', { ExecMainCode: '2', ExecMainStatus: '9', Result: 'signal' }],
  ['signal SIGABRT', { ExecMainCode: '3', ExecMainStatus: '6', Result: 'core-dump' }],
  ['signal 99', { ExecMainCode: '2', ExecMainStatus: '99', Result: 'signal' }],
  ['oom-kill', { ExecMainCode: '0', Result: 'oom-kill' }],
  [undefined, { ExecMainCode: '0', Result: 'success' }],
  [undefined, { ExecMainCode: '0', Result: '' }],
])('a unit that ended is reported as %s', async (exit, properties) => {
  const units = open();
  await units.start(shellUnit('x'));
  is({ ...properties, ActiveState: 'failed', MainPID: '0' });
  const [status] = await open().list();
  expect(status).toMatchObject({ running: false });
  expect(status?.exit).toBe(exit);
});

test.each([
  ['activating', true],
  ['reloading', true],
  ['deactivating', false],
  ['inactive', false],
])('a unit with a main process that is %s runs: %s', async (ActiveState, running) => {
  const units = open();
  await units.start(shellUnit('x'));
  is({ ActiveState });
  expect((await open().list())[0]?.running).toBe(running);
});

test('units of another program are not listed, started, stopped or reloaded, and it is reported where they are', async () => {
  const units = open();
  writeFileSync(file(), '[Service]\nExecStart=/bin/true\n');
  is({ ActiveState: 'active', MainPID: mainProcess() });
  await expect(units.start(shellUnit('x'))).rejects.toMatchObject({ code: 'UnitConflict', message: expect.stringContaining(file()) });
  expect(await units.list()).toEqual([]);
  await units.stop('app');
  await units.reload('app');
  expect(readFileSync(file(), 'utf8')).toBe('[Service]\nExecStart=/bin/true\n');
  rmSync(file());
  is({ FragmentPath: '/lib/systemd/system/app.service' });
  await expect(units.start(shellUnit('x'))).rejects.toMatchObject({
    code: 'UnitConflict',
    message: expect.stringContaining('/lib/systemd/system/app.service'),
  });
  is({ FragmentPath: file(), LoadState: 'masked' });
  await expect(units.start(shellUnit('x'))).rejects.toMatchObject({ code: 'UnitConflict', next: `systemctl unmask ${UNIT}` });
  symlinkSync('/dev/null', file());
  is({ LoadState: 'loaded' });
  await expect(units.start(shellUnit('x'))).rejects.toMatchObject({ code: 'UnitConflict' });
  expect(readlinkSync(file())).toBe('/dev/null');
  expect(manager.calls.filter((each) => !each.startsWith('show'))).toEqual([]);
  // An alias: the unit of that name has another one.
  manager.units.set(UNIT, { ...ABSENT, Id: 'other.service' });
  rmSync(file());
  await expect(units.start(shellUnit('x'))).rejects.toMatchObject({
    code: 'UnitConflict',
    message: expect.stringContaining('another name'),
  });
});

test('a file of ours that systemd has not loaded yet is replaced, and what is not a name of a unit is passed over', async () => {
  const units = open();
  await units.start(shellUnit('x'));
  manager.units.delete(UNIT);
  for (const name of ['App.service', 'app-.service', 'app.timer', 'a b.service']) writeFileSync(join(folder, name), readFileSync(file()));
  expect((await open().list()).map(({ name }) => name)).toEqual(['app']);
  expect(await units.start(shellUnit('y'))).toMatchObject({ running: true });
});

test('what does not stop is not changed', async () => {
  const units = open();
  await units.start(shellUnit('first'));
  const pid = manager.units.get(UNIT)?.['MainPID'] ?? '';
  manager.fails.set('stop', 'Job for app.service canceled.');
  for (const act of [() => units.start(shellUnit('second')), () => units.stop('app')]) {
    await expect(act()).rejects.toMatchObject({
      code: 'UnitFailed',
      message: expect.stringContaining('systemctl stop -- app.service ended with 5: Job for app.service canceled.'),
    });
  }
  manager.fails.clear();
  for (const [ActiveState, MainPID] of [
    ['deactivating', '0'],
    ['inactive', pid],
  ] as const) {
    const showing = { ActiveState, MainPID };
    const { units: states } = manager;
    manager.units = new Map(states);
    manager.units.set = (name, value) => states.set.call(manager.units, name, { ...value, ...showing }) && manager.units;
    is({});
    await expect(units.stop('app')).rejects.toMatchObject({
      code: 'UnitFailed',
      message: `app.service was stopped and is ${ActiveState}, with process ${MainPID}`,
    });
    manager.units = states;
  }
  expect(readFileSync(file(), 'utf8')).toContain('first');
});

test('a unit that is taken away leaves nothing, and one that systemd does not know is not stopped first', async () => {
  const units = open();
  await units.start(shellUnit('x'));
  manager.calls = [];
  await units.stop('app');
  expect(manager.calls).toEqual([`show ${UNIT}`, `stop ${UNIT}`, `show ${UNIT}`, 'daemon-reload', `reset-failed ${UNIT}`]);
  expect([existsSync(file()), readdirSync(join(folder, 'multi-user.target.wants'))]).toEqual([false, []]);
  expect(await units.list()).toEqual([]);
  manager.units.delete(UNIT);
  await units.start(shellUnit('x'));
  manager.units.delete(UNIT);
  manager.calls = [];
  await units.stop('app');
  expect(manager.calls).toEqual([`show ${UNIT}`, 'daemon-reload', `reset-failed ${UNIT}`]);
});

test('one that failed before the same moment has begun, one that did not begin is an error with what systemd has of it', async () => {
  const clock = hasty();
  const units = open(clock);
  manager.started = () => ({
    ActiveState: 'failed',
    MainPID: '0',
    InvocationID: 'i',
    Result: 'exit-code',
    ExecMainCode: '1',
    ExecMainStatus: '203',
  });
  expect(await units.start(shellUnit('x'))).toMatchObject({ running: false, exit: 'exit code 203' });
  // Its former invocation is no new start.
  manager.started = () => ({ ActiveState: 'inactive', MainPID: '0', Result: 'success' });
  await expect(units.start(shellUnit('x'))).rejects.toMatchObject({
    code: 'UnitFailed',
    message: 'app.service was not started: loaded, inactive, success',
  });
});

test('what systemd is still at is waited for, up to a minute', async () => {
  const clock = hasty();
  const units = open(clock);
  manager.started = () => ({ ActiveState: 'inactive', MainPID: '0', Job: '17' });
  await expect(units.start(shellUnit('x'))).rejects.toThrow('app.service did not begin within 60 s');
  expect(clock.passed()).toBeGreaterThan(60_000);
  expect(clock.passed()).toBeLessThan(61_000);
  const shows = manager.calls.filter((each) => each.startsWith('show')).length;
  expect(shows).toBeLessThan(200);
  // It comes while it is waited for.
  manager.started = () => {
    setTimeout(() => is({ ActiveState: 'activating', MainPID: mainProcess(), InvocationID: 'late', Job: '' }), 30);
    return { ActiveState: 'inactive', MainPID: '0', Job: '18' };
  };
  expect(await open().start(shellUnit('x'))).toMatchObject({ running: true, invocation: 'late' });
});

test('an order that fails is an error with its output', async () => {
  const units = open();
  manager.fails.set('start', 'Unit dbus.service not found.');
  await expect(units.start(shellUnit('x'))).rejects.toMatchObject({
    code: 'UnitFailed',
    message: expect.stringMatching(/^systemctl start --no-block -- app.service ended with 5: Unit dbus.service not found.\s+and more$/),
  });
  manager.fails.set('show', 'Failed to connect to bus');
  await expect(units.list()).rejects.toMatchObject({ code: 'UnitFailed', message: expect.stringContaining('Failed to connect to bus') });
});

test('a reload is sent to the main process of what runs', async () => {
  const units = open();
  await units.reload('app');
  await units.start(shellUnit('x'));
  manager.calls = [];
  await units.reload('app');
  is({ ActiveState: 'deactivating' });
  await units.reload('app');
  is({ ActiveState: 'active', MainPID: '0' });
  await units.reload('app');
  expect(manager.calls.filter((each) => !each.startsWith('show'))).toEqual([`kill --kill-who=main --signal=SIGHUP ${UNIT}`]);
  is({ MainPID: mainProcess() });
  manager.fails.set('kill', 'No such process');
  await expect(units.reload('app')).rejects.toMatchObject({ code: 'UnitFailed', message: expect.stringContaining('No such process') });
});

test('listeners are notified soon of a unit that ended, once, and not of one that runs or was stopped', async () => {
  const polls: (() => void)[] = [];
  const clock = systemClock();
  const setTimer: Clock['setTimer'] = (ms, fn) => {
    if (ms < 1000) return clock.setTimer(ms, fn);
    polls.push(fn);
    return () => void polls.splice(0);
  };
  const units = open({ ...clock, monotonic: () => clock.monotonic(), now: () => clock.now(), setTimer });
  const poll = async (): Promise<void> => {
    for (const each of polls.splice(0)) each();
    // As long as the check for a process takes.
    for (let turn = 0; turn < 3; turn++) await startOf(process.pid);
  };
  let [notified, others] = [0, 0];
  units.onExit(() => void notified++);
  const cancel = units.onExit(() => void others++);
  cancel();
  const end = async (): Promise<void> => {
    const child = processes.at(-1);
    child?.kill('SIGKILL');
    await waitFor(() => child?.signalCode === 'SIGKILL', { deadlineMs: 10_000 });
  };
  await units.start(shellUnit('x'));
  for (let round = 0; round < 5; round++) await poll();
  expect(notified).toBe(0);
  await end();
  is({ ActiveState: 'failed', MainPID: '0' });
  for (const each of polls.splice(0)) each();
  await waitFor(() => notified === 1, { deadlineMs: 10_000 });
  for (let round = 0; round < 5; round++) await poll();
  expect([notified, others]).toEqual([1, 0]);
  await units.start(shellUnit('x'));
  await units.stop('app');
  await end();
  for (let round = 0; round < 5; round++) await poll();
  expect(notified).toBe(1);
  units.close();
  expect(polls).toEqual([]);
});

test.runIf(!existsSync('/run/systemd/system'))('a machine that systemd does not run is no host of this kind', async () => {
  await expect(systemHost(systemctl, systemctl)).rejects.toMatchObject({ code: 'HostUnfit' });
});
