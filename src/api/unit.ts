import { MachineComponents } from './machine-component.ts';
import { machineComponentName } from './machine-component/values.ts';
import type { KubeObject } from './wire.ts';
import { unitDigest } from './digest.ts';

/** One top-level object of a cluster with what it names (docs/protocols.md#e1). */
export interface Unit {
  /** `Kind/[namespace/]name` */
  key: string;
  digest: string;
  /** In the order they are applied: what is named first, the top-level object last. */
  objects: KubeObject[];
}

export function groupOf(apiVersion: string): string {
  return apiVersion.slice(0, Math.max(0, apiVersion.indexOf('/')));
}

/** Without the group: a cluster has no two units of one kind and name in two groups (docs/protocols.md#e1). */
export function unitKey(object: KubeObject): string {
  const { namespace, name } = object.metadata;
  return `${object.kind}/${namespace === undefined ? '' : `${namespace}/`}${name}`;
}

/** Whether a unit's key names an object of this kind. */
export const isUnitOf = (unit: string, { kind }: { kind: string }): boolean => unit.startsWith(`${kind}/`);

/** The MachineComponents that a MachineComponentSet names: of its version and of its canary's. */
export function namedComponents(set: KubeObject & { spec?: unknown }): string[] {
  const spec = set.spec;
  if (set.kind !== 'MachineComponentSet' || spec === null || typeof spec !== 'object') return [];
  const { componentName, version, canary } = spec as { componentName?: unknown; version?: unknown; canary?: { version?: unknown } };
  return [version, canary?.version]
    .filter((each): each is string => typeof each === 'string')
    .map((each) => machineComponentName(String(componentName), each));
}

/**
 * Splits what was rendered for one cluster into units. A MachineComponent belongs to every set that names it; one that
 * no set names is an error of its own and is returned in `unnamed`. `unitDigest` must not be set on the input yet.
 */
export function splitUnits(objects: readonly KubeObject[]): {
  units: Unit[];
  missing: { about: KubeObject; component: string }[];
  unnamed: KubeObject[];
} {
  const components = new Map(
    objects.filter((object) => object.kind === MachineComponents.kind).map((object) => [object.metadata.name, object]),
  );
  const named = new Set<string>();
  const missing: { about: KubeObject; component: string }[] = [];
  const units: Unit[] = [];
  for (const object of objects) {
    if (object.kind === MachineComponents.kind) continue;
    const parts: KubeObject[] = [];
    for (const component of new Set(namedComponents(object))) {
      const found = components.get(component);
      named.add(component);
      if (found === undefined) missing.push({ about: object, component });
      else parts.push(found);
    }
    parts.push(object);
    units.push({ key: unitKey(object), digest: unitDigest(parts), objects: parts });
  }
  return { units, missing, unnamed: [...components.values()].filter((component) => !named.has(component.metadata.name)) };
}
