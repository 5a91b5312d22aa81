import type { Json, JsonObject } from '@kubenode/api-machinery/wire';
import { compilePolicy } from '../admission/compile.ts';
import { ageOf } from '../age.ts';
import { invalid, required, unsupported, type FieldProblem } from '../field-error.ts';
import { isObject, listAt, objectAt, stringsAt, textAt } from '../json.ts';
import { checkSubdomain } from '../names.ts';
import { atomicList, fields, listMap, text, type Schema } from '../schema/schema.ts';
import type { Builtin } from './builtin.ts';
import { AGE, column, NAME } from './columns.ts';
import { conditions, labelSelector, wholeObject } from './object-meta.ts';
import { whole } from '../schema/schema.ts';

export const ADMISSION_GROUP = 'admissionregistration.k8s.io';
const OPERATIONS = ['*', 'CREATE', 'UPDATE', 'DELETE', 'CONNECT'];
const REASONS = ['Forbidden', 'Invalid', 'RequestEntityTooLarge', 'Unauthorized'];
const ACTIONS = ['Audit', 'Deny', 'Warn'];

const ruleOf = atomicList(
  fields({
    apiGroups: atomicList(text()),
    apiVersions: atomicList(text()),
    operations: atomicList(text()),
    resourceNames: atomicList(text()),
    resources: atomicList(text()),
    scope: text('Cluster, Namespaced or *.'),
  }),
  'Requests that match.',
);
const matching: Schema = fields(
  {
    excludeResourceRules: ruleOf,
    matchPolicy: text(),
    namespaceSelector: labelSelector,
    objectSelector: labelSelector,
    resourceRules: ruleOf,
  },
  'Which requests are checked.',
);

function defaultMatching(value: Json | undefined): void {
  if (!isObject(value)) return;
  value['matchPolicy'] ??= 'Equivalent';
  value['namespaceSelector'] ??= {};
  value['objectSelector'] ??= {};
  for (const list of ['resourceRules', 'excludeResourceRules'])
    for (const rule of listAt(value, list)) if (isObject(rule)) rule['scope'] ??= '*';
}

function checkMatching(value: JsonObject, path: string): FieldProblem[] {
  return listAt(value, 'resourceRules').flatMap((rule, index): FieldProblem[] => {
    const at = `${path}.resourceRules[${index}]`;
    return [
      ...['operations', 'apiGroups', 'apiVersions', 'resources']
        .filter((field) => stringsAt(rule, field).length === 0)
        .map((field) => required(`${at}.${field}`)),
      ...stringsAt(rule, 'operations').flatMap((operation, index) =>
        OPERATIONS.includes(operation) ? [] : [unsupported(`${at}.operations[${index}]`, operation, OPERATIONS)],
      ),
    ];
  });
}

function checkPolicy(object: JsonObject): FieldProblem[] {
  const spec = objectAt(object, 'spec');
  const out: FieldProblem[] = [];
  // What this server does not evaluate must not seem to be enforced.
  if (spec['paramKind'] !== undefined) out.push(invalid('spec.paramKind', spec['paramKind'], 'this server has no parameters of policies'));
  if (listAt(spec, 'auditAnnotations').length > 0) out.push(invalid('spec.auditAnnotations', '', 'this server has no audit log'));
  if (listAt(spec, 'matchConstraints', 'resourceRules').length === 0) out.push(required('spec.matchConstraints.resourceRules'));
  out.push(...checkMatching(objectAt(spec, 'matchConstraints'), 'spec.matchConstraints'));
  const failure = textAt(spec, 'failurePolicy') ?? '';
  if (failure !== 'Fail' && failure !== 'Ignore') out.push(unsupported('spec.failurePolicy', failure, ['Fail', 'Ignore']));
  if (listAt(spec, 'validations').length === 0)
    for (const field of ['validations', 'auditAnnotations'])
      out.push(required(`spec.${field}`, 'validations or auditAnnotations must contain at least one item'));
  for (const [index, item] of listAt(spec, 'validations').entries()) {
    const reason = textAt(item, 'reason');
    if (reason !== undefined && !REASONS.includes(reason)) out.push(unsupported(`spec.validations[${index}].reason`, reason, REASONS));
  }
  out.push(...compilePolicy(object).problems);
  return out;
}

const policy: Builtin = {
  group: ADMISSION_GROUP,
  version: 'v1',
  kind: 'ValidatingAdmissionPolicy',
  plural: 'validatingadmissionpolicies',
  namespaced: false,
  categories: ['api-extensions'],
  schema: wholeObject('io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicy', 'Rules in CEL about who may write what.', {
    spec: fields({
      auditAnnotations: atomicList(fields({ key: text(), valueExpression: text() })),
      failurePolicy: text('Fail or Ignore: what an error of an expression means.'),
      matchConditions: listMap(fields({ expression: text(), name: text() }), ['name'], 'All must be true for a request to be checked.'),
      matchConstraints: matching,
      paramKind: fields({ apiVersion: text(), kind: text() }),
      validations: atomicList(
        fields({ expression: text(), message: text(), messageExpression: text(), reason: text() }),
        'All must be true for a request to be let in.',
      ),
      variables: listMap(fields({ expression: text(), name: text() }), ['name'], 'Expressions with names, for those after them.'),
    }),
    status: fields({
      conditions: conditions({ observedGeneration: whole() }),
      observedGeneration: whole(),
      typeChecking: fields({ expressionWarnings: atomicList(fields({ fieldRef: text(), warning: text() })) }),
    }),
  }),
  empty: { spec: {}, status: {} },
  subresources: ['status'],
  columns: [NAME, column('Validations', 'Number of validations.', 'integer'), column('ParamKind', 'Kind of its parameters.'), AGE],
  cells: (object, now) => [
    textAt(object, 'metadata', 'name') ?? '',
    listAt(object, 'spec', 'validations').length,
    '<unset>',
    ageOf(textAt(object, 'metadata', 'creationTimestamp'), now),
  ],
  strategy: {
    generation: 'spec',
    statusFields: ['status'],
    validateName: checkSubdomain,
    createOnUpdate: false,
    unconditionalUpdate: false,
    defaults(object) {
      const { spec } = object;
      if (!isObject(spec)) return;
      spec['failurePolicy'] ??= 'Fail';
      defaultMatching(spec['matchConstraints']);
    },
    prepareCreate(object) {
      object['status'] = {};
    },
    validate: checkPolicy,
  },
};

function checkBinding(object: JsonObject): FieldProblem[] {
  const spec = objectAt(object, 'spec');
  const out: FieldProblem[] = [];
  if ((textAt(spec, 'policyName') ?? '') === '') out.push(required('spec.policyName'));
  if (spec['paramRef'] !== undefined) out.push(invalid('spec.paramRef', '', 'this server has no parameters of policies'));
  out.push(...checkMatching(objectAt(spec, 'matchResources'), 'spec.matchResources'));
  const actions = stringsAt(spec, 'validationActions');
  if (actions.length === 0) out.push(required('spec.validationActions', ''));
  for (const action of actions) if (!ACTIONS.includes(action)) out.push(unsupported('spec.validationActions', action, ACTIONS));
  return out;
}

const binding: Builtin = {
  group: ADMISSION_GROUP,
  version: 'v1',
  kind: 'ValidatingAdmissionPolicyBinding',
  plural: 'validatingadmissionpolicybindings',
  namespaced: false,
  categories: ['api-extensions'],
  schema: wholeObject(
    'io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicyBinding',
    'Where a policy is in force, and what it does.',
    {
      spec: fields({
        matchResources: matching,
        paramRef: fields({ name: text(), namespace: text(), parameterNotFoundAction: text(), selector: labelSelector }),
        policyName: text('The policy.'),
        validationActions: {
          type: 'array',
          items: text(),
          'x-kubernetes-list-type': 'set',
          description: 'Deny, Warn or Audit.',
        },
      }),
    },
  ),
  empty: { spec: {} },
  columns: [NAME, column('PolicyName', 'The policy.'), column('ParamRef', 'Its parameters.'), AGE],
  cells: (object, now) => [
    textAt(object, 'metadata', 'name') ?? '',
    textAt(object, 'spec', 'policyName') ?? '',
    '<unset>',
    ageOf(textAt(object, 'metadata', 'creationTimestamp'), now),
  ],
  strategy: {
    generation: 'spec',
    validateName: checkSubdomain,
    unconditionalUpdate: false,
    defaults(object) {
      if (isObject(object['spec'])) defaultMatching(object['spec']['matchResources']);
    },
    validate: checkBinding,
  },
};

export const admissionKinds: readonly Builtin[] = [policy, binding];
