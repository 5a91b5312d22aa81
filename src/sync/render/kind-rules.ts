/** Which kinds a fleet may have, and where their objects live. */
import { CELL_KINDS } from '../../api/kinds.ts';
import { API_VERSION, GROUP, type Kind } from '../../api/kind.ts';
import { groupOf } from '../../api/unit.ts';
import type { KubeObject } from '../../api/wire.ts';

export type KindScope = 'Namespaced' | 'Cluster' | 'Unknown';

export type KindRule = { allowed: true; scope: KindScope; kind: Kind | undefined } | { allowed: false; message: string; next?: string };

/** Kinds of ours that are not written in Git, and whose they are. */
const REFUSED = new Map([
  ['Fleet', 'is applied to the hub by hand: what decides which commits count must not come from a commit'],
  ['Rollout', 'is made by the hub'],
  ['Cluster', 'is declared with fleet.cluster(…) and lives in the hub'],
  ['Machine', 'is made by a MachineSet or by `kubenode import`'],
  ['Freeze', 'is made by hand: it must work without Git'],
  ['DisruptionLedger', "is Defender's own"],
  ['RemedyOperationJob', 'is made in a cell by the rule that matched: write a NodeRemedier'],
]);

const BUILTIN: [apiVersion: string, scope: KindScope, kinds: string[]][] = [
  ['v1', 'Cluster', ['Namespace']],
  ['v1', 'Namespaced', ['ConfigMap', 'ServiceAccount', 'Service', 'Secret']],
  ['policy/v1', 'Namespaced', ['PodDisruptionBudget']],
  ['apps/v1', 'Namespaced', ['DaemonSet', 'Deployment']],
  ['rbac.authorization.k8s.io/v1', 'Namespaced', ['Role', 'RoleBinding']],
  ['rbac.authorization.k8s.io/v1', 'Cluster', ['ClusterRole', 'ClusterRoleBinding']],
];

/** Kinds that units are known by without their group (docs/protocols.md#e1), and the group whose they are. */
const GROUP_BY_KIND = new Map([
  ...CELL_KINDS.map((each): [string, string] => [each.kind, each.group]),
  ['Namespace', ''],
  ['CustomResourceDefinition', 'apiextensions.k8s.io'],
]);

const CLOSED_GROUPS = new Set(BUILTIN.map(([apiVersion]) => groupOf(apiVersion)));

/** Kinds of groups that are not named here pass as they are: their own server checks them. */
export function kindRule({ apiVersion, kind }: KubeObject): KindRule {
  const group = groupOf(apiVersion);
  if (group === GROUP) {
    const refusal = REFUSED.get(kind);
    if (refusal !== undefined) return { allowed: false, message: `a ${kind} ${refusal}` };
    const ours = CELL_KINDS.find((each) => each.kind === kind);
    const known = CELL_KINDS.filter((each) => !REFUSED.has(each.kind)).map((each) => each.kind);
    if (ours === undefined) return { allowed: false, message: `${GROUP} has no kind "${kind}"; it has ${known.join(', ')}` };
    if (apiVersion !== API_VERSION)
      return { allowed: false, message: `\`apiVersion\` of a ${kind} must be "${API_VERSION}", got "${apiVersion}"` };
    return { allowed: true, scope: ours.namespaced ? 'Namespaced' : 'Cluster', kind: ours };
  }
  const ownGroup = GROUP_BY_KIND.get(kind);
  if (ownGroup !== undefined && ownGroup !== group && !CLOSED_GROUPS.has(group))
    return {
      allowed: false,
      message: `a fleet has no ${kind} of ${apiVersion}: a unit is known by its kind without the group, and ${kind} is a kind of ${ownGroup === '' ? 'Kubernetes itself' : ownGroup}`,
      next:
        ownGroup === GROUP
          ? `write \`apiVersion: ${API_VERSION}\` where KubeNode's ${kind} is meant; else deliver it by other means`
          : 'deliver it by other means',
    };
  if (!CLOSED_GROUPS.has(group)) return { allowed: true, scope: 'Unknown', kind: undefined };
  const found = BUILTIN.find(([version, , kinds]) => version === apiVersion && kinds.includes(kind));
  if (found !== undefined) return { allowed: true, scope: found[1], kind: undefined };
  const other = BUILTIN.find(([, , kinds]) => kinds.includes(kind));
  if (other !== undefined && groupOf(other[0]) === group)
    return { allowed: false, message: `\`apiVersion\` of a ${kind} must be "${other[0]}", got "${apiVersion}"` };
  return {
    allowed: false,
    message: `a fleet does not have objects of kind "${kind}" of ${apiVersion}; of Kubernetes' own kinds it has ${BUILTIN.flatMap(([, , kinds]) => kinds).join(', ')}`,
    next: 'workloads are delivered by other means; a fleet has nodes and what they need',
  };
}
