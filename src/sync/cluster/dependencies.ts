/** What the hub keeps and reports Clusters with. */
import type { Cluster } from '../../api/cluster.ts';
import type { Fleet } from '../../api/fleet.ts';
import type { Clock } from '../../api/ports.ts';
import type { Rollout } from '../../api/rollout.ts';
import type { Stored } from '../../api/wire.ts';
import type { Recorder } from '../../kube/recorder.ts';
import type { Store } from '../../kube/store.ts';

export interface ClusterDependencies {
  clusters: Store<Cluster>;
  fleets: Store<Fleet>;
  /** Rollouts of a Fleet that its status names. */
  inForceOf: (fleet: Stored<Fleet>) => readonly Stored<Rollout>[];
  recorder: Recorder;
  clock: Clock;
  signal: AbortSignal;
}
