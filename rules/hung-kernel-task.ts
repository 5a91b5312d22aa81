/**
 * A task of the kernel hangs, and the node still answers.
 *
 * Node Problem Detector reads "task NAME:PID blocked for more than 120 seconds" from the kernel's log. The component `NodeProblemDetector` makes a condition of
 * it for any task (reason TaskHung); as published it does so only when the task is docker's (reason DockerHung).
 * https://github.com/kubernetes/node-problem-detector/blob/master/config/kernel-monitor.json
 *
 * - Nothing but a boot ends a task in uninterruptible sleep, so restarting services is not tried. Pods are taken away first, while the
 *   kubelet can still end them in peace.
 * - The condition is latched: it stays True until the detector restarts, so it proves nothing about now, and its turning False in the same
 *   boot proves nothing (kubernetes/node-problem-detector#215, #728). That is why it has `onNewBoot`.
 * - The kernel has waited 120 s when the line is written; half a minute more is for lines that come in pairs.
 * - Ten minutes for a boot: firmware of large hosts takes several. A second boot that does not help means hardware.
 */
import { all, condition, fact, fleet, migratePods, NodeRemedier, reboot, replaceMachine } from 'kubenode/constructs';
import { inUse } from './guards.ts';

fleet.allClusters((cluster) => {
  new NodeRemedier(cluster, 'hung-kernel-task', {
    when: all(
      condition('KernelDeadlock').is('True'),
      condition('KernelDeadlock').reason.in('TaskHung', 'DockerHung'),
      // One that does not answer any more is for kernel-deadlock.
      fact('heartbeat.kubelet').equals('Fresh'),
      inUse,
    ),
    holdsForSeconds: 30,
    ladder: [migratePods({ graceSeconds: 30, timeoutSeconds: 1200 }), reboot({ attempts: 2, timeoutSeconds: 600 }), replaceMachine()],
    healedWhen: { condition: 'KernelDeadlock', is: 'False', onNewBoot: true, forSeconds: 300 },
    priority: 300,
    mode: 'Shadow',
  });
});
