import type { Json, JsonObject } from '@kubenode/api-machinery/wire';
import { ageOf } from '../age.ts';
import { invalid, unsupported, type FieldProblem } from '../field-error.ts';
import { at, listAt, numberAt, shown, textAt } from '../json.ts';
import { checkSubdomain } from '../names.ts';
import { fields, intOrString, mapOf, text, time, whole } from '../schema/schema.ts';
import type { Builtin } from './builtin.ts';
import { AGE, column, NAME } from './columns.ts';
import { conditions, labelSelector, wholeObject } from './object-meta.ts';

function checkCount(path: string, value: Json | undefined): FieldProblem[] {
  if (value === undefined) return [];
  if (typeof value === 'number') {
    return value < 0 || !Number.isInteger(value) ? [invalid(path, value, 'must be greater than or equal to 0')] : [];
  }
  const percent = /^(\d+)%$/.exec(typeof value === 'string' ? value : '');
  if (percent === null) {
    return [
      invalid(
        path,
        value,
        "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')",
      ),
    ];
  }
  return Number(percent[1]) > 100 ? [invalid(path, value, 'must not be greater than 100%')] : [];
}

function validate(object: JsonObject): FieldProblem[] {
  const min = at(object, 'spec', 'minAvailable');
  const max = at(object, 'spec', 'maxUnavailable');
  const out = [...checkCount('spec.minAvailable', min), ...checkCount('spec.maxUnavailable', max)];
  if (min !== undefined && max !== undefined) {
    out.push(invalid('spec', at(object, 'spec'), 'minAvailable and maxUnavailable cannot be both set'));
  }
  for (const [index, term] of listAt(object, 'spec', 'selector', 'matchExpressions').entries()) {
    const operator = textAt(term, 'operator') ?? '';
    if (!['In', 'NotIn', 'Exists', 'DoesNotExist'].includes(operator))
      out.push(invalid(`spec.selector.matchExpressions[${index}].operator`, operator, 'not a valid selector operator'));
  }
  const policy = textAt(object, 'spec', 'unhealthyPodEvictionPolicy');
  if (policy !== undefined && policy !== 'IfHealthyBudget' && policy !== 'AlwaysAllow') {
    out.push(unsupported('spec.unhealthyPodEvictionPolicy', policy, ['AlwaysAllow', 'IfHealthyBudget']));
  }
  return out;
}

const countText = (value: Json | undefined) => (value === undefined ? 'N/A' : shown(value));

export const disruptionBudget: Builtin = {
  group: 'policy',
  version: 'v1',
  kind: 'PodDisruptionBudget',
  plural: 'poddisruptionbudgets',
  namespaced: true,
  shortNames: ['pdb'],
  schema: wholeObject('io.k8s.api.policy.v1.PodDisruptionBudget', 'How many pods of a set may be disrupted at once.', {
    spec: fields(
      {
        maxUnavailable: intOrString('Most pods that may be unavailable: a count or a percentage.'),
        minAvailable: intOrString('Least pods that must be available: a count or a percentage.'),
        selector: { ...labelSelector, 'x-kubernetes-patch-strategy': 'replace' },
        unhealthyPodEvictionPolicy: text('IfHealthyBudget or AlwaysAllow.'),
      },
      'The budget.',
    ),
    status: fields(
      {
        conditions: conditions({ observedGeneration: whole() }),
        currentHealthy: whole('Healthy pods now.', 'int32'),
        desiredHealthy: whole('Healthy pods wanted.', 'int32'),
        disruptedPods: mapOf(time(), 'Pods whose eviction was accepted and that are not yet gone.'),
        disruptionsAllowed: whole('Disruptions allowed now.', 'int32'),
        expectedPods: whole('Pods counted by the budget.', 'int32'),
        observedGeneration: whole('Generation that this status is for.'),
      },
      'State of the budget.',
    ),
  }),
  empty: { spec: {}, status: { disruptionsAllowed: 0, currentHealthy: 0, desiredHealthy: 0, expectedPods: 0 } },
  subresources: ['status'],
  columns: [
    NAME,
    column('Min Available', 'The minimum number of pods that must be available.'),
    column('Max Unavailable', 'The maximum number of pods that may be unavailable.'),
    column('Allowed Disruptions', 'Calculated number of pods that may be disrupted at this time.', 'integer'),
    AGE,
  ],
  cells: (object, now) => [
    textAt(object, 'metadata', 'name') ?? '',
    countText(at(object, 'spec', 'minAvailable')),
    countText(at(object, 'spec', 'maxUnavailable')),
    numberAt(object, 'status', 'disruptionsAllowed') ?? 0,
    ageOf(textAt(object, 'metadata', 'creationTimestamp'), now),
  ],
  strategy: { generation: 'spec', statusFields: ['status'], unconditionalUpdate: false, validateName: checkSubdomain, validate },
};
