/** Labels and taints of a Machine on its Node. What KubeNode put there is named in an annotation, so that it removes only its own. Pure. */
import type { Node, Taint } from '../../api/builtin.ts';
import type { Machine } from '../../api/machine.ts';
import { ANNOTATIONS } from '../../api/names.ts';
import { canonical } from '../../api/digest.ts';
import type { Stored } from '../../api/wire.ts';

interface Owned {
  labels: string[];
  /** `key:effect` */
  taints: string[];
}

const idOf = ({ key, effect }: Pick<Taint, 'key' | 'effect'>): string => `${key}:${effect}`;

function ownedOn(node: Node): Owned {
  const text = node.metadata.annotations?.[ANNOTATIONS.ownedKeys];
  try {
    const { labels, taints } = JSON.parse(text ?? '{}') as { labels?: unknown; taints?: unknown };
    const strings = (list: unknown): string[] => (Array.isArray(list) ? list.filter((item) => typeof item === 'string') : []);
    return { labels: strings(labels), taints: strings(taints) };
  } catch {
    // Somebody wrote something else there: nothing is ours then, so nothing is removed.
    return { labels: [], taints: [] };
  }
}

/** The Node with the Machine's labels and taints, or undefined when it has them already. */
export function syncedNode(machine: Machine, node: Stored<Node>): Stored<Node> | undefined {
  const owned = ownedOn(node);
  const wantedLabels = machine.spec.labels ?? {};
  const wantedTaints = machine.spec.taints ?? [];
  const labels: Record<string, string> = { ...node.metadata.labels };
  for (const key of owned.labels) if (wantedLabels[key] === undefined) delete labels[key];
  Object.assign(labels, wantedLabels);

  const kept = (node.spec?.taints ?? []).filter((taint) => {
    const id = idOf(taint);
    const wanted = wantedTaints.find((each) => idOf(each) === id);
    if (wanted !== undefined) return (wanted.value ?? '') === (taint.value ?? '');
    return !owned.taints.includes(id);
  });
  const missing = wantedTaints.filter((taint) => !kept.some((each) => idOf(each) === idOf(taint)));
  const taints = [...kept, ...missing];

  const now: Owned = { labels: Object.keys(wantedLabels).sort(), taints: wantedTaints.map(idOf).sort() };
  const annotation =
    now.labels.length + now.taints.length === 0 && node.metadata.annotations?.[ANNOTATIONS.ownedKeys] === undefined
      ? undefined
      : canonical(now);
  const annotations = { ...node.metadata.annotations, ...(annotation === undefined ? {} : { [ANNOTATIONS.ownedKeys]: annotation }) };
  const next: Stored<Node> = {
    ...node,
    metadata: {
      ...node.metadata,
      ...(Object.keys(labels).length === 0 ? {} : { labels }),
      ...(Object.keys(annotations).length === 0 ? {} : { annotations }),
    },
    spec: { ...node.spec, ...(taints.length === 0 && node.spec?.taints === undefined ? {} : { taints }) },
  };
  return canonical([next.metadata.labels, next.metadata.annotations, next.spec]) ===
    canonical([node.metadata.labels, node.metadata.annotations, node.spec ?? {}])
    ? undefined
    : next;
}
