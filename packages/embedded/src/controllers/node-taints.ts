import type { Json, JsonObject } from '@kubenode/api-machinery/wire';
import { equal, listAt, objectAt, textAt } from '../json.ts';

const key = (name: string): string => `node.kubernetes.io/${name}`;

/** The status of a condition with which a Node should get no more pods. */
const OF_CONDITIONS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  Ready: { False: key('not-ready'), Unknown: key('unreachable') },
  MemoryPressure: { True: key('memory-pressure') },
  DiskPressure: { True: key('disk-pressure') },
  NetworkUnavailable: { True: key('network-unavailable') },
  PIDPressure: { True: key('pid-pressure') },
};

const UNSCHEDULABLE = key('unschedulable');
const KEYS: ReadonlySet<string> = new Set([UNSCHEDULABLE, ...Object.values(OF_CONDITIONS).flatMap((of) => Object.values(of))]);

const isOurs = (taint: Json): boolean => textAt(taint, 'effect') === 'NoSchedule' && KEYS.has(textAt(taint, 'key') ?? '');

/**
 * The taints of a Node as its conditions and its cordon ask for them, or undefined when it has them: only taints of effect NoSchedule, as
 * kube-controller-manager's node lifecycle controller sets them. `now` is RFC 3339. Pure.
 */
export function taintsOf(node: JsonObject, now: string): Json[] | undefined {
  const wanted = new Set<string>();
  for (const condition of listAt(node, 'status', 'conditions')) {
    const found = OF_CONDITIONS[textAt(condition, 'type') ?? '']?.[textAt(condition, 'status') ?? ''];
    if (found !== undefined) wanted.add(found);
  }
  if (objectAt(node, 'spec')['unschedulable'] === true) wanted.add(UNSCHEDULABLE);
  const had = listAt(node, 'spec', 'taints');
  const kept = had.filter((taint) => !isOurs(taint) || wanted.delete(textAt(taint, 'key') ?? ''));
  const taints: Json[] = [...kept, ...Array.from(wanted, (name) => ({ key: name, effect: 'NoSchedule', timeAdded: now }))];
  return equal(taints, had) ? undefined : taints;
}
