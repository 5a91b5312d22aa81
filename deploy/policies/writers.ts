/** The owner table: who may create, delete, label and write which field of `spec`. */
import type { Construct } from 'constructs';
import { GROUP } from '../../src/api/kind.ts';
import type { Owners, Writer } from '../owners.ts';
import { HELD, literal, policy } from './policy.ts';
import { fewerFields, FIELD_MANAGER, IS_AGENT, OWN_MANAGERS, sameRecord, whoIs } from './who.ts';

/** For messages. */
const WORDS: Record<Writer, string> = {
  human: 'people',
  hub: 'the hub, from Git: change it in fleet/',
  sync: 'the hub, from Git: change it in fleet/ or rules/',
  machine: 'the machine controller',
  identity: 'the identity controller',
  machineSet: 'the MachineSet controller, from the template of its set',
  machineComponentSet: 'the MachineComponentSet controller',
  defender: 'Defender',
  remedy: 'the remedy controller',
  remedyJob: 'the remedy job controller',
};

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

/**
 * Fields are compared one by one, so that a write that changes nothing of another's passes, as does a PUT of the whole object. A removed
 * field is a changed one. A person may do two things besides: release an operation (docs/protocols.md#d5), and take back the mark of a machine that its
 * set wants gone (#c8a).
 */
export function writersPolicy(scope: Construct, side: 'hub' | 'cell', owners: Record<string, Owners>, namespace: string): void {
  const byHand = column(owners, (each) => each.byHand ?? { create: [], update: [] });
  const words = (list: string): string => `${list}.map(w, ${literal(WORDS)}[?w].orValue(w)).join(' or ')`;
  const metadata = (field: 'labels' | 'finalizers' | 'ownerReferences', empty: string) => ({
    expression: `request.operation == 'DELETE' || variables.who in variables.${field}
      || variables.meta.?${field}.orValue(${empty}) == variables.oldMeta.?${field}.orValue(${empty})
      ${field === 'labels' ? '|| variables.isByHand' : ''}`,
    messageExpression: `'metadata.${field} of ' + request.resource.resource + ' are written by ' + ${words(`variables.${field}`)}`,
  });
  policy(scope, {
    name: `kubenode-${side}-writers`,
    match: [{ apiGroups: [GROUP], apiVersions: ['*'], operations: ['CREATE', 'UPDATE', 'DELETE'], resources: Object.keys(owners) }],
    // Agents have a policy of their own, which lets none of these through.
    conditions: [...HELD, { name: 'not-an-agent', expression: `!${IS_AGENT}` }],
    variables: [
      whoIs(namespace),
      { name: 'old', expression: 'oldObject == null ? {} : dyn(oldObject).?spec.orValue({})' },
      { name: 'new', expression: 'object == null ? {} : dyn(object).?spec.orValue({})' },
      { name: 'oldMeta', expression: 'oldObject == null ? {} : dyn(oldObject).metadata' },
      { name: 'meta', expression: 'object == null ? {} : dyn(object).metadata' },
      {
        name: 'changed',
        expression: `variables.new.filter(k, !(k in variables.old && variables.new[k] == variables.old[k]))
          + variables.old.filter(k, !(k in variables.new))`,
      },
      {
        name: 'owners',
        expression: pick(
          column(owners, (each) => each.fields),
          '{}',
        ),
      },
      {
        name: 'creators',
        expression: pick(
          column(owners, (each) => each.create),
          '[]',
        ),
      },
      {
        name: 'deleters',
        expression: pick(
          column(owners, (each) => each.delete),
          '[]',
        ),
      },
      {
        name: 'labels',
        expression: pick(
          column(owners, (each) => each.labels),
          '[]',
        ),
      },
      {
        name: 'finalizers',
        expression: pick(
          column(owners, (each) => each.finalizers ?? each.labels),
          '[]',
        ),
      },
      {
        name: 'ownerReferences',
        expression: pick(
          column(owners, (each) => each.ownerReferences ?? each.labels),
          '[]',
        ),
      },
      {
        // Nobody makes it his own by taking its owner away: that is refused below.
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
    ],
    validations: [
      {
        expression: "request.operation != 'CREATE' || variables.who in variables.creators",
        messageExpression: `request.resource.resource + ' are made by ' + ${words('variables.creators')}`,
      },
      {
        expression: "request.operation != 'DELETE' || variables.who in variables.deleters",
        messageExpression: `variables.deleters.size() == 0 ? request.resource.resource + ' are deleted by nobody'
          : request.resource.resource + ' are deleted by ' + ${words('variables.deleters')}`,
      },
      {
        expression: "request.operation == 'DELETE' || variables.bad.size() == 0",
        messageExpression: `'spec.' + variables.bad[0] + ' is written by '
          + (variables.owners[?variables.bad[0]].orValue([]).size() == 0 ? 'nobody' : ${words('variables.owners[?variables.bad[0]].orValue([])')})
          + '; ' + request.userInfo.username + ' may change '
          + (variables.owners.exists(f, variables.who in variables.owners[f]) ? 'only ' + variables.owners.filter(f, variables.who in variables.owners[f]).join(', ') : 'nothing of it')`,
      },
      {
        expression: 'variables.kept.size() == 0',
        messageExpression: `'spec.labels: ' + variables.kept[0] + ' of a Node says what runs there, for whom and where it is; people do not set it'`,
      },
      {
        expression: 'variables.keptMeta.size() == 0',
        messageExpression: `'metadata.labels: ' + variables.keptMeta[0] + ' of a Machine says where it is counted; people do not set it'`,
      },
      {
        expression: `variables.who != 'human' || !(${FIELD_MANAGER} in ${literal(OWN_MANAGERS)})`,
        messageExpression: `'the field manager ' + ${FIELD_MANAGER} + " is one of KubeNode's own writers; give another, or none"`,
      },
      {
        // A person's change takes fields from the records of others, as the server notes it; it never gives them any (docs/protocols.md#g7b).
        expression: `variables.records.all(f, variables.oldRecords.exists(g, ${fewerFields('f', 'g')}))
          && (variables.isChanged || variables.oldRecords.all(g, g.?operation.orValue('') != 'Apply' || variables.records.exists(f, ${sameRecord('f', 'g')})))`,
        messageExpression: `"metadata.managedFields: people change no record of what KubeNode's own writers own"`,
      },
      metadata('labels', '{}'),
      metadata('finalizers', '[]'),
      metadata('ownerReferences', '[]'),
    ],
  });
}
