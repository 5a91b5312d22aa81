/** What a change of a unit does to machines, over what is there. Pure. */
import { resolveBatches } from '../../api/batches.ts';
import type { Cluster } from '../../api/cluster.ts';
import { canonical } from '../../api/digest.ts';
import { DISRUPTIONS, disruptionOf, stronger, type Disruption } from '../../api/disruption.ts';
import { DEFAULT_BATCHES, MachineComponentSets } from '../../api/machine-component-set.ts';
import { MachineComponents } from '../../api/machine-component.ts';
import { API_VERSION } from '../../api/kind.ts';
import { MachineSets } from '../../api/machine-set.ts';
import type { KubeObject } from '../../api/wire.ts';
import { joiningOf, membersOf, type MachineGroup } from './members.ts';

/** What becomes of machines. */
export type MachineEffect =
  | {
      effect: 'Change';
      /** The component is taken off the machines: `action: Remove`. */
      uninstalls: boolean;
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

/** One unit of one cluster. */
export interface EffectInput {
  /** Contents that machines may have of the unit now, wholly or in part: none where it is not there; undefined where they cannot be had here. */
  before: readonly (readonly KubeObject[])[] | undefined;
  after: readonly KubeObject[];
  /** All machines of the cluster that are known here. */
  groups: readonly MachineGroup[];
  /** All that the commit has in the cluster. */
  units: readonly { objects: readonly KubeObject[] }[];
  cluster: Cluster | undefined;
}

export function effectOf(input: EffectInput): MachineEffect | undefined {
  const { before, after, cluster } = input;
  const object = after.at(-1) ?? before?.[0]?.at(-1);
  if (object?.apiVersion !== API_VERSION) return undefined;
  if (object.kind === MachineSets.kind) return scaleOf(before?.[0]?.at(-1), after.at(-1), before !== undefined, cluster) ?? joining(input);
  if (object.kind !== MachineComponentSets.kind) return undefined;
  const set = after.at(-1);
  // A set that is removed uninstalls nothing (docs/protocols.md#a6).
  if (set === undefined) return undefined;
  const { count, unknown } = membersOf(set, input.groups, cluster);
  if (before === undefined) return changeEffect(set, strongestOf(after), count, unknown);
  const changes = (before.length === 0 ? [[]] : before).flatMap((each) => changeOf(each, after) ?? []);
  if (changes.length > 0) return changeEffect(set, changes.reduce(stronger), count, unknown);
  // The content is the same: what changes is which machines have it.
  const had = Math.min(...before.map((each) => membersOf(each.at(-1) ?? set, input.groups, cluster).count));
  return count > had ? changeEffect(set, changeOf([], after) ?? 'None', count - had, 0) : undefined;
}

function changeEffect(set: KubeObject, disruption: Disruption, machines: number, unknown: number): MachineEffect {
  const { batches = DEFAULT_BATCHES, soakSeconds = 60, action } = MachineComponentSets.parse(set).spec;
  const sizes = [...new Set(resolveBatches(batches, machines))].filter((size) => size > 0);
  const uninstalls = action === 'Remove';
  return { effect: 'Change', uninstalls, disruption, machines, unknown, batches: sizes, soakSeconds: sizes.length * soakSeconds };
}

/** Labels of a MachineSet reach its machines, so that other component sets may select them. */
function joining({ after, groups, units }: EffectInput): MachineEffect | undefined {
  const object = after.at(-1);
  if (object === undefined) return undefined;
  const { namespace = '', name } = object.metadata;
  const its = groups.filter(({ key }) => key === `${namespace}/${name}`);
  const effects = units.flatMap(({ objects }) => {
    const set = objects.at(-1);
    if (set?.kind !== MachineComponentSets.kind || set.apiVersion !== API_VERSION) return [];
    const count = joiningOf(set, its);
    return count === 0 ? [] : [changeEffect(set, changeOf([], objects) ?? 'None', count, 0)];
  });
  const strength = (each: MachineEffect): number => (each.effect === 'Change' ? DISRUPTIONS.indexOf(each.disruption) : -1);
  return effects.toSorted((a, b) => strength(b) - strength(a))[0];
}

/** The class of what changes on machines; undefined: nothing does, or it is no component set. */
export function changeOf(before: readonly KubeObject[], after: readonly KubeObject[]): Disruption | undefined {
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
  if (object?.kind !== MachineComponentSets.kind || object.apiVersion !== API_VERSION) return undefined;
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

function scaleOf(
  before: KubeObject | undefined,
  after: KubeObject | undefined,
  isKnown: boolean,
  cluster: Cluster | undefined,
): MachineEffect | undefined {
  const numberOf = (object: KubeObject | undefined): number | undefined =>
    object === undefined ? 0 : MachineSets.parse(object).spec.replicas;
  const { namespace = '', name = '' } = (after ?? before)?.metadata ?? {};
  const there = cluster?.status?.machines?.sets?.find(({ set }) => set === `${namespace}/${name}`)?.wanted;
  const [from, to] = [there ?? (isKnown ? numberOf(before) : undefined), numberOf(after)];
  if (from === undefined || to === undefined || from === to) return undefined;
  return to > from ? { effect: 'Make', machines: to - from } : { effect: 'LetGo', machines: from - to };
}
