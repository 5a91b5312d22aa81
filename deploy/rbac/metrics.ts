/** For readers of metrics, to be bound: what a request for `/metrics` is held to. */
import type { Construct } from 'constructs';
import { object } from '../object.ts';

export function metricsRole(scope: Construct): void {
  object(scope, {
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind: 'ClusterRole',
    metadata: { name: 'kubenode-metrics-reader' },
    rules: [{ nonResourceURLs: ['/metrics'], verbs: ['get'] }],
  });
}
