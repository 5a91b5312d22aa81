/** What KubeNode's own processes may do in a cell. */
import type { Construct } from 'constructs';
import { ServiceAccount } from 'cdk8s-plus-27';
import { CELL, CELL_WRITERS, SYNC } from '../identities.ts';
import { aggregate, clusterRole, clusterRoleBinding, core, EVENTS, named, of, own, REVIEWS, role, type Rule } from './rules.ts';

const RBAC = 'rbac.authorization.k8s.io';
const LEASES = 'coordination.k8s.io';
const CERTIFICATES = 'certificates.k8s.io';

/** The caches that all controllers share. */
const READS = [
  own(
    'machines machinesets machinecomponents machinecomponentsets defenderpolicies disruptionledgers freezes noderemediers remedyoperationjobs',
    'get list watch',
  ),
  core('nodes', 'get list watch'),
  of(LEASES, 'leases', 'list watch'),
  of(CERTIFICATES, 'certificatesigningrequests', 'list watch'),
];

/**
 * An agent's identity and rights. Admission lets them be given under names of agents only; and granting needs what is granted, so that no identity
 * gives more than it has.
 */
const ADMITS: Rule[] = [
  own('machines', 'get watch'),
  own('machines/status', 'patch'),
  own('machinecomponents', 'get'),
  core('nodes', 'get'),
  core('serviceaccounts', 'get create delete'),
  core('serviceaccounts/token', 'create'),
  of(LEASES, 'leases', 'get create patch'),
  of(CERTIFICATES, 'certificatesigningrequests', 'get create'),
  of(RBAC, 'roles rolebindings clusterrolebindings', 'get create patch'),
  EVENTS,
];

const WRITES: Record<keyof typeof CELL_WRITERS, Rule[]> = {
  machine: [
    ...ADMITS,
    // Order and finalizer are in no subresource: the admission policies hold the rest of the Machine. Replacing a machine begins with its deletion.
    own('machines', 'patch delete'),
    own('disruptionledgers', 'get create'),
    own('disruptionledgers/status', 'update'),
    // Cordon, labels, taints; the Node of a machine that is proven gone, with its Lease.
    core('nodes', 'patch delete'),
    of(LEASES, 'leases', 'delete'),
    // Deleted only where the node is proven gone: nothing else ends pods that no kubelet answers for.
    core('pods', 'list delete'),
    core('pods/eviction', 'create'),
    of('policy', 'poddisruptionbudgets', 'list'),
  ],
  identity: [
    ...ADMITS,
    of(CERTIFICATES, 'certificatesigningrequests/approval', 'update'),
    named(
      of(CERTIFICATES, 'signers', 'approve'),
      'kubernetes.io/kube-apiserver-client',
      'kubernetes.io/kube-apiserver-client-kubelet',
      'kubernetes.io/kubelet-serving',
    ),
  ],
  machineSet: [
    own('machinesets', 'get'),
    own('machinesets/status', 'patch'),
    // Where owner references are checked (OwnerReferencesPermissionEnforcement), a blocking one asks for this.
    own('machinesets/finalizers', 'update'),
    // It marks what is to go, after a live list, and deletes nothing.
    own('machines', 'get list create patch'),
    EVENTS,
  ],
  machineComponentSet: [
    own('machinecomponentsets', 'get list'),
    own('machinecomponentsets/status machinecomponents/status', 'patch'),
    own('machinecomponents', 'delete'),
    own('machines', 'get list patch'),
    own('machines/status', 'patch'),
    EVENTS,
  ],
  defender: [own('defenderpolicies/status freezes/status', 'patch')],
  remedy: [own('noderemediers/status machines/status', 'patch'), own('remedyoperationjobs', 'list create'), EVENTS],
  remedyJob: [
    own('remedyoperationjobs', 'delete'),
    own('remedyoperationjobs/status', 'patch'),
    own('machines disruptionledgers', 'get'),
    core('nodes', 'get'),
    EVENTS,
  ],
};

/** What a commit may bring into a cell besides KubeNode's own kinds is for the administrator of the cell to decide: label a ClusterRole with this. */
export const SYNC_LABEL = 'kubenode.io/aggregate-to-sync';

const SYNCED: Rule[] = [
  own('machinesets machinecomponentsets defenderpolicies noderemediers', 'get list watch create patch delete'),
  // Never deleted by sync (docs/protocols.md#a7), nor are namespaces.
  own('machinecomponents', 'get list watch create patch'),
  core('namespaces', 'get create patch'),
];

export function cellRights(scope: Construct, namespace: string): void {
  const account = (name: string) =>
    new ServiceAccount(scope, `ServiceAccount:${name}`, { metadata: { name, namespace }, automountToken: false });
  const subject = (name: string) => ({ kind: 'ServiceAccount' as const, name, namespace });
  const give = (name: string, rules: Rule[]): void => {
    clusterRole(scope, name, rules);
    clusterRoleBinding(scope, name, name, subject(name));
  };
  for (const name of [CELL, ...Object.values(CELL_WRITERS), SYNC]) account(name);
  give(CELL, [...READS, ...REVIEWS]);
  role(
    scope,
    namespace,
    CELL,
    [
      of(LEASES, 'leases', 'create'),
      named(of(LEASES, 'leases', 'get update'), CELL),
      named(core('serviceaccounts', 'impersonate'), ...Object.values(CELL_WRITERS)),
    ],
    subject(CELL),
  );
  for (const [writer, name] of Object.entries(CELL_WRITERS)) give(name, WRITES[writer as keyof typeof CELL_WRITERS]);
  clusterRole(scope, `${SYNC}-own`, SYNCED, { [SYNC_LABEL]: 'true' });
  aggregate(scope, SYNC, SYNC_LABEL);
  clusterRoleBinding(scope, SYNC, SYNC, subject(SYNC));
}
