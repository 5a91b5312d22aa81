/** Who writes what in the API: one ServiceAccount a writer, so that the API server can distinguish them. */
import { MANAGERS } from '../src/api/names.ts';

/** Writers of a cell. `kubenode controller --cell` runs as `kubenode-cell` and writes as the others, which it impersonates. */
export const CELL_WRITERS = {
  machine: MANAGERS.machine,
  identity: MANAGERS.identity,
  machineSet: MANAGERS.machineSet,
  machineComponentSet: MANAGERS.machineComponentSet,
  defender: MANAGERS.defender,
  remedy: MANAGERS.remedy,
  remedyJob: MANAGERS.remedyJob,
} as const;

/** The process of a cell's controllers: reads, and its leader Lease. */
export const CELL = 'kubenode-cell';
/** The process of the hub, in the hub. */
export const HUB = 'kubenode-hub';
/** The hub, in a cell: sync and rollouts. */
export const SYNC = MANAGERS.sync;

/** A user who acts in this group is not held to the owner table. No user is a member of it. */
export const BREAK_GLASS = 'kubenode:break-glass';

/** Parts of Kubernetes that act for the user who deleted an owner or a namespace. */
export const CLUSTER_CONTROLLERS = [
  'system:kube-controller-manager',
  'system:serviceaccount:kube-system:generic-garbage-collector',
  'system:serviceaccount:kube-system:namespace-controller',
];
