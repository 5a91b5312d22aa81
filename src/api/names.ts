/** Names that two sides must agree on. */

export const LABELS = {
  /** On a Machine: the MachineSet that made it. */
  machineSet: 'kubenode.io/machine-set',
  /** On what sync applied: the Fleet it comes from. */
  fleet: 'kubenode.io/fleet',
  zone: 'topology.kubernetes.io/zone',
  rack: 'topology.kubenode.io/rack',
} as const;

export const ANNOTATIONS = {
  /** On a Node: whose cordon it is: a ledger reservation's id, or `Degraded`. */
  cordonOwner: 'kubenode.io/cordon-owner',
  /** On a Node: it was unschedulable before our owner annotation was put there, and stays so when that goes. */
  cordonKept: 'kubenode.io/cordon-kept',
  /** On a Node: the reservation took the cordon over from `Degraded`, and gives it back where the node is not healed. */
  cordonDegraded: 'kubenode.io/cordon-degraded',
  /** On a Node: the last reservation that was cancelled here. Its write makes every cordon that was under way for that reservation lose (docs/protocols.md#d6). */
  cordonFence: 'kubenode.io/cordon-fence',
  /** On a Node: the version that the machine controller's last write was decided on. Each of its writes is conditioned on it, and changes it (docs/protocols.md#c4a). */
  nodeWrite: 'kubenode.io/node-write',
  /** On a Machine: this one first, when its set is made smaller. */
  deleteFirst: 'kubenode.io/delete-machine',
  /** On a Machine: for which number of machines its set marked it. Without the mark: a person took it back, and the machine is spared (docs/protocols.md#c8a). */
  retireFor: 'kubenode.io/retire-for',
  /** On a Machine: the version of it for which an announced entry must not be written any more. Its write makes that one lose (docs/protocols.md#b9). */
  entryFence: 'kubenode.io/entry-fence',
  /** On a Machine: the reservation that gets no order any more, since another repair takes it over. Its write makes every order of that reservation lose (docs/protocols.md#c9). */
  orderFence: 'kubenode.io/order-fence',
  /** On a Machine that was imported: a person confirms that it is off permanently, or wiped, so that its deletion does not wait for its agent. */
  machineIsOff: 'kubenode.io/machine-is-off',
  /** On a Machine that is given back (`deletionPolicy: Orphan`): a person confirms that no agent is on the machine any more, so that its deletion does not wait for it. */
  agentIsGone: 'kubenode.io/agent-is-gone',
  /** On a Node: which Machine it was, before the machine was given back (docs/protocols.md#c14). */
  givenBack: 'kubenode.io/given-back',
  /** On a MachineSet, `others`: Git leaves `replicas` out; by hand: no Fleet manages it any more (docs/protocols.md#c8e). */
  scaledBy: 'kubenode.io/scaled-by',
  /** On what sync applied, by the hub's API server: when the hub recorded that it begins this content there (docs/protocols.md#e17). */
  writtenAt: 'kubenode.io/written-at',
  /** On what sync applied: `file:line` in the fleet repository. */
  origin: 'kubenode.io/origin',
} as const;

/** Conditions of a Machine that one controller writes and another reads. */
export const MACHINE_CONDITIONS = {
  /** By the remedy controller: True while an enforced rule is due here, so that no controller puts pods back on a node that is not healed. */
  repairNeeded: 'RepairNeeded',
} as const;

export const FINALIZERS = {
  machine: 'kubenode.io/machine',
  /** On a Cluster whose records are needed and would go with it: a unit is halted there, or to be removed. */
  records: 'kubenode.io/records',
} as const;

/** Field managers: one a writer. */
export const MANAGERS = {
  sync: 'kubenode-sync',
  rollout: 'kubenode-rollout',
  machine: 'kubenode-machine',
  identity: 'kubenode-identity',
  machineSet: 'kubenode-machineset',
  machineComponentSet: 'kubenode-machinecomponentset',
  defender: 'kubenode-defender',
  remedy: 'kubenode-remedy',
  remedyJob: 'kubenode-remedyjob',
  agent: 'kubenode-agent',
} as const;

/** Namespace of KubeNode's own objects (leader Leases, cluster Secrets). */
export const SYSTEM_NAMESPACE = 'kubenode-system';

/** The Lease that the agent of a Machine renews, in the Machine's namespace. */
export const agentLeaseName = (machine: string): string => `agent-${machine}`;
/** How long that Lease lasts: one more than two missed renewals, of 60 s ± 20 %. A Lease that names no duration lasts as long. */
export const AGENT_LEASE_SECONDS = 180;
/** Namespace of the Leases that kubelets renew, each of the name of its Node. */
export const KUBELET_LEASES = 'kube-node-lease';

/** What this build of the agent understands; a cell orders nothing above what an agent reports. */
export const API_LEVEL = 1;

/** The component name with which agents report Events. */
export const AGENT_REPORTER = { component: 'kubenode-agent', controller: 'kubenode.io/agent' } as const;
