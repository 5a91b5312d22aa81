import type { Clock, Log, Random } from '../../api/ports.ts';
import type { Resource } from '../../api/resource.ts';
import type { KubeObject, Stored } from '../../api/wire.ts';
import type { Backoff } from '../backoff.ts';
import type { Client } from '../client.ts';
import type { Metrics } from '../metrics.ts';
import type { IndexFunction } from '../object-store.ts';
import type { StoreBounds } from './bounds.ts';

export interface StoreOptions<T extends KubeObject> {
  /** Absent: all namespaces. */
  namespace?: string;
  /** Labels that must all be equal. */
  labels?: Record<string, string>;
  fieldSelector?: string;
  indexes?: Record<string, IndexFunction<T>>;
  /** Keeps of each object, as the server sent it, only what is needed. Runs once an object; must keep name, namespace, uid and resourceVersion. */
  project?: (object: Stored<T>) => Stored<T>;
  /** managedFields are dropped, except the entries of these managers (`applyIfChanged` needs its own), or all of few objects. */
  keepManagers?: string[] | 'all';
  /** Default 500. */
  pageSize?: number;
  /** More is neither listed nor taken from a watch: for a server that is not trusted with the memory of this process. Default: no bound. */
  most?: StoreBounds;
  /** The server ends a watch after once to twice this time. Default 300. */
  watchTimeoutSeconds?: number;
  /** A watch that brought nothing for this long is asked for again, after one small request. Default 130,000. */
  staleMs?: number;
  /**
   * A watch that failed, or whose successor was late, is not continued: all is listed again. A server that was put back to a backup meanwhile may have counted past
   * what was seen, and its watch brings nothing of what was lost. For few objects.
   */
  relistAfterCut?: boolean;
  /** Between attempts after a failure, with full jitter. Default 800 ms to 30 s. */
  backoff?: Backoff;
  /** Longest time between two attempts, even if the server asks for more. Default: the longest that any server may ask for, and the backoff. */
  longestWaitMs?: number;
}

export interface ReflectorOptions<T extends KubeObject> extends StoreOptions<T> {
  client: Client;
  resource: Resource<T>;
  clock: Clock;
  random: Random;
  log: Log;
  /** Where it is counted, and the controllers that watch it. */
  metrics?: Metrics;
  /** Ends it. */
  signal: AbortSignal;
}
