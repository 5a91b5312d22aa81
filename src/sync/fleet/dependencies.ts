/** What the functions of the fleet controller get, besides what they are about. */
import type { Cluster } from '../../api/cluster.ts';
import type { Fleet } from '../../api/fleet.ts';
import type { Rollout } from '../../api/rollout.ts';
import type { Clock, Log, Random } from '../../api/ports.ts';
import type { Client } from '../../kube/client.ts';
import type { Recorder } from '../../kube/recorder.ts';
import type { Store } from '../../kube/store.ts';
import type { Bundles } from '../bundles.ts';
import type { Fence } from '../fence.ts';
import type { Checkouts } from './checkout.ts';
import type { Tries } from './decide.ts';

/** One reconcile. */
export interface FleetRun {
  client: Client;
  log: Log;
}

export interface FleetDependencies {
  fleets: Store<Fleet>;
  clusters: Store<Cluster>;
  rollouts: Store<Rollout>;
  bundles: Bundles;
  checkouts: Checkouts;
  /** Of this term; the controllers of one hub share it. */
  fence: Fence;
  recorder: Recorder;
  clock: Clock;
  random: Random;
  log: Log;
  signal: AbortSignal;
  memory: FleetMemory;
}

/** What this process knows of each fleet by name, and finds again after a restart. */
export interface FleetMemory {
  readonly tries: Map<string, Tries>;
  /** Of fleets whose sets are held back: what the clusters that this waits for reported of their machines then. */
  readonly heldOver: Map<string, { clusters: readonly string[]; seen: string }>;
  /** Sets that had too many machines for what is pending of them (`lateText`) when the fleet was judged last. */
  readonly late: Map<string, string>;
}

export const emptyMemory = (): FleetMemory => ({ tries: new Map(), heldOver: new Map(), late: new Map() });
