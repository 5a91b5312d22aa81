/**
 * The kubelet's own health check fails: KubeletUnhealthy of Node Problem Detector's health checker.
 * https://github.com/kubernetes/node-problem-detector/blob/master/config/health-checker-kubelet.json
 *
 * - The health checker kills the kubelet by itself unless it is started with `--enable-repair=false`. Switch it off before this rule is enforced.
 * - Restarting the kubelet does not touch pods. If two restarts did not help, a boot does, or a person has to check: a kubelet that does not
 *   start usually has a bad configuration, which a new machine would get too.
 * - The detector writes the condition itself, so that it arrives while the kubelet does not report.
 */
import { all, askHuman, condition, fleet, NodeRemedier, reboot, restartComponent } from 'kubenode/constructs';
import { kubelet } from '../fleet/versions.ts';
import { inUse, poolIsWell } from './guards.ts';

fleet.allClusters((cluster) => {
  new NodeRemedier(cluster, 'kubelet-unhealthy', {
    when: all(condition('KubeletUnhealthy').is('True'), poolIsWell(20), inUse),
    holdsForSeconds: 60,
    ladder: [
      restartComponent(kubelet, { attempts: 2, timeoutSeconds: 180, cooldownSeconds: 60 }),
      reboot({ attempts: 1, timeoutSeconds: 900 }),
      askHuman({ note: 'journalctl -u kubelet: a configuration that it does not accept?' }),
    ],
    healedWhen: { condition: 'KubeletUnhealthy', is: 'False', forSeconds: 300 },
    priority: 100,
    mode: 'Shadow',
  });
});
