/**
 * The kernel has remounted a file system read-only, after an error of the disk or of the file system itself.
 * https://github.com/kubernetes/node-problem-detector/blob/master/config/kernel-monitor.json
 *
 * - Pods go first: what they write is lost from now on. Then a boot, at which the file system is checked; disks that fail again fail soon.
 * - One boot only. A disk that goes read-only after a check is broken, and a third try only costs the next pods their data.
 * - Ten minutes of proof instead of five: a broken disk often works for a few minutes after a boot.
 * - The condition is latched, like every condition that comes from a log line: only a new boot counts.
 */
import { all, askHuman, condition, fleet, migratePods, NodeRemedier, reboot, replaceMachine } from 'kubenode/constructs';
import { inUse } from './guards.ts';

fleet.allClusters((cluster) => {
  new NodeRemedier(cluster, 'readonly-filesystem', {
    when: all(condition('ReadonlyFilesystem').is('True'), inUse),
    holdsForSeconds: 30,
    ladder: [
      migratePods({ graceSeconds: 30, timeoutSeconds: 1200 }),
      reboot({ attempts: 1, timeoutSeconds: 900 }),
      replaceMachine(),
      askHuman({ note: 'search for a broken disk before it is used again: dmesg, smartctl -a' }),
    ],
    healedWhen: { condition: 'ReadonlyFilesystem', is: 'False', onNewBoot: true, forSeconds: 600 },
    priority: 200,
    mode: 'Shadow',
  });
});
