/** What the policy of writers computes of a request: who writes, what differs, and what the owner table has for it. */
import type { Owners } from '../owners.ts';
import { literal, type Variable } from './policy.ts';
import { OWN_MANAGERS, whoIs } from './who.ts';

/** Ours, and those of a place: by these Defender counts a machine, also where it is not the Node but the Machine that has them. */
const SCOPE_LABELS = '^topology[.]kubernetes[.]io/|^([a-z0-9.-]+[.])?kubenode[.]io/';
/** And what the NodeRestriction plugin of the API server keeps from kubelets. */
const KEPT_LABELS = `^([a-z0-9.-]+[.])?(node-restriction|node-role)[.]kubernetes[.]io/|^kubernetes[.]io/hostname$|${SCOPE_LABELS}`;

/** The keys of two maps of labels that differ and are kept. */
const keptLabels = (now: string, before: string, kept: string): string =>
  `(${now}.filter(k, !(k in ${before}) || ${before}[k] != ${now}[k]) + ${before}.filter(k, !(k in ${now}))).filter(k, k.matches('${kept}'))`;

/** Records of what KubeNode's own writers own, where a person writes. */
const recordsOf = (meta: 'meta' | 'oldMeta'): string =>
  `variables.who != 'human' || request.operation == 'DELETE' ? []
    : variables.${meta}.?managedFields.orValue([]).filter(f, f.?manager.orValue('') in ${literal(OWN_MANAGERS)})`;

/** What a condition on the resource picks from a table by resource. */
const pick = (table: Record<string, unknown>, none: string): string => `${literal(table)}[?request.resource.resource].orValue(${none})`;

const column = (owners: Record<string, Owners>, of: (each: Owners) => unknown): Record<string, unknown> =>
  Object.fromEntries(Object.entries(owners).map(([plural, each]) => [plural, of(each)]));

const NO_HANDS = { create: [], update: [] };

export function writerVariables(owners: Record<string, Owners>, namespace: string): Variable[] {
  return [whoIs(namespace), ...STATE, ...rightsOf(owners), ...byPeople(owners), ...CHANGES];
}

/** The object before and after. */
const STATE: readonly Variable[] = [
  { name: 'old', expression: 'oldObject == null ? {} : dyn(oldObject).?spec.orValue({})' },
  { name: 'new', expression: 'object == null ? {} : dyn(object).?spec.orValue({})' },
  { name: 'oldMeta', expression: 'oldObject == null ? {} : dyn(oldObject).metadata' },
  { name: 'meta', expression: 'object == null ? {} : dyn(object).metadata' },
  {
    name: 'changed',
    expression: `variables.new.filter(k, !(k in variables.old && variables.new[k] == variables.old[k]))
          + variables.old.filter(k, !(k in variables.new))`,
  },
];

/** What the table has for the resource. */
function rightsOf(owners: Record<string, Owners>): Variable[] {
  const writers = (name: string, of: (each: Owners) => unknown): Variable => ({ name, expression: pick(column(owners, of), '[]') });
  return [
    {
      name: 'owners',
      expression: pick(
        column(owners, (each) => each.fields),
        '{}',
      ),
    },
    writers('creators', (each) => each.create),
    writers('deleters', (each) => each.delete),
    writers('labels', (each) => each.labels),
    writers('finalizers', (each) => each.finalizers ?? each.labels),
    writers('ownerReferences', (each) => each.ownerReferences ?? each.labels),
  ];
}

/** What a person may do besides, and what of it is kept. */
function byPeople(owners: Record<string, Owners>): Variable[] {
  const byHand = column(owners, (each) => each.byHand ?? NO_HANDS);
  return [
    {
      // No writer makes it its own by removing its owner: that is refused below.
      name: 'isByHand',
      expression: `variables.who == 'human' && request.resource.resource == 'machines'
          && !variables.meta.?ownerReferences.orValue([]).exists(o, o.?controller.orValue(false))`,
    },
    {
      name: 'byHand',
      expression: `variables.isByHand
          ? ${pick(byHand, "{'create': [], 'update': []}")}[request.operation == 'CREATE' ? 'create' : 'update'] : []`,
    },
    {
      name: 'release',
      expression: `request.resource.resource == 'machines' && variables.who == 'human'
          && has(variables.old.operation) && has(variables.new.operation)
          && variables.old.operation.kind in ['Change', 'Repair'] && variables.new.operation.kind == 'Cancelled'
          && variables.new.operation.?reason.orValue('') != ''
          && variables.new.operation.?cause.orValue('Released') == 'Released'
          && variables.new.operation.all(k, k in ['kind', 'cause', 'reason']
            || (k in variables.old.operation && variables.old.operation[k] == variables.new.operation[k]))
          && variables.old.operation.all(k, k in ['kind', 'cause', 'reason'] || k in variables.new.operation)`,
    },
    {
      // The cell copies them to the Node: by these, other tenants' pods choose where they run.
      name: 'kept',
      expression: `variables.isByHand && request.operation != 'DELETE'
          ? ${keptLabels('variables.new.?labels.orValue({})', 'variables.old.?labels.orValue({})', KEPT_LABELS)} : []`,
    },
    {
      name: 'keptMeta',
      expression: `variables.isByHand && request.operation != 'DELETE'
          ? ${keptLabels('variables.meta.?labels.orValue({})', 'variables.oldMeta.?labels.orValue({})', SCOPE_LABELS)} : []`,
    },
  ];
}

/** Whether, and where, the request changes what its writer does not own. */
const CHANGES: readonly Variable[] = [
  ...(['records', 'oldRecords'] as const).map((name) => ({ name, expression: recordsOf(name === 'records' ? 'meta' : 'oldMeta') })),
  {
    name: 'isChanged',
    expression: `request.operation == 'DELETE' || variables.changed.size() > 0 || ${[
      'labels',
      'annotations',
      'finalizers',
      'ownerReferences',
    ]
      .map((field) => `variables.meta[?'${field}'] != variables.oldMeta[?'${field}']`)
      .join(' || ')}`,
  },
  {
    name: 'bad',
    expression: `variables.changed.filter(f, !(variables.who in variables.owners[?f].orValue([]))
          && !(f in variables.byHand) && !(f == 'operation' && variables.release)
          && !(f == 'retire' && variables.who == 'human' && !has(variables.new.retire)))`,
  },
];
