/** `rules/hung.ts` of a fleet: one repair rule in every cluster. */
export const HUNG_RULE = `import { condition, fleet, NodeRemedier, reboot } from 'kubenode/constructs';

fleet.allClusters((cluster) => {
  new NodeRemedier(cluster, 'hung', {
    when: condition('KernelDeadlock').is('True'),
    holdsForSeconds: 30,
    ladder: [reboot()],
    healedWhen: { condition: 'KernelDeadlock', is: 'False', forSeconds: 300 },
  });
});
`;
