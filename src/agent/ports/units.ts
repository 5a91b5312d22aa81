import type { SystemdSettings } from '../../api/systemd.ts';

/** One long-running service of a component, ready to run: every template is filled in. */
export interface UnitDefinition {
  name: string;
  exec: string[];
  environment: Record<string, string>;
  stopTimeoutSeconds: number;
  /** Where systemd runs it. */
  systemd?: SystemdSettings;
  /** By which definitions differ: the hash of `exec`, `environment` and `systemd`. */
  hash: string;
  /** Digest of the generation it is started for. */
  generation: string;
}

export interface ServiceStatus {
  name: string;
  running: boolean;
  /** Another one for each start: what has the same was not restarted in between. */
  invocation: string;
  hash: string;
  generation: string;
  /** How it ended, where that is known. */
  exit?: string;
}

/**
 * What runs services: a folder of processes here, systemd on a real node. It starts, stops and reports; whether and when something is
 * started again is decided elsewhere.
 */
export interface Units {
  /** Every unit that was started and not stopped, running or not. */
  list(): Promise<ServiceStatus[]>;
  /** Starts it, or starts it again: its processes are stopped first. Errors: `UnitFailed`, `UnitConflict` where it belongs to another program. */
  start(unit: UnitDefinition): Promise<ServiceStatus>;
  /** Resolves when no process of it runs; then it is no longer listed. No error if it does not exist. */
  stop(name: string): Promise<void>;
  /** SIGHUP to its main process. Not running: no error. */
  reload(name: string): Promise<void>;
  /** Calls back soon after a unit ended by itself. Returns its cancellation. */
  onExit(listener: () => void): () => void;
}

/** Units that belong to an agent's life: it ends, they go on. */
export interface LastingUnits extends Units {
  /** Ends watching. What runs goes on running. */
  close(): void;
}
