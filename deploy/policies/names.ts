/** What RBAC cannot express: `create` has no names, and a rule has no fields. */
import type { Construct } from 'constructs';
import { bootstrapAccountName, SIGNERS } from '../../src/api/admission.ts';
import { AGENT_PREFIX, serviceAccountUser } from '../../src/api/identity.ts';
import { API_VERSION } from '../../src/api/kind.ts';
import { AGENT_REPORTER } from '../../src/api/names.ts';
import { LONGEST_MESSAGE } from '../../src/api/plain-text.ts';
import { AGENT_CLUSTER_ROLE, BOOTSTRAP_CLUSTER_ROLE } from '../../src/api/machine-access.ts';
import { CELL_WRITERS } from '../identities.ts';
import { literal, policy } from './policy.ts';
import { AGENT_OF, FIELD_MANAGER, IS_AGENT, OWN_MANAGERS } from './who.ts';

/** Objects that nodes make are small, and go when they are to go: no node fills etcd with what stays (docs/protocols.md#g7a). */
const LONGEST_TEXT = 253;
/** A voucher of a key is about 220. */
const LONGEST_ANNOTATION = 2048;
const LONGEST_REQUEST = 16_384;
const MOST_KEYS = 8;

const meta = (which: 'object' | 'oldObject', field: string): string =>
  `(${which} == null ? [] : dyn(${which}).metadata.?${field}.orValue([]))`;
/** What was there before may stay, so that a node writes on where others put it there. */
const gains = (field: string, item: string, allowed = 'false'): string =>
  `!${meta('object', field)}.exists(${item}, !(${item} in ${meta('oldObject', field)}) && !(${allowed}))`;
const short = (of: string, fields: readonly string[], longest = LONGEST_TEXT): string =>
  fields.map((field) => `${of}.?${field}.orValue('').size() <= ${longest}`).join(' && ');
const REFERENCE = ['kind', 'namespace', 'name', 'uid', 'apiVersion', 'resourceVersion', 'fieldPath'];

const OWN_MACHINE = `request.resource.resource == 'leases' && o.kind == 'Machine' && o.apiVersion == '${API_VERSION}' && o.name == variables.me[1]`;

const SMALL = [
  {
    expression: `request.resource.resource == 'nodes' || (dyn(object).metadata.?labels.orValue({}).size() <= ${MOST_KEYS}
      && dyn(object).metadata.?annotations.orValue({}).size() <= ${MOST_KEYS}
      && dyn(object).metadata.?annotations.orValue({}).all(k, dyn(object).metadata.annotations[k].size() <= ${LONGEST_ANNOTATION}))`,
    messageExpression: `'what a node makes has at most ${MOST_KEYS} labels and ${MOST_KEYS} annotations, of at most ${LONGEST_ANNOTATION} characters'`,
  },
  {
    expression: `request.resource.resource != 'leases'
      || (${short('dyn(object).?spec.orValue({})', ['holderIdentity', 'strategy', 'preferredHolder'])})`,
    messageExpression: `'a text of a Lease has at most ${LONGEST_TEXT} characters'`,
  },
  {
    expression: `request.resource.resource != 'certificatesigningrequests' || ${short('dyn(object).spec', ['request'], LONGEST_REQUEST)}`,
    messageExpression: `'a request for a certificate has at most ${LONGEST_REQUEST} characters'`,
  },
];

const annotations = (which: 'object' | 'oldObject'): string =>
  `(${which} == null ? dyn({}) : dyn(${which}).metadata.?annotations.orValue({}))`;
const OURS = "k.startsWith('kubenode.io/')";
/** What controllers' writes of a Node are conditioned on: a kubelet that could change it would keep them away (docs/protocols.md#c4a). */
const KEEPS_OURS = `request.resource.resource != 'nodes' || (
      ${annotations('object')}.all(k, !${OURS} || (k in ${annotations('oldObject')} && ${annotations('oldObject')}[k] == ${annotations('object')}[k]))
      && ${annotations('oldObject')}.all(k, !${OURS} || k in ${annotations('object')}))`;
const KEEPS_CORDON = `request.resource.resource != 'nodes' || oldObject == null
      || dyn(object).?spec.?unschedulable.orValue(false) == dyn(oldObject).?spec.?unschedulable.orValue(false)`;

/** Kubelets write their Node, its Lease and requests for certificates, and nothing there that would outlive their Machine. */
export function kubeletsPolicy(scope: Construct): void {
  policy(scope, {
    name: 'kubenode-kubelets',
    match: [
      { apiGroups: [''], apiVersions: ['v1'], operations: ['CREATE', 'UPDATE'], resources: ['nodes', 'nodes/status'] },
      { apiGroups: ['coordination.k8s.io'], apiVersions: ['v1'], operations: ['CREATE', 'UPDATE'], resources: ['leases'] },
      { apiGroups: ['certificates.k8s.io'], apiVersions: ['v1'], operations: ['CREATE'], resources: ['certificatesigningrequests'] },
    ],
    conditions: [{ name: 'kubelets', expression: "request.userInfo.username.startsWith('system:node:')" }],
    variables: [],
    validations: [
      { expression: gains('finalizers', 'f'), messageExpression: "'a kubelet gives nothing a finalizer'" },
      {
        expression: gains(
          'ownerReferences',
          'o',
          "request.resource.resource == 'leases' && o.kind == 'Node' && o.apiVersion == 'v1' && 'system:node:' + o.name == request.userInfo.username",
        ),
        messageExpression: "'a kubelet gives nothing an owner, but its Lease its own Node'",
      },
      {
        expression: `!(${FIELD_MANAGER} in ${literal(OWN_MANAGERS)})`,
        messageExpression: `'the field manager ' + ${FIELD_MANAGER} + " is one of KubeNode's own writers"`,
      },
      { expression: KEEPS_OURS, messageExpression: "'a kubelet changes no annotation of kubenode.io'" },
      { expression: KEEPS_CORDON, messageExpression: "'a kubelet changes no spec.unschedulable of its Node once it is there'" },
      ...SMALL,
    ],
  });
}

/** Agents create their own Lease, Events about their own Machine, and requests for certificates of the signers that they need. */
export function agentCreatesPolicy(scope: Construct): void {
  policy(scope, {
    name: 'kubenode-agent-creates',
    match: [
      { apiGroups: ['coordination.k8s.io'], apiVersions: ['v1'], operations: ['CREATE', 'UPDATE'], resources: ['leases'] },
      { apiGroups: [''], apiVersions: ['v1'], operations: ['CREATE'], resources: ['events'] },
      { apiGroups: ['events.k8s.io'], apiVersions: ['v1'], operations: ['CREATE'], resources: ['events'] },
      { apiGroups: ['certificates.k8s.io'], apiVersions: ['v1'], operations: ['CREATE'], resources: ['certificatesigningrequests'] },
    ],
    conditions: [{ name: 'agents', expression: IS_AGENT }],
    variables: [
      AGENT_OF,
      { name: 'about', expression: 'dyn(object).?involvedObject.orValue(dyn(object).?regarding.orValue({}))' },
      { name: 'source', expression: 'dyn(object).?source.orValue(dyn(object).?deprecatedSource.orValue({}))' },
      { name: 'text', expression: "dyn(object).?message.orValue(dyn(object).?note.orValue(''))" },
      { name: 'reporter', expression: "dyn(object).?reportingComponent.orValue(dyn(object).?reportingController.orValue(''))" },
    ],
    validations: [
      {
        expression: `request.resource.resource != 'leases'
          || (request.namespace == variables.me[0] && dyn(object).metadata.name == 'agent-' + variables.me[1])`,
        messageExpression: "'an agent makes only its own Lease, agent-' + variables.me[1] + ' in ' + variables.me[0]",
      },
      {
        expression: `request.resource.resource != 'events'
          || (request.namespace == variables.me[0] && variables.about.?kind.orValue('') == 'Machine'
            && variables.about.?namespace.orValue('') == variables.me[0] && variables.about.?name.orValue('') == variables.me[1])`,
        messageExpression: "'an agent reports only its own Machine'",
      },
      {
        expression: `request.resource.resource != 'events'
          || (variables.source.?component.orValue('') in ['', '${AGENT_REPORTER.component}']
            && variables.reporter in ['', '${AGENT_REPORTER.controller}'])`,
        messageExpression: "'an agent reports Events as ${AGENT_REPORTER.component} only'",
      },
      {
        expression: `${gains('finalizers', 'f')} && ${gains('ownerReferences', 'o', OWN_MACHINE)}`,
        messageExpression:
          "'what an agent makes has no finalizers, and no ownerReferences but a Lease to its own Machine: ' + request.resource.resource",
      },
      {
        expression: `request.resource.resource != 'events'
          || (${short('dyn(object)', ['reason', 'action', 'type', 'reportingInstance'])} && ${short('variables.source', ['host'])}
            && ${short('variables.about', REFERENCE)} && ${short('dyn(object).?related.orValue({})', REFERENCE)})`,
        messageExpression: `'a text of an Event has at most ${LONGEST_TEXT} characters'`,
      },
      ...SMALL,
      {
        expression: `request.resource.resource != 'events' || variables.text.size() <= ${LONGEST_MESSAGE}`,
        messageExpression: `'the message of an Event has at most ${LONGEST_MESSAGE} characters, not ' + string(variables.text.size())`,
      },
      {
        expression: `request.resource.resource != 'certificatesigningrequests'
          || dyn(object).spec.signerName == '${SIGNERS.client}'
          || (dyn(object).spec.signerName == '${SIGNERS.kubeletClient}' && variables.me[1] != '')`,
        messageExpression: "'an agent asks for client certificates only, not of signer ' + dyn(object).spec.signerName",
      },
    ],
  });
}

/**
 * Who gives agents their identity. Without this it could make itself a token of any ServiceAccount in the cluster and
 * overwrite any Role that grants no more than it has.
 */
export function grantsPolicy(scope: Construct, namespace: string): void {
  const rbac = 'rbac.authorization.k8s.io';
  const admits = [CELL_WRITERS.machine, CELL_WRITERS.identity].map((name) => serviceAccountUser(namespace, name));
  policy(scope, {
    name: 'kubenode-agent-grants',
    match: [
      {
        apiGroups: [''],
        apiVersions: ['v1'],
        operations: ['CREATE', 'UPDATE', 'DELETE'],
        resources: ['serviceaccounts', 'serviceaccounts/token'],
      },
      {
        apiGroups: [rbac],
        apiVersions: ['*'],
        operations: ['CREATE', 'UPDATE', 'DELETE'],
        resources: ['roles', 'rolebindings', 'clusterroles', 'clusterrolebindings'],
      },
    ],
    conditions: [{ name: 'who-admits', expression: `request.userInfo.username in ${literal(admits)}` }],
    variables: [
      // The object of a TokenRequest has no name of its own.
      {
        name: 'name',
        expression: `request.?subResource.orValue('') == '' && object != null ? dyn(object).metadata.name : request.?name.orValue('')`,
      },
    ],
    validations: [
      {
        expression: `variables.name.startsWith('${AGENT_PREFIX}') || variables.name.startsWith('${bootstrapAccountName('')}')`,
        messageExpression: `request.userInfo.username + ' writes only what is of agents (${AGENT_PREFIX}*), not '
          + request.resource.resource + ' ' + variables.name`,
      },
      {
        expression: `!(request.resource.resource in ['rolebindings', 'clusterrolebindings']) || object == null
          || (request.resource.resource == 'rolebindings' ? dyn(object).roleRef.name == variables.name && dyn(object).roleRef.kind == 'Role'
              : dyn(object).roleRef.name in ${literal([AGENT_CLUSTER_ROLE, BOOTSTRAP_CLUSTER_ROLE])})`,
        messageExpression: "request.userInfo.username + ' binds agents to their own Role only, not to ' + dyn(object).roleRef.name",
      },
    ],
  });
}

/** Cordon, labels, taints and annotations; what a Node is, is the kubelet's and the cloud's. */
export function nodePolicy(scope: Construct, namespace: string): void {
  const fields = ['unschedulable', 'taints'];
  policy(scope, {
    name: 'kubenode-nodes',
    match: [{ apiGroups: [''], apiVersions: ['v1'], operations: ['UPDATE'], resources: ['nodes'] }],
    conditions: [
      {
        name: 'machine-controller',
        expression: `request.userInfo.username == ${literal(serviceAccountUser(namespace, CELL_WRITERS.machine))}`,
      },
    ],
    variables: [
      { name: 'old', expression: 'dyn(oldObject).?spec.orValue({})' },
      { name: 'new', expression: 'dyn(object).?spec.orValue({})' },
    ],
    validations: [
      {
        expression: ['podCIDR', 'podCIDRs', 'providerID', 'configSource', 'externalID']
          .map((field) => `variables.old[?'${field}'] == variables.new[?'${field}']`)
          .join(' && '),
        messageExpression: `'the machine controller changes only ${fields.join(' and ')} of the spec of a Node'`,
      },
      {
        expression: `dyn(object).metadata.?finalizers.orValue([]) == dyn(oldObject).metadata.?finalizers.orValue([])
          && dyn(object).metadata.?ownerReferences.orValue([]) == dyn(oldObject).metadata.?ownerReferences.orValue([])`,
        messageExpression: "'the machine controller changes neither finalizers nor owners of a Node'",
      },
    ],
  });
}
