/** No user gives rights that they do not have: what the real server checks before it stores a role or a binding. */
import type { JsonObject } from '@kubenode/api-machinery/wire';
import { equal, isObject, objectAt, textAt } from '../json.ts';
import { RBAC_GROUP } from '../kinds/rbac.ts';
import type { Served, User } from '../kinds/served.ts';
import { forbiddenObject, notFound } from '../refusal.ts';
import { EVERYTHING, type Authorizer } from './authorizer.ts';
import { missingFrom, rulesOf, shownRules, type PolicyRule } from './rules.ts';

/** Throws a Refusal when `user` may not change `old` to `object`. */
export function checkEscalation(authorizer: Authorizer, served: Served, user: User, object: JsonObject, old: JsonObject | undefined): void {
  if (served.group !== RBAC_GROUP) return;
  switch (served.kind) {
    case 'Role':
    case 'ClusterRole':
      return checkRole(authorizer, served, user, object, old);
    case 'RoleBinding':
    case 'ClusterRoleBinding':
      return checkBinding(authorizer, served, user, object, old);
    default:
  }
}

const nameOf = (object: JsonObject): string => textAt(object, 'metadata', 'name') ?? '';
const namespaceOf = (object: JsonObject): string => textAt(object, 'metadata', 'namespace') ?? '';

function mayAny(authorizer: Authorizer, user: User, verb: string, resource: string, namespace: string, name: string): boolean {
  return authorizer.authorize(user, { verb, group: RBAC_GROUP, resource, subresource: '', namespace, name }).allowed;
}

function refuse(served: Served, object: JsonObject, user: User, missing: readonly PolicyRule[]): void {
  if (missing.length === 0) return;
  const groups = user.groups.map((group) => JSON.stringify(group)).join(' ');
  const who = `user ${JSON.stringify(user.name)} (groups=[${groups}])`;
  throw forbiddenObject(
    served,
    nameOf(object),
    `${who} is attempting to grant RBAC permissions not currently held:\n${shownRules(missing)}`,
  );
}

function checkRole(authorizer: Authorizer, served: Served, user: User, object: JsonObject, old: JsonObject | undefined): void {
  const [namespace, name] = [namespaceOf(object), nameOf(object)];
  const same = old !== undefined && equal(object['rules'], old['rules']) && equal(object['aggregationRule'], old['aggregationRule']);
  if (same || mayAny(authorizer, user, 'escalate', served.plural, namespace, name)) return;
  const owned = authorizer.rulesFor(user, namespace);
  refuse(served, object, user, missingFrom(owned, rulesOf(object)));
  if (isObject(object['aggregationRule']) && missingFrom(owned, EVERYTHING).length > 0)
    throw forbiddenObject(served, name, 'must have cluster-admin privileges to use the aggregationRule');
}

function checkBinding(authorizer: Authorizer, served: Served, user: User, object: JsonObject, old: JsonObject | undefined): void {
  const same = old !== undefined && equal(object['roleRef'], old['roleRef']) && equal(object['subjects'], old['subjects']);
  if (same) return;
  const ref = objectAt(object, 'roleRef');
  const [kind, name] = [textAt(ref, 'kind') ?? '', textAt(ref, 'name') ?? ''];
  const namespace = namespaceOf(object);
  if (mayAny(authorizer, user, 'bind', kind === 'Role' ? 'roles' : 'clusterroles', namespace, name)) return;
  const rules = authorizer.roleRules(kind, namespace, name);
  // Upstream names the resource of the binding here.
  if (rules === undefined) throw notFound(served, name);
  refuse(served, object, user, missingFrom(authorizer.rulesFor(user, namespace), rules));
}
