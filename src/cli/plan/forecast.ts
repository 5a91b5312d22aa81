/** What the hub would do with a commit, from the same plan that it makes itself (src/sync/plan.ts). Pure. */
import type { UnitStatus } from '../../api/cluster.ts';
import type { Disruption } from '../../api/disruption.ts';
import type { RolloutUnit } from '../../api/rollout.ts';
import type { KubeObject } from '../../api/wire.ts';
import type { RenderedCommit } from '../../sync/fleet/checkout.ts';
import type { FleetView } from '../../sync/fleet/observe.ts';
import type { Plan } from '../../sync/plan.ts';
import { REMOVAL } from '../../sync/records.ts';
import { goesBack, isNew } from '../../sync/rollout/lane.ts';
import { blockedIn, type BlockedUnit } from './waits.ts';
import { clusterChanges, type ClusterChanges } from './cluster-changes.ts';
import { changeOf, effectOf, type MachineEffect } from './disruption.ts';
import { declared, fieldChanges, type FieldChange } from './fields.ts';
import { knownOf, type KnownHub } from './known.ts';

export type ForecastLane = 'Forward' | 'Restore';

export interface ClusterForecast {
  name: string;
  stage: string;
  /** Removing: an earlier commit removes it, which goes on. Keep: it is there already, and what was wanted since is not. TakeOver: no Rollout has it yet. */
  change: 'Add' | 'Change' | 'Remove' | 'Removing' | 'Keep' | 'TakeOver';
  /** Restore: at once, in all stages (docs/protocols.md#e6). */
  lane: ForecastLane;
  /** Undefined: what is there now is not known here. */
  fields: FieldChange[] | undefined;
  effect?: MachineEffect;
  /** Clusters that halted this content, with their messages: it begins nowhere until a person retries it (docs/protocols.md#e13). */
  halts: readonly string[];
  /** What taking the commit back does there. */
  revert: { lane: ForecastLane; disruption?: Disruption };
}

export interface UnitForecast {
  unit: string;
  /** `fleet/nodes.ts:12:3`; undefined: it is removed. */
  source: string | undefined;
  /** In the order of the stages. */
  clusters: ClusterForecast[];
}

export interface Forecast {
  fleet: string;
  stages: { name: string; clusters: string[]; soakSeconds: number; maxClusters: number }[];
  units: UnitForecast[];
  /** What the commit changes of the Clusters themselves. */
  clusters: ClusterChanges[];
  /** Where nothing can begin now, and why. */
  blocked: BlockedUnit[];
  /** Units that the commit no longer declares and that are never deleted. */
  kept: { unit: string; cluster: string }[];
  heldBack: { message: string; next: string; all: readonly string[] } | undefined;
  /** Clusters of the fleet that the commit no longer declares: what is there stays. */
  left: string[];
  /** No machine of the last stage changes before so many seconds: the soaks alone. */
  soakSeconds: number;
}

export interface ForecastInput {
  view: FleetView;
  rendered: RenderedCommit;
  planned: Plan;
  /** Objects of a digest that clusters have now; undefined: they cannot be had here. */
  before: (digest: string) => readonly KubeObject[] | undefined;
  /** The commit that the hub accepted, rendered again; undefined: it cannot be had here. */
  accepted: RenderedCommit | undefined;
  /** Whether a Rollout carries the unit there. */
  isCarried: (cluster: string, unit: string) => boolean;
  /** As of when the hub is known. */
  nowMs: number;
}

interface Context {
  input: ForecastInput;
  known: KnownHub;
  nowMs: number;
  /** The longest of the stages. */
  soakMs: number;
}

export function forecast(input: ForecastInput): Forecast {
  const { view, rendered, planned } = input;
  const { fleet } = view;
  const stages = planned.stages.map(({ name, clusters, soakSeconds, maxClusters }) => ({
    name,
    clusters,
    soakSeconds,
    maxClusters,
  }));
  const known = knownOf(view, rendered, input.before);
  const soakMs = 1000 * Math.max(0, ...stages.map(({ soakSeconds }) => soakSeconds));
  const context: Context = { input, known, nowMs: input.nowMs, soakMs };
  const units = planned.units.map((unit) => unitForecast(unit, context)).filter(({ clusters }) => clusters.length > 0);
  const declaredClusters = new Set(rendered.clusters.map(({ name }) => name));
  const changes = clusterChanges(rendered, input.accepted, view.clusters);
  return {
    fleet: fleet.metadata.name,
    stages,
    units,
    clusters: changes.map(({ isPaused: _isPaused, ...each }) => each).filter(({ change, fields }) => change === 'Add' || fields.length > 0),
    blocked: blockedIn({ view, planned, units, known, paused: new Set(changes.flatMap((each) => (each.isPaused ? each.cluster : []))) }),
    kept: planned.kept,
    heldBack:
      planned.heldBack === undefined
        ? undefined
        : { message: planned.heldBack.message, next: planned.heldBack.next, all: planned.heldBack.all },
    left: (fleet.status?.clusters ?? []).filter((name) => !declaredClusters.has(name)),
    soakSeconds: Math.max(0, ...units.map((unit) => soakOf(unit, stages))),
  };
}

/** Whether the hub would do nothing with the commit. */
export const isNothing = ({ units, clusters, left, heldBack }: Forecast): boolean =>
  units.length === 0 && clusters.length === 0 && left.length === 0 && heldBack === undefined;

function unitForecast({ unit, clusters }: RolloutUnit, context: Context): UnitForecast {
  const { input, known } = context;
  const order = input.planned.stages.flatMap((stage) => stage.clusters.map((name) => ({ name, stage: stage.name })));
  const changed = new Map(clusters.filter((each) => isChange(each, unit, input.isCarried, known)).map((each) => [each.name, each]));
  const sources = input.rendered.clusters.flatMap(({ name }) => known.rendered(name, unit)?.origins.at(-1) ?? []);
  return {
    unit,
    source: sources[0],
    clusters: order.flatMap(({ name, stage }) => {
      const change = changed.get(name);
      return change === undefined ? [] : [clusterForecast(unit, change, stage, context)];
    }),
  };
}

type ClusterChange = RolloutUnit['clusters'][number];

/**
 * A unit that changes in one cluster is carried whole: where its content is what a Rollout wants already, nothing becomes of it. `from` and `digest` are both absent
 * where an earlier commit removes it: that goes on while something is there.
 */
function isChange({ name, digest, from }: ClusterChange, unit: string, isCarried: ForecastInput['isCarried'], known: KnownHub): boolean {
  if (digest === undefined && from === undefined) return known.there(name, unit).length > 0;
  return digest !== from || !isCarried(name, unit);
}

function clusterForecast(unit: string, wanted: ClusterChange, stage: string, context: Context): ClusterForecast {
  const { known, input } = context;
  const { name, digest, from } = wanted;
  const there = known.hasRecords(name) ? known.there(name, unit) : [from].flatMap((each) => each ?? []);
  const after = digest === undefined ? [] : (known.rendered(name, unit)?.objects ?? []);
  const contents = there.map(input.before);
  const before = contents.every((each) => each !== undefined) ? contents : undefined;
  const change = changeKind(wanted, there);
  const units = known.units(name);
  const effect =
    change === 'TakeOver' || change === 'Keep'
      ? undefined
      : effectOf({ before, after, groups: known.groups(name), units, cluster: known.cluster(name) });
  return {
    name,
    stage,
    change,
    lane: change === 'TakeOver' || change === 'Keep' ? 'Forward' : laneOf(unit, name, digest, context),
    fields: before === undefined ? undefined : fieldsOf(before[0] ?? [], after),
    ...(effect === undefined ? {} : { effect }),
    halts: digest === undefined ? [] : known.halts(unit, digest),
    revert: revertOf(unit, wanted, change, after, context),
  };
}

function changeKind({ digest, from }: ClusterChange, there: readonly string[]): ClusterForecast['change'] {
  if (digest === undefined) return from === undefined ? 'Removing' : 'Remove';
  if (digest === from) return 'TakeOver';
  if (there.length === 0) return 'Add';
  return there.every((each) => each === digest) ? 'Keep' : 'Change';
}

/** By docs/protocols.md#e6: what was verified there, and is revoked nowhere, goes back at once; what is new there is taken back at once. */
function laneOf(unit: string, cluster: string, digest: string | undefined, { known, nowMs, soakMs }: Context): ForecastLane {
  const record = known.record(cluster, unit);
  if (digest !== undefined) return record?.digest === undefined ? 'Forward' : laneTo(digest, record, unit, known);
  if (record?.begun === REMOVAL) return record.removal?.lane ?? 'Forward';
  return record !== undefined && isNew(record, nowMs, soakMs) ? 'Restore' : 'Forward';
}

function laneTo(digest: string, record: UnitStatus | undefined, unit: string, known: KnownHub): ForecastLane {
  const verified = record?.verified?.find((each) => each.digest === digest);
  if (verified === undefined) return 'Forward';
  if (record?.revoked?.includes(digest) === true) return 'Forward';
  if (verified.upheld === true) return 'Restore';
  return known.isRevoked(unit, digest) ? 'Forward' : 'Restore';
}

function revertOf(
  unit: string,
  { name, digest, from }: ClusterChange,
  change: ClusterForecast['change'],
  after: readonly KubeObject[],
  context: Context,
): ClusterForecast['revert'] {
  // What is added is new there, so that its removal goes at once.
  if (change === 'Add' && from === undefined) return { lane: 'Restore' };
  // When it is gone, its record is gone as well.
  if (digest === undefined || from === undefined) return { lane: 'Forward' };
  const record = context.known.record(name, unit);
  // What a going back leaves is revoked.
  const isRevoked = goesBack(record, digest) || (change !== 'Keep' && laneOf(unit, name, digest, context) === 'Restore');
  const content = context.input.before(from);
  const back = content === undefined ? undefined : changeOf(after, content);
  return { lane: isRevoked ? 'Forward' : laneTo(from, record, unit, context.known), ...(back === undefined ? {} : { disruption: back }) };
}

function fieldsOf(before: readonly KubeObject[], after: readonly KubeObject[]): FieldChange[] {
  // The last object is the unit itself; those before it are what it names.
  return fieldChanges(asDeclared(before.at(-1)), asDeclared(after.at(-1)));
}

const asDeclared = (object: KubeObject | undefined): unknown => (object === undefined ? undefined : declared(object));

/** Of a unit that goes forward: clusters of a stage go `maxClusters` at a time, each through its batches, and a stage soaks before the next. */
function soakOf(unit: UnitForecast, stages: Forecast['stages']): number {
  let seconds = 0;
  const forward = unit.clusters.filter(({ lane }) => lane === 'Forward');
  const last = forward.at(-1)?.stage;
  for (const stage of stages) {
    const its = forward.filter((each) => each.stage === stage.name);
    if (its.length === 0) continue;
    const batches = its.map(({ effect }) => (effect?.effect === 'Change' ? effect.soakSeconds : 0));
    seconds += Math.ceil(its.length / stage.maxClusters) * Math.min(...batches);
    if (stage.name !== last) seconds += stage.soakSeconds;
  }
  return seconds;
}
