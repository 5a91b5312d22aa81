/** Labels and taints of a Machine on its Node. What KubeNode put there is named in an annotation, so that it removes only its own. Pure. */
import type { Node, Taint } from '../../api/builtin.ts';
import { canonical } from '../../api/digest.ts';
import type { Machine } from '../../api/machine.ts';
import { ANNOTATIONS } from '../../api/names.ts';
import type { Stored } from '../../api/wire.ts';

interface Owned {
  labels: string[];
  /** `key:effect` */
  taints: string[];
}

/**
 * Tells Kubernetes that the node is off for certain: what ran there may start elsewhere, its volumes with it. Ours is there from the proof until
 * the kubelet answers again; one that somebody else put there stays theirs.
 */
const OUT_OF_SERVICE: Taint = { key: 'node.kubernetes.io/out-of-service', value: 'nodeshutdown', effect: 'NoExecute' };

const idOf = ({ key, effect }: Pick<Taint, 'key' | 'effect'>): string => `${key}:${effect}`;
const strings = (list: unknown): string[] => (Array.isArray(list) ? list.filter((item) => typeof item === 'string') : []);

function ownedOn(node: Node): Owned {
  try {
    const { labels, taints } = JSON.parse(node.metadata.annotations?.[ANNOTATIONS.ownedKeys] ?? '{}') as Partial<Record<string, unknown>>;
    return { labels: strings(labels), taints: strings(taints) };
  } catch {
    // Somebody wrote something else there: nothing is ours then, so nothing is removed.
    return { labels: [], taints: [] };
  }
}

const concerned = ({ metadata, spec }: Node): string => canonical([metadata.labels ?? {}, metadata.annotations ?? {}, spec?.taints ?? []]);

export const isOutOfService = (node: Node): boolean => node.spec?.taints?.some((taint) => idOf(taint) === idOf(OUT_OF_SERVICE)) === true;

/** The Node marked as off for certain; undefined when it is so already. */
export function markedOutOfService(machine: Pick<Machine, 'spec'>, node: Stored<Node>): Stored<Node> | undefined {
  return isOutOfService(node) ? undefined : withTaints(machine, node, [OUT_OF_SERVICE]);
}

/** The Node with the Machine's labels and taints, or undefined when it has them already. */
export function syncedNode(machine: Pick<Machine, 'spec'>, node: Stored<Node>, kubeletAnswers: boolean): Stored<Node> | undefined {
  const stays = !kubeletAnswers && ownedOn(node).taints.includes(idOf(OUT_OF_SERVICE));
  return withTaints(machine, node, stays ? [OUT_OF_SERVICE] : []);
}

function withTaints(machine: Pick<Machine, 'spec'>, node: Stored<Node>, besides: readonly Taint[]): Stored<Node> | undefined {
  const owned = ownedOn(node);
  const wantedLabels = machine.spec.labels ?? {};
  const wantedTaints: readonly Taint[] = [...(machine.spec.taints ?? []), ...besides];
  const had = node.metadata.labels ?? {};
  const hadTaints = node.spec?.taints ?? [];

  const labels = { ...had, ...wantedLabels };
  for (const key of owned.labels) if (wantedLabels[key] === undefined) delete labels[key];

  const isSame = (a: Pick<Taint, 'key' | 'effect' | 'value'>, b: typeof a): boolean =>
    idOf(a) === idOf(b) && (a.value ?? '') === (b.value ?? '');
  const wantedIDs = new Set(wantedTaints.map(idOf));
  const kept = hadTaints.filter((taint) =>
    wantedIDs.has(idOf(taint)) ? wantedTaints.some((wanted) => isSame(wanted, taint)) : !owned.taints.includes(idOf(taint)),
  );
  const taints = [...kept, ...wantedTaints.filter((wanted) => !kept.some((taint) => isSame(taint, wanted)))];

  // What was there as it is wanted before we came is not ours to remove later.
  const now: Owned = {
    labels: Object.keys(wantedLabels)
      .filter((key) => owned.labels.includes(key) || had[key] !== wantedLabels[key])
      .sort(),
    taints: wantedTaints
      .filter((wanted) => owned.taints.includes(idOf(wanted)) || !hadTaints.some((taint) => isSame(taint, wanted)))
      .map(idOf)
      .sort(),
  };
  const { [ANNOTATIONS.ownedKeys]: before, ...annotations } = node.metadata.annotations ?? {};
  const ours = before === undefined && now.labels.length + now.taints.length === 0 ? {} : { [ANNOTATIONS.ownedKeys]: canonical(now) };
  const next: Stored<Node> = {
    ...node,
    metadata: { ...node.metadata, labels, annotations: { ...annotations, ...ours } },
    spec: { ...node.spec, taints },
  };
  return concerned(next) === concerned(node) ? undefined : next;
}
