import { setImmediate as immediate } from 'node:timers/promises';
import { sha256Hex } from '../../api/digest.ts';
import type { ComponentEntry, Machine, MachineStatus, Operation } from '../../api/machine.ts';
import type { Clock, Log } from '../../api/ports.ts';
import type { Stored } from '../../api/wire.ts';
import { seededRandom } from '../../kube/testing/clock.ts';
import type { Ports } from '../context.ts';
import { createEngine } from '../engine.ts';
import type { Engine } from '../engine.ts';
import { replay } from '../journal.ts';
import { layoutOf } from '../layout.ts';
import type { UnitStatus, Units } from '../ports/units.ts';
import { report } from '../report.ts';
import type { AgentStatus } from '../report.ts';
import type { State } from '../state.ts';
import { wantedOf } from '../wanted.ts';
import { Disk, simulatedFiles } from './disk.ts';
import type { DiskHooks } from './disk.ts';

export const ROOT = '/node';
export const MIRROR = 'http://127.0.0.1:1/';
const START_MS = Date.UTC(2026, 10, 20);

/** Something that cannot be taken back, with the transaction it was done for. */
export interface Effect {
  what: 'start' | 'restart' | 'stop' | 'reload' | 'hook' | 'reboot';
  name: string;
  generation: string;
  transaction: { name: string; revision: number; operation: string | undefined; back: boolean } | undefined;
}

interface SimulatedUnit extends UnitStatus {
  /** What it read when it was started, and the file that it is. */
  program: string;
  inode: number | undefined;
}

export interface Faults {
  disk?: DiskHooks;
  /** Told of everything that the outside can see, before and after it. */
  observe?: (what: string) => void;
}

/**
 * A node and its cell, whole and in memory: disk, units, API server, time. `clone` is the same world at the same moment, so that it can
 * go on in several ways.
 */
export class World {
  disk = new Disk();
  units = new Map<string, SimulatedUnit>();
  boots = 1;
  invocations = 0;
  effects: Effect[] = [];
  ms = 1000;
  reachable = true;
  machine: Stored<Machine>;
  /** MachineComponents by object name. */
  components = new Map<string, object>();
  artifacts = new Map<string, Buffer>();
  requests = { machine: 0, component: 0, artifact: 0, status: 0 };
  rebootAsked = false;
  events: string[] = [];

  constructor() {
    this.machine = {
      apiVersion: 'kubenode.io/v1alpha1',
      kind: 'Machine',
      metadata: {
        name: 'a',
        namespace: 'web',
        uid: 'machine-uid',
        resourceVersion: '1',
        generation: 1,
        creationTimestamp: '2026-11-20T00:00:00Z',
      },
      spec: {},
    };
    for (const path of ['/node', '/node/etc', '/node/var', '/node/var/lib']) this.mkdir(path);
    this.disk.settleAll();
  }

  mkdir(path: string): void {
    this.disk.change(path, [
      [path.slice(path.lastIndexOf('/') + 1), this.disk.add({ kind: 'folder', names: new Map(), durable: new Map() })],
    ]);
  }

  clone(): World {
    const copy = new World();
    copy.disk = this.disk.clone();
    copy.units = new Map([...this.units].map(([name, unit]) => [name, { ...unit }]));
    copy.effects = [...this.effects];
    // Never changed in place.
    copy.machine = this.machine;
    copy.components = this.components;
    copy.artifacts = this.artifacts;
    copy.requests = { ...this.requests };
    copy.events = [...this.events];
    for (const key of ['boots', 'invocations', 'ms', 'reachable', 'rebootAsked'] as const) Object.assign(copy, { [key]: this[key] });
    return copy;
  }

  get bootID(): string {
    return `boot-${this.boots}`;
  }

  /** Everything that runs ends; the disk is one of those that may be found. */
  losePower(disk: Disk): void {
    this.disk = disk;
    for (const unit of this.units.values()) unit.running = false;
    this.boots++;
    this.rebootAsked = false;
  }

  /** Shuts down in order: everything is on the disk. */
  reboot(): void {
    this.disk.settleAll();
    this.disk.pending = [];
    this.losePower(this.disk);
  }

  change(spec: { components?: ComponentEntry[]; operation?: Operation; hold?: boolean; labels?: Record<string, string> }): void {
    const { metadata } = this.machine;
    this.machine = {
      ...this.machine,
      metadata: { ...metadata, generation: (metadata.generation ?? 0) + 1, resourceVersion: String(Number(metadata.resourceVersion) + 1) },
      spec: { ...this.machine.spec, ...spec },
    };
  }

  get status(): MachineStatus {
    return this.machine.status ?? {};
  }

  component(name: string): NonNullable<MachineStatus['components']>[number] | undefined {
    return this.status.components?.find((each) => each.name === name);
  }

  text(path: string): string | undefined {
    const id = this.disk.find(`${ROOT}${path}`, true);
    const inode = id === undefined ? undefined : this.disk.inodes.get(id);
    return inode?.kind === 'file' ? inode.data.toString() : undefined;
  }

  /** What the journal on this disk says. */
  journal(): State | undefined {
    const text = this.text(layoutOf('').journal);
    return text === undefined ? undefined : replay(text).state;
  }
}

/** One life of the agent in a world. */
export interface Life {
  engine: Engine;
  /** Steps once; reports what there is to report. Returns what was done, and until when there is nothing to do. */
  step(): Promise<{ step: string; waitUntilMs: number | undefined }>;
  /** Lets time pass until the next timer, at most until then. */
  sleep(untilMs: number): Promise<void>;
  /** The Machine was changed by others. */
  tell(): void;
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
      tx === undefined ? undefined : { name: tx.name, revision: tx.revision, operation: tx.operation, back: tx.back !== undefined };
    world.effects.push({ what, name, generation, transaction });
  };
  const silent: Log = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined };
  const busy = (): Set<number> => new Set([...world.units.values()].flatMap((unit) => (unit.running ? (unit.inode ?? []) : [])));

  const ports: Ports = {
    files: simulatedFiles(world.disk, { busy, ...faults.disk }),
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
      return { ok: !args.includes('fail'), how: args.includes('fail') ? 'exit code 1' : 'exit code 0', output: '' };
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
    },
    cell: {
      async machine() {
        world.requests.machine++;
        if (!world.reachable) throw new Error('no answer');
        return { wanted: wantedOf(world.machine), serverMs: clock.now() };
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
    log: silent,
  };
  const engine = createEngine({
    ports,
    root: ROOT,
    node: { name: 'a', namespace: 'web', uid: world.machine.metadata.uid, providerID: 'local://a', bootstrap: '/bootstrap.json' },
    mirror: MIRROR,
    signal: ended.signal,
    happened: (what) => world.events.push(`${what.reason}: ${what.message}`),
  });
  let said: string | undefined;

  async function acknowledge(): Promise<void> {
    if (!world.reachable || !engine.settled()) return;
    const view = await engine.view();
    if (view.trouble?.reason === 'Starting') return;
    const identity = { version: '0', apiLevel: 1, bootID: world.bootID, os: 'linux', arch: 'amd64' };
    const status: AgentStatus = report(view, identity, wantedOf(world.machine), clock.now());
    const text = JSON.stringify(status);
    if (text === said) return;
    said = text;
    world.requests.status++;
    const resourceVersion = String(Number(world.machine.metadata.resourceVersion) + 1);
    world.machine = {
      ...world.machine,
      metadata: { ...world.machine.metadata, resourceVersion },
      status: { ...world.machine.status, ...status },
    };
    seen('after status');
  }

  const tell = (): void => {
    if (world.reachable) engine.seen(wantedOf(world.machine));
  };
  tell();
  return {
    engine,
    tell,
    end: () => ended.abort(new Error('ended')),
    async step() {
      const result = await engine.step();
      await acknowledge();
      return result;
    },
    async sleep(untilMs) {
      const woken = engine.woken(untilMs).then(() => true);
      // What runs beside the steps gets as far as it can without time.
      const quiet = (async () => {
        for (let round = 0; round < 3; round++) await immediate();
        return false;
      })();
      if (await Promise.race([woken, quiet])) return;
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

const statusOf = ({ name, running, invocation, hash, generation, exit }: SimulatedUnit): UnitStatus => ({
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
      record(was ? 'restart' : 'start', name, generation);
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

export interface ReleaseOptions {
  name?: string;
  /** What its program says: `good`, `bad` (its probes fail) or `crash`. */
  program?: 'good' | 'bad' | 'crash';
  spec?: Record<string, unknown>;
}

/** Puts a version of a component into the cell: one program that is a unit, one configuration file, an exec probe, both hooks. */
export function release(world: World, version: string, { name = 'app', program = 'good', spec = {} }: ReleaseOptions = {}): void {
  const bytes = Buffer.from(`${name} ${version} ${program}, and some more text to make it longer\n`);
  const sha256 = sha256Hex(bytes);
  world.artifacts.set(`${MIRROR}${name}-${version}`, bytes);
  world.components.set(`${name}-${version}`, {
    componentName: name,
    version,
    platforms: [{ os: 'any', arch: 'any', artifacts: [{ name: 'bin', url: `${name}-${version}`, sha256 }] }],
    files: [{ path: `/etc/${name}/${name}.conf`, content: `version={{version}} color={{values.color}}\n`, mode: '0640' }],
    units: [{ name, exec: ['{{dir}}/bin', '--root', '{{root}}'] }],
    hooks: {
      preInstall: { command: ['hook', name, 'pre', '{{version}}'] },
      postInstall: { command: ['hook', name, 'post', '{{version}}'] },
      preRemove: { command: ['hook', name, 'remove', '{{version}}'] },
    },
    probes: [{ name: 'answers', exec: { command: ['probe', name, '{{version}}'] } }],
    healthDeadlineSeconds: 20,
    ...spec,
  });
}

export function entry(name: string, version: string, revision: number, rest: Partial<ComponentEntry> = {}): ComponentEntry {
  return {
    name,
    action: 'Install',
    version,
    values: { color: 'blue' },
    setUID: 'set',
    setRevision: revision,
    joinedRevision: 0,
    revision,
    attempt: 1,
    ...rest,
  };
}

export function order(world: World, id: string, rest: Partial<Operation> = {}): Operation {
  const needs = (world.status.components ?? []).filter((each) => each.needs !== undefined);
  return {
    id,
    epoch: 1,
    kind: 'Change',
    components: needs.map(({ name, revision }) => ({ name, revision })),
    notAfter: new Date(START_MS + world.ms + 900_000).toISOString(),
    ...rest,
  };
}

/** Steps until `done` holds and there is nothing to do; `drive` is what others do while the agent rests, true when it did something. */
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
      life.tell();
      continue;
    }
    if (life.engine.tasks.size === 0 && done(world)) return;
    await life.sleep(waitUntilMs);
  }
  throw new Error(
    `it does not come to an end: ${JSON.stringify({ status: world.status, journal: world.journal(), units: [...world.units] }, null, 1)}`,
  );
}
