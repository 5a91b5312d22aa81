import type { JsonObject } from '@kubenode/api-machinery/wire';
import { ageOf } from '../age.ts';
import { invalid, required, unsupported, type FieldProblem } from '../field-error.ts';
import { equal, isObject, listAt, objectAt, stringsAt, textAt } from '../json.ts';
import { checkPathSegment } from '../names.ts';
import { atomicList, fields, text, type Schema } from '../schema/schema.ts';
import type { Builtin } from './builtin.ts';
import { AGE, column, NAME } from './columns.ts';
import { labelSelector, wholeObject } from './object-meta.ts';

export const RBAC_GROUP = 'rbac.authorization.k8s.io';

const policyRule = fields(
  {
    apiGroups: atomicList(text(), 'Groups of the resources; "" is the core group, "*" all.'),
    nonResourceURLs: atomicList(text(), 'Paths that are no resources; "*" at the end stands for any rest. Only in ClusterRoles.'),
    resourceNames: atomicList(text(), 'Names of the objects; empty for all.'),
    resources: atomicList(text(), 'Resources, with subresources as "pods/eviction"; "*" for all.'),
    verbs: atomicList(text(), 'What may be done; "*" for all.'),
  },
  undefined,
  ['verbs'],
);
const rules = atomicList(policyRule, 'What is allowed.');

const subject: Schema = {
  ...fields({ apiGroup: text(), kind: text('User, Group or ServiceAccount.'), name: text(), namespace: text() }, undefined, [
    'kind',
    'name',
  ]),
  'x-kubernetes-map-type': 'atomic',
};
const roleRef: Schema = {
  ...fields({ apiGroup: text(), kind: text('Role or ClusterRole.'), name: text() }, 'The role that is given. It cannot be changed.', [
    'apiGroup',
    'kind',
    'name',
  ]),
  'x-kubernetes-map-type': 'atomic',
};

function checkRules(object: JsonObject, namespaced: boolean): FieldProblem[] {
  const out: FieldProblem[] = [];
  for (const [index, rule] of listAt(object, 'rules').entries()) {
    const path = `rules[${index}]`;
    if (stringsAt(rule, 'verbs').length === 0) out.push(required(`${path}.verbs`, 'verbs must contain at least one value'));
    const urls = stringsAt(rule, 'nonResourceURLs');
    if (urls.length > 0) {
      if (namespaced) out.push(invalid(`${path}.nonResourceURLs`, urls, 'namespaced rules cannot apply to non-resource URLs'));
      if (stringsAt(rule, 'apiGroups').length + stringsAt(rule, 'resources').length + stringsAt(rule, 'resourceNames').length > 0)
        out.push(invalid(`${path}.nonResourceURLs`, urls, 'rules cannot apply to both regular resources and non-resource URLs'));
      continue;
    }
    if (stringsAt(rule, 'apiGroups').length === 0)
      out.push(required(`${path}.apiGroups`, 'resource rules must supply at least one api group'));
    if (stringsAt(rule, 'resources').length === 0)
      out.push(required(`${path}.resources`, 'resource rules must supply at least one resource'));
  }
  return out;
}

function checkSubject(item: JsonObject, path: string, namespaced: boolean): FieldProblem[] {
  const out: FieldProblem[] = [];
  const { apiGroup = '', kind, name = '', namespace = '' } = item;
  if (name === '') out.push(required(`${path}.name`));
  switch (typeof kind === 'string' ? kind : '') {
    case 'ServiceAccount':
      if (typeof name === 'string' && name !== '') for (const line of checkPathSegment(name)) out.push(invalid(`${path}.name`, name, line));
      if (apiGroup !== '') out.push(unsupported(`${path}.apiGroup`, apiGroup, ['']));
      if (!namespaced && namespace === '') out.push(required(`${path}.namespace`));
      break;
    case 'User':
    case 'Group':
      if (apiGroup !== RBAC_GROUP) out.push(unsupported(`${path}.apiGroup`, apiGroup, [RBAC_GROUP]));
      break;
    default:
      out.push(unsupported(`${path}.kind`, kind, ['ServiceAccount', 'User', 'Group']));
  }
  return out;
}

/** As Go prints it. */
const goRef = (ref: JsonObject): JsonObject => ({
  APIGroup: ref['apiGroup'] ?? '',
  Kind: ref['kind'] ?? '',
  Name: ref['name'] ?? '',
});

function checkBinding(object: JsonObject, old: JsonObject | undefined, namespaced: boolean): FieldProblem[] {
  const ref = objectAt(object, 'roleRef');
  const out: FieldProblem[] = [];
  if (ref['apiGroup'] !== RBAC_GROUP) out.push(unsupported('roleRef.apiGroup', ref['apiGroup'], [RBAC_GROUP]));
  const kinds = namespaced ? ['Role', 'ClusterRole'] : ['ClusterRole'];
  if (!kinds.includes(textAt(ref, 'kind') ?? '')) out.push(unsupported('roleRef.kind', ref['kind'], kinds));
  const name = textAt(ref, 'name') ?? '';
  if (name === '') out.push(required('roleRef.name'));
  else for (const line of checkPathSegment(name)) out.push(invalid('roleRef.name', name, line));
  for (const [index, item] of listAt(object, 'subjects').entries())
    out.push(...checkSubject(objectAt(item), `subjects[${index}]`, namespaced));
  if (old !== undefined && !equal(ref, objectAt(old, 'roleRef'))) out.push(invalid('roleRef', goRef(ref), 'cannot change roleRef'));
  return out;
}

function defaultBinding(object: JsonObject): void {
  const ref = object['roleRef'];
  if (isObject(ref)) ref['apiGroup'] ??= RBAC_GROUP;
  for (const item of listAt(object, 'subjects')) {
    if (isObject(item) && (item['kind'] === 'User' || item['kind'] === 'Group')) item['apiGroup'] ??= RBAC_GROUP;
  }
}

const created = (object: JsonObject): string => textAt(object, 'metadata', 'creationTimestamp') ?? '';
const named = (object: JsonObject): string => textAt(object, 'metadata', 'name') ?? '';
const CREATED = column('Created At', 'When the object was created.', 'date');

const roleOf = (kind: 'Role' | 'ClusterRole'): Builtin => ({
  group: RBAC_GROUP,
  version: 'v1',
  kind,
  plural: `${kind.toLowerCase()}s`,
  namespaced: kind === 'Role',
  schema: wholeObject(
    `io.k8s.api.rbac.v1.${kind}`,
    kind === 'Role' ? 'Rights within a namespace.' : 'Rights in all of the cluster, or in a namespace that binds it.',
    {
      ...(kind === 'Role'
        ? {}
        : { aggregationRule: fields({ clusterRoleSelectors: atomicList(labelSelector, 'ClusterRoles whose rules this one has, too.') }) }),
      rules,
    },
  ),
  empty: { rules: null },
  columns: [NAME, CREATED],
  cells: (object) => [named(object), created(object)],
  strategy: {
    validateName: checkPathSegment,
    createOnUpdate: true,
    validate: (object) => checkRules(object, kind === 'Role'),
  },
});

const subjectsOf = (object: JsonObject, kind: string): string =>
  listAt(object, 'subjects')
    .filter((item) => textAt(item, 'kind') === kind)
    .map((item) =>
      kind === 'ServiceAccount' ? `${textAt(item, 'namespace') ?? ''}/${textAt(item, 'name') ?? ''}` : (textAt(item, 'name') ?? ''),
    )
    .join(', ');

const bindingOf = (kind: 'RoleBinding' | 'ClusterRoleBinding'): Builtin => ({
  group: RBAC_GROUP,
  version: 'v1',
  kind,
  plural: `${kind.toLowerCase()}s`,
  namespaced: kind === 'RoleBinding',
  schema: wholeObject(
    `io.k8s.api.rbac.v1.${kind}`,
    'Gives a role to users, groups and service accounts.',
    { roleRef, subjects: atomicList(subject, 'Who gets the role.') },
    ['roleRef'],
  ),
  columns: [
    NAME,
    column('Role', 'The role that is given.'),
    AGE,
    { ...column('Users', 'Users in the binding.'), priority: 1 },
    { ...column('Groups', 'Groups in the binding.'), priority: 1 },
    { ...column('ServiceAccounts', 'Service accounts in the binding.'), priority: 1 },
  ],
  cells: (object, now) => [
    named(object),
    `${textAt(object, 'roleRef', 'kind') ?? ''}/${textAt(object, 'roleRef', 'name') ?? ''}`,
    ageOf(created(object), now),
    subjectsOf(object, 'User'),
    subjectsOf(object, 'Group'),
    subjectsOf(object, 'ServiceAccount'),
  ],
  strategy: {
    validateName: checkPathSegment,
    createOnUpdate: true,
    defaults: defaultBinding,
    validate: (object, old) => checkBinding(object, old, kind === 'RoleBinding'),
  },
});

export const rbacKinds: readonly Builtin[] = [
  roleOf('Role'),
  roleOf('ClusterRole'),
  bindingOf('RoleBinding'),
  bindingOf('ClusterRoleBinding'),
];
