import type { Manifest } from '../generation/manifest.ts';
import type { UnitStatus } from '../ports/units.ts';
import type { ProbeView } from '../upkeep/probes.ts';
import type { Receipt } from '../journal/receipts.ts';
import type { State } from '../journal/state.ts';
import type { Stage } from './steps.ts';
import type { Wanted } from '../cell/wanted.ts';

/** How far a generation is that is wanted (or was here and is damaged). */
export type Preparation =
  | { status: 'working'; revision: number; message?: string }
  | { status: 'retry'; revision: number; atMs: number; failures: number; message: string }
  | { status: 'failed'; revision: number; reason: string; message: string }
  | { status: 'ready'; revision: number; manifest: Manifest };

export interface Installed {
  receipt: Receipt;
  /** Absent: its generation's folder is damaged. */
  manifest: Manifest | undefined;
}

export interface Health {
  state: 'Unknown' | 'Healthy' | 'Unhealthy';
  /** Boot in which the probes last held. */
  bootID: string | undefined;
  /** Wall time, ms. */
  since: number | undefined;
  message: string | undefined;
}

export interface Finding {
  /** A file that was placed, the link to what runs, the receipt, or something in the generation's folder. */
  kind: 'file' | 'link' | 'receipt' | 'tree';
  path: string;
  what: string;
  repair: boolean;
}

export interface Drift {
  findings: Finding[];
  /** When it was last looked at, and how long that took. */
  lookedMs: number;
  tookMs?: number;
  /** Monotonic: when to look again, at the latest. */
  nextMs: number;
  /** When artifacts are hashed again. */
  nextFullMs: number;
}

/** How far the open transaction is in this process; after a restart its stages are gone through again. */
export interface Progress {
  done: ReadonlySet<Stage>;
  failures: number;
  notBeforeMs: number;
  error: { reason: string; message: string } | undefined;
  probing: { view: ProbeView; deadlineMs: number } | undefined;
  /** Going back is given up at this time. */
  giveUpMs: number;
}

/** How far the running Repair is in this process. */
export interface Repairing {
  /** Of the restarted units. */
  probing: ProbeView | undefined;
  /** When the probes must hold, or the reboot have come; unknown until this process did something for it. */
  deadlineMs: number | undefined;
  /** Of what is tried, or asked for, again. */
  notBeforeMs: number;
  failures: number;
  error: string | undefined;
  cleaning: { end: 'enough' | 'nothing' | undefined; notes: string } | undefined;
  /** Of the disk, in use when it was last looked at. */
  percent: number;
}

export interface Starts {
  /** Starts that did not last, in a row. */
  failures: number;
  lastMs: number;
  notBeforeMs: number;
}

/** A unit that was up for this long did not fail to start. */
export const LASTING_MS = 60_000;

export function isCrashLooping(starts: Starts | undefined, nowMs: number): boolean {
  return starts !== undefined && starts.failures >= 3 && nowMs - starts.lastMs < LASTING_MS;
}

/** Everything that a decision needs, as one value. Times are monotonic ms unless they are called wall. */
export interface Observed {
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
  wanted: Wanted | undefined;
  state: State;
  installed: ReadonlyMap<string, Installed>;
  /** By digest: those that the open transaction names. */
  manifests: ReadonlyMap<string, Manifest>;
  prepared: ReadonlyMap<string, Preparation>;
  /** Generations that run and are damaged. */
  rebuilt: ReadonlyMap<string, Preparation>;
  units: ReadonlyMap<string, UnitStatus>;
  starts: ReadonlyMap<string, Starts>;
  health: ReadonlyMap<string, Health>;
  drift: ReadonlyMap<string, Drift>;
  progress: Progress;
  repairing: Repairing;
  /** The operation that was found in the Machine by the step before this one, read live. */
  reread: string | undefined;
  rereadNotBeforeMs: number;
  /** Something that is kept may be needed no more. */
  sweep: boolean;
}
