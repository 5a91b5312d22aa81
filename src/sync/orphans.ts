/** What in a cell bears the label of a Fleet, and nothing on the hub has: KubeNode neither changes nor removes it (docs/protocols.md#e17). Pure. */
import { ORPHANS_LIMIT, type Cluster, type Orphan, type Orphans } from '../api/cluster.ts';
import { API_VERSION } from '../api/kind.ts';
import { LABELS } from '../api/names.ts';
import { plainText } from '../api/plain-text.ts';
import type { Rollout } from '../api/rollout.ts';
import type { KubeObject } from '../api/wire.ts';
import { ownersOf } from './plan.ts';
import { isGone } from './soak.ts';

/** As the schema of a Cluster has it: an API server may send more. */
const LONGEST = { object: 512, fleet: 253 };

/** By cluster: what is wanted there. `fleets`: the Rollouts in force of each. */
export function wantedUnits(fleets: readonly (readonly Rollout[])[]): ReadonlyMap<string, ReadonlySet<string>> {
  const wanted = new Map<string, Set<string>>();
  for (const rollouts of fleets)
    for (const [unit, { clusters }] of ownersOf(rollouts))
      for (const { name, digest } of clusters) if (digest !== undefined) wanted.set(name, (wanted.get(name) ?? new Set()).add(unit));
  return wanted;
}

/** `wanted`: there, by a commit in force. `fleets`: those that there are; the record of another has no effect any more. */
export function orphansOf(
  objects: readonly KubeObject[],
  { status }: Pick<Cluster, 'status'>,
  wanted: ReadonlySet<string>,
  fleets: ReadonlySet<string>,
): Orphans | undefined {
  const known = new Set(wanted);
  for (const record of status?.units ?? []) {
    if (!fleets.has(record.fleet) || isGone(record)) continue;
    known.add(record.unit);
    for (const entry of record.inventory ?? []) if (entry.apiVersion === API_VERSION) known.add(nameOf(entry.kind, entry));
  }
  const found = objects.flatMap(({ kind, metadata }): Orphan[] => {
    const fleet: unknown = metadata.labels?.[LABELS.fleet];
    const object = nameOf(kind, metadata);
    // What is being deleted is on its way.
    if (typeof fleet !== 'string' || metadata.deletionTimestamp !== undefined || known.has(object)) return [];
    const reason = fleets.has(fleet) ? 'NotDeclared' : 'FleetAbsent';
    return [{ object: plainText(object, LONGEST.object), fleet: plainText(fleet, LONGEST.fleet), reason }];
  });
  if (found.length === 0) return undefined;
  return { total: found.length, first: found.toSorted((a, b) => compare(a.object, b.object)).slice(0, ORPHANS_LIMIT) };
}

const nameOf = (kind: string, { namespace, name }: { namespace?: string | undefined; name: string }): string =>
  [kind, namespace, name].filter((part) => part !== undefined && part !== '').join('/');

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);
