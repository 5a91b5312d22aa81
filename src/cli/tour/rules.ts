/** What the second part of the tour commits: short times, so that a person can watch. */
export const RULES_FILE = 'rules/tour.ts';

export const RULES_TEXT = `/** Rules of the tour: they wait for seconds where production waits for minutes. */
import { condition, fleet, migratePods, NodeRemedier, reboot, replaceMachine } from 'kubenode/constructs';

const enforceAfter = { shadowSeconds: 2, maxJobs: 0 };

fleet.allClusters((cluster) => {
  new NodeRemedier(cluster, 'tour-readonly', {
    when: condition('ReadonlyFilesystem').is('True'),
    holdsForSeconds: 1,
    ladder: [reboot({ attempts: 1, timeoutSeconds: 12 })],
    healedWhen: { condition: 'ReadonlyFilesystem', is: 'False', onNewBoot: true, forSeconds: 2 },
    mode: 'Enforce',
    enforceAfter,
  });
  new NodeRemedier(cluster, 'tour-hung-task', {
    when: condition('KernelDeadlock').is('True'),
    holdsForSeconds: 1,
    ladder: [migratePods({ graceSeconds: 1 }), reboot({ attempts: 1, timeoutSeconds: 60 })],
    healedWhen: { condition: 'KernelDeadlock', is: 'False', onNewBoot: true, forSeconds: 1 },
    mode: 'Enforce',
    enforceAfter,
  });
  new NodeRemedier(cluster, 'tour-shadow', {
    when: condition('KernelDeadlock').is('True'),
    holdsForSeconds: 1,
    ladder: [replaceMachine()],
    healedWhen: { condition: 'KernelDeadlock', is: 'False', forSeconds: 1 },
    mode: 'Shadow',
  });
});
`;

/** Lines of a kernel log, as the kernel writes them. */
export const FAULTS = {
  hungTask: 'kernel: INFO: task kworker/u8:2:412 blocked for more than 120 seconds.',
  readonly: 'kernel: EXT4-fs (vda1): Remounting filesystem read-only',
} as const;
