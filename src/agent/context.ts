import type { Clock, Log, Random } from '../api/ports.ts';
import type { Cleaner } from './repair/cleaner.ts';
import type { Durable } from './disk/durable.ts';
import type { Journal } from './journal/journal.ts';
import type { Layout } from './disk/layout.ts';
import type { Manifest, Node } from './generation/manifest.ts';
import type { Drift, Health, Installed, Preparation, Progress, Repairing, Starts } from './engine/observed.ts';
import type { NodeCertificates } from './identity/node-credentials.ts';
import type { Files } from './ports/files.ts';
import type { Host } from './ports/host.ts';
import type { Network } from './ports/network.ts';
import type { Runner } from './ports/runner.ts';
import type { Units } from './ports/units.ts';
import type { Probing } from './upkeep/probes.ts';
import type { Store } from './generation/store.ts';
import { createNewest } from './cell/wanted.ts';
import type { Wanted } from './cell/wanted.ts';

/** What the agent asks of the API while it works. */
export interface Cell {
  /** Its Machine as it is now, and the server's clock in that answer. */
  machine(signal: AbortSignal): Promise<{ wanted: Wanted; serverMs: number | undefined }>;
  /** The spec of a MachineComponent. */
  component(name: string, signal: AbortSignal): Promise<unknown>;
  /** Where this machine may ask for the certificate of its node. */
  nodeCertificates?: NodeCertificates;
}

export interface Ports {
  files: Files;
  units: Units;
  network: Network;
  runner: Runner;
  host: Host;
  cell: Cell;
  clock: Clock;
  random: Random;
  log: Log;
}

/** Something that happened to the node, for people. */
export interface Happening {
  type: 'Normal' | 'Warning';
  reason: string;
  message: string;
}

/** What a change in a watched folder touches of a component's generation; undefined: nothing of it. */
export type Reader = (name: string | undefined) => string | undefined;

/** What this process knows beside the disk. All of it can be lost. */
export interface Memory {
  journal: Journal | undefined;
  foreign: boolean;
  /** Why nothing is done: damage that only a human can judge, or a disk that fails. */
  trouble: { reason: 'JournalDamaged' | 'ReceiptDamaged' | 'DiskFailing'; message: string } | undefined;
  notBeforeMs: number;
  wanted: Wanted | undefined;
  isNews: ReturnType<typeof createNewest>;
  server: { ms: number; atMs: number } | undefined;
  installed: Map<string, Installed>;
  manifests: Map<string, Manifest>;
  prepared: Map<string, Preparation>;
  rebuilt: Map<string, Preparation>;
  /** Ends a preparation. */
  preparing: Map<string, AbortController>;
  starts: Map<string, Starts>;
  health: Map<string, Health>;
  probing: Map<string, { digest: string; probing: Probing }>;
  drift: Map<string, Drift>;
  /** Paths in generations' folders of which something was heard since the last look, by component; there and empty: elsewhere. */
  touched: Map<string, Set<string>>;
  /** Folders of generations that run, as far as they are watched, by component. */
  folders: Map<string, { digest: string; paths: string[] }>;
  watches: Map<string, { inode: number; readers: ReadonlyMap<string, Reader>; close: () => void }>;
  progress: Progress;
  /** Of the open transaction. */
  switching: { probing: Probing | undefined; deadlineMs: number; invocations: Map<string, string>; filesChanged: boolean };
  /** Of the running Repair. */
  repairing: Omit<Repairing, 'probing'> & { probing: Probing | undefined; cleaner: Cleaner | undefined };
  reread: string | undefined;
  rereadNotBeforeMs: number;
  sweep: boolean;
}

export interface Context {
  ports: Ports;
  layout: Layout;
  node: Node;
  durable: Durable;
  store: Store;
  /** Where relative URLs of artifacts lead; ends with a slash. */
  mirror: string | undefined;
  /** Keys that this node was installed with, a line each; undefined: it was told of none. */
  pinned: string | undefined;
  memory: Memory;
  signal: AbortSignal;
  /** Something may have changed: look again. */
  wake(): void;
  happened(what: Happening): void;
  /** Runs beside the steps; its end is waited for at shutdown. */
  background(task: Promise<void>): void;
}

export function newProgress(giveUpMs = Infinity): Progress {
  return { done: new Set(), failures: 0, notBeforeMs: 0, error: undefined, probing: undefined, giveUpMs };
}

export function newMemory(clock: Clock): Memory {
  return {
    journal: undefined,
    foreign: false,
    trouble: undefined,
    notBeforeMs: 0,
    wanted: undefined,
    isNews: createNewest(clock),
    server: undefined,
    installed: new Map(),
    manifests: new Map(),
    prepared: new Map(),
    rebuilt: new Map(),
    preparing: new Map(),
    starts: new Map(),
    health: new Map(),
    probing: new Map(),
    drift: new Map(),
    touched: new Map(),
    folders: new Map(),
    watches: new Map(),
    progress: newProgress(),
    switching: newSwitching(),
    repairing: newRepairing(),
    reread: undefined,
    rereadNotBeforeMs: 0,
    sweep: true,
  };
}

export function newSwitching(): Memory['switching'] {
  // Files may have been written by the process before this one: their readers are told once more.
  return { probing: undefined, deadlineMs: 0, invocations: new Map(), filesChanged: true };
}

export function newRepairing(): Memory['repairing'] {
  return {
    probing: undefined,
    deadlineMs: undefined,
    notBeforeMs: 0,
    failures: 0,
    error: undefined,
    cleaning: undefined,
    percent: 100,
    cleaner: undefined,
  };
}

/** Steps are only taken on an open journal. */
export function journalOf(memory: Memory): Journal {
  if (memory.journal === undefined) throw new Error('the journal is not open');
  return memory.journal;
}
