/** `Machine.status` has several writers on one subresource: the agent's part is the agent's, the rest the cell controllers'. */
import type { Construct } from 'constructs';
import { GROUP } from '../../src/api/kind.ts';
import { MANAGERS } from '../../src/api/names.ts';
import { AGENT_CONDITIONS, AGENT_STATUS } from '../owners.ts';
import { HELD, literal, policy } from './policy.ts';
import { AGENT_OF, FIELD_MANAGER, IS_AGENT, sameRecord, sameWriter, whoIs } from './who.ts';

const STATUS = [
  { name: 'old', expression: 'oldObject == null ? {} : dyn(oldObject).?status.orValue({})' },
  { name: 'new', expression: 'object == null ? {} : dyn(object).?status.orValue({})' },
  {
    name: 'changed',
    expression: `variables.new.filter(k, !(k in variables.old && variables.new[k] == variables.old[k]))
      + variables.old.filter(k, !(k in variables.new))`,
  },
];

const isAgentsCondition = `c.type in ${literal(AGENT_CONDITIONS)}`;
const conditionsWhere = (which: 'old' | 'new', filter: string): string => `variables.${which}.?conditions.orValue([]).filter(c, ${filter})`;

/** Records of what others own: all applies, and what KubeNode's own writers wrote in other ways. */
const recordsOfOthers = (which: 'object' | 'oldObject'): string =>
  `(${which} == null ? [] : dyn(${which}).metadata.?managedFields.orValue([])).filter(f, f.?manager.orValue('') != '${MANAGERS.agent}'
    && (f.?operation.orValue('') == 'Apply' || f.?manager.orValue('').startsWith('kubenode-')))`;

/** Such a record that has fields of the agent, from before they were refused: the agent's own apply takes them back. */
const hasAgents = (record: string): string => {
  const status = `${record}.?fieldsV1.orValue({})[?'f:status'].orValue({})`;
  const conditions = AGENT_CONDITIONS.map((type) => `'k:{"type":"${type}"}' in ${status}[?'f:conditions'].orValue({})`);
  return `(${[...AGENT_STATUS.map((field) => `'f:${field}' in ${status}`), ...conditions].join(' || ')})`;
};

/** Agents: nothing of kubenode.io but the status of their own Machine, and of that their own fields and conditions. */
export function agentPolicy(scope: Construct): void {
  policy(scope, {
    name: 'kubenode-agents',
    match: [{ apiGroups: [GROUP], apiVersions: ['*'], operations: ['CREATE', 'UPDATE', 'DELETE'], resources: ['*/*'] }],
    conditions: [{ name: 'agents', expression: IS_AGENT }],
    variables: [
      AGENT_OF,
      ...STATUS,
      { name: 'foreign', expression: `variables.changed.filter(k, !(k in ${literal([...AGENT_STATUS, 'conditions'])}))` },
      { name: 'records', expression: recordsOfOthers('object') },
      { name: 'oldRecords', expression: recordsOfOthers('oldObject') },
    ],
    validations: [
      {
        expression: `request.operation == 'UPDATE' && request.resource.resource == 'machines' && request.?subResource.orValue('') == 'status'
          && request.?namespace.orValue('') == variables.me[0] && request.name == variables.me[1]`,
        messageExpression: `'an agent writes the status of its own Machine only; ' + request.userInfo.username + ' may not write '
          + request.resource.resource + ' ' + request.?namespace.orValue('') + '/' + request.?name.orValue('')`,
      },
      {
        expression: 'variables.foreign.size() == 0',
        messageExpression: "'status.' + variables.foreign[0] + ' is not written by the agent'",
      },
      {
        expression: `${conditionsWhere('old', `!(${isAgentsCondition})`)} == ${conditionsWhere('new', `!(${isAgentsCondition})`)}`,
        messageExpression: `'agents write only the conditions ${AGENT_CONDITIONS.join(', ')}'`,
      },
      {
        expression: `${FIELD_MANAGER} in ['', '${MANAGERS.agent}']`,
        messageExpression: `'an agent writes as the field manager ${MANAGERS.agent}, not as ' + ${FIELD_MANAGER}`,
      },
      {
        // By hand, or by a User-Agent that has another's name. Records of updates may go: the server keeps ten.
        expression: `variables.records.all(f, variables.oldRecords.exists(g, ${sameRecord('f', 'g')} || (${sameWriter('f', 'g')} && ${hasAgents('g')})))
          && variables.oldRecords.all(g, g.?operation.orValue('') != 'Apply' || ${hasAgents('g')} || variables.records.exists(f, ${sameRecord('f', 'g')}))`,
        messageExpression: `'metadata.managedFields: an agent changes no record of what others own'`,
      },
    ],
  });
}

/** Everyone else: what the agent reports of its node stays as the agent wrote it. */
export function machineStatusPolicy(scope: Construct, namespace: string): void {
  policy(scope, {
    name: 'kubenode-machine-status',
    match: [{ apiGroups: [GROUP], apiVersions: ['*'], operations: ['UPDATE'], resources: ['machines/status'] }],
    conditions: [...HELD, { name: 'not-an-agent', expression: `!${IS_AGENT}` }],
    variables: [whoIs(namespace), ...STATUS, { name: 'foreign', expression: `variables.changed.filter(k, k in ${literal(AGENT_STATUS)})` }],
    validations: [
      {
        expression: "variables.who in ['machine', 'identity', 'machineComponentSet', 'remedy', 'remedyJob']",
        messageExpression:
          "'the status of a Machine is written by its agent and the controllers of the cell, not by ' + request.userInfo.username",
      },
      {
        expression: 'variables.foreign.size() == 0',
        messageExpression: "'status.' + variables.foreign[0] + ' is written by the agent'",
      },
      {
        expression: "variables.who == 'machine' || !('nodeKeys' in variables.changed)",
        messageExpression: "'status.nodeKeys is written by the machine controller'",
      },
      {
        expression: `${conditionsWhere('old', isAgentsCondition)} == ${conditionsWhere('new', isAgentsCondition)}`,
        messageExpression: `'the conditions ${AGENT_CONDITIONS.join(', ')} are written by the agent'`,
      },
    ],
  });
}
