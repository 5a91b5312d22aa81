/**
 * The container runtime restarts often: five times in 20 minutes, counted every five.
 * https://github.com/kubernetes/node-problem-detector/blob/master/config/systemd-monitor-counter.json
 *
 * - One more restart does not repair what restarts by itself, but it distinguishes a runtime that was left in a bad state from an unhealthy host,
 *   and costs nothing. It counts as one of the five.
 * - The proof is slow: the detector searches the last 20 minutes, so it can be False 25 minutes after the last restart at the earliest. So it has
 *   45 minutes for each rung.
 */
import { all, condition, fleet, migratePods, NodeRemedier, reboot, restartComponent } from 'kubenode/constructs';
import { runtime } from '../fleet/versions.ts';
import { inUse, poolIsWell } from './guards.ts';

fleet.allClusters((cluster) => {
  new NodeRemedier(cluster, 'runtime-restarting', {
    when: all(condition('FrequentContainerdRestart').is('True'), poolIsWell(20), inUse),
    holdsForSeconds: 300,
    ladder: [
      restartComponent(runtime, { attempts: 1, timeoutSeconds: 2700 }),
      migratePods({ graceSeconds: 30 }),
      reboot({ attempts: 1, timeoutSeconds: 2700 }),
    ],
    healedWhen: { condition: 'FrequentContainerdRestart', is: 'False', forSeconds: 600 },
    priority: 105,
    mode: 'Shadow',
  });
});
