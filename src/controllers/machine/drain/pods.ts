import { Pods, type Pod } from '../../../api/builtin.ts';
import type { Stored } from '../../../api/wire.ts';
import type { Client } from '../../../kube/client.ts';
import type { DrainedPod } from '../view.ts';

/** Pods that a drain of this node takes away, live. */
export async function drainedPods(client: Client, node: string, signal: AbortSignal): Promise<DrainedPod[]> {
  const pods = await client.listAll(Pods, { fieldSelector: `spec.nodeName=${node}`, signal });
  return pods.items.filter(isDrained).map((pod) => ({
    namespace: pod.metadata.namespace ?? '',
    name: pod.metadata.name,
    uid: pod.metadata.uid,
    terminating: pod.metadata.deletionTimestamp !== undefined,
    labels: pod.metadata.labels ?? {},
  }));
}

/** As kubectl drain: pods of DaemonSets would come back at once, mirror pods follow their file, ended pods are no load. */
export function isDrained(pod: Stored<Pod>): boolean {
  if (pod.metadata.annotations?.['kubernetes.io/config.mirror'] !== undefined) return false;
  if (pod.metadata.ownerReferences?.some((owner) => owner.kind === 'DaemonSet' && owner.controller === true) === true) return false;
  return pod.status?.phase !== 'Succeeded' && pod.status?.phase !== 'Failed';
}
