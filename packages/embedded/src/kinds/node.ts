import type { Json, JsonObject } from '@kubenode/api-machinery/wire';
import { ageOf } from '../age.ts';
import { required, unsupported, invalid, forbidden, type FieldProblem } from '../field-error.ts';
import { equal, isObject, listAt, metaOf, objectAt, textAt } from '../json.ts';
import { checkLabelValue, checkQualifiedName, checkSubdomain } from '../names.ts';
import { atomicList, fields, flag, free, intOrString, listMap, mapOf, quantity, setOf, text, time } from '../schema/schema.ts';
import type { Builtin } from './builtin.ts';
import { AGE, column, NAME, wide } from './columns.ts';
import { condition, wholeObject } from './object-meta.ts';
import type { TableCell } from './served.ts';

const taint = fields(
  {
    key: text('Key of the taint.'),
    value: text('Value of the taint.'),
    effect: text('NoSchedule, PreferNoSchedule or NoExecute.'),
    timeAdded: time('When a NoExecute taint was added.'),
  },
  'A pod that does not tolerate it is not scheduled here, or is evicted.',
  ['key', 'effect'],
);

const INFO = [
  'architecture',
  'bootID',
  'containerRuntimeVersion',
  'kernelVersion',
  'kubeProxyVersion',
  'kubeletVersion',
  'machineID',
  'operatingSystem',
  'osImage',
  'systemUUID',
];

const systemInfo = fields(
  { ...Object.fromEntries(INFO.map((name) => [name, text()])), swap: free() },
  'Facts about the machine and its software.',
);

const spec = fields(
  {
    configSource: free('Deprecated.'),
    externalID: text('Deprecated.'),
    podCIDR: text('Range of pod addresses of this node.'),
    podCIDRs: setOf(text(), 'Ranges of pod addresses of this node.'),
    providerID: text('Identity of the machine at its provider: <provider>://<id>.'),
    taints: atomicList(taint, 'Taints of the node.'),
    unschedulable: flag('No new pods are scheduled here when true.'),
  },
  'Desired state of a node.',
);

const status = fields(
  {
    addresses: listMap(fields({ type: text(), address: text() }, undefined, ['type', 'address']), ['type'], 'Addresses of the node.'),
    allocatable: mapOf(quantity(), 'Resources available to pods.'),
    capacity: mapOf(quantity(), 'Resources of the node.'),
    conditions: listMap(
      condition({ lastHeartbeatTime: time('When the condition was last reported.') }),
      ['type'],
      'What was observed of the node.',
    ),
    config: free(),
    daemonEndpoints: fields({ kubeletEndpoint: fields({ Port: intOrString() }) }),
    features: free(),
    images: atomicList(free(), 'Container images on the node.'),
    nodeInfo: systemInfo,
    phase: text('Deprecated.'),
    runtimeHandlers: atomicList(free()),
    volumesAttached: atomicList(free()),
    volumesInUse: atomicList(text()),
  },
  'What was last observed of a node.',
);

const EFFECTS = ['NoSchedule', 'PreferNoSchedule', 'NoExecute'];

// The path is upstream's.
function checkTaints(taints: Json[]): FieldProblem[] {
  const out: FieldProblem[] = [];
  const seen = new Set<string>();
  for (const [index, item] of taints.entries()) {
    const path = `metadata.taints[${index}]`;
    const key = textAt(item, 'key') ?? '';
    const effect = textAt(item, 'effect') ?? '';
    for (const line of checkQualifiedName(key)) out.push(invalid(`${path}.key`, key, line));
    const value = textAt(item, 'value') ?? '';
    for (const line of checkLabelValue(value)) out.push(invalid(`${path}.value`, value, line));
    if (effect === '') out.push(required(`${path}.effect`));
    else if (!EFFECTS.includes(effect)) out.push(unsupported(`${path}.effect`, effect, EFFECTS));
    const id = `${key}:${effect}`;
    if (seen.has(id))
      out.push({
        type: 'FieldValueDuplicate',
        field: path,
        message: `Duplicate value: ${JSON.stringify({ Key: key, Value: value, Effect: effect, TimeAdded: null })}: taints must be unique by key and effect pair`,
      });
    seen.add(id);
  }
  return out;
}

function validate(object: JsonObject, old: JsonObject | undefined): FieldProblem[] {
  const out = checkTaints(listAt(object, 'spec', 'taints'));
  const providerID = textAt(old, 'spec', 'providerID') ?? '';
  if (providerID !== '' && providerID !== textAt(object, 'spec', 'providerID')) {
    out.push(forbidden('spec.providerID', 'node updates may not change providerID except from "" to valid'));
  }
  const cidr = textAt(old, 'spec', 'podCIDR') ?? '';
  if (cidr !== '' && !equal(cidr, textAt(object, 'spec', 'podCIDR'))) {
    out.push(forbidden('spec.podCIDRs', 'node updates may not change podCIDR except from "" to valid'));
  }
  for (const [index, item] of listAt(object, 'status', 'conditions').entries()) {
    if (!isObject(item) || textAt(item, 'type') === undefined) out.push(invalid(`status.conditions[${index}].type`, '', 'must be set'));
  }
  return out;
}

/** A new Node has it (TaintNodesByCondition), so that no pod is scheduled before the Node is known to be ready. */
const NOT_READY = { key: 'node.kubernetes.io/not-ready', effect: 'NoSchedule' };

function taintNew(object: JsonObject): void {
  const taints = listAt(object, 'spec', 'taints');
  if (taints.some((item) => textAt(item, 'key') === NOT_READY.key && textAt(item, 'effect') === NOT_READY.effect)) return;
  object['spec'] = { ...objectAt(object, 'spec'), taints: [...taints, { ...NOT_READY }] };
}

const ROLE = 'node-role.kubernetes.io/';

function rolesOf(object: JsonObject): string {
  const roles = new Set<string>();
  for (const [key, value] of Object.entries(objectAt(object, 'metadata', 'labels'))) {
    if (key.startsWith(ROLE) && key.length > ROLE.length) roles.add(key.slice(ROLE.length));
    else if (key === 'kubernetes.io/role' && typeof value === 'string' && value !== '') roles.add(value);
  }
  return [...roles].sort().join(',');
}

function cells(object: JsonObject, now: number): TableCell[] {
  const ready = listAt(object, 'status', 'conditions').find((item) => textAt(item, 'type') === 'Ready');
  const words = [ready === undefined ? 'Unknown' : textAt(ready, 'status') === 'True' ? 'Ready' : 'NotReady'];
  if (objectAt(object, 'spec')['unschedulable'] === true) words.push('SchedulingDisabled');
  const address = (type: string) =>
    textAt(
      listAt(object, 'status', 'addresses').find((item) => textAt(item, 'type') === type),
      'address',
    ) ?? '<none>';
  const info = (name: string) => textAt(object, 'status', 'nodeInfo', name) || '<unknown>';
  return [
    textAt(object, 'metadata', 'name') ?? '',
    words.join(','),
    rolesOf(object) || '<none>',
    ageOf(textAt(object, 'metadata', 'creationTimestamp'), now),
    textAt(object, 'status', 'nodeInfo', 'kubeletVersion') ?? '',
    address('InternalIP'),
    address('ExternalIP'),
    info('osImage'),
    info('kernelVersion'),
    info('containerRuntimeVersion'),
  ];
}

export const node: Builtin = {
  group: '',
  version: 'v1',
  kind: 'Node',
  plural: 'nodes',
  namespaced: false,
  shortNames: ['no'],
  schema: wholeObject('io.k8s.api.core.v1.Node', 'A machine of the cluster.', { spec, status }),
  empty: {
    spec: {},
    status: { daemonEndpoints: { kubeletEndpoint: { Port: 0 } }, nodeInfo: Object.fromEntries(INFO.map((name) => [name, ''])) },
  },
  emptyItems: { 'status.conditions': { lastHeartbeatTime: null, lastTransitionTime: null } },
  subresources: ['status'],
  columns: [
    NAME,
    column('Status', 'The status of the node'),
    column('Roles', 'The roles of the node'),
    AGE,
    column('Version', 'Kubelet version of the node.'),
    wide('Internal-IP', 'First internal address of the node.'),
    wide('External-IP', 'First external address of the node.'),
    wide('OS-Image', 'Operating system reported by the node.'),
    wide('Kernel-Version', 'Kernel reported by the node.'),
    wide('Container-Runtime', 'Container runtime reported by the node.'),
  ],
  cells,
  strategy: {
    statusFields: ['status'],
    prepareCreate: taintNew,
    validate,
    validateName: checkSubdomain,
    defaults(object) {
      metaOf(object);
      if (!isObject(object['spec'])) object['spec'] = {};
      const status = isObject(object['status']) ? object['status'] : (object['status'] = {});
      if (isObject(status['capacity']) && Object.keys(status['capacity']).length > 0) status['allocatable'] ??= { ...status['capacity'] };
    },
    // A kubelet registers its node with the status in one request.
    keepsStatusOnCreate: true,
    selectableNames: ['spec.unschedulable'],
    selectable: (object) => ({ 'spec.unschedulable': String(objectAt(object, 'spec')['unschedulable'] === true) }),
  },
};
