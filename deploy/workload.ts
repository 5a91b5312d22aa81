/** The processes: a Deployment of `kubenode controller`, of which one leads, and the Service that its metrics are read from. */
import { ApiObject, Duration, JsonPatch, Size } from 'cdk8s';
import {
  type ContainerProps,
  Cpu,
  Deployment,
  DeploymentStrategy,
  ImagePullPolicy,
  LabelSelector,
  PercentOrAbsolute,
  Probe,
  Protocol,
  Service,
  ServiceAccount,
  Volume,
} from 'cdk8s-plus-27';
import type { Construct } from 'constructs';
import { CELL, HUB } from './identities.ts';
import type { InstallOptions } from './options.ts';
import { object } from './object.ts';

const PORT = 8080;
const METRICS_PORT = 8443;
/** Of namespaces whose pods reach `/metrics`. */
const METRICS_LABEL = 'kubenode.io/reads-metrics';

function argsOf(options: InstallOptions): string[] {
  const { role, namespace, server, mirror, reservedNodeNames = [], nodeDomains = [], componentKeys = [] } = options;
  const args = ['controller', `--${role}`, '--namespace', namespace, '--health', `:${PORT}`, '--metrics', `:${METRICS_PORT}`];
  if (role === 'hub') return [...args, '--cache', '/cache', '--isolation', 'namespaces'];
  return [
    ...args,
    '--separate-identities',
    ...(server === undefined ? [] : ['--server', server]),
    ...(mirror === undefined ? [] : ['--mirror', mirror]),
    ...(componentKeys.length === 0 ? [] : ['--component-key', ...componentKeys]),
    ...(reservedNodeNames.length === 0 ? [] : ['--reserved-node-names', ...reservedNodeNames]),
    ...(nodeDomains.length === 0 ? [] : ['--node-domains', ...nodeDomains]),
  ];
}

export function controllers(scope: Construct, options: InstallOptions): void {
  const { role, namespace, replicas } = options;
  const name = role === 'hub' ? HUB : CELL;
  const labels = { 'app.kubernetes.io/name': 'kubenode', 'app.kubernetes.io/component': role };
  const metadata = { name, namespace, labels };
  deployment(scope, metadata, options);
  metricsService(scope, metadata);
  networkPolicy(scope, metadata);
  if (replicas > 1) {
    object(scope, {
      apiVersion: 'policy/v1',
      kind: 'PodDisruptionBudget',
      metadata,
      spec: { maxUnavailable: 1, selector: { matchLabels: labels } },
    });
  }
}

/** Of all objects of one role. */
interface Metadata {
  name: string;
  namespace: string;
  labels: Record<string, string>;
}

function deployment(scope: Construct, metadata: Metadata, options: InstallOptions): void {
  const { name, labels } = metadata;
  const { role, replicas, seccompProfile } = options;
  const deployment = new Deployment(scope, `Deployment:${name}`, {
    metadata,
    podMetadata: { labels },
    select: false,
    replicas,
    strategy: DeploymentStrategy.rollingUpdate({ maxSurge: PercentOrAbsolute.absolute(1), maxUnavailable: PercentOrAbsolute.absolute(0) }),
    serviceAccount: ServiceAccount.fromServiceAccountName(scope, `ServiceAccountOf:${name}`, name),
    automountServiceAccountToken: true,
    securityContext: { ensureNonRoot: true, user: 65532, group: 65532, fsGroup: 65532 },
    // Longer than a term takes to end and its Lease to be given back.
    terminationGracePeriod: Duration.seconds(30),
  });
  deployment.select(LabelSelector.of({ labels }));
  const container = deployment.addContainer(containerOf(options));
  const spread = {
    maxSkew: 1,
    topologyKey: 'kubernetes.io/hostname',
    whenUnsatisfiable: 'ScheduleAnyway',
    labelSelector: { matchLabels: labels },
  };
  ApiObject.of(deployment).addJsonPatch(
    // The construct's own spreading demands a zone a replica, which few clusters have.
    JsonPatch.add('/spec/template/spec/topologySpreadConstraints', [spread]),
    // Its own list of capabilities comes out as null.
    JsonPatch.add('/spec/template/spec/containers/0/securityContext/capabilities', { drop: ['ALL'] }),
    JsonPatch.add(
      '/spec/template/spec/securityContext/seccompProfile',
      seccompProfile === undefined ? { type: 'RuntimeDefault' } : { type: 'Localhost', localhostProfile: seccompProfile },
    ),
    JsonPatch.remove('/spec/template/metadata/labels/cdk8s.io~1metadata.addr'),
  );
  container.mount('/tmp', Volume.fromEmptyDir(scope, `tmp:${name}`, 'tmp'));
  if (role === 'hub') container.mount('/cache', Volume.fromEmptyDir(scope, `cache:${name}`, 'cache'));
}

function containerOf(options: InstallOptions): ContainerProps {
  return {
    name: 'controller',
    image: options.image,
    imagePullPolicy: ImagePullPolicy.IF_NOT_PRESENT,
    args: argsOf(options),
    ports: [
      { name: 'health', number: PORT, protocol: Protocol.TCP },
      { name: 'metrics', number: METRICS_PORT, protocol: Protocol.TCP },
    ],
    // A candidate that waits is live and ready; a leader whose work does not end with its term is not live.
    liveness: Probe.fromHttpGet('/healthz', {
      port: PORT,
      initialDelaySeconds: Duration.seconds(10),
      periodSeconds: Duration.seconds(10),
      failureThreshold: 6,
    }),
    // Asked before it listens, it would be asked again a whole period later only.
    readiness: Probe.fromHttpGet('/readyz', {
      port: PORT,
      initialDelaySeconds: Duration.seconds(3),
      periodSeconds: Duration.seconds(10),
      timeoutSeconds: Duration.seconds(5),
    }),
    resources: {
      cpu: { request: Cpu.millis(100), limit: Cpu.units(2) },
      memory: { request: Size.mebibytes(256), limit: Size.gibibytes(options.role === 'hub' ? 2 : 1) },
    },
    securityContext: { ensureNonRoot: true, readOnlyRootFilesystem: true, allowPrivilegeEscalation: false, user: 65532, group: 65532 },
  };
}

function metricsService(scope: Construct, { name, namespace, labels }: Metadata): void {
  const service = new Service(scope, `Service:${name}`, {
    metadata: { name: `${name}-metrics`, namespace, labels },
    ports: [{ name: 'https', port: METRICS_PORT }],
  });
  for (const [key, value] of Object.entries(labels)) service.selectLabel(key, value);
  // An empty list is not what the server keeps.
  ApiObject.of(service).addJsonPatch(JsonPatch.remove('/spec/externalIPs'));
}

/** Kubelets probe from their node, which network policies let through; everything else has to be let in by its namespace's label. */
function networkPolicy(scope: Construct, metadata: Metadata): void {
  object(scope, {
    apiVersion: 'networking.k8s.io/v1',
    kind: 'NetworkPolicy',
    metadata,
    spec: {
      podSelector: { matchLabels: metadata.labels },
      policyTypes: ['Ingress'],
      ingress: [
        {
          from: [{ namespaceSelector: { matchLabels: { [METRICS_LABEL]: 'true' } } }],
          ports: [{ protocol: 'TCP', port: METRICS_PORT }],
        },
      ],
    },
  });
}
