/** What the hub would do with a commit, from the same plan that it makes itself (src/sync/plan.ts). Pure. */
import { DEFAULT_BATCHES, MachineComponentSets } from '../../api/machine-component-set.ts';
import { resolveBatches } from '../../api/batches.ts';
import type { Cluster, UnitStatus } from '../../api/cluster.ts';
import { canonical } from '../../api/digest.ts';
import { DISRUPTIONS, disruptionOf, stronger, type Disruption } from '../../api/disruption.ts';
import type { Fleet } from '../../api/fleet.ts';
import { MachineComponents } from '../../api/machine-component.ts';
import { MachineSets } from '../../api/machine-set.ts';
import type { RolloutUnit } from '../../api/rollout.ts';
import type { Unit } from '../../api/unit.ts';
import type { KubeObject } from '../../api/wire.ts';
import type { RenderedCommit } from '../../sync/fleet/checkout.ts';
import type { FleetView } from '../../sync/fleet/observe.ts';
import type { Plan } from '../../sync/plan.ts';
import { declared, fieldChanges, type FieldChange } from './fields.ts';
import { knownOf, type Known } from './known.ts';
import { membersOf } from './members.ts';

export type Lane = 'Forward' | 'Restore';

/** What becomes of machines. */
export type MachineEffect =
  | {
      effect: 'Change';
      disruption: Disruption;
      machines: number;
      /** Machines that may be selected too, and are not known here. */
      unknown: number;
      /** Cumulative sizes. */
      batches: number[];
      /** The batches' soaks alone. */
      soakSeconds: number;
    }
  | { effect: 'Make'; machines: number }
  | { effect: 'LetGo'; machines: number };

export interface ClusterForecast {
  name: string;
  stage: string;
  change: 'Add' | 'Change' | 'Remove' | 'TakeOver';
  /** Restore: at once, in all stages (docs/protocols.md#e6). */
  lane: Lane;
  /** Undefined: what is there now is not known here. */
  fields: FieldChange[] | undefined;
  effect?: MachineEffect;
  /** Clusters that halted this content, with their messages: it begins nowhere until a person retries it (docs/protocols.md#e13). */
  halts: readonly string[];
  /** What taking the commit back does there. */
  revert: { lane: Lane; disruption?: Disruption };
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
  /** Clusters in which nothing can begin now, and why. */
  blocked: { cluster: string; reason: string }[];
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
  const known = knownOf(view, rendered);
  const units = planned.units.map((unit) => unitForecast(unit, input, known)).filter(({ clusters }) => clusters.length > 0);
  const declaredClusters = new Set(rendered.clusters.map(({ name }) => name));
  return {
    fleet: fleet.metadata.name,
    stages,
    units,
    blocked: blocked(fleet, known, [...new Set(units.flatMap((unit) => unit.clusters.map(({ name }) => name)))]),
    kept: planned.kept,
    heldBack:
      planned.heldBack === undefined
        ? undefined
        : { message: planned.heldBack.message, next: planned.heldBack.next, all: planned.heldBack.all },
    left: (fleet.status?.clusters ?? []).filter((name) => !declaredClusters.has(name)),
    soakSeconds: Math.max(0, ...units.map((unit) => soakOf(unit, stages))),
  };
}

function unitForecast({ unit, clusters }: RolloutUnit, input: ForecastInput, known: Known): UnitForecast {
  const { rendered, planned } = input;
  const order = planned.stages.flatMap((stage) => stage.clusters.map((name) => ({ name, stage: stage.name })));
  const changed = new Map(clusters.filter((each) => isChange(each, unit, input)).map((each) => [each.name, each]));
  const sources = rendered.clusters.flatMap(({ name }) => known.rendered(name, unit)?.origins.at(-1) ?? []);
  return {
    unit,
    source: sources[0],
    clusters: order.flatMap(({ name, stage }) => {
      const change = changed.get(name);
      return change === undefined ? [] : [clusterForecast(unit, change, stage, input.before, known)];
    }),
  };
}

type ClusterChange = RolloutUnit['clusters'][number];

/** A unit that changes in one cluster is carried whole: where its content is what is wanted already, nothing becomes of it. */
function isChange({ name, digest, from }: ClusterChange, unit: string, { view }: ForecastInput): boolean {
  return digest !== from || view.wanted.get(name)?.get(unit) === undefined;
}

function clusterForecast(
  unit: string,
  { name, digest, from }: ClusterChange,
  stage: string,
  contentOfDigest: ForecastInput['before'],
  known: Known,
): ClusterForecast {
  const after = digest === undefined ? [] : (known.rendered(name, unit)?.objects ?? []);
  const before = from === undefined ? [] : contentOfDigest(from);
  const effect = effectOf(before, after, known.units(name), known.cluster(name));
  const record = known.record(name, unit);
  const back = before === undefined ? undefined : changeOf(after, before);
  return {
    name,
    stage,
    change: from === undefined ? 'Add' : digest === undefined ? 'Remove' : digest === from ? 'TakeOver' : 'Change',
    // What is new there, as its record says, is taken back at once.
    lane: digest === undefined ? (record?.added === undefined ? 'Forward' : 'Restore') : laneTo(digest, record, unit, known),
    fields: before === undefined ? undefined : fieldsOf(before, after),
    ...(effect === undefined ? {} : { effect }),
    halts: digest === undefined ? [] : known.halts(unit, digest),
    revert: {
      // What is added now is new there, so that its removal goes at once too.
      lane: from === undefined ? 'Restore' : laneTo(from, record, unit, known),
      ...(back === undefined ? {} : { disruption: back }),
    },
  };
}

/** By docs/protocols.md#e6: what was verified there, and is revoked nowhere, goes back at once. */
function laneTo(digest: string, record: UnitStatus | undefined, unit: string, known: Known): Lane {
  const verified = record?.verified?.find((each) => each.digest === digest);
  if (verified === undefined) return 'Forward';
  if (record?.revoked?.includes(digest) === true) return 'Forward';
  if (verified.upheld === true) return 'Restore';
  return known.isRevoked(unit, digest) ? 'Forward' : 'Restore';
}

function blocked(fleet: Fleet, known: Known, names: readonly string[]): Forecast['blocked'] {
  const reasonsOf = (cluster: Cluster | undefined): string[] => {
    const reachable = cluster?.status?.conditions?.find(({ type }) => type === 'Reachable');
    return [
      ...(fleet.spec.paused === true ? ['the Fleet is paused'] : []),
      ...(cluster?.spec.paused === true ? ['the Cluster is paused'] : []),
      ...(cluster === undefined ? ['it is new: the hub needs its kubeconfig'] : []),
      ...(reachable?.status === 'False' ? [`it is not reached: ${reachable.message}`] : []),
    ];
  };
  return names.flatMap((name) => reasonsOf(known.cluster(name)).map((reason) => ({ cluster: name, reason })));
}

function fieldsOf(before: readonly KubeObject[], after: readonly KubeObject[]): FieldChange[] {
  // The last object is the unit itself; those before it are what it names.
  return fieldChanges(asDeclared(before.at(-1)), asDeclared(after.at(-1)));
}

const asDeclared = (object: KubeObject | undefined): unknown => (object === undefined ? undefined : declared(object));

function effectOf(
  before: readonly KubeObject[] | undefined,
  after: readonly KubeObject[],
  units: readonly Unit[],
  cluster: Cluster | undefined,
): MachineEffect | undefined {
  const object = after.at(-1) ?? before?.at(-1);
  if (object?.kind === MachineSets.kind) return scaleOf(before?.at(-1), after.at(-1), cluster);
  if (object?.kind !== MachineComponentSets.kind) return undefined;
  const set = after.at(-1);
  // A set that is removed uninstalls nothing (docs/protocols.md#a6).
  if (set === undefined) return undefined;
  const disruption = before === undefined ? undefined : changeOf(before, after);
  if (disruption === undefined && before !== undefined) return undefined;
  const { count, unknown } = membersOf(set, units, cluster);
  const { batches = DEFAULT_BATCHES, soakSeconds = 60 } = MachineComponentSets.parse(set).spec;
  const sizes = [...new Set(resolveBatches(batches, count))].filter((size) => size > 0);
  return {
    effect: 'Change',
    disruption: disruption ?? strongestOf(after),
    machines: count,
    unknown,
    batches: sizes,
    soakSeconds: sizes.length * soakSeconds,
  };
}

/** The class of what changes on machines; undefined: nothing does, or it is no component set. */
function changeOf(before: readonly KubeObject[], after: readonly KubeObject[]): Disruption | undefined {
  const [from, to] = [contentOf(before), contentOf(after)];
  if (to === undefined || canonical(from?.content ?? null) === canonical(to.content)) return undefined;
  if (to.action === 'Remove') return disruptionOf(from, undefined);
  return to.classes.reduce<Disruption>((strongest, each) => stronger(strongest, disruptionOf(from, each)), 'None');
}

interface Content {
  version: string;
  action: string;
  classes: { version: string; disruption: NonNullable<Parameters<typeof disruptionOf>[1]>['disruption'] }[];
  content: unknown;
}

/** Undefined: no component set. */
function contentOf(objects: readonly KubeObject[]): Content | undefined {
  const object = objects.at(-1);
  if (object?.kind !== MachineComponentSets.kind) return undefined;
  const { version, values, action = 'Install', canary } = MachineComponentSets.parse(object).spec;
  const components = objects.filter(({ kind }) => kind === MachineComponents.kind).map((each) => MachineComponents.parse(each).spec);
  const classes = components.map((spec) => ({ version: spec.version, disruption: spec.disruption ?? {} }));
  return { version, action, classes, content: { version, values, action, canary, components } };
}

/** Where what is there now is not known, the strongest class that the component has. */
function strongestOf(after: readonly KubeObject[]): Disruption {
  const classes = contentOf(after)?.classes.flatMap(({ disruption }) => Object.values(disruption)) ?? [];
  return [...classes, 'Drain' as const].reduce((a, b) => (DISRUPTIONS.includes(b) ? stronger(a, b) : a), 'None' as Disruption);
}

function scaleOf(before: KubeObject | undefined, after: KubeObject | undefined, cluster: Cluster | undefined): MachineEffect | undefined {
  const numberOf = (object: KubeObject | undefined): number | undefined =>
    object === undefined ? 0 : MachineSets.parse(object).spec.replicas;
  const { namespace = '', name = '' } = (after ?? before)?.metadata ?? {};
  const there = cluster?.status?.machines?.sets?.find(({ set }) => set === `${namespace}/${name}`)?.wanted;
  const [from, to] = [there ?? numberOf(before), numberOf(after)];
  if (from === undefined || to === undefined || from === to) return undefined;
  return to > from ? { effect: 'Make', machines: to - from } : { effect: 'LetGo', machines: from - to };
}

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
