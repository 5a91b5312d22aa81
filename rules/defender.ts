/** How much may be disrupted at once, by whomever: upgrades, repairs and deletions all ask here. All limits must have room. */
import { DefenderPolicy, fleet } from 'kubenode/constructs';

fleet.allClusters((cluster) => {
  new DefenderPolicy(cluster, 'default', {
    limits: [
      // Never two nodes of one pool at a time …
      { name: 'one-in-a-pool', scope: 'Pool', maxUnavailable: 1 },
      // … and never more than a quarter of a cluster (at least one node, or nothing could ever change).
      { name: 'quarter-of-cluster', scope: 'Cluster', maxUnavailable: '25%' },
      // Rules that repair more than this have found a problem that repairs do not solve.
      { name: 'repairs', scope: 'Cluster', classes: ['Repair'], maxPerHour: 20, maxPerDay: 60 },
    ],
    // When half a cluster is unhealthy by itself, there is one cause, and neither an upgrade nor a repair removes it; recovery goes on.
    breaker: { scope: 'Cluster', unavailableAbove: '50%' },
  });
});
