/**
 * The container runtime does not answer: ContainerRuntimeUnhealthy of Node Problem Detector's health checker.
 * https://github.com/kubernetes/node-problem-detector/blob/master/config/health-checker-containerd.json
 *
 * - The health checker kills the runtime by itself unless it is started with `--enable-repair=false`: a second healer that knows no budget.
 *   Switch it off before this rule is enforced.
 * - Restarting the runtime leaves containers running, and solves most of it. Then pods are taken away, then a boot.
 * - When a fifth of the pool has the same, it is a version or a registry and not this node: no action is taken, and the rollout is the cause.
 * - The check runs every 10 s and may hang for 60 s; two minutes are more than one false alarm.
 */
import { all, condition, fleet, migratePods, NodeRemedier, reboot, restartComponent } from 'kubenode/constructs';
import { runtime } from '../fleet/versions.ts';
import { inUse, poolIsWell } from './guards.ts';

fleet.allClusters((cluster) => {
  new NodeRemedier(cluster, 'runtime-unhealthy', {
    when: all(condition('ContainerRuntimeUnhealthy').is('True'), poolIsWell(20), inUse),
    holdsForSeconds: 120,
    ladder: [
      restartComponent(runtime, { attempts: 2, timeoutSeconds: 300, cooldownSeconds: 60 }),
      migratePods({ graceSeconds: 30 }),
      reboot({ attempts: 1, timeoutSeconds: 900 }),
    ],
    healedWhen: { condition: 'ContainerRuntimeUnhealthy', is: 'False', forSeconds: 300 },
    priority: 110,
    mode: 'Shadow',
  });
});
