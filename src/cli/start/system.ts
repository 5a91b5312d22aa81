import type { Clock, Log } from '../../api/ports.ts';
import type { Output } from '../output.ts';
import type { ControlPlanes } from './control-planes.ts';
import { CELLS } from './prepare.ts';
import type { StateFolder } from './state.ts';

export const CONTEXTS = ['hub', ...CELLS];

/** What the parts of a start share. */
export interface LocalSystem {
  readonly state: StateFolder;
  /** API servers of others; undefined: this start runs its own. */
  readonly given: ControlPlanes | undefined;
  readonly ports: StateFolder['ports'];
  readonly output: Output;
  readonly clock: Clock;
  readonly log: Log;
  /** Aborted when the start ends. */
  readonly signal: AbortSignal;
  /** What is to be closed at the end, the last first. */
  readonly closing: (() => Promise<void>)[];
}

/** Of a context. */
export function must<T>(all: ReadonlyMap<string, T>, name: string): T {
  const found = all.get(name);
  if (found === undefined) throw new Error(`nothing for ${name}`);
  return found;
}
