import type { Clock, Log, Random } from '../api/ports.ts';
import type { KubeObject } from '../api/wire.ts';
import type { Client } from './client.ts';

export interface RecordedEvent {
  type: 'Normal' | 'Warning';
  /** UpperCamelCase, specific: what happened, never just `Error`. */
  reason: string;
  message: string;
}

/** Events are for people; they are lossy and never a record. */
export interface Recorder {
  /** Returns at once; never throws. Repeats raise a count; beyond 25 at once and one per 5 minutes an object's events are dropped. */
  event(about: KubeObject, event: RecordedEvent): void;
  /** Resolves when everything recorded so far has been sent or given up. */
  flush(): Promise<void>;
}

export interface RecorderOptions {
  client: Client;
  clock: Clock;
  random: Random;
  log: Log;
  signal: AbortSignal;
  /** As in `kubectl describe`'s From column, e.g. `kubenode-machine`. */
  component: string;
  /** The process, e.g. its pod name. */
  instance: string;
}

export declare function createRecorder(options: RecorderOptions): Recorder;
