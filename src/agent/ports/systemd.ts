import { constants } from 'node:os';
import { join } from 'node:path';
import type { Clock, Log } from '../../api/ports.ts';
import { sleep } from '../../kube/clock.ts';
import { createDurable } from '../disk/durable.ts';
import type { Durable } from '../disk/durable.ts';
import { agentError } from '../errors.ts';
import { environmentOf } from './environment.ts';
import type { Files } from './files.ts';
import { startOf } from './processes.ts';
import { showUnits } from './systemctl.ts';
import type { Shown, Systemctl } from './systemctl.ts';
import { markOf, unitFileText } from './unit-file.ts';
import type { UnitMark } from './unit-file.ts';
import type { LastingUnits, UnitDefinition, ServiceStatus } from './units.ts';

export interface SystemdOptions {
  files: Files;
  systemctl: Systemctl;
  clock: Clock;
  log: Log;
  /** Where unit files of the machine's owner are. */
  folder?: string;
}

export const UNIT_FOLDER = '/etc/systemd/system';
/** How often the main processes are checked. */
const POLL_MS = 1000;
/** From the order to start until a main process is there, or is known not to come. */
const BEGINS_WITHIN_MS = 60_000;
/** More than the unit's own time. */
const STOP_SLACK_MS = 30_000;
const NAME = /^([a-z0-9]([-a-z0-9]*[a-z0-9])?)\.service$/;
const RUNNING = ['active', 'activating', 'reloading'];

/** What was seen of a unit while this process was its main one. */
interface Seen {
  pid: number;
  start: string;
  text: string;
  status: ServiceStatus;
}

/** The unit files, and how systemd is asked. */
interface SystemdFolder extends Required<SystemdOptions> {
  durable: Durable;
  wants: string;
  listeners: Set<() => void>;
  seen: Map<string, Seen>;
}

/**
 * Services as units of systemd. The file of a unit records who wrote it and for which generation, so there is no other record: what has our mark is ours, and nothing
 * else is ever written, stopped or removed. A unit is stopped before its file changes, so that what runs is always what the file defines, whenever the
 * agent is killed. Output goes to the journal.
 */
export function createSystemdUnits({ folder = UNIT_FOLDER, ...options }: SystemdOptions): LastingUnits {
  const units: SystemdFolder = {
    ...options,
    folder,
    durable: createDurable(options.files, ''),
    wants: join(folder, 'multi-user.target.wants'),
    listeners: new Set(),
    seen: new Map(),
  };
  const { clock, seen, listeners } = units;
  let cancel = clock.setTimer(POLL_MS, poll);
  function poll(): void {
    cancel = clock.setTimer(POLL_MS, poll);
    for (const [name, before] of seen) void checkMain(units, name, before);
  }
  return {
    list: () => list(units),
    start: (definition) => start(units, definition),
    stop: (name) => stop(units, name),
    reload: (name) => reload(units, name),
    onExit(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    close: () => cancel(),
  };
}

const pathOf = ({ folder }: SystemdFolder, name: string): string => join(folder, `${name}.service`);

/** undefined: there is none of ours. */
async function read(units: SystemdFolder, name: string): Promise<{ text: string; mark: UnitMark } | undefined> {
  if ((await units.files.stat(pathOf(units, name)))?.kind !== 'file') return undefined;
  const text = (await units.files.read(pathOf(units, name)))?.toString() ?? '';
  const mark = markOf(text);
  return mark === undefined ? undefined : { text, mark };
}

async function list(units: SystemdFolder): Promise<ServiceStatus[]> {
  const ours = new Map<string, { text: string; mark: UnitMark }>();
  for (const file of await units.files.list(units.folder)) {
    const name = NAME.exec(file)?.[1];
    const found = name === undefined ? undefined : await read(units, name);
    if (name !== undefined && found !== undefined) ours.set(name, found);
  }
  const statuses = new Map<string, ServiceStatus>();
  for (const [name, { text }] of ours) {
    const before = units.seen.get(name);
    // While its main process is the same, the unit has not changed, and the agent need not ask systemd.
    if (before?.text === text && (await startOf(before.pid)) === before.start) statuses.set(name, before.status);
  }
  const asked = [...ours.keys()].filter((name) => !statuses.has(name));
  const shown = await showUnits(
    units.systemctl,
    asked.map((name) => `${name}.service`),
  );
  for (const name of asked) {
    const found = ours.get(name);
    const unit = shown.get(`${name}.service`);
    if (found !== undefined && unit !== undefined) statuses.set(name, await note(units, name, found.text, found.mark, unit));
  }
  for (const name of units.seen.keys()) if (!ours.has(name)) units.seen.delete(name);
  return [...ours.keys()].flatMap((name) => statuses.get(name) ?? []);
}

async function note(units: SystemdFolder, name: string, text: string, mark: UnitMark, unit: Shown): Promise<ServiceStatus> {
  const status = statusOf(name, mark, unit, pathOf(units, name));
  const start = status.running ? await startOf(unit.mainPid) : undefined;
  // What was edited is checked each time: it may be put back, or loaded, without another process.
  if (start === undefined || status.hash !== mark.hash) units.seen.delete(name);
  else units.seen.set(name, { pid: unit.mainPid, start, text, status });
  return status;
}

async function show(units: SystemdFolder, name: string): Promise<Shown> {
  const shown = (await showUnits(units.systemctl, [`${name}.service`])).get(`${name}.service`);
  if (shown === undefined) throw agentError('UnitFailed', `systemd does not report ${name}.service`);
  return shown;
}

/** Errors: `UnitFailed` with the output of systemctl. */
async function order(units: SystemdFolder, args: readonly string[], timeoutMs?: number): Promise<void> {
  const { code, stderr, stdout } = await units.systemctl(args, timeoutMs);
  if (code !== 0)
    throw agentError('UnitFailed', `systemctl ${args.join(' ')} ended with ${code}: ${(stderr + stdout).trim().slice(0, 500)}`);
}

/** Errors: `UnitConflict`. */
async function mustBeOurs(units: SystemdFolder, name: string, shown: Shown): Promise<void> {
  const path = pathOf(units, name);
  if (shown.loadState === 'masked') {
    throw agentError('UnitConflict', `${name}.service is masked: ${shown.fragment}`, { next: `systemctl unmask ${name}.service` });
  }
  const found = await units.files.stat(path);
  const ours = found === undefined ? shown.fragment === '' || shown.fragment === path : (await read(units, name)) !== undefined;
  if (ours) return;
  const where = found === undefined ? shown.fragment : path;
  throw agentError('UnitConflict', `${name}.service belongs to another program (${where}): the agent replaces only units that it wrote`);
}

async function halt(units: SystemdFolder, name: string, stopTimeoutSeconds: number): Promise<void> {
  await order(units, ['stop', '--', `${name}.service`], stopTimeoutSeconds * 1000 + STOP_SLACK_MS);
  const { activeState, mainPid } = await show(units, name);
  if (mainPid !== 0 || !['inactive', 'failed'].includes(activeState)) {
    throw agentError('UnitFailed', `${name}.service was stopped and is ${activeState}, with process ${mainPid}`);
  }
}

async function start(units: SystemdFolder, definition: UnitDefinition): Promise<ServiceStatus> {
  const { name } = definition;
  const unit = `${name}.service`;
  const text = unitFileText(definition, environmentOf('', definition.environment));
  const before = await show(units, name);
  await mustBeOurs(units, name, before);
  units.seen.delete(name);
  const loaded = before.loadState !== 'not-found';
  if (loaded) await halt(units, name, (await read(units, name))?.mark.stopTimeoutSeconds ?? definition.stopTimeoutSeconds);
  await units.durable.replace(pathOf(units, name), text, 0o644);
  await units.durable.folder(units.wants);
  await units.durable.link(join(units.wants, unit), `../${unit}`);
  await order(units, ['daemon-reload'], 60_000);
  // A unit that failed is shown as failed until then.
  if (loaded) await units.systemctl(['reset-failed', '--', unit]);
  // Not waited for until it is ready, which may take minutes: probes find that out.
  await order(units, ['start', '--no-block', '--', unit]);
  const shown = await begun(units, name, before.invocation);
  const mark = markOf(text);
  if (mark === undefined) throw agentError('UnitFailed', `${unit} has no mark`);
  units.log.info({ unit: name, pid: shown.mainPid, invocation: shown.invocation, exec: definition.exec }, 'a unit was started');
  return await note(units, name, text, mark, shown);
}

/** Its main process is there, or has been. Errors: `UnitFailed`. */
async function begun(units: SystemdFolder, name: string, before: string): Promise<Shown> {
  const deadline = units.clock.monotonic() + BEGINS_WITHIN_MS;
  for (let waitMs = 10; ; waitMs = Math.min(2 * waitMs, 500)) {
    const shown = await show(units, name);
    const another = shown.invocation !== '' && shown.invocation !== before;
    if (another && (shown.mainPid !== 0 || shown.exitCode !== 0 || shown.activeState === 'failed')) return shown;
    if (!another && !shown.job && !RUNNING.includes(shown.activeState)) {
      throw agentError('UnitFailed', `${name}.service was not started: ${shown.loadState}, ${shown.activeState}, ${shown.result}`);
    }
    if (units.clock.monotonic() > deadline)
      throw agentError('UnitFailed', `${name}.service did not begin within ${BEGINS_WITHIN_MS / 1000} s`);
    await sleep(units.clock, waitMs);
  }
}

async function stop(units: SystemdFolder, name: string): Promise<void> {
  const unit = `${name}.service`;
  const found = await read(units, name);
  if (found === undefined) return;
  units.seen.delete(name);
  const shown = await show(units, name);
  if (shown.loadState !== 'not-found') await halt(units, name, found.mark.stopTimeoutSeconds);
  await units.durable.remove(join(units.wants, unit));
  await units.durable.remove(pathOf(units, name));
  await order(units, ['daemon-reload'], 60_000);
  await units.systemctl(['reset-failed', '--', unit]);
  units.log.info({ unit: name }, 'a unit was taken away');
}

async function checkMain(units: SystemdFolder, name: string, before: Seen): Promise<void> {
  if ((await startOf(before.pid)) === before.start || units.seen.get(name) !== before) return;
  units.seen.delete(name);
  units.log.info({ unit: name, pid: before.pid }, 'a unit ended');
  for (const listener of units.listeners) listener();
}

async function reload(units: SystemdFolder, name: string): Promise<void> {
  if ((await read(units, name)) === undefined) return;
  const { mainPid, activeState } = await show(units, name);
  if (mainPid !== 0 && RUNNING.includes(activeState))
    await order(units, ['kill', '--kill-who=main', '--signal=SIGHUP', '--', `${name}.service`]);
}

function statusOf(name: string, mark: UnitMark, unit: Shown, path: string): ServiceStatus {
  const running = unit.mainPid !== 0 && RUNNING.includes(unit.activeState);
  // What systemd has loaded is another text than the file, or the file another than the agent's: then it is not known what runs.
  const known = mark.whole && !unit.needsReload && unit.fragment === path;
  const exit = running ? undefined : exitOf(unit);
  return {
    name,
    running,
    invocation: unit.invocation,
    hash: known ? mark.hash : 'edited',
    generation: mark.generation,
    ...(exit === undefined ? {} : { exit }),
  };
}

function exitOf({ exitCode, exitStatus, result }: Shown): string | undefined {
  switch (exitCode) {
    case 0:
      return result === 'success' || result === '' ? undefined : result;
    case 1:
      return `exit code ${exitStatus}`;
    default:
      return `signal ${Object.entries(constants.signals).find(([, number]) => number === exitStatus)?.[0] ?? exitStatus}`;
  }
}
