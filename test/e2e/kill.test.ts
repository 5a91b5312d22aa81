/** kill -9 of any one process during a rollout loses nothing. Real processes, real files; about a minute. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Machine } from '../../src/api/machine.ts';
import { cloneFleet, type TourFleet } from '../../src/cli/tour/fleet.ts';
import { CELLS, startSystem, type TourSystem } from '../../src/cli/tour/system.ts';
import { until } from '../../src/cli/tour/wait.ts';

const checkout = fileURLToPath(new URL('../..', import.meta.url));
const RUNTIME = 'local-runtime';
const MACHINES = 7;
let dir: string;
let fleet: TourFleet;
let system: TourSystem;

const pidOf = (name: string): number =>
  (JSON.parse(readFileSync(join(system.state, 'processes.json'), 'utf8')) as Record<string, number>)[name] ?? 0;
const agentPid = (machine: Machine): number =>
  (JSON.parse(readFileSync(join(system.root(machine), '..', 'host.json'), 'utf8')) as { agentPid: number }).agentPid;
const found = (machine: Machine) => machine.status?.components?.find((each) => each.name === RUNTIME);

async function settled(version: string): Promise<void> {
  await until(`${MACHINES} machines run ${RUNTIME} ${version}`, 300_000, async () => {
    const all = await system.allMachines();
    if (all.length !== MACHINES) return false;
    for (const { machine } of all) {
      const status = found(machine);
      if (
        machine.status?.phase !== 'Running' ||
        status?.version !== version ||
        status.state !== 'Healthy' ||
        status.running !== status.revision
      )
        return false;
      if ((await system.ask(machine, RUNTIME))?.version !== version) return false;
    }
    return true;
  });
}

async function done(commit: string): Promise<void> {
  await until('the rollout is done', 300_000, async () => (await system.rolloutOf(commit))?.status?.phase === 'Done');
}

beforeAll(async () => {
  dir = mkdtempSync(join(tmpdir(), 'kubenode-kill-'));
  fleet = await cloneFleet(checkout, join(dir, 'fleet'));
  system = await startSystem(fleet.dir, join(dir, 'state'));
  await settled('1.0.0');
}, 400_000);

afterAll(async () => {
  await system?.stop();
  rmSync(dir, { recursive: true, force: true });
}, 60_000);

/** Bumps or reverts, kills when the change is half-way out, and waits for the end. */
async function whileRollingOut(version: string, kill: () => Promise<void>): Promise<void> {
  const commit = await fleet.bump(RUNTIME, version);
  await until('the first machine has it', 60_000, async () =>
    (await system.allMachines()).some(({ machine }) => found(machine)?.version === version),
  );
  await kill();
  await settled(version);
  await done(commit);
}

describe('kill -9 in the middle of a rollout', () => {
  it('of the API server loses nothing', async () => {
    await whileRollingOut('1.0.1', async () => void process.kill(pidOf('server'), 'SIGKILL'));
  }, 400_000);

  it('of the hub controllers loses nothing', async () => {
    await whileRollingOut('1.1.0', async () => void process.kill(pidOf('hub'), 'SIGKILL'));
  }, 400_000);

  it('of a cell’s controllers loses nothing', async () => {
    await whileRollingOut('1.0.1', async () => {
      for (const cell of CELLS) process.kill(pidOf(`cell-${cell}`), 'SIGKILL');
    });
  }, 400_000);

  it('of agents loses nothing, and their services go on meanwhile', async () => {
    await whileRollingOut('1.1.0', async () => {
      for (const { machine } of await system.allMachines()) {
        process.kill(agentPid(machine), 'SIGKILL');
        expect(await system.ask(machine, 'local-detector')).toBeDefined();
      }
    });
  }, 400_000);

  it('of everything at once loses nothing: the next start goes on', async () => {
    await whileRollingOut('1.0.1', async () => {
      process.kill(pidOf('start'), 'SIGKILL');
      await system.stop();
      system = await startSystem(fleet.dir, system.state);
    });
  }, 400_000);
});

it('leaves no process behind after it was stopped', async () => {
  await system.stop();
  const left = execFileSync('ps', ['-eo', 'pid,args'], { encoding: 'utf8' })
    .split('\n')
    .filter((line) => line.includes(system.state));
  expect(left).toEqual([]);
}, 60_000);
