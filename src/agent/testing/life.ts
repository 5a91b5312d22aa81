import { setImmediate as immediate } from 'node:timers/promises';
import type { Clock, Log } from '../../api/ports.ts';
import { ApiError } from '../../kube/api-error.ts';
import { seededRandom } from '../../kube/testing/clock.ts';
import type { AgentPorts } from '../context.ts';
import { createEngine } from '../engine/engine.ts';
import type { Engine } from '../engine/engine.ts';
import type { ServiceStatus, Units } from '../ports/units.ts';
import { report } from '../report/status.ts';
import type { AgentStatus } from '../report/status.ts';
import { wantedOf } from '../cell/wanted.ts';
import { runningOperation } from '../records/state.ts';
import { simulatedFiles } from './disk.ts';
import type { DiskHooks } from './disk.ts';
import { MIRROR, ROOT, START_MS } from './world.ts';
import type { Effect, SimulatedUnit, World } from './world.ts';

export interface Faults {
  disk?: DiskHooks;
  /** Called for everything that the outside can see, before and after it. */
  observe?: (what: string) => void;
}

/** One life of the agent in a world. */
export interface Life {
  engine: Engine;
  /** Steps once; reports what there is to report. Returns what was done, and until when there is nothing to do. */
  step(): Promise<{ step: string; waitUntilMs: number | undefined }>;
  /** Lets time pass until the next timer, at most until then. */
  sleep(untilMs: number): Promise<void>;
  /** The Machine was changed by others. */
  notify(): void;
  end(): void;
}

export function begin(world: World, faults: Faults = {}): Life {
  const ended = new AbortController();
  const timers = new Map<number, { at: number; fn: () => void }>();
  let timerIDs = 0;
  const clock: Clock = {
    now: () => START_MS + world.ms,
    monotonic: () => world.ms,
    setTimer(ms, fn) {
      const id = timerIDs++;
      timers.set(id, { at: world.ms + Math.max(ms, 0), fn });
      return () => timers.delete(id);
    },
  };
  const seen = (what: string): void => faults.observe?.(what);
  const record = (what: Effect['what'], name: string, generation: string): void => {
    const tx = world.journal()?.transaction;
    const transaction =
      tx === undefined ? repairOf(world) : { name: tx.name, revision: tx.revision, operation: tx.operation, back: tx.back !== undefined };
    world.effects.push({ what, name, generation, transaction });
  };
  const noLog: Log = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined };
  const busy = (): Set<number> => new Set([...world.units.values()].flatMap((unit) => (unit.running ? (unit.inode ?? []) : [])));

  const ports: AgentPorts = {
    files: simulatedFiles(world.disk, { busy, lags: faults.disk === undefined, ...faults.disk }),
    units: simulatedUnits(world, record, seen),
    network: {
      async download(url, from) {
        world.requests.artifact++;
        const bytes = world.artifacts.get(url);
        if (bytes === undefined) return { status: 404, from: 0, body: pieces(Buffer.alloc(0)) };
        return from > 0 ? { status: 206, from, body: pieces(bytes.subarray(from)) } : { status: 200, from: 0, body: pieces(bytes) };
      },
      status: async () => 200,
    },
    async runner({ argv }) {
      const [program, ...args] = argv;
      if (program === 'probe') {
        const unit = world.units.get(args[0] ?? '');
        const ok = unit?.running === true && unit.program.includes(`${args[1]} good`);
        return { ok, how: ok ? 'exit code 0' : 'exit code 1', output: ok ? '' : `${args[0]} is not ${args[1]}` };
      }
      seen(`before hook ${args.join(' ')}`);
      record('hook', args[0] ?? '', '');
      seen(`after hook ${args.join(' ')}`);
      // `fail WORDS`: prints them.
      const failed = args.indexOf('fail');
      return failed < 0
        ? { ok: true, how: 'exit code 0', output: '' }
        : { ok: false, how: 'exit code 1', output: args.slice(failed + 1).join(' ') };
    },
    host: {
      bootID: world.bootID,
      os: 'linux',
      arch: 'amd64',
      async reboot() {
        seen('before reboot');
        if (!world.rebootAsked) record('reboot', '', '');
        world.rebootAsked = true;
      },
      async keepUp() {
        world.rebootAsked = false;
      },
      async takeAgentAway() {
        seen('before takeAgentAway');
        world.takenAway++;
      },
    },
    cell: {
      async machine() {
        world.requests.machine++;
        if (!world.reachable) throw new Error('no answer');
        if (world.machineGone) throw new ApiError(404, { reason: world.machineGone });
        return { wanted: wantedOf(world.answer ?? world.machine), serverMs: world.undated ? undefined : clock.now() + world.serverAheadMs };
      },
      async component(name) {
        world.requests.component++;
        const spec = world.components.get(name);
        if (!world.reachable || spec === undefined) throw new Error(`no MachineComponent ${name}`);
        return structuredClone(spec);
      },
    },
    clock,
    random: seededRandom(1),
    log: noLog,
  };
  const engine = createEngine({
    ports,
    root: ROOT,
    node: { name: 'a', namespace: 'web', uid: world.machine.metadata.uid, providerID: 'local://a', bootstrap: '/bootstrap.json' },
    mirror: MIRROR,
    pinned: world.pinned,
    signal: ended.signal,
    happened(what) {
      world.events.push(`${what.reason}: ${what.message}`);
      if (what.type === 'Warning') world.warnings.push(what.reason);
    },
  });
  let printed: string | undefined;

  async function acknowledge(): Promise<void> {
    if (!world.reachable || world.reportsLost || world.machineGone !== undefined || !engine.settled()) return;
    const view = await engine.view();
    if (view.trouble?.reason === 'Starting') return;
    const identity = { version: '0', apiLevel: 1, bootID: world.bootID, os: 'linux', arch: 'amd64' };
    const status: AgentStatus = report(view, identity, wantedOf(world.machine), clock.now());
    const text = JSON.stringify(status);
    if (text === printed) return;
    printed = text;
    world.requests.status++;
    const resourceVersion = String(Number(world.machine.metadata.resourceVersion) + 1);
    world.machine = {
      ...world.machine,
      metadata: { ...world.machine.metadata, resourceVersion },
      status: { ...world.machine.status, ...status },
    };
    seen('after status');
    notify();
  }

  const notify = (): void => {
    if (world.reachable) engine.seen(wantedOf(world.machine));
  };
  notify();
  return {
    engine,
    notify,
    end: () => ended.abort(new Error('ended')),
    async step() {
      const result = await engine.step();
      await acknowledge();
      return result;
    },
    async sleep(untilMs) {
      const woken = engine.woken(untilMs).then(() => true);
      // What runs beside the steps gets as far as it can without time.
      const idle = (async () => {
        for (let round = 0; round < 3; round++) await immediate();
        return false;
      })();
      if (await Promise.race([woken, idle])) return;
      let next = untilMs;
      for (const timer of timers.values()) next = Math.min(next, timer.at);
      world.ms = Math.max(world.ms, next);
      for (const [id, timer] of timers) {
        if (timer.at > world.ms) continue;
        timers.delete(id);
        timer.fn();
      }
      await immediate();
    },
  };
}

/** What is done for a Repair is done for its operation. */
function repairOf(world: World): Effect['transaction'] {
  const state = world.journal();
  const running = state === undefined ? undefined : runningOperation(state);
  if (running?.task === undefined) return undefined;
  const name = running.task.action === 'RestartComponent' ? running.task.component : '';
  return { name, revision: 0, operation: running.id, back: false };
}

const statusOf = ({ name, running, invocation, hash, generation, exit }: SimulatedUnit): ServiceStatus => ({
  name,
  running,
  invocation,
  hash,
  generation,
  ...(exit === undefined ? {} : { exit }),
});

function simulatedUnits(
  world: World,
  record: (what: Effect['what'], name: string, generation: string) => void,
  seen: (what: string) => void,
): Units {
  return {
    list: async () => [...world.units.values()].map(statusOf),
    async start(definition) {
      const { name, hash, generation } = definition;
      seen(`before start ${name}`);
      const was = world.units.get(name)?.running === true;
      if (was) {
        // What ran is stopped first, and forgotten.
        record('restart', name, generation);
        world.units.delete(name);
        seen(`stopped ${name} to start it again`);
      }
      const path = definition.exec[0] ?? '';
      const id = world.disk.find(path, true);
      const inode = id === undefined ? undefined : world.disk.inodes.get(id);
      const content = inode?.kind === 'file' ? inode.data.toString() : undefined;
      const running = content !== undefined && !content.includes('crash');
      const unit: SimulatedUnit = {
        name,
        running,
        invocation: String(++world.invocations),
        hash,
        generation,
        program: content ?? '',
        inode: id,
        ...(running ? {} : { exit: content === undefined ? 'exit code 127' : 'exit code 1' }),
      };
      world.units.set(name, unit);
      if (!was) record('start', name, generation);
      seen(`after start ${name}`);
      return statusOf(unit);
    },
    async stop(name) {
      const unit = world.units.get(name);
      if (unit === undefined) return;
      seen(`before stop ${name}`);
      if (unit.running) record('stop', name, unit.generation);
      world.units.delete(name);
      seen(`after stop ${name}`);
    },
    async reload(name) {
      record('reload', name, world.units.get(name)?.generation ?? '');
    },
    onExit: () => () => undefined,
  };
}

async function* pieces(bytes: Buffer): AsyncGenerator<Uint8Array, void> {
  const half = Math.ceil(bytes.length / 2);
  if (half > 0) yield bytes.subarray(0, half);
  if (bytes.length > half) yield bytes.subarray(half);
}

/** Steps until `done` is true and there is nothing to do; `drive` is what others do while the agent rests, true when it did something. */
export async function live(
  world: World,
  life: Life,
  done: (world: World) => boolean,
  drive: (world: World) => boolean = () => false,
): Promise<void> {
  for (let steps = 0; steps < 3000; steps++) {
    const { waitUntilMs } = await life.step();
    if (waitUntilMs === undefined) continue;
    if (drive(world)) {
      life.notify();
      continue;
    }
    if (life.engine.tasks.size === 0 && done(world)) return;
    await life.sleep(waitUntilMs);
  }
  throw new Error(
    `it does not come to an end: ${JSON.stringify({ status: world.status, journal: world.journal(), units: [...world.units] }, null, 1)}`,
  );
}
