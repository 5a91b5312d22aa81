/** Agents get a share of the API server of their own, fair to each: ten thousand of them must not crowd out people and controllers. */
import type { Construct } from 'constructs';
import { AGENTS } from '../src/api/identity.ts';
import { object } from './object.ts';

const GROUP = 'flowcontrol.apiserver.k8s.io/v1';

export function agentFlow(scope: Construct): void {
  object(scope, {
    apiVersion: GROUP,
    kind: 'PriorityLevelConfiguration',
    metadata: { name: 'kubenode-agents' },
    spec: {
      type: 'Limited',
      limited: {
        nominalConcurrencyShares: 20,
        lendablePercent: 50,
        borrowingLimitPercent: 100,
        limitResponse: { type: 'Queue', queuing: { queues: 64, handSize: 6, queueLengthLimit: 200 } },
      },
    },
  });
  object(scope, {
    apiVersion: GROUP,
    kind: 'FlowSchema',
    metadata: { name: 'kubenode-agents' },
    spec: {
      priorityLevelConfiguration: { name: 'kubenode-agents' },
      // Before `service-accounts` (9000) and after what Kubernetes itself needs.
      matchingPrecedence: 900,
      distinguisherMethod: { type: 'ByUser' },
      rules: [
        {
          subjects: [{ kind: 'Group', group: { name: AGENTS } }],
          resourceRules: [{ apiGroups: ['*'], resources: ['*'], verbs: ['*'], clusterScope: true, namespaces: ['*'] }],
        },
      ],
    },
  });
}
