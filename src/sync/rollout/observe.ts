import type { Cluster } from '../../api/cluster.ts';
import type { Rollout } from '../../api/rollout.ts';
import type { MachineComponentSet } from '../../api/machinecomponentset.ts';
import { API_VERSION } from '../../api/kind.ts';
import { MANAGERS } from '../../api/names.ts';
import type { KubeObject, Stored } from '../../api/wire.ts';
import { wouldChange } from '../../kube/apply.ts';
import { stamped } from '../applyunit.ts';
import type { StoredUnit } from '../bundles.ts';
import type { Cell } from '../cells.ts';
import { evidenceOf } from '../evidence.ts';
import type { ClusterView, LiveUnit, World } from './world.ts';

export interface ObserveInput {
  now: number;
  fleet: string;
  rollouts: readonly Stored<Rollout>[];
  clusters: readonly Stored<Cluster>[];
  /** The connection, or why there is none. */
  cell(cluster: string): Cell | string;
  /** Objects of a digest, if the cache has them in hand. */
  unit(digest: string): StoredUnit | undefined;
  /** Why the last try at (unit, cluster, digest) failed, while its next one is not due. */
  failing(unit: string, cluster: string): string | undefined;
}

/** Gathers everything the decision needs. Sends no request: it reads stores. */
export function observe(input: ObserveInput): World {
  const clusters = new Map<string, ClusterView>();
  for (const cluster of input.clusters) {
    const { name } = cluster.metadata;
    const cell = input.cell(name);
    const units = new Map((cluster.status?.units ?? []).map((record) => [record.unit, record]));
    const away = typeof cell === 'string' ? cell : cell.silent();
    clusters.set(name, {
      name,
      blocked: cluster.spec.paused === true ? 'the Cluster is paused' : away,
      units,
      failing: (unit) => input.failing(unit, name),
      live: (unit) =>
        typeof cell === 'string' || away !== undefined ? { state: 'Unknown' } : liveUnit(cell, unit, units.get(unit), input),
    });
  }
  return { now: input.now, fleet: input.fleet, rollouts: input.rollouts.toSorted((a, b) => a.spec.sequence - b.spec.sequence), clusters };
}

function liveUnit(cell: Cell, unit: string, record: { digest?: string } | undefined, input: ObserveInput): LiveUnit {
  const [kind = '', ...rest] = unit.split('/');
  const store = cell.store(kind);
  const digest = record?.digest;
  // Not watched: that it was applied is all there is to know, and all that its kind promises.
  if (store === undefined) {
    if (digest === undefined) return { state: 'Unknown' };
    return {
      state: 'Present',
      unitDigest: digest,
      drifted: false,
      evidence: true,
      halted: undefined,
      ceiling: undefined,
      progress: undefined,
    };
  }
  if (!store.synced) return { state: 'Unknown' };
  const name = rest.at(-1) ?? '';
  const object = store.get(rest.length === 2 ? { namespace: rest[0], name } : { name });
  if (object === undefined || object.metadata.deletionTimestamp !== undefined) return { state: 'Absent' };
  const { unitDigest, ceiling } = (object as Partial<Stored<MachineComponentSet>>).spec ?? {};
  const wanted = digest === undefined ? undefined : input.unit(digest);
  return {
    state: 'Present',
    unitDigest,
    drifted: wanted !== undefined && unitDigest !== undefined && isDrifted(object, wanted, digest ?? '', input.fleet),
    ...(unitDigest === undefined ? { evidence: false, halted: undefined, progress: undefined } : evidenceOf(object, unitDigest)),
    ceiling,
  };
}

function isDrifted(live: Stored<KubeObject>, unit: StoredUnit, digest: string, fleet: string): boolean {
  const top = unit.objects.at(-1);
  if (top === undefined || top.apiVersion !== API_VERSION) return false;
  // An unknown answer (another manager took every field of ours) is a difference: applying again settles it.
  return wouldChange(stamped(top, true, digest, fleet, unit.origins.at(-1)), live, { fieldManager: MANAGERS.sync }) !== false;
}
