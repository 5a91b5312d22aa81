import { sha256Hex } from '../../api/digest.ts';
import type { ComponentEntry, DeletionPolicy, Machine, MachineStatus, Operation } from '../../api/machine.ts';
import type { Stored } from '../../api/wire.ts';
import { replay } from '../records/journal.ts';
import { layoutOf } from '../disk/layout.ts';
import type { ServiceStatus } from '../ports/units.ts';
import type { JournalState } from '../records/state.ts';
import { Disk } from './inodes.ts';

export const ROOT = '/node';
export const MIRROR = 'http://127.0.0.1:1/';
export const START_MS = Date.UTC(2026, 10, 20);

/** Something that cannot be taken back, with the transaction it was done for. */
export interface Effect {
  what: 'start' | 'restart' | 'stop' | 'reload' | 'hook' | 'reboot';
  name: string;
  generation: string;
  transaction: { name: string; revision: number; operation: string | undefined; back: boolean } | undefined;
}

export interface SimulatedUnit extends ServiceStatus {
  /** What it read when it was started, and the file that it is. */
  program: string;
  inode: number | undefined;
}

/**
 * A node and its cell, whole and in memory: disk, units, API server, time. `clone` is the same world at the same moment, so that it can
 * go on in several ways.
 */
export class World {
  /** Keys that its node was installed with. */
  pinned: string | undefined;
  disk = new Disk();
  units = new Map<string, SimulatedUnit>();
  boots = 1;
  invocations = 0;
  effects: Effect[] = [];
  ms = 1000;
  reachable = true;
  /** How the API server answers who asks for the Machine, where it is gone. */
  machineGone: 'NotFound' | 'Forbidden' | undefined;
  /** How often the host was asked to take the agent away. */
  takenAway = 0;
  /** What the agent reports does not arrive. */
  reportsLost = false;
  /** How far the API server's clock is ahead of the node's. */
  serverAheadMs = 0;
  /** The API server's answers do not have the time at which they were made. */
  undated = false;
  /** What a live read returns, where that differs from the Machine now. */
  answer: Stored<Machine> | undefined;
  /** What happened and a person should check. */
  warnings: string[] = [];
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
    // Never mutated.
    copy.machine = this.machine;
    copy.components = this.components;
    copy.artifacts = this.artifacts;
    copy.requests = { ...this.requests };
    copy.events = [...this.events];
    copy.warnings = [...this.warnings];
    copy.answer = this.answer;
    for (const key of [
      'boots',
      'invocations',
      'ms',
      'reachable',
      'reportsLost',
      'rebootAsked',
      'serverAheadMs',
      'undated',
      'machineGone',
      'takenAway',
    ] as const)
      Object.assign(copy, { [key]: this[key] });
    return copy;
  }

  get bootID(): string {
    return `boot-${this.boots}`;
  }

  /** Makes the disk so large that it is full but for a part. */
  capacity(times: number): void {
    this.disk.capacity = Math.ceil(this.disk.used * times);
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

  change(spec: {
    components?: ComponentEntry[];
    operation?: Operation;
    hold?: boolean;
    labels?: Record<string, string>;
    deletionPolicy?: DeletionPolicy;
  }): void {
    const { metadata } = this.machine;
    this.machine = {
      ...this.machine,
      metadata: { ...metadata, generation: (metadata.generation ?? 0) + 1, resourceVersion: String(Number(metadata.resourceVersion) + 1) },
      spec: { ...this.machine.spec, ...spec },
    };
  }

  /** The Machine is deleted, and is there until its finalizer goes. */
  delete(deletionPolicy?: DeletionPolicy): void {
    this.change(deletionPolicy === undefined ? {} : { deletionPolicy });
    this.machine = { ...this.machine, metadata: { ...this.machine.metadata, deletionTimestamp: '2026-11-20T00:00:00Z' } };
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

  /** What the journal on this disk records. */
  journal(): JournalState | undefined {
    const text = this.text(layoutOf('').journal);
    return text === undefined ? undefined : replay(text).state;
  }
}

export interface ReleaseOptions {
  name?: string;
  /** What its program prints: `good`, `bad` (its probes fail) or `crash`. */
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

/** An order of kind Repair. */
export function repair(
  world: World,
  id: string,
  action: string,
  args: Record<string, unknown> = {},
  rest: Partial<Operation> = {},
): Operation {
  const { components: _none, ...ordered } = order(world, id);
  return { ...ordered, kind: 'Repair', action, args, ...rest };
}

/** A file that was not written lately. */
export function putOld(world: World, path: string, bytes: number, ageMs: number): void {
  const full = `${ROOT}${path}`;
  const parts = full.split('/').filter(Boolean);
  for (let length = 1; length < parts.length; length++) {
    const folder = `/${parts.slice(0, length).join('/')}`;
    if (world.disk.find(folder, false) === undefined) world.mkdir(folder);
  }
  const data = Buffer.alloc(bytes, 'x');
  const id = world.disk.add({ kind: 'file', data, durable: data, lost: false, mode: 0o644, writtenMs: START_MS + world.ms - ageMs });
  world.disk.change(full, [[parts.at(-1) ?? '', id]]);
}
