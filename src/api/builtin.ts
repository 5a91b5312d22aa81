/** The built-in Kubernetes kinds that KubeNode reads or writes, with the fields it uses. */
import { objectError } from './errors.ts';
import { plainTexts } from './plain-text.ts';
import type { Resource } from './resource.ts';
import { apiVersionOf } from './resource.ts';
import type { KubeObject } from './wire.ts';

export interface Taint {
  key: string;
  value?: string;
  effect: 'NoSchedule' | 'PreferNoSchedule' | 'NoExecute';
  timeAdded?: string;
}

export interface NodeCondition {
  type: string;
  status: 'True' | 'False' | 'Unknown';
  reason?: string;
  message?: string;
  lastHeartbeatTime?: string;
  lastTransitionTime?: string;
}

export interface Node extends KubeObject {
  spec?: { unschedulable?: boolean; taints?: Taint[]; providerID?: string; podCIDR?: string };
  status?: {
    conditions?: NodeCondition[];
    addresses?: { type: string; address: string }[];
    nodeInfo?: Record<string, string>;
    capacity?: Record<string, string>;
    allocatable?: Record<string, string>;
  };
}

export interface Pod extends KubeObject {
  spec?: {
    nodeName?: string;
    terminationGracePeriodSeconds?: number;
    containers?: { name: string; image: string }[];
    volumes?: { name: string; emptyDir?: object; persistentVolumeClaim?: { claimName: string } }[];
    tolerations?: { key?: string; operator?: string; value?: string; effect?: string; tolerationSeconds?: number }[];
  };
  status?: { phase?: string; conditions?: NodeCondition[] };
}

export interface LabelSelector {
  matchLabels?: Record<string, string>;
  matchExpressions?: { key: string; operator: string; values?: string[] }[];
}

export interface PodDisruptionBudget extends KubeObject {
  spec?: {
    minAvailable?: number | string;
    maxUnavailable?: number | string;
    selector?: LabelSelector;
    unhealthyPodEvictionPolicy?: string;
  };
  status?: {
    disruptionsAllowed?: number;
    currentHealthy?: number;
    desiredHealthy?: number;
    expectedPods?: number;
    observedGeneration?: number;
    disruptedPods?: Record<string, string>;
  };
}

export interface Secret extends KubeObject {
  type?: string;
  data?: Record<string, string>;
  stringData?: Record<string, string>;
}

export interface ConfigMap extends KubeObject {
  data?: Record<string, string>;
}

export interface Lease extends KubeObject {
  spec?: { holderIdentity?: string; leaseDurationSeconds?: number; acquireTime?: string; renewTime?: string; leaseTransitions?: number };
}

/** core/v1 Event, the form that kubectl describes. */
export interface Event extends KubeObject {
  involvedObject: {
    apiVersion?: string;
    kind?: string;
    namespace?: string;
    name?: string;
    uid?: string;
    resourceVersion?: string;
    fieldPath?: string;
  };
  reason?: string;
  message?: string;
  type?: 'Normal' | 'Warning';
  count?: number;
  firstTimestamp?: string;
  lastTimestamp?: string;
  eventTime?: string | null;
  source?: { component?: string; host?: string };
  reportingComponent?: string;
  reportingInstance?: string;
}

export interface CertificateSigningRequest extends KubeObject {
  spec: { request: string; signerName: string; usages?: string[]; expirationSeconds?: number; username?: string; groups?: string[] };
  status?: { conditions?: { type: string; status: string; reason?: string; message?: string }[]; certificate?: string };
}

export interface ServiceAccount extends KubeObject {
  secrets?: { name: string }[];
}

export interface CustomResourceDefinition extends KubeObject {
  spec: Record<string, unknown>;
  status?: { conditions?: NodeCondition[] };
}

export type Namespace = KubeObject & { status?: { phase?: string } };

/** `plain`: makes plain what nodes and others wrote into it (docs/protocols.md#g7). */
function builtin<T extends KubeObject>(
  group: string,
  version: string,
  kind: string,
  plural: string,
  namespaced: boolean,
  plain: (object: T) => T = (object) => object,
): Resource<T> {
  const resource = { group, version, kind, plural, namespaced };
  function isKind(value: unknown): value is T {
    if (value === null || typeof value !== 'object') return false;
    const object = value as Partial<KubeObject>;
    return object.kind === kind && object.apiVersion === apiVersionOf(resource) && typeof object.metadata?.name === 'string';
  }
  return {
    ...resource,
    parse(value) {
      if (isKind(value)) return plain(value);
      throw objectError('InvalidObject', `not a ${kind} of ${apiVersionOf(resource)}`);
    },
  };
}

export const Namespaces = builtin<Namespace>('', 'v1', 'Namespace', 'namespaces', false);
export const Nodes = builtin<Node>('', 'v1', 'Node', 'nodes', false, (node) => {
  if (node.status === undefined) return node;
  const { conditions, addresses, nodeInfo } = node.status;
  const read = { ...(conditions && { conditions }), ...(addresses && { addresses }), ...(nodeInfo && { nodeInfo }) };
  const plain = plainTexts(read);
  return plain === read ? node : { ...node, status: { ...node.status, ...plain } };
});
export const Pods = builtin<Pod>('', 'v1', 'Pod', 'pods', true);
export const Secrets = builtin<Secret>('', 'v1', 'Secret', 'secrets', true);
export const ConfigMaps = builtin<ConfigMap>('', 'v1', 'ConfigMap', 'configmaps', true);
export const ServiceAccounts = builtin<ServiceAccount>('', 'v1', 'ServiceAccount', 'serviceaccounts', true);
export const Events = builtin<Event>('', 'v1', 'Event', 'events', true, (event) => plainTexts(event));
export const Leases = builtin<Lease>('coordination.k8s.io', 'v1', 'Lease', 'leases', true);
export const PodDisruptionBudgets = builtin<PodDisruptionBudget>('policy', 'v1', 'PodDisruptionBudget', 'poddisruptionbudgets', true);
export const CertificateSigningRequests = builtin<CertificateSigningRequest>(
  'certificates.k8s.io',
  'v1',
  'CertificateSigningRequest',
  'certificatesigningrequests',
  false,
  (request) => {
    const conditions = plainTexts(request.status?.conditions);
    return conditions === request.status?.conditions
      ? request
      : { ...request, status: { ...request.status, ...(conditions && { conditions }) } };
  },
);
export const CustomResourceDefinitions = builtin<CustomResourceDefinition>(
  'apiextensions.k8s.io',
  'v1',
  'CustomResourceDefinition',
  'customresourcedefinitions',
  false,
);
