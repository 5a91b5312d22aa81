import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, existsSync, mkdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { systemClock } from '../../kube/clock.ts';
import { recordingLog } from '../../kube/testing/log.ts';
import { waitFor } from '../../kube/testing/wait-for.ts';
import { logPath, openLog, rotateLog } from './logs.ts';
import { unitsConformance } from '../testing/units-conformance.ts';
import { close } from './node-fs.ts';
import { send, startOf } from './processes.ts';
import { createSupervisor, stopAllUnits } from './supervisor.ts';
import type { Supervisor, UnitRecord } from './supervisor.ts';
import type { UnitDefinition } from './units.ts';

let root: string;
const supervisors: Supervisor[] = [];

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'kubenode-units-'));
});

afterEach(async () => {
  for (const supervisor of supervisors.splice(0)) supervisor.close();
  await stopAllUnits(root);
  rmSync(root, { recursive: true });
});

async function supervise(): Promise<Supervisor> {
  const supervisor = await createSupervisor({ root, clock: systemClock(), log: recordingLog() });
  supervisors.push(supervisor);
  return supervisor;
}

const shell = (script: string, rest: Partial<UnitDefinition> = {}): UnitDefinition => ({
  name: 'app',
  exec: ['/bin/sh', '-c', script],
  environment: {},
  stopTimeoutSeconds: 5,
  hash: 'h1',
  generation: 'g1',
  ...rest,
});
const FOREVER = 'echo begun; while true; do sleep 0.05; done';

const log = (): string => (existsSync(logPath(root, 'app')) ? readFileSync(logPath(root, 'app'), 'utf8') : '');
const record = (): UnitRecord => JSON.parse(readFileSync(join(root, 'var/lib/kubenode/units/app.json'), 'utf8')) as UnitRecord;
const begun = async (): Promise<unknown> => await waitFor(() => log().includes('begun'));

unitsConformance('the supervisor', {
  open: supervise,
  folder: () => root,
  absent: 'exit code 127',
  pidOf: () => Promise.resolve(record().pid),
});

test('a unit runs in its own session, with only PATH of the agent’s environment', async () => {
  process.env['KUBENODE_SECRET'] = 'secret';
  const units = await supervise();
  const status = await units.start(shell('echo begun; env; exec sleep 60', { environment: { OWN: 'value' } }));
  delete process.env['KUBENODE_SECRET'];
  expect(status).toMatchObject({ name: 'app', running: true, hash: 'h1', generation: 'g1' });
  await waitFor(() => log().includes('OWN=value'));
  expect(log()).toContain(`KUBENODE_ROOT=${root}`);
  expect(log()).toContain(`PWD=${root}`);
  expect(log()).not.toContain('secret');
  expect(log()).not.toContain('HOME=');
  expect(await startOf(record().pid)).toBe(record().startTime);
});

test('a process with the ID of a unit that is gone is no unit, and is left alone', async () => {
  const stranger = spawn('sleep', ['60'], { detached: true });
  try {
    const folder = join(root, 'var/lib/kubenode/units');
    mkdirSync(folder, { recursive: true });
    const taken: UnitRecord = {
      name: 'app',
      pid: stranger.pid ?? 0,
      startTime: 'another',
      invocation: 'i',
      hash: 'h',
      generation: 'g',
      stopTimeoutSeconds: 1,
    };
    writeFileSync(join(folder, 'app.json'), JSON.stringify(taken));
    const units = await supervise();
    expect((await units.list())[0]?.running).toBe(false);
    await units.reload('app');
    await units.stop('app');
    expect(await units.list()).toEqual([]);
    expect(send(stranger.pid ?? 0, 0)).toBe(true);
  } finally {
    stranger.kill('SIGKILL');
  }
});

test('a unit that ends by itself is reported at once, with how it ended', async () => {
  const units = await supervise();
  let exits = 0;
  units.onExit(() => exits++);
  await units.start(shell('exit 3'));
  await waitFor(() => exits === 1);
  expect(await units.list()).toMatchObject([{ running: false, exit: 'exit code 3' }]);
});

test('a program that is not there ends its unit; it has no other effect', async () => {
  const units = await supervise();
  await units.start(shell('', { exec: ['/no/such/program'] }));
  await waitFor(async () => (await units.list())[0]?.exit === 'exit code 127');
  expect(log()).toContain('/no/such/program');
});

test('a launcher whose agent died before it was written down never becomes the program', async () => {
  // As the supervisor does it, up to where an agent may be killed: the line is never sent.
  const launcher = spawn('/bin/sh', ['-c', 'read -r go <&3 && exec 3<&- && exec "$@"', 'app', '/bin/sh', '-c', `echo ran > ${root}/ran`], {
    stdio: ['ignore', 'ignore', 'ignore', 'pipe'],
  });
  const ended = new Promise((resolve) => launcher.once('exit', resolve));
  (launcher.stdio[3] as { destroy(): void }).destroy();
  await ended;
  expect(existsSync(join(root, 'ran'))).toBe(false);
});

test('all units of a root are stopped without their agent', async () => {
  const units = await supervise();
  await units.start(shell(FOREVER));
  await begun();
  const { pid } = record();
  units.close();
  await stopAllUnits(root);
  expect(await startOf(pid)).toBeUndefined();
  expect(existsSync(join(root, 'var/lib/kubenode/units/app.json'))).toBe(false);
});

test('a log is rotated under a unit that goes on writing', async () => {
  const file = await openLog(root, 'app');
  await close(file);
  const units = await supervise();
  await units.start(shell('i=0; while true; do i=$((i+1)); echo line $i; sleep 0.01; done'));
  await waitFor(() => log().includes('line 5'));
  expect(await rotateLog(root, 'app', 10_000_000)).toBe(false);
  expect(await rotateLog(root, 'app', 10)).toBe(true);
  expect(readFileSync(`${logPath(root, 'app')}.1`, 'utf8')).toMatch(/^line 1\n/);
  await waitFor(() => log().includes('line'));
  // At its new end, not after a hole where the file was cut.
  expect(log()).toMatch(/^line [0-9]+\n/);
  expect(statSync(logPath(root, 'app')).size).toBeLessThan(5000);
});
