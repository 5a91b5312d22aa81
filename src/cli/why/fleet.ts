/** How far the commits of a fleet are: what was accepted last, what does not pass, and which cluster blocks it. */
import { Clusters, type Cluster } from '../../api/cluster.ts';
import type { Fleet } from '../../api/fleet.ts';
import { isOver, Rollouts, type Rollout } from '../../api/rollout.ts';
import type { Stored } from '../../api/wire.ts';
import type { Client } from '../../kube/client.ts';
import { HELD_BACK } from '../../sync/fleet/decide.ts';
import { goOn } from './rollout.ts';
import { ago, because, conditionLines } from './words.ts';

export interface FleetInput {
  fleet: Stored<Fleet>;
  /** Of this fleet, the oldest first. */
  rollouts: Stored<Rollout>[];
  /** Those that its accepted commit declares. */
  clusters: Stored<Cluster>[];
}

export async function gatherFleet(client: Client, fleet: Stored<Fleet>): Promise<FleetInput> {
  const [rollouts, clusters] = await Promise.all([client.listAll(Rollouts), client.listAll(Clusters)]);
  const declared = new Set(fleet.status?.clusters ?? []);
  return {
    fleet,
    rollouts: rollouts.items.filter(({ spec }) => spec.fleet === fleet.metadata.name).toSorted((a, b) => a.spec.sequence - b.spec.sequence),
    clusters: clusters.items.filter(({ metadata }) => declared.has(metadata.name)),
  };
}

export function fleetLines({ fleet, rollouts, clusters }: FleetInput, nowMs: number): string[] {
  const { metadata, spec, status } = fleet;
  const ready = status?.conditions?.find(({ type }) => type === 'Ready');
  const open = rollouts.filter((rollout) => !isOver(rollout.status?.phase));
  const away = clusters.flatMap((cluster) => {
    const reachable = cluster.status?.conditions?.find(({ type }) => type === 'Reachable');
    return reachable?.status === 'False' ? [`  cluster/${cluster.metadata.name}  ${because(reachable)}`] : [];
  });
  const { head, commit, commitTime } = status ?? {};
  return [
    `fleet/${metadata.name}  ${ready === undefined ? 'not reported yet: does the hub controller run?' : because(ready)}${spec.paused === true ? ' (paused)' : ''}`,
    `  commit  ${commit === undefined ? 'none was accepted yet' : `${commit.slice(0, 10)}${commitTime === undefined ? '' : `, of ${ago(commitTime, nowMs)}`}, accepted last`}`,
    ...(head === undefined || head === commit ? [] : [`  head    ${head.slice(0, 10)}, which is not accepted`]),
    `  stages  ${spec.stages.map(({ name }) => name).join(' → ')}; ${status?.clusters?.length ?? 0} clusters, ${status?.units ?? 0} units`,
    '',
    'DOES NOT PASS YET',
    ...(open.length === 0
      ? [`  ${ready?.reason === HELD_BACK ? because(ready) : 'nothing: no rollout is under way'}`]
      : open.flatMap((rollout) => rolloutOf(rollout))),
    ...(away.length === 0 ? [] : ['', 'NOT REACHED', ...away]),
    ...conditionLines(status?.conditions, nowMs),
  ];
}

/** Its units that are not done, each with what blocks it. */
function rolloutOf(rollout: Stored<Rollout>): string[] {
  const { metadata, spec, status } = rollout;
  const units = (status?.units ?? []).filter(({ phase }) => !isOver(phase));
  const steered = spec.paused === true ? ' (paused)' : '';
  return [
    `  rollout/${metadata.name}  ${status?.phase ?? 'Pending'}${steered}  ${spec.commit.slice(0, 10)}${spec.subject === undefined ? '' : ` ${spec.subject}`}`,
    ...units.map(({ unit, phase, stage, soakUntil, message }) => {
      const why = soakUntil === undefined ? message : `soaks until ${soakUntil}`;
      return `    ${unit}  ${phase}${stage === undefined ? '' : ` in stage ${stage}`}${why === undefined ? '' : `; ${why}`}`;
    }),
    ...(status?.phase === 'Halted' ? [`    ${goOn(rollout)}`] : [`    more: kubenode why rollout/${metadata.name}`]),
  ];
}
