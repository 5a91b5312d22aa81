/** Runs on a booted machine, beside its systemd. */
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, existsSync, mkdtempSync, readFileSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { nodeFiles } from '../../../src/agent/ports/files.ts';
import { nodeSystemctl } from '../../../src/agent/ports/systemctl.ts';
import { createSystemdUnits, UNIT_FOLDER } from '../../../src/agent/ports/systemd.ts';
import type { LastingUnits } from '../../../src/agent/ports/units.ts';
import { shellUnit, unitsConformance } from '../../../src/agent/testing/units-conformance.ts';
import { systemClock } from '../../../src/kube/clock.ts';
import { recordingLog } from '../../../src/kube/testing/log.ts';
import { waitFor } from '../../../src/kube/testing/wait-for.ts';

const opened: LastingUnits[] = [];
let folder = '';

const open = (): Promise<LastingUnits> => {
  const units = createSystemdUnits({ files: nodeFiles(), systemctl: nodeSystemctl, clock: systemClock(), log: recordingLog() });
  opened.push(units);
  return Promise.resolve(units);
};
const property = (name: string, unit = 'app.service'): string =>
  execFileSync('systemctl', ['show', '--value', `--property=${name}`, unit])
    .toString()
    .trim();
const pidOf = (name: string): Promise<number> => Promise.resolve(Number(property('MainPID', `${name}.service`)));
const file = join(UNIT_FOLDER, 'app.service');
const forever = 'while true; do sleep 0.05; done';

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'units-'));
});
afterEach(async () => {
  const units = await open();
  for (const { name } of await units.list()) await units.stop(name);
  for (const each of opened.splice(0)) each.close();
  for (const name of ['app.service', 'app.service.d', 'foreign.service']) rmSync(join(UNIT_FOLDER, name), { recursive: true, force: true });
  execFileSync('systemctl', ['daemon-reload']);
  rmSync(folder, { recursive: true });
});

unitsConformance('systemd', { open, folder: () => folder, absent: 'exit code 203', pidOf });

test('systemd takes every setting', async () => {
  const units = await open();
  await units.start(
    shellUnit(forever, {
      stopTimeoutSeconds: 9,
      systemd: {
        type: 'simple',
        killMode: 'mixed',
        delegate: true,
        restart: 'on-failure',
        restartSeconds: 7,
        startTimeoutSeconds: 33,
        oomScoreAdjust: -500,
        limitNOFILE: '4096',
        limitNPROC: '777',
        limitCORE: '0',
        limitMEMLOCK: 'infinity',
        tasksMax: '55',
        after: ['network.target'],
        requires: ['dbus.service'],
        wants: ['ssh.service'],
        slice: 'kube.slice',
      },
    }),
  );
  const expected = {
    Type: 'simple',
    KillMode: 'mixed',
    Delegate: 'yes',
    Restart: 'on-failure',
    RestartUSec: '7s',
    TimeoutStartUSec: '33s',
    TimeoutStopUSec: '9s',
    OOMScoreAdjust: '-500',
    LimitNOFILE: '4096',
    LimitNPROC: '777',
    LimitCORE: '0',
    LimitMEMLOCK: 'infinity',
    TasksMax: '55',
    Slice: 'kube.slice',
    UnitFileState: 'enabled',
    StartLimitIntervalUSec: '0',
  };
  expect(Object.fromEntries(Object.keys(expected).map((name) => [name, property(name)]))).toEqual(expected);
  expect(property('After')).toContain('network.target');
  expect(property('Requires')).toContain('dbus.service');
  expect(property('Wants')).toContain('ssh.service');
  // It warned of nothing.
  expect(execFileSync('systemd-analyze', ['verify', file], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] })).toBe('');
});

test('with KillMode process only the main process ends with it: what it left goes on beside the next one', async () => {
  const units = await open();
  const settings = { systemd: { killMode: 'process' as const, delegate: true } };
  await units.start(shellUnit(`sh -c '${forever}' & echo $! > ${folder}/child; ${forever}`, settings));
  const child = await waitFor(() => existsSync(`${folder}/child`) && Number(readFileSync(`${folder}/child`, 'utf8')));
  const main = await pidOf('app');
  await units.start(shellUnit(forever, { ...settings, hash: 'h2' }));
  expect(await pidOf('app')).not.toBe(main);
  process.kill(child, 0);
  process.kill(child, 'SIGKILL');
});

test('a service of type notify runs before it reports that it is ready; starting it does not wait for that', async () => {
  const units = await open();
  const began = performance.now();
  expect(await units.start(shellUnit(forever, { systemd: { type: 'notify', startTimeoutSeconds: 60 } }))).toMatchObject({ running: true });
  expect(performance.now() - began).toBeLessThan(20_000);
  expect(property('ActiveState')).toBe('activating');
});

test('what systemd starts again by itself is another invocation, and is reported', async () => {
  const units = await open();
  let exits = 0;
  units.onExit(() => exits++);
  const { invocation } = await units.start(shellUnit(forever, { systemd: { restart: 'always', restartSeconds: 0 } }));
  process.kill(await pidOf('app'), 'SIGKILL');
  await waitFor(() => exits > 0);
  await waitFor(async () => (await units.list())[0]?.running === true);
  expect((await units.list())[0]?.invocation).not.toBe(invocation);
});

test('a unit of others is neither replaced, stopped, reloaded nor listed', async () => {
  const units = await open();
  // One process: where machines have cgroups v1, systemd may notice only at the stop's timeout (90 s) that the last child has ended.
  const text = '[Service]\nExecStart=/bin/sleep infinity\n';
  writeFileSync(join(UNIT_FOLDER, 'foreign.service'), text);
  execFileSync('systemctl', ['daemon-reload']);
  execFileSync('systemctl', ['start', 'foreign.service']);
  const pid = await pidOf('foreign');
  // In /etc, in /lib, and under a second name.
  for (const name of ['foreign', 'ssh', 'sshd']) {
    await expect(units.start(shellUnit(forever, { name }))).rejects.toMatchObject({ code: 'UnitConflict' });
    await units.stop(name);
    await units.reload(name);
  }
  expect(await units.list()).toEqual([]);
  expect(await pidOf('foreign')).toBe(pid);
  expect(property('ActiveState', 'ssh.service')).toBe('active');
  expect(readFileSync(join(UNIT_FOLDER, 'foreign.service'), 'utf8')).toBe(text);
  execFileSync('systemctl', ['stop', 'foreign.service']);
});

test('a unit that is masked is an error that names what to do', async () => {
  symlinkSync('/dev/null', file);
  execFileSync('systemctl', ['daemon-reload']);
  const units = await open();
  await expect(units.start(shellUnit(forever))).rejects.toMatchObject({ code: 'UnitConflict', next: 'systemctl unmask app.service' });
});

test('a unit that needs what is not there is an error, and nothing runs', async () => {
  const units = await open();
  await expect(units.start(shellUnit(forever, { systemd: { requires: ['no-such.service'] } }))).rejects.toMatchObject({
    code: 'UnitFailed',
  });
  expect((await units.list())[0]).toMatchObject({ running: false });
});

test('a file that was edited is found by its hash, until it is as it was written', async () => {
  const units = await open();
  const started = await units.start(shellUnit(forever));
  const text = readFileSync(file, 'utf8');
  writeFileSync(file, text.replace('Restart=no', 'Restart=always'));
  expect(await units.list()).toEqual([{ ...started, hash: 'edited' }]);
  writeFileSync(file, text);
  execFileSync('systemctl', ['daemon-reload']);
  expect(await units.list()).toEqual([started]);
  rmSync(file);
  expect(await units.list()).toEqual([]);
  const again = await units.start(shellUnit(forever));
  expect(again.invocation).not.toBe(started.invocation);
  expect(readdirSync(`/proc/${await pidOf('app')}/task`)).toHaveLength(1);
});

test('after a boot it runs without its agent: it is enabled', async () => {
  const units = await open();
  await units.start(shellUnit(forever));
  expect(execFileSync('systemctl', ['is-enabled', 'app.service']).toString().trim()).toBe('enabled');
  await units.stop('app');
  expect(existsSync(join(UNIT_FOLDER, 'multi-user.target.wants/app.service'))).toBe(false);
});

/** Ends the program after so many steps: calls of systemctl, changes of the disk. Returns whether it came to its end before. */
async function killedAfter(steps: number, hash: string): Promise<boolean> {
  const child = spawn(process.execPath, [fileURLToPath(new URL('killed-start.ts', import.meta.url)), String(steps), hash], {
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  const [code, signal] = (await once(child, 'exit')) as [number | null, NodeJS.Signals | null];
  if (code !== 0 && signal !== 'SIGKILL') throw new Error(`it ended with ${code} ${signal}`);
  return code === 0;
}

test('whenever an agent is killed while it starts a unit, the next one knows what runs, and brings what is wanted', async () => {
  chmodSync(folder, 0o755);
  let points = 0;
  for (let ended = false; !ended; points++) {
    const units = await open();
    const before = await units.start(shellUnit(`echo old > ${folder}/runs; ${forever}`, { hash: 'old' }));
    ended = await killedAfter(points, 'new');
    const next = await open();
    const found = (await next.list())[0];
    if (found?.running === true) {
      const runs = readFileSync(`/proc/${await pidOf('app')}/cmdline`, 'utf8').includes('new-one') ? 'new' : 'old';
      expect([points, found.hash]).toEqual([points, runs]);
      if (runs === 'old') expect(found.invocation).toBe(before.invocation);
    }
    const after = await next.start(shellUnit('exec sleep 1000', { hash: 'new' }));
    expect(after).toMatchObject({ running: true, hash: 'new' });
    await next.stop('app');
    expect(await next.list()).toEqual([]);
  }
  process.stderr.write(`systemd: killed at ${points - 1} points of starting a unit\n`);
  expect(points).toBeGreaterThan(10);
}, 300_000);
