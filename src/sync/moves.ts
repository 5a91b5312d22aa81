/** A commit does not choose by which limits, soaks and records a cluster is judged that the hub knows (docs/protocols.md#e7a). Pure. */
import type { Cluster } from '../api/cluster.ts';
import type { Fleet } from '../api/fleet.ts';
import { SYSTEM_NAMESPACE } from '../api/names.ts';
import { syncError } from './errors.ts';
import { stageOf } from './plan.ts';

export interface MovesInput {
  fleet: Fleet;
  /** Of files that are no commit yet: empty. */
  head: string;
  /** As the commit declares them. */
  declared: readonly Cluster[];
  /** As the hub has them: also those that an earlier commit no longer declared. */
  clusters: readonly Cluster[];
  /** Whether a rollout in force, or a record, wants something there. */
  isWanted: (cluster: string) => boolean;
}

const SHOWN = 20;

/** Throws where the commit moves a known cluster to another stage or cell, and the Fleet does not accept that at this very head. */
export function refuseMoves({ fleet, head, declared, clusters, isWanted }: MovesInput): void {
  const { name } = fleet.metadata;
  if (fleet.spec.acceptMoves === head) return;
  const byName = new Map(clusters.map((cluster) => [cluster.metadata.name, cluster]));
  const bySecret = Map.groupBy([...clusters, ...declared], secretOf);
  const moves = declared.flatMap((after) => {
    const before = byName.get(after.metadata.name);
    const isKnown = before !== undefined && ((before.status?.units ?? []).length > 0 || isWanted(after.metadata.name));
    const sharing = before !== undefined && secretOf(before) === secretOf(after) ? [] : (bySecret.get(secretOf(after)) ?? []);
    return [...(isKnown ? movesOf(fleet, before, after) : []), ...takenFrom(after, sharing)];
  });
  if (moves.length === 0) return;
  const more = moves.length - SHOWN;
  throw syncError(
    'ClusterMoved',
    `the commit would move clusters: ${moves.slice(0, SHOWN).join(', ')}${more > 0 ? `, and ${more} more` : ''}; nothing was changed`,
    {
      next:
        head === ''
          ? 'keep them where they are; or commit it, and accept that very commit: kubenode plan HEAD prints the command'
          : `check it, and keep them where they are; or accept it: kubectl patch fleet ${name} --type merge -p '{"spec":{"acceptMoves":"${head}"}}'`,
    },
  );
}

/** Of the kubeconfig by which the cell is reached: under another name it would have neither records nor stage of before. */
function secretOf({ metadata, spec }: Cluster): string {
  const { namespace = SYSTEM_NAMESPACE, name } = spec.kubeconfigSecret ?? { name: `cluster-${metadata.name}` };
  return `${namespace}/${name}`;
}

function takenFrom(cluster: Cluster, sharing: readonly Cluster[]): string[] {
  const { name } = cluster.metadata;
  const other = sharing.find((each) => each.metadata.name !== name);
  return other === undefined ? [] : [`"${name}" to Secret ${secretOf(cluster)}, which is that of "${other.metadata.name}"`];
}

function movesOf(fleet: Fleet, before: Cluster, after: Cluster): string[] {
  const name = `"${after.metadata.name}"`;
  const stages = [before, after].map(({ metadata }) => stageOf(fleet, metadata.labels)?.name);
  const reached = before.status?.cellUID;
  const cells = [before.spec.cellUID ?? reached, after.spec.cellUID ?? reached];
  const [fromStage, toStage] = stages.map((stage) => (stage === undefined ? 'no stage' : `stage "${stage}"`));
  return [
    ...(stages[0] === stages[1] ? [] : [`${name} from ${fromStage} to ${toStage}`]),
    ...(secretOf(before) === secretOf(after) ? [] : [`${name} from Secret ${secretOf(before)} to Secret ${secretOf(after)}`]),
    // None was reached yet: there is nothing of it that could be judged otherwise.
    ...(cells[0] === undefined || cells[0] === cells[1] ? [] : [`${name} from cell ${cells[0]} to cell ${cells[1]}`]),
  ];
}
