import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { join } from 'node:path';
import type { Clock, Log } from '../../api/ports.ts';
import { sleep, systemClock } from '../../kube/clock.ts';
import { createDurable } from '../disk/durable.ts';
import type { Durable } from '../disk/durable.ts';
import { agentError } from '../errors.ts';
import { layoutOf } from '../disk/layout.ts';
import { environmentOf } from './environment.ts';
import { nodeFiles } from './files.ts';
import { openLog, rotateLog } from './logs.ts';
import { close } from './node-fs.ts';
import { orphansOf, send, startOf } from './processes.ts';
import type { LastingUnits, UnitDefinition, ServiceStatus } from './units.ts';

/** `<root>/var/lib/kubenode/units/<name>.json`: who runs a unit. ID and start together name a process; an ID alone may be any process's. */
export interface UnitRecord {
  name: string;
  /** Also of its process group. */
  pid: number;
  startTime: string;
  invocation: string;
  hash: string;
  generation: string;
  stopTimeoutSeconds: number;
}

export type Supervisor = LastingUnits;

export interface SupervisorOptions {
  root: string;
  clock: Clock;
  log: Log;
}

/** How often units that other processes have started are checked. */
const POLL_MS = 1000;
const ROTATE_EVERY = 60;
/** After SIGKILL. */
const GONE_WITHIN_MS = 5000;

/**
 * Waits for a line on descriptor 3 and then becomes the program given as arguments. So the process exists, and is written down, before
 * the program begins; when the agent dies in between, the line never comes and it ends. A constant: nothing is inserted into it.
 */
const LAUNCHER = 'read -r go <&3 && exec 3<&- && exec "$@"';

interface Running {
  record: UnitRecord;
  running: boolean;
  exit?: string;
  /** Started by this process, which gets an event when it ends. */
  own: boolean;
}

/** The units of one root. */
interface Supervised {
  readonly root: string;
  readonly clock: Clock;
  readonly log: Log;
  readonly durable: Durable;
  readonly folder: string;
  readonly units: Map<string, Running>;
  readonly listeners: Set<() => void>;
  /** Checks so far of whether units run. */
  rounds: number;
}

/**
 * Runs services as processes that outlive the agent: each in its own session, its output in `<root>/var/log/kubenode/<unit>.log`. The
 * next agent adopts them by process ID and start time.
 */
export async function createSupervisor({ root, clock, log }: SupervisorOptions): Promise<Supervisor> {
  const units = new Map<string, Running>();
  for (const record of await loadRecords(root)) {
    units.set(record.name, { record, running: await isRunning(record), own: false });
  }
  const listeners = new Set<() => void>();
  const durable = createDurable(nodeFiles(), root);
  const supervised: Supervised = { root, clock, log, durable, folder: unitsFolder(root), units, listeners, rounds: 0 };
  let cancel = clock.setTimer(POLL_MS, poll);
  function poll(): void {
    cancel = clock.setTimer(POLL_MS, poll);
    checkUnits(supervised);
  }
  return {
    list: () => Promise.resolve([...units.values()].map(statusOf)),
    start: (definition) => start(supervised, definition),
    stop: (name) => stop(supervised, name),
    async reload(name) {
      const unit = units.get(name);
      if (unit?.running === true && (await isRunning(unit.record))) send(unit.record.pid, 'SIGHUP');
    },
    onExit(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    close: () => cancel(),
  };
}

function checkUnits(supervised: Supervised): void {
  const { root, log, units } = supervised;
  supervised.rounds++;
  for (const unit of units.values()) {
    if (unit.running && !unit.own) void isRunning(unit.record).then((running) => (running ? undefined : ended(supervised, unit)));
    if (supervised.rounds % ROTATE_EVERY === 0) {
      rotateLog(root, unit.record.name).catch((error: unknown) => log.warn({ error, unit: unit.record.name }, 'a log was not rotated'));
    }
  }
}

function ended({ log, listeners }: Supervised, unit: Running, exit?: string): void {
  if (!unit.running) return;
  unit.running = false;
  if (exit !== undefined) unit.exit = exit;
  log.info({ unit: unit.record.name, pid: unit.record.pid, exit }, 'a unit ended');
  for (const listener of listeners) listener();
}

async function start(supervised: Supervised, definition: UnitDefinition): Promise<ServiceStatus> {
  const { root, log, durable, folder, units } = supervised;
  await stop(supervised, definition.name);
  const child = await launch(root, definition);
  const { pid } = child;
  const startTime = pid === undefined ? undefined : await startOf(pid);
  const go = child.stdio[3];
  if (pid === undefined || startTime === undefined || go === null || go === undefined || !('end' in go)) {
    throw agentError('UnitFailed', `unit ${definition.name} could not be started: ${child.spawnfile} ended at once`);
  }
  const { name, hash, generation, stopTimeoutSeconds } = definition;
  const record: UnitRecord = { name, pid, startTime, invocation: randomUUID(), hash, generation, stopTimeoutSeconds };
  const unit: Running = { record, running: true, own: true };
  child.once('exit', (code, signal) => ended(supervised, unit, signal === null ? `exit code ${code}` : `signal ${signal}`));
  go.on('error', () => undefined);
  try {
    await durable.replace(join(folder, `${name}.json`), `${JSON.stringify(record)}\n`, 0o600);
  } catch (error) {
    go.destroy();
    throw error;
  }
  units.set(name, unit);
  go.end('go\n');
  child.unref();
  log.info({ unit: name, pid, exec: definition.exec }, 'a unit was started');
  return statusOf(unit);
}

async function stop({ root, clock, durable, folder, units }: Supervised, name: string): Promise<void> {
  const unit = units.get(name);
  if (unit === undefined) return;
  unit.running = false;
  await stopRecord(root, unit.record, clock);
  await durable.remove(join(folder, `${name}.json`));
  units.delete(name);
}

/** Stops every unit that was ever started for this root, by whichever agent, and forgets them. Errors: `UnitFailed`. */
export async function stopAllUnits(root: string, options: { clock?: Clock } = {}): Promise<void> {
  const files = nodeFiles();
  await Promise.all(
    (await loadRecords(root)).map(async (record) => {
      await stopRecord(root, record, options.clock ?? systemClock({ ref: true }));
      await files.unlink(join(unitsFolder(root), `${record.name}.json`));
    }),
  );
}

/** SIGTERM to the process group, SIGKILL after the unit's time. Errors: `UnitFailed` when something of it is still there. */
async function stopRecord(root: string, record: UnitRecord, clock: Clock): Promise<void> {
  const mark = `KUBENODE_ROOT=${root}`;
  const began = clock.monotonic();
  const killAfter = record.stopTimeoutSeconds * 1000;
  let sent: NodeJS.Signals | undefined;
  for (;;) {
    const leads = await isRunning(record);
    // Without its leader the group's number may be another's: only what carries our mark is ours.
    const left = leads ? [-record.pid] : await orphansOf(record.pid, mark);
    if (left.length === 0) return;
    const waited = clock.monotonic() - began;
    const signal = waited >= killAfter ? 'SIGKILL' : 'SIGTERM';
    if (sent !== signal || !leads) for (const pid of left) send(pid, signal);
    sent = signal;
    if (waited > killAfter + GONE_WITHIN_MS) {
      throw agentError('UnitFailed', `unit ${record.name} (process ${record.pid}) did not end ${GONE_WITHIN_MS / 1000} s after SIGKILL`);
    }
    await sleep(clock, leads ? 20 : 100);
  }
}

const unitsFolder = (root: string): string => join(layoutOf(root).state, 'units');

async function isRunning(record: UnitRecord): Promise<boolean> {
  return (await startOf(record.pid)) === record.startTime;
}

async function loadRecords(root: string): Promise<UnitRecord[]> {
  const files = nodeFiles();
  const records: UnitRecord[] = [];
  for (const name of await files.list(unitsFolder(root))) {
    if (!name.endsWith('.json') || name.startsWith('.')) continue;
    const bytes = await files.read(join(unitsFolder(root), name));
    try {
      if (bytes !== undefined) records.push(JSON.parse(bytes.toString()) as UnitRecord);
    } catch {
      // The agent's records are durable when they are written; a file that is no record was put there by another program.
    }
  }
  return records;
}

async function launch(root: string, unit: UnitDefinition): Promise<ChildProcess> {
  const output = await openLog(root, unit.name);
  try {
    const child = spawn('/bin/sh', ['-c', LAUNCHER, unit.name, ...unit.exec], {
      cwd: root === '' ? '/' : root,
      env: environmentOf(root, unit.environment),
      stdio: ['ignore', output, output, 'pipe'],
      detached: true,
    });
    await once(child, 'spawn');
    return child;
  } catch (cause) {
    throw agentError('UnitFailed', `unit ${unit.name} could not be started: ${cause instanceof Error ? cause.message : String(cause)}`, {
      cause,
    });
  } finally {
    await close(output);
  }
}

function statusOf({ record, running, exit }: Running): ServiceStatus {
  const { name, invocation, hash, generation } = record;
  return { name, running, invocation, hash, generation, ...(exit === undefined ? {} : { exit }) };
}
