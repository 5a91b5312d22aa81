/** What KubeNode's own process may do in the hub. */
import type { Construct } from 'constructs';
import { ServiceAccount } from 'cdk8s-plus-27';
import { SYSTEM_NAMESPACE } from '../../src/api/names.ts';
import { HUB } from '../identities.ts';
import { clusterRole, clusterRoleBinding, core, EVENTS, named, of, own, REVIEWS, role } from './rules.ts';

const LEASES = 'coordination.k8s.io';

export function hubRights(scope: Construct, namespace: string): void {
  new ServiceAccount(scope, `ServiceAccount:${HUB}`, { metadata: { name: HUB, namespace }, automountToken: false });
  const subject = { kind: 'ServiceAccount' as const, name: HUB, namespace };
  clusterRole(scope, HUB, [
    own('fleets', 'get list watch'),
    own('fleets/status', 'patch'),
    own('clusters', 'get list watch create patch'),
    own('clusters/status', 'patch'),
    own('rollouts', 'get list watch create delete'),
    own('rollouts/status', 'patch'),
    EVENTS,
    ...REVIEWS,
  ]);
  clusterRoleBinding(scope, HUB, HUB, subject);
  role(scope, namespace, HUB, [of(LEASES, 'leases', 'create'), named(of(LEASES, 'leases', 'get update'), HUB)], subject);
  // How cells are reached, and what Fleets fetch with. Never listed.
  role(scope, SYSTEM_NAMESPACE, 'kubenode-hub-secrets', [core('secrets', 'get')], subject);
}
