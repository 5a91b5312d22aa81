import type { WantedState } from '../cell/wanted.ts';
import type { Manifest } from '../generation/manifest.ts';
import type { Preparation } from '../generation/memory.ts';
import type { ServiceStatus } from '../ports/units.ts';
import type { Installed } from '../records/memory.ts';
import type { JournalState } from '../records/state.ts';
import type { Repairing } from '../repair/memory.ts';
import type { TransactionProgress } from '../transaction/memory.ts';
import type { Drift, ComponentHealth, UnitStarts } from '../upkeep/memory.ts';

/** Everything that a decision needs, as one value. Times are monotonic ms unless they are called wall. */
export interface ObservedNode {
  nowMs: number;
  wallMs: number;
  /** The API server's clock, as far as it is known from its Date headers; wall ms. */
  serverMs: number | undefined;
  bootID: string;
  /** What is on this disk is another machine's. */
  foreign: boolean;
  /** `/etc/kubenode/hold` is there. */
  holdFile: boolean;
  /** The Machine as last read in this process. */
  wanted: WantedState | undefined;
  state: JournalState;
  installed: ReadonlyMap<string, Installed>;
  /** By digest: those that the open transaction names. */
  manifests: ReadonlyMap<string, Manifest>;
  prepared: ReadonlyMap<string, Preparation>;
  /** Generations that run and are damaged. */
  rebuilt: ReadonlyMap<string, Preparation>;
  units: ReadonlyMap<string, ServiceStatus>;
  starts: ReadonlyMap<string, UnitStarts>;
  health: ReadonlyMap<string, ComponentHealth>;
  drift: ReadonlyMap<string, Drift>;
  progress: TransactionProgress;
  repairing: Repairing;
  /** The operation that was found in the Machine by the step before this one, read live. */
  reread: string | undefined;
  rereadNotBeforeMs: number;
  /** The cell knows no Machine of this agent, by what was read live last. */
  unknownToCell: boolean;
  leaveNotBeforeMs: number;
  /** A kept file may no longer be needed. */
  sweep: boolean;
}
