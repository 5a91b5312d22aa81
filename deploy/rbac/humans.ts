/** ClusterRoles for people to bind: each is the sum of what hub and cell add to it. */
import type { Construct } from 'constructs';
import { SYSTEM_NAMESPACE } from '../../src/api/names.ts';
import { aggregate, clusterRole, core, own, role, type Rule } from './rules.ts';

const LABELS = {
  view: 'kubenode.io/aggregate-to-view',
  operator: 'kubenode.io/aggregate-to-operator',
  admin: 'kubenode.io/aggregate-to-admin',
};

const READ = 'get list watch';

const CELL: Record<keyof typeof LABELS, Rule[]> = {
  view: [
    own(
      'machines machinesets machinecomponents machinecomponentsets defenderpolicies disruptionledgers freezes noderemediers remedyoperationjobs',
      READ,
    ),
    core('events nodes', READ),
  ],
  // The policy `kubenode-cell-writers` limits the fields.
  operator: [
    own('machines', 'create delete patch update'),
    own('machinesets machinecomponentsets', 'patch update'),
    own('machinesets/scale', 'get patch update'),
    own('freezes', 'create delete patch update'),
  ],
  admin: [],
};

const HUB: Record<keyof typeof LABELS, Rule[]> = {
  view: [own('fleets clusters rollouts', READ), core('events', READ)],
  operator: [own('rollouts clusters', 'patch update')],
  admin: [own('fleets', 'create delete patch update'), own('clusters', 'delete')],
};

export function humanRoles(scope: Construct, side: 'hub' | 'cell'): void {
  const rules = side === 'hub' ? HUB : CELL;
  const above: Record<keyof typeof LABELS, string[]> = {
    view: [LABELS.view, LABELS.operator, LABELS.admin],
    operator: [LABELS.operator, LABELS.admin],
    admin: [LABELS.admin],
  };
  for (const word of ['view', 'operator', 'admin'] as const) {
    aggregate(scope, `kubenode-${word}`, LABELS[word]);
    if (rules[word].length > 0)
      clusterRole(scope, `kubenode-${side}-${word}`, rules[word], Object.fromEntries(above[word].map((label) => [label, 'true'])));
  }
  // By a RoleBinding in a pool, to the people who import machines into it: a token of a bootstrap account admits an agent. Beside kubenode-operator, which makes
  // the Machines; no part of it, since it gives tokens of every ServiceAccount there.
  if (side === 'cell') clusterRole(scope, 'kubenode-importer', [core('serviceaccounts/token', 'create')]);
  // By a RoleBinding in this namespace, to the people who add cells; not part of admin, which may be bound for the whole cluster.
  if (side === 'hub') role(scope, SYSTEM_NAMESPACE, 'kubenode-cluster-secrets', [core('secrets', 'get list create patch update delete')]);
}
