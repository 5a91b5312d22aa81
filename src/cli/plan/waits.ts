/** Where a commit cannot begin now, and why: as the hub judges each cluster (docs/protocols.md#e5). Pure. */
import type { FleetView } from '../../sync/fleet/observe.ts';
import type { Plan } from '../../sync/plan.ts';
import type { UnitForecast } from './forecast.ts';
import type { KnownHub } from './known.ts';

export interface BlockedUnit {
  cluster: string;
  /** Undefined: all units. */
  unit?: string;
  reason: string;
}

export interface BlockedInput {
  view: FleetView;
  planned: Plan;
  /** What changes. */
  units: readonly UnitForecast[];
  known: KnownHub;
  /** Clusters that are paused after the commit. */
  paused: ReadonlySet<string>;
}

export function blockedIn(input: BlockedInput): BlockedUnit[] {
  const changed = new Set(input.units.flatMap((unit) => unit.clusters.map(({ name }) => name)));
  const earlier = input.units.flatMap((unit) => unprovenBefore(unit, input).filter((name) => !changed.has(name)));
  const clusters = [...changed, ...new Set(earlier)];
  return [
    ...clusters.flatMap((cluster) => reasonsOf(cluster, input).map((reason) => ({ cluster, reason }))),
    ...input.units.flatMap((unit) => blockedUnit(unit, input)),
  ];
}

function reasonsOf(name: string, { view, known, paused }: BlockedInput): string[] {
  const cluster = known.cluster(name);
  const reachable = cluster?.status?.conditions?.find(({ type }) => type === 'Reachable');
  return [
    ...(view.fleet.spec.paused === true ? ['the Fleet is paused'] : []),
    ...(paused.has(name) ? ['the Cluster is paused'] : []),
    ...(cluster === undefined ? ['it is new: the hub needs its kubeconfig'] : []),
    ...(reachable?.status === 'False' ? [['it is not reached', reachable.message].filter((each) => each !== '').join(': ')] : []),
  ];
}

/** Clusters of earlier stages that have the content already, but no evidence for it: those after them wait, also where nothing changes in these. */
function unprovenBefore({ unit, clusters }: UnitForecast, { planned, known }: BlockedInput): string[] {
  const last = planned.stages.findLastIndex(({ name }) => clusters.some(({ stage, lane }) => stage === name && lane === 'Forward'));
  const before = new Set(planned.stages.slice(0, Math.max(0, last)).flatMap((stage) => stage.clusters));
  const carried = planned.units.find((each) => each.unit === unit)?.clusters ?? [];
  return carried.flatMap(({ name, digest }) => {
    const isProven = digest === undefined || known.record(name, unit)?.evidence === digest;
    return before.has(name) && !isProven ? [name] : [];
  });
}

function blockedUnit({ unit, clusters }: UnitForecast, { view, planned, known }: BlockedInput): BlockedUnit[] {
  const wanted = new Map(planned.units.find((each) => each.unit === unit)?.clusters.map(({ name, digest }) => [name, digest]));
  return clusters.flatMap(({ name: cluster, lane }) => {
    const owner = known.foreign(cluster, unit);
    // The newest: a pause belongs to what it paused, also after later commits (docs/protocols.md#e12).
    const pause = view.rollouts.findLast(
      ({ spec }) =>
        spec.paused === true &&
        spec.units.some((each) => each.unit === unit && each.clusters.some(({ digest }) => digest === wanted.get(cluster))),
    );
    return [
      ...(owner === undefined ? [] : [{ cluster, unit, reason: `it belongs to Fleet "${owner}" there` }]),
      ...(pause === undefined || lane === 'Restore'
        ? []
        : [{ cluster, unit, reason: `rollout ${pause.metadata.name} is paused, of the same content` }]),
    ];
  });
}
