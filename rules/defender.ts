/** How much may be disrupted at once, by whomever: upgrades, repairs and deletions all ask here. All limits must have room. */
import { DefenderPolicy, fleet } from 'kubenode/constructs';

fleet.allClusters((cluster) => {
  new DefenderPolicy(cluster, 'default', {
    limits: [
      // Never two nodes of one pool at a time …
      { name: 'one-in-a-pool', scope: 'Pool', maxUnavailable: 1 },
      // … and never more than a quarter of a cluster (at least one node, or nothing could ever change).
      { name: 'quarter-of-cluster', scope: 'Cluster', maxUnavailable: '25%' },
      // Rules that repair more than this have found something that repairs do not cure.
      { name: 'repairs', scope: 'Cluster', classes: ['Repair'], maxPerHour: 20, maxPerDay: 60 },
    ],
    // Half a cluster ill by itself has one cause, and neither an upgrade nor a repair is its cure; what brings nodes back goes on.
    breaker: { scope: 'Cluster', unavailableAbove: '50%' },
  });
});
