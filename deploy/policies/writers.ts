/** The owner table: who may create, delete, label and write which field of `spec`. */
import type { Construct } from 'constructs';
import { GROUP } from '../../src/api/kind.ts';
import type { Owners, Writer } from '../owners.ts';
import { HELD, literal, policy, type Validation } from './policy.ts';
import { fewerFields, FIELD_MANAGER, IS_AGENT, OWN_MANAGERS, sameRecord } from './who.ts';
import { writerVariables } from './writer-variables.ts';

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

/**
 * Fields are compared one by one, so that a write that changes nothing of another's passes, as does a PUT of the whole object. A removed
 * field is a changed one. A person may do two things besides: release an operation (docs/protocols.md#d5), and take back the mark of a machine that its
 * set wants gone (#c8a).
 */
export function writersPolicy(scope: Construct, side: 'hub' | 'cell', owners: Record<string, Owners>, namespace: string): void {
  policy(scope, {
    name: `kubenode-${side}-writers`,
    match: [{ apiGroups: [GROUP], apiVersions: ['*'], operations: ['CREATE', 'UPDATE', 'DELETE'], resources: Object.keys(owners) }],
    // Agents have a policy of their own, which lets none of these through.
    conditions: [...HELD, { name: 'not-an-agent', expression: `!${IS_AGENT}` }],
    variables: writerVariables(owners, namespace),
    validations: [...VALIDATIONS, metadata('labels', '{}'), metadata('finalizers', '[]'), metadata('ownerReferences', '[]')],
  });
}

const words = (list: string): string => `${list}.map(w, ${literal(WORDS)}[?w].orValue(w)).join(' or ')`;

const VALIDATIONS: readonly Validation[] = [
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
    messageExpression: `'spec.labels: ' + variables.kept[0] + ' of a Node decides what runs there, for whom and where it is; people do not set it'`,
  },
  {
    expression: 'variables.keptMeta.size() == 0',
    messageExpression: `'metadata.labels: ' + variables.keptMeta[0] + ' of a Machine decides where it is counted; people do not set it'`,
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
];

function metadata(field: 'labels' | 'finalizers' | 'ownerReferences', empty: string): Validation {
  return {
    expression: `request.operation == 'DELETE' || variables.who in variables.${field}
      || variables.meta.?${field}.orValue(${empty}) == variables.oldMeta.?${field}.orValue(${empty})
      ${field === 'labels' ? '|| variables.isByHand' : ''}`,
    messageExpression: `'metadata.${field} of ' + request.resource.resource + ' are written by ' + ${words(`variables.${field}`)}`,
  };
}
