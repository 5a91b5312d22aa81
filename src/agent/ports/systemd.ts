import { constants } from 'node:os';
import { join } from 'node:path';
import type { Clock, Log } from '../../api/ports.ts';
import { sleep } from '../../kube/clock.ts';
import { createDurable } from '../disk/durable.ts';
import { agentError } from '../errors.ts';
import { environmentOf } from './environment.ts';
import type { Files } from './files.ts';
import { startOf } from './processes.ts';
import { showUnits } from './systemctl.ts';
import type { Shown, Systemctl } from './systemctl.ts';
import { markOf, unitFileText } from './unit-file.ts';
import type { UnitMark } from './unit-file.ts';
import type { LastingUnits, UnitDefinition, UnitStatus } from './units.ts';

export interface SystemdOptions {
  files: Files;
  systemctl: Systemctl;
  clock: Clock;
  log: Log;
  /** Where unit files of the machine's owner are. */
  folder?: string;
}

export const UNIT_FOLDER = '/etc/systemd/system';
/** How often the main processes are looked after. */
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
  status: UnitStatus;
}

/**
 * Services as units of systemd. The file of a unit says whose it is and what of, so there is no other record: what has our mark is ours, and nothing
 * else is ever written, stopped or removed. A unit is stopped before its file changes, so that what runs is always what the file says, whenever the
 * agent is killed. Output goes to the journal.
 */
export function createSystemdUnits({ files, systemctl, clock, log, folder = UNIT_FOLDER }: SystemdOptions): LastingUnits {
  const durable = createDurable(files, '');
  const wants = join(folder, 'multi-user.target.wants');
  const listeners = new Set<() => void>();
  const seen = new Map<string, Seen>();

  const pathOf = (name: string): string => join(folder, `${name}.service`);

  /** undefined: there is none of ours. */
  async function read(name: string): Promise<{ text: string; mark: UnitMark } | undefined> {
    if ((await files.stat(pathOf(name)))?.kind !== 'file') return undefined;
    const text = (await files.read(pathOf(name)))?.toString() ?? '';
    const mark = markOf(text);
    return mark === undefined ? undefined : { text, mark };
  }

  async function list(): Promise<UnitStatus[]> {
    const ours = new Map<string, { text: string; mark: UnitMark }>();
    for (const file of await files.list(folder)) {
      const name = NAME.exec(file)?.[1];
      const found = name === undefined ? undefined : await read(name);
      if (name !== undefined && found !== undefined) ours.set(name, found);
    }
    const statuses = new Map<string, UnitStatus>();
    for (const [name, { text }] of ours) {
      const before = seen.get(name);
      // As long as its main process is that one, nothing of it has changed, and nobody has to be asked.
      if (before?.text === text && (await startOf(before.pid)) === before.start) statuses.set(name, before.status);
    }
    const asked = [...ours.keys()].filter((name) => !statuses.has(name));
    const shown = await showUnits(
      systemctl,
      asked.map((name) => `${name}.service`),
    );
    for (const name of asked) {
      const found = ours.get(name);
      const unit = shown.get(`${name}.service`);
      if (found !== undefined && unit !== undefined) statuses.set(name, await note(name, found.text, found.mark, unit));
    }
    for (const name of seen.keys()) if (!ours.has(name)) seen.delete(name);
    return [...ours.keys()].flatMap((name) => statuses.get(name) ?? []);
  }

  async function note(name: string, text: string, mark: UnitMark, unit: Shown): Promise<UnitStatus> {
    const status = statusOf(name, mark, unit, pathOf(name));
    const start = status.running ? await startOf(unit.mainPid) : undefined;
    // What was edited is looked at each time: it may be put back, or loaded, without another process.
    if (start === undefined || status.hash !== mark.hash) seen.delete(name);
    else seen.set(name, { pid: unit.mainPid, start, text, status });
    return status;
  }

  async function show(name: string): Promise<Shown> {
    const shown = (await showUnits(systemctl, [`${name}.service`])).get(`${name}.service`);
    if (shown === undefined) throw agentError('UnitFailed', `systemd says nothing of ${name}.service`);
    return shown;
  }

  /** Errors: `UnitFailed` with what systemctl said. */
  async function order(args: readonly string[], timeoutMs?: number): Promise<void> {
    const { code, stderr, stdout } = await systemctl(args, timeoutMs);
    if (code !== 0)
      throw agentError('UnitFailed', `systemctl ${args.join(' ')} ended with ${code}: ${(stderr + stdout).trim().slice(0, 500)}`);
  }

  /** Errors: `UnitConflict`. */
  async function mustBeOurs(name: string, shown: Shown): Promise<void> {
    const path = pathOf(name);
    if (shown.loadState === 'masked') {
      throw agentError('UnitConflict', `${name}.service is masked: ${shown.fragment}`, { next: `systemctl unmask ${name}.service` });
    }
    const found = await files.stat(path);
    const ours = found === undefined ? shown.fragment === '' || shown.fragment === path : (await read(name)) !== undefined;
    if (ours) return;
    const where = found === undefined ? shown.fragment : path;
    throw agentError('UnitConflict', `${name}.service is somebody else's (${where}): the agent replaces only units that it wrote`);
  }

  async function halt(name: string, stopTimeoutSeconds: number): Promise<void> {
    await order(['stop', '--', `${name}.service`], stopTimeoutSeconds * 1000 + STOP_SLACK_MS);
    const { activeState, mainPid } = await show(name);
    if (mainPid !== 0 || !['inactive', 'failed'].includes(activeState)) {
      throw agentError('UnitFailed', `${name}.service was stopped and is ${activeState}, with process ${mainPid}`);
    }
  }

  async function start(definition: UnitDefinition): Promise<UnitStatus> {
    const { name } = definition;
    const unit = `${name}.service`;
    const text = unitFileText(definition, environmentOf('', definition.environment));
    const before = await show(name);
    await mustBeOurs(name, before);
    seen.delete(name);
    const loaded = before.loadState !== 'not-found';
    if (loaded) await halt(name, (await read(name))?.mark.stopTimeoutSeconds ?? definition.stopTimeoutSeconds);
    await durable.replace(pathOf(name), text, 0o644);
    await durable.folder(wants);
    await durable.link(join(wants, unit), `../${unit}`);
    await order(['daemon-reload'], 60_000);
    // A unit that failed says so until then.
    if (loaded) await systemctl(['reset-failed', '--', unit]);
    // Not waited for until it is ready, which may take minutes: that is for probes to tell.
    await order(['start', '--no-block', '--', unit]);
    const shown = await begun(name, before.invocation);
    const mark = markOf(text);
    if (mark === undefined) throw agentError('UnitFailed', `${unit} has no mark`);
    log.info({ unit: name, pid: shown.mainPid, invocation: shown.invocation, exec: definition.exec }, 'a unit was started');
    return await note(name, text, mark, shown);
  }

  /** Its main process is there, or has been. Errors: `UnitFailed`. */
  async function begun(name: string, before: string): Promise<Shown> {
    const deadline = clock.monotonic() + BEGINS_WITHIN_MS;
    for (let waitMs = 10; ; waitMs = Math.min(2 * waitMs, 500)) {
      const shown = await show(name);
      const another = shown.invocation !== '' && shown.invocation !== before;
      if (another && (shown.mainPid !== 0 || shown.exitCode !== 0 || shown.activeState === 'failed')) return shown;
      if (!another && !shown.job && !RUNNING.includes(shown.activeState)) {
        throw agentError('UnitFailed', `${name}.service was not started: ${shown.loadState}, ${shown.activeState}, ${shown.result}`);
      }
      if (clock.monotonic() > deadline) throw agentError('UnitFailed', `${name}.service did not begin within ${BEGINS_WITHIN_MS / 1000} s`);
      await sleep(clock, waitMs);
    }
  }

  async function stop(name: string): Promise<void> {
    const unit = `${name}.service`;
    const found = await read(name);
    if (found === undefined) return;
    seen.delete(name);
    const shown = await show(name);
    if (shown.loadState !== 'not-found') await halt(name, found.mark.stopTimeoutSeconds);
    await durable.remove(join(wants, unit));
    await durable.remove(pathOf(name));
    await order(['daemon-reload'], 60_000);
    await systemctl(['reset-failed', '--', unit]);
    log.info({ unit: name }, 'a unit was taken away');
  }

  let cancel = clock.setTimer(POLL_MS, poll);
  function poll(): void {
    cancel = clock.setTimer(POLL_MS, poll);
    for (const [name, before] of seen) void look(name, before);
  }
  async function look(name: string, before: Seen): Promise<void> {
    if ((await startOf(before.pid)) === before.start || seen.get(name) !== before) return;
    seen.delete(name);
    log.info({ unit: name, pid: before.pid }, 'a unit ended');
    for (const listener of listeners) listener();
  }

  return {
    list,
    start,
    stop,
    async reload(name) {
      if ((await read(name)) === undefined) return;
      const { mainPid, activeState } = await show(name);
      if (mainPid !== 0 && RUNNING.includes(activeState))
        await order(['kill', '--kill-who=main', '--signal=SIGHUP', '--', `${name}.service`]);
    },
    onExit(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    close: () => cancel(),
  };
}

function statusOf(name: string, mark: UnitMark, unit: Shown, path: string): UnitStatus {
  const running = unit.mainPid !== 0 && RUNNING.includes(unit.activeState);
  // What systemd has loaded is another text than the file, or the file another than the agent's: then nobody knows what runs.
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
