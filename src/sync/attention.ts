/** What in a cell needs a person, from what its own controllers report. Pure. */
import { ATTENTION_LIMIT, type Attention } from '../api/cluster.ts';
import { API_VERSION } from '../api/kind.ts';
import type { MachineSet } from '../api/machine-set.ts';
import { plainText } from '../api/plain-text.ts';
import type { Condition, KubeObject } from '../api/wire.ts';

/** As the schema of a Cluster has it: an API server may send more. */
const LONGEST = { object: 512, reason: 256, message: 256 };

/** By kind: the conditions that speak of trouble, and with which status. */
const TROUBLE: Record<string, readonly { type: string; status: Condition['status']; except?: readonly string[] }[]> = {
  MachineSet: [
    // The reasons of one that has what it wants, that moves, or that a user stopped.
    { type: 'Progressing', status: 'False', except: ['Complete', 'Paused', 'ScaleDownBlocked'] },
    // Since when is its own: Progressing was False before.
    { type: 'ScaleDownBlocked', status: 'True' },
    { type: 'Available', status: 'False' },
    { type: 'ComponentsLeft', status: 'True' },
    { type: 'WriteFailed', status: 'True' },
  ],
  MachineComponentSet: [
    { type: 'Halted', status: 'True' },
    { type: 'Conflict', status: 'True' },
    // What is halted or in conflict has reported it; a ceiling and a pause are a person's own.
    { type: 'Progressing', status: 'False', except: ['Complete', 'NoMachines', 'Halted', 'Conflict', 'Paused', 'Ceiling'] },
    { type: 'RequirementsMet', status: 'False' },
  ],
  NodeRemedier: [
    { type: 'Accepted', status: 'False' },
    { type: 'NeedsHuman', status: 'True' },
  ],
  DefenderPolicy: [{ type: 'Accepted', status: 'False' }],
};

/** The oldest first, at most ATTENTION_LIMIT; the same objects give the same list. */
export function attentionOf(objects: readonly KubeObject[]): Attention[] {
  return objects
    .flatMap(troubleOf)
    .toSorted((a, b) => compare(a.since, b.since) || compare(a.object, b.object) || compare(a.type, b.type))
    .slice(0, ATTENTION_LIMIT);
}

function troubleOf(object: KubeObject): Attention[] {
  if (object.apiVersion !== API_VERSION) return [];
  const { conditions = [] } = (object as { status?: { conditions?: Condition[] } }).status ?? {};
  const { namespace, name } = object.metadata;
  return (TROUBLE[object.kind] ?? []).flatMap(({ type, status, except }) => {
    const found = conditions.find((each) => each.type === type);
    if (found?.status !== status || (except?.includes(found.reason) === true && !isStopped(object, found))) return [];
    const { reason, message, lastTransitionTime: since } = found;
    return [
      {
        object: plainText([object.kind, namespace, name].filter(Boolean).join('/'), LONGEST.object),
        type,
        reason: plainText(reason, LONGEST.reason),
        message: plainText(message, LONGEST.message),
        since: timeOf(since),
      },
    ];
  });
}

/** A user paused it, and it has other numbers than it shall have: that lasts until a user resumes it. */
function isStopped(object: KubeObject, { reason }: Condition): boolean {
  const { spec, status } = object as Pick<MachineSet, 'status'> & { spec?: MachineSet['spec'] };
  return object.kind === 'MachineSet' && reason === 'Paused' && spec?.replicas !== undefined && status?.replicas !== spec.replicas;
}

/** What is no time was always so. */
function timeOf(text: string): string {
  const ms = Date.parse(text);
  return Number.isNaN(ms) ? new Date(0).toISOString() : new Date(ms).toISOString();
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
