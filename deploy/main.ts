/** KubeNode's own manifests: what `kubenode install` prints. */
import { App, Chart } from 'cdk8s';
import { Namespace } from 'cdk8s-plus-27';
import { CELL_KINDS, HUB_KINDS } from '../src/api/kinds.ts';
import { SYSTEM_NAMESPACE } from '../src/api/names.ts';
import type { KubeObject } from '../src/api/wire.ts';
import { agentFlow } from './flow.ts';
import { object, type Manifest } from './object.ts';
import type { InstallOptions } from './options.ts';
import { CELL_OWNERS, HUB_OWNERS } from './owners.ts';
import { agentPolicy, machineStatusPolicy } from './policies/machinestatus.ts';
import { agentCreatesPolicy, grantsPolicy, kubeletsPolicy, nodePolicy } from './policies/names.ts';
import { writersPolicy } from './policies/writers.ts';
import { agentRights } from './rbac/agents.ts';
import { cellRights } from './rbac/cell.ts';
import { hubRights } from './rbac/hub.ts';
import { humanRoles } from './rbac/humans.ts';
import { metricsRole } from './rbac/metrics.ts';
import { controllers } from './workload.ts';

export type { InstallOptions } from './options.ts';

/**
 * Everything that a hub or a cell needs, in the order in which it can be applied. The same options give the same objects; hub and cell may
 * be one cluster, then both are applied.
 */
export function manifests(options: InstallOptions): KubeObject[] {
  const { role, namespace } = options;
  const chart = new Chart(new App(), 'kubenode', { disableResourceNameHashes: true });
  const namespaces = role === 'hub' ? new Set([namespace, SYSTEM_NAMESPACE]) : new Set([namespace]);
  for (const name of namespaces) {
    // Nothing here needs more, so the cluster may hold it to that.
    const labels = { 'pod-security.kubernetes.io/enforce': 'restricted' };
    new Namespace(chart, `Namespace:${name}`, { metadata: { name, labels } });
  }
  for (const kind of role === 'hub' ? HUB_KINDS : CELL_KINDS) object(chart, asKept(kind.crd() as unknown as Manifest));
  if (role === 'hub') {
    writersPolicy(chart, 'hub', HUB_OWNERS, namespace);
    hubRights(chart, namespace);
  } else {
    writersPolicy(chart, 'cell', CELL_OWNERS, namespace);
    machineStatusPolicy(chart, namespace);
    agentPolicy(chart);
    agentCreatesPolicy(chart);
    kubeletsPolicy(chart);
    grantsPolicy(chart, namespace);
    nodePolicy(chart, namespace);
    cellRights(chart, namespace);
    agentRights(chart);
    agentFlow(chart);
  }
  humanRoles(chart, role);
  metricsRole(chart);
  controllers(chart, options);
  const list = chart.toJson() as KubeObject[];
  // Policies before what they hold, and rights before those who use them: cdk8s orders by dependency only, which none of these has.
  return list.toSorted((a, b) => rank(a) - rank(b));
}

/** Without what a server does not keep: Kubernetes 1.30 takes each apply of it for a change. */
const asKept = (definition: Manifest): Manifest =>
  JSON.parse(
    JSON.stringify(definition, (key, value: unknown) =>
      ['properties', 'shortNames'].includes(key) && Object.keys(Object(value)).length === 0 ? undefined : value,
    ),
  ) as Manifest;

const ORDER = [
  'Namespace',
  'CustomResourceDefinition',
  'ValidatingAdmissionPolicy',
  'ValidatingAdmissionPolicyBinding',
  'PriorityLevelConfiguration',
  'FlowSchema',
  'ServiceAccount',
  'ClusterRole',
  'ClusterRoleBinding',
  'Role',
  'RoleBinding',
  'Service',
  'NetworkPolicy',
  'PodDisruptionBudget',
  'Deployment',
];

function rank(object: KubeObject): number {
  const at = ORDER.indexOf(object.kind);
  if (at < 0) return ORDER.length;
  // Roles that are sums before their parts: who deletes in this order leaves none that Kubernetes' controller writes once more when a part goes.
  return 'aggregationRule' in object ? at - 0.5 : at;
}
