/**
 * The node is not Ready and no rule knows why: the last resort, with the lowest priority and the most patience.
 *
 * - It is the effect of many causes, most of them outside of the node: a switch, the API server, a certificate. So it asks whether others are unhealthy
 *   too. Not when more than one other of the rack is, nor a tenth of the pool: then it is not this node, and repairing it harms
 *   (healthy nodes were deleted when their kubelets lost their path to the API: gardener/machine-controller-manager#679; nodes under repair
 *   were counted as healthy: openshift/machine-api-operator#902).
 * - Ten minutes, as GKE and Gardener wait. Ready is Unknown when the kubelet's Lease is stale: both are asked for by name.
 * - A node without a rack label never matches.
 */
import { all, condition, fact, fleet, NodeRemedier, reboot, replaceMachine, restartComponent } from 'kubenode/constructs';
import { kubelet } from '../fleet/versions.ts';
import { inUse, poolIsWell } from './guards.ts';

fleet.allClusters((cluster) => {
  new NodeRemedier(cluster, 'not-ready', {
    when: all(condition('Ready').isOneOf('False', 'Unknown'), fact('peers.rack.unhealthy').atMost(1), poolIsWell(10), inUse),
    holdsForSeconds: 600,
    // A node that is Ready only for a minute at a time is not healthy.
    clearsAfterSeconds: 120,
    ladder: [
      restartComponent(kubelet, { attempts: 1, timeoutSeconds: 300 }),
      reboot({ attempts: 1, timeoutSeconds: 900, cooldownSeconds: 600 }),
      replaceMachine(),
    ],
    healedWhen: { condition: 'Ready', is: 'True', forSeconds: 300 },
    priority: 0,
    mode: 'Shadow',
  });
});
