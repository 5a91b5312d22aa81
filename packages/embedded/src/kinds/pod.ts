import type { Json, JsonObject } from '@kubenode/api-machinery/wire';
import { duplicate, forbidden, required, type FieldProblem } from '../field-error.ts';
import { equal, isObject, listAt, metaOf, numberAt, objectAt, textAt } from '../json.ts';
import { checkSubdomain } from '../names.ts';
import type { Builtin } from './builtin.ts';
import { AGE, column, NAME, wide } from './columns.ts';
import { wholeObject } from './object-meta.ts';
import { podCells } from './pod.columns.ts';
import { podSpec, podStatus } from './pod.schema.ts';

function defaults(pod: JsonObject): void {
  metaOf(pod);
  const [first] = listAt(pod, 'status', 'podIPs');
  if (first !== undefined) pod['status'] = { ...objectAt(pod, 'status'), podIP: textAt(first, 'ip') ?? '' };
  const spec = isObject(pod['spec']) ? pod['spec'] : (pod['spec'] = {});
  spec['restartPolicy'] ??= 'Always';
  spec['dnsPolicy'] ??= 'ClusterFirst';
  spec['schedulerName'] ??= 'default-scheduler';
  spec['terminationGracePeriodSeconds'] ??= 30;
  spec['securityContext'] ??= {};
  spec['enableServiceLinks'] ??= true;
  const account = textAt(spec, 'serviceAccountName') || textAt(spec, 'serviceAccount');
  if (account !== undefined && account !== '') spec['serviceAccountName'] = spec['serviceAccount'] = account;
  for (const container of [...listAt(spec, 'containers'), ...listAt(spec, 'initContainers')]) {
    if (!isObject(container)) continue;
    container['terminationMessagePath'] ??= '/dev/termination-log';
    container['terminationMessagePolicy'] ??= 'File';
    container['resources'] ??= {};
    requestLimits(container['resources']);
    const image = textAt(container, 'image') ?? '';
    const tag = image.slice(image.lastIndexOf('/') + 1).split(':')[1];
    container['imagePullPolicy'] ??= (tag === undefined || tag === 'latest') && !image.includes('@') ? 'Always' : 'IfNotPresent';
    for (const port of listAt(container, 'ports')) if (isObject(port)) port['protocol'] ??= 'TCP';
  }
}

/** What is limited is asked for. */
function requestLimits(resources: Json): void {
  if (!isObject(resources) || !isObject(resources['limits'])) return;
  resources['requests'] = { ...resources['limits'], ...(isObject(resources['requests']) ? resources['requests'] : {}) };
}

/** What admission adds to every pod: the default priority, and five minutes on a node that was lost. */
function admit(spec: JsonObject): void {
  spec['priority'] ??= 0;
  spec['preemptionPolicy'] ??= 'PreemptLowerPriority';
  const tolerations = listAt(spec, 'tolerations');
  const tolerated = (key: string): boolean =>
    tolerations.some((item) => {
      const [own, effect] = [textAt(item, 'key') ?? '', textAt(item, 'effect') ?? ''];
      return (own === key || own === '') && (effect === 'NoExecute' || effect === '');
    });
  const added = ['not-ready', 'unreachable']
    .map((name) => `node.kubernetes.io/${name}`)
    .filter((key) => !tolerated(key))
    .map((key) => ({ key, operator: 'Exists', effect: 'NoExecute', tolerationSeconds: 300 }));
  if (added.length > 0) spec['tolerations'] = [...tolerations, ...added];
}

function qosClass(spec: JsonObject): string {
  const containers = [...listAt(spec, 'containers'), ...listAt(spec, 'initContainers')];
  const requests = containers.map((item) => objectAt(item, 'resources', 'requests'));
  const limits = containers.map((item) => objectAt(item, 'resources', 'limits'));
  if ([...requests, ...limits].every((map) => map['cpu'] === undefined && map['memory'] === undefined)) return 'BestEffort';
  const guaranteed = containers.every((_, index) =>
    ['cpu', 'memory'].every((name) => {
      const limit = limits[index]?.[name];
      const request = requests[index]?.[name];
      return limit !== undefined && (request === undefined || equal(request, limit));
    }),
  );
  return guaranteed ? 'Guaranteed' : 'Burstable';
}

/** Parts of a pod's spec that may change after creation; everything else is fixed. */
const MUTABLE = [
  'activeDeadlineSeconds',
  'tolerations',
  'schedulingGates',
  'ephemeralContainers',
  'terminationGracePeriodSeconds',
  'resources',
];

function frozen(pod: JsonObject): JsonObject {
  const spec = { ...objectAt(pod, 'spec') };
  for (const name of MUTABLE) delete spec[name];
  for (const list of ['containers', 'initContainers']) {
    if (spec[list] === undefined) continue;
    spec[list] = listAt(spec, list).map((item) => {
      if (!isObject(item)) return item;
      const { image: _image, resources: _resources, ...rest } = item;
      return rest;
    });
  }
  return spec;
}

function validate(pod: JsonObject, old: JsonObject | undefined, subresource: string): FieldProblem[] {
  const out: FieldProblem[] = [];
  if (subresource === 'status') return out;
  const containers = listAt(pod, 'spec', 'containers');
  if (containers.length === 0) out.push(required('spec.containers'));
  const names = new Set<string>();
  for (const [list, items] of [
    ['initContainers', listAt(pod, 'spec', 'initContainers')],
    ['containers', containers],
  ] as const) {
    for (const [index, container] of items.entries()) {
      const name = textAt(container, 'name') ?? '';
      if (name === '') out.push(required(`spec.${list}[${index}].name`));
      else if (names.has(name)) out.push(duplicate(`spec.${list}[${index}].name`, name));
      names.add(name);
      if ((textAt(container, 'image') ?? '') === '') out.push(required(`spec.${list}[${index}].image`));
    }
  }
  if (old !== undefined && !equal(frozen(pod), frozen(old))) {
    out.push(
      forbidden(
        'spec',
        'pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)',
      ),
    );
  }
  return out;
}

export const pod: Builtin = {
  group: '',
  version: 'v1',
  kind: 'Pod',
  plural: 'pods',
  namespaced: true,
  shortNames: ['po'],
  categories: ['all'],
  schema: wholeObject('io.k8s.api.core.v1.Pod', 'Containers that run together on one node.', { spec: podSpec, status: podStatus }),
  empty: { spec: { containers: null }, status: {} },
  emptyItems: { 'status.conditions': { lastProbeTime: null, lastTransitionTime: null } },
  subresources: ['status', 'eviction'],
  columns: [
    NAME,
    column('Ready', 'The aggregate readiness state of this pod for accepting traffic.'),
    column('Status', 'The aggregate status of the containers in this pod.'),
    column(
      'Restarts',
      'The number of times the containers in this pod have been restarted and when the last container in this pod has restarted.',
    ),
    AGE,
    wide('IP', 'IP address of the pod.'),
    wide('Node', 'Node that runs the pod.'),
    wide('Nominated Node', 'Node that the pod is to be scheduled on.'),
    wide('Readiness Gates', 'Readiness gates that are open.'),
  ],
  cells: podCells,
  strategy: {
    generation: 'spec',
    statusFields: ['status'],
    defaults,
    prepareCreate(object) {
      object['status'] = { phase: 'Pending', qosClass: qosClass(objectAt(object, 'spec')) };
      const spec = objectAt(object, 'spec');
      spec['serviceAccountName'] ??= spec['serviceAccount'] ??= 'default';
      admit(spec);
    },
    returnsDeleted: true,
    validate,
    validateName: checkSubdomain,
    selectableNames: [
      'spec.nodeName',
      'spec.restartPolicy',
      'spec.schedulerName',
      'spec.serviceAccountName',
      'spec.hostNetwork',
      'status.phase',
      'status.podIP',
      'status.nominatedNodeName',
    ],
    selectable: (object) => ({
      'spec.nodeName': textAt(object, 'spec', 'nodeName') ?? '',
      'spec.restartPolicy': textAt(object, 'spec', 'restartPolicy') ?? '',
      'spec.schedulerName': textAt(object, 'spec', 'schedulerName') ?? '',
      'spec.serviceAccountName': textAt(object, 'spec', 'serviceAccountName') ?? '',
      'spec.hostNetwork': String(objectAt(object, 'spec')['hostNetwork'] === true),
      'status.phase': textAt(object, 'status', 'phase') ?? '',
      'status.podIP': textAt(object, 'status', 'podIP') ?? '',
      'status.nominatedNodeName': textAt(object, 'status', 'nominatedNodeName') ?? '',
    }),
    gracePeriod(object, requested) {
      const phase = textAt(object, 'status', 'phase');
      if ((textAt(object, 'spec', 'nodeName') ?? '') === '' || phase === 'Failed' || phase === 'Succeeded') return 0;
      const seconds = requested ?? numberAt(object, 'spec', 'terminationGracePeriodSeconds') ?? 0;
      return seconds < 0 ? 1 : seconds;
    },
  },
};
