import { atomicList, fields, flag, free, intOrString, listMap, mapOf, quantity, text, time, whole, type Schema } from '../schema/schema.ts';
import { conditions } from './object-meta.ts';

const VOLUME_SOURCES = [
  'awsElasticBlockStore',
  'azureDisk',
  'azureFile',
  'cephfs',
  'cinder',
  'configMap',
  'csi',
  'downwardAPI',
  'emptyDir',
  'ephemeral',
  'fc',
  'flexVolume',
  'flocker',
  'gcePersistentDisk',
  'gitRepo',
  'glusterfs',
  'hostPath',
  'image',
  'iscsi',
  'nfs',
  'persistentVolumeClaim',
  'photonPersistentDisk',
  'portworxVolume',
  'projected',
  'quobyte',
  'rbd',
  'scaleIO',
  'secret',
  'storageos',
  'vsphereVolume',
];

const volume = fields(
  { name: text('Name of the volume, unique in the pod.'), ...Object.fromEntries(VOLUME_SOURCES.map((source) => [source, free()])) },
  'A volume that containers of the pod may mount.',
  ['name'],
);

const resources = fields({
  limits: mapOf(quantity(), 'Most that may be used.'),
  requests: mapOf(quantity(), 'Least that is needed.'),
  claims: listMap(free(), ['name']),
});

const port = fields(
  {
    containerPort: whole(undefined, 'int32'),
    hostIP: text(),
    hostPort: whole(undefined, 'int32'),
    name: text(),
    protocol: text(undefined, { default: 'TCP' }),
  },
  undefined,
  ['containerPort'],
);

const mount = fields(
  {
    mountPath: text(),
    mountPropagation: text(),
    name: text(),
    readOnly: flag(),
    recursiveReadOnly: text(),
    subPath: text(),
    subPathExpr: text(),
  },
  undefined,
  ['name', 'mountPath'],
);

const CONTAINER: { [name: string]: Schema } = {
  args: atomicList(text(), 'Arguments of the entrypoint.'),
  command: atomicList(text(), 'Entrypoint.'),
  env: listMap(fields({ name: text(), value: text(), valueFrom: free() }, undefined, ['name']), ['name'], 'Environment.'),
  envFrom: atomicList(free()),
  image: text('Image of the container.'),
  imagePullPolicy: text('Always, Never or IfNotPresent.'),
  lifecycle: free(),
  livenessProbe: free(),
  name: text('Name of the container, unique in the pod.'),
  ports: listMap(port, ['containerPort', 'protocol'], 'Ports to expose.'),
  readinessProbe: free(),
  resizePolicy: atomicList(free()),
  resources,
  restartPolicy: text(),
  restartPolicyRules: atomicList(free()),
  securityContext: free(),
  startupProbe: free(),
  stdin: flag(),
  stdinOnce: flag(),
  terminationMessagePath: text(),
  terminationMessagePolicy: text(),
  tty: flag(),
  volumeDevices: listMap(fields({ devicePath: text(), name: text() }), ['devicePath']),
  volumeMounts: listMap(mount, ['mountPath'], 'Volumes to mount.'),
  workingDir: text(),
};

const container = fields(CONTAINER, 'A container of a pod.', ['name']);
const named = fields({ name: text() });

const toleration = fields({ effect: text(), key: text(), operator: text(), tolerationSeconds: whole(), value: text() });

const spread = fields({
  labelSelector: free(),
  matchLabelKeys: atomicList(text()),
  maxSkew: whole(undefined, 'int32'),
  minDomains: whole(undefined, 'int32'),
  nodeAffinityPolicy: text(),
  nodeTaintsPolicy: text(),
  topologyKey: text(),
  whenUnsatisfiable: text(),
});

export const podSpec = fields(
  {
    activeDeadlineSeconds: whole(),
    affinity: free(),
    automountServiceAccountToken: flag(),
    containers: listMap(container, ['name'], 'Containers of the pod; at least one.'),
    dnsConfig: free(),
    dnsPolicy: text(),
    enableServiceLinks: flag(),
    ephemeralContainers: listMap(fields({ ...CONTAINER, targetContainerName: text() }), ['name']),
    hostAliases: listMap(fields({ hostnames: atomicList(text()), ip: text() }), ['ip']),
    hostIPC: flag(),
    hostNetwork: flag(),
    hostPID: flag(),
    hostUsers: flag(),
    hostname: text(),
    hostnameOverride: text(),
    imagePullSecrets: listMap(named, ['name']),
    initContainers: listMap(container, ['name'], 'Containers that run before the others.'),
    nodeName: text('Node that runs the pod.'),
    nodeSelector: { ...mapOf(text(), 'Labels that a node must have.'), 'x-kubernetes-map-type': 'atomic' },
    os: free(),
    overhead: mapOf(quantity()),
    preemptionPolicy: text(),
    priority: whole(undefined, 'int32'),
    priorityClassName: text(),
    readinessGates: atomicList(fields({ conditionType: text() })),
    resourceClaims: listMap(free(), ['name'], undefined, 'merge,retainKeys'),
    resources,
    restartPolicy: text('Always, OnFailure or Never.'),
    runtimeClassName: text(),
    schedulerName: text(),
    schedulingGates: listMap(named, ['name']),
    securityContext: free(),
    serviceAccount: text('Deprecated: serviceAccountName.'),
    serviceAccountName: text('ServiceAccount that the pod runs as.'),
    setHostnameAsFQDN: flag(),
    shareProcessNamespace: flag(),
    subdomain: text(),
    terminationGracePeriodSeconds: whole('Seconds the pod has to end gracefully.'),
    tolerations: atomicList(toleration, 'Taints that the pod tolerates.'),
    topologySpreadConstraints: listMap(spread, ['topologyKey', 'whenUnsatisfiable']),
    volumes: listMap(volume, ['name'], 'Volumes of the pod.', 'merge,retainKeys'),
  },
  'What the pod is to run.',
  ['containers'],
);

const terminated = fields({
  containerID: text(),
  exitCode: whole(undefined, 'int32'),
  finishedAt: time(),
  message: text(),
  reason: text(),
  signal: whole(undefined, 'int32'),
  startedAt: time(),
});

const state = fields({
  running: fields({ startedAt: time() }),
  terminated,
  waiting: fields({ message: text(), reason: text() }),
});

const containerStatus = fields(
  {
    allocatedResources: mapOf(quantity()),
    allocatedResourcesStatus: listMap(free(), ['name']),
    containerID: text(),
    image: text(),
    imageID: text(),
    lastState: state,
    name: text(),
    ready: flag(),
    resources,
    restartCount: whole(undefined, 'int32'),
    started: flag(),
    state,
    stopSignal: text(),
    user: free(),
    volumeMounts: listMap(free(), ['mountPath']),
  },
  'State of one container.',
);

const address = fields({ ip: intOrString() });

export const podStatus = fields(
  {
    conditions: conditions({ lastProbeTime: time(), observedGeneration: whole() }),
    containerStatuses: atomicList(containerStatus),
    ephemeralContainerStatuses: atomicList(containerStatus),
    extendedResourceClaimStatus: free(),
    hostIP: text(),
    hostIPs: { ...atomicList(address), 'x-kubernetes-patch-strategy': 'merge', 'x-kubernetes-patch-merge-key': 'ip' },
    initContainerStatuses: atomicList(containerStatus),
    message: text(),
    nominatedNodeName: text(),
    observedGeneration: whole(),
    phase: text('Pending, Running, Succeeded, Failed or Unknown.'),
    podIP: text(),
    podIPs: listMap(address, ['ip']),
    qosClass: text(),
    reason: text(),
    resize: text(),
    resourceClaimStatuses: listMap(free(), ['name'], undefined, 'merge,retainKeys'),
    startTime: time(),
  },
  'What was last observed of the pod.',
);
