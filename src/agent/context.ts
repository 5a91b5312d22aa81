import type { Clock, Log, Random } from '../api/ports.ts';
import type { CellMemory } from './cell/memory.ts';
import { newCellMemory } from './cell/memory.ts';
import type { WantedState } from './cell/wanted.ts';
import type { Durable } from './disk/durable.ts';
import type { DiskLayout } from './disk/layout.ts';
import type { TemplateNode } from './generation/manifest.ts';
import { newGenerationMemory } from './generation/memory.ts';
import type { GenerationMemory } from './generation/memory.ts';
import type { ArtifactStore } from './generation/store.ts';
import type { NodeCertificates } from './identity/node-credentials.ts';
import { newLeaveMemory } from './leave/memory.ts';
import type { LeaveMemory } from './leave/memory.ts';
import type { Files } from './ports/files.ts';
import type { Host } from './ports/host.ts';
import type { Network } from './ports/network.ts';
import type { Runner } from './ports/runner.ts';
import type { Units } from './ports/units.ts';
import { newRecordsMemory } from './records/memory.ts';
import type { RecordsMemory } from './records/memory.ts';
import { newRepairMemory } from './repair/memory.ts';
import type { RepairMemory } from './repair/memory.ts';
import { newTransactionMemory } from './transaction/memory.ts';
import type { TransactionMemory } from './transaction/memory.ts';
import { newUpkeepMemory } from './upkeep/memory.ts';
import type { UpkeepMemory } from './upkeep/memory.ts';

/** What the agent asks of the API while it works. */
export interface CellApi {
  /** Its Machine as it is now, and the server's clock in that answer. */
  machine(signal: AbortSignal): Promise<{ wanted: WantedState; serverMs: number | undefined }>;
  /** The spec of a MachineComponent. */
  component(name: string, signal: AbortSignal): Promise<unknown>;
  /** Where this machine may ask for the certificate of its node. */
  nodeCertificates?: NodeCertificates;
}

export interface AgentPorts {
  files: Files;
  units: Units;
  network: Network;
  runner: Runner;
  host: Host;
  cell: CellApi;
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

/**
 * What this process knows beside the disk. All of it can be lost. Each part is of the folder with its name: only files there write to it, and others
 * call their functions (context.test.ts checks that).
 */
export interface AgentMemory {
  readonly records: RecordsMemory;
  readonly cell: CellMemory;
  readonly generation: GenerationMemory;
  readonly transaction: TransactionMemory;
  readonly repair: RepairMemory;
  readonly upkeep: UpkeepMemory;
  readonly leave: LeaveMemory;
}

export interface AgentContext {
  ports: AgentPorts;
  layout: DiskLayout;
  node: TemplateNode;
  durable: Durable;
  store: ArtifactStore;
  /** Where relative URLs of artifacts lead; ends with a slash. */
  mirror: string | undefined;
  /** Keys that this node was installed with, a line each; undefined: it was given none. */
  pinned: string | undefined;
  memory: AgentMemory;
  signal: AbortSignal;
  /** Something may have changed: observe again. */
  wake(): void;
  happened(what: Happening): void;
  /** Runs beside the steps; its end is waited for at shutdown. */
  background(task: Promise<void>): void;
}

export function newMemory(clock: Clock): AgentMemory {
  return {
    records: newRecordsMemory(),
    cell: newCellMemory(clock),
    generation: newGenerationMemory(),
    transaction: newTransactionMemory(),
    repair: newRepairMemory(),
    upkeep: newUpkeepMemory(),
    leave: newLeaveMemory(),
  };
}
