/**
 * The disk is nearly full: the kubelet's DiskPressure.
 * https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/
 *
 * - The kubelet collects images and evicts by itself at its thresholds; what it does not own (old logs, leftovers of removed versions) is
 *   what CleanDisk is for. It disrupts nothing.
 * - Down to 80 %: images are collected down to the same mark by default (imageGCLowThresholdPercent), so that the two do not take turns.
 * - DiskPressure stays True for five minutes after the pressure is gone (evictionPressureTransitionPeriod), so the proof may begin late:
 *   15 minutes. It is measured again and again, so it needs no new boot.
 * - Moving pods away frees what belongs to them. A reboot or a new machine frees nothing that cleaning does not: then a person must check.
 */
import { all, askHuman, cleanDisk, condition, fleet, migratePods, NodeRemedier } from 'kubenode/constructs';
import { inUse } from './guards.ts';

fleet.allClusters((cluster) => {
  new NodeRemedier(cluster, 'disk-watermark', {
    when: all(condition('DiskPressure').is('True'), inUse),
    holdsForSeconds: 120,
    ladder: [
      cleanDisk({ belowPercent: 80, attempts: 2, timeoutSeconds: 900, cooldownSeconds: 600 }),
      migratePods({ graceSeconds: 60 }),
      askHuman({ note: 'something grows on this disk: du -xh / | sort -h | tail' }),
    ],
    healedWhen: { condition: 'DiskPressure', is: 'False', forSeconds: 300 },
    priority: 150,
    mode: 'Shadow',
  });
});
