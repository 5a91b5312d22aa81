/**
 * The kernel hangs and the node does not answer: the detector reported KernelDeadlock, and then the kubelet stopped renewing its Lease.
 *
 * - No drain can succeed, since no process on the node ends its pods: the boot is the first action. Where the agent is stale too, the
 *   provider cycles the power; without fencing proof no pods are deleted by force.
 * - Two independent witnesses are asked: the detector's last report, which counts only while its own heartbeat is younger than ten minutes,
 *   and the kubelet's Lease. A network that takes the Leases of many away takes this rule's match from them: see the rack.
 * - The Lease is stale after 40 s; two minutes more outlast a restart of the kubelet, or of the API server that it talks to
 *   (kubelets lost their API path and healthy nodes were deleted: gardener/machine-controller-manager#679).
 */
import { all, condition, fact, fleet, NodeRemedier, reboot, replaceMachine } from 'kubenode/constructs';
import { inUse } from './guards.ts';

fleet.allClusters((cluster) => {
  new NodeRemedier(cluster, 'kernel-deadlock', {
    when: all(
      condition('KernelDeadlock').is('True'),
      fact('heartbeat.kubelet').equals('Stale'),
      // At most one other node of its rack is unhealthy. A node without a rack label never matches: a dead node cannot be distinguished from a dead switch.
      fact('peers.rack.unhealthy').atMost(1),
      inUse,
    ),
    holdsForSeconds: 120,
    ladder: [reboot({ attempts: 1, timeoutSeconds: 900 }), replaceMachine()],
    healedWhen: { condition: 'KernelDeadlock', is: 'False', onNewBoot: true, forSeconds: 300 },
    priority: 310,
    mode: 'Shadow',
  });
});
