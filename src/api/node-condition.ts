/** What conditions of a Node mean for its health. */

export const HEALTHS = ['Healthy', 'Unhealthy', 'Unknown'] as const;
export type Health = (typeof HEALTHS)[number];

/** Written by the kubelet: a stale kubelet Lease makes them unknown long before their own heartbeats are late. */
export const KUBELET_CONDITIONS: ReadonlySet<string> = new Set(['Ready', 'MemoryPressure', 'DiskPressure', 'PIDPressure']);

/** Conditions of Node Problem Detector as shipped that it sets from a log line: they stay True until it restarts or the node boots. */
const LATCHED: ReadonlySet<string> = new Set([
  'KernelDeadlock',
  'XfsShutdown',
  'CperHardwareErrorFatal',
  'ReadonlyFilesystem',
  'CorruptDockerOverlay2',
  'DiskBadBlock',
]);
/** Conditions that are measured again and again, so that one that stays healthy was found healthy. */
const PROBED: ReadonlySet<string> = new Set([
  ...KUBELET_CONDITIONS,
  'NetworkUnavailable',
  'FrequentKubeletRestart',
  'FrequentDockerRestart',
  'FrequentContainerdRestart',
  'FrequentUnregisterNetDevice',
  'KubeletUnhealthy',
  'ContainerRuntimeUnhealthy',
  'KubeProxyUnhealthy',
  'NTPProblem',
]);

/** How a condition of a Node comes to be healthy again; `Unknown` for one that this build does not know. */
export function clearingOf(type: string): 'Latched' | 'Probed' | 'Unknown' {
  if (LATCHED.has(type)) return 'Latched';
  return PROBED.has(type) ? 'Probed' : 'Unknown';
}

/** The status that is good news: `…Ready` is good when True (the kubelet, the EKS agent), every other problem when False. */
export function healthyStatus(type: string): 'True' | 'False' {
  return type.endsWith('Ready') && !type.endsWith('NotReady') ? 'True' : 'False';
}

export function healthOf(type: string, status: string): Health {
  if (status !== 'True' && status !== 'False') return 'Unknown';
  return status === healthyStatus(type) ? 'Healthy' : 'Unhealthy';
}
