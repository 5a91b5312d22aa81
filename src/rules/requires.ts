import { healthyStatus } from '../api/node-condition.ts';
import type { Leaf } from './leaf.ts';
import type { When } from './when.ts';

/** Values that facts must have for the conditions to be true at all, by name of the fact; a fact that is not in it does not have to be anything. */
export type Requirements = ReadonlyMap<string, ReadonlySet<string>>;

function ofLeaf({ ref, operator, value }: Leaf): Requirements {
  if (operator !== 'equal' && operator !== 'in') return new Map();
  const values = (Array.isArray(value) ? value : [value]).map(String);
  if (ref.id !== 'condition.health') return new Map([[ref.name, new Set(values)]]);
  const type = ref.subjects[0] ?? '';
  const healthy = healthyStatus(type);
  const statuses: Record<string, string> = { Healthy: healthy, Unhealthy: healthy === 'True' ? 'False' : 'True', Unknown: 'Unknown' };
  return new Map([[`condition.${type}.status`, new Set(values.map((each) => statuses[each] ?? each))]]);
}

function both(a: Requirements, b: Requirements): Requirements {
  const all = new Map(a);
  for (const [name, values] of b) {
    const others = all.get(name);
    all.set(name, others === undefined ? values : new Set([...others].filter((each) => values.has(each))));
  }
  return all;
}

function either(a: Requirements, b: Requirements): Requirements {
  return new Map(
    [...a].flatMap(([name, values]) => {
      const others = b.get(name);
      return others === undefined ? [] : [[name, new Set([...values, ...others])]];
    }),
  );
}

export function requirementsOf(when: When): Requirements {
  switch (when.kind) {
    case 'leaf':
      return ofLeaf(when);
    case 'not':
      return new Map();
    case 'all':
      return when.of.map(requirementsOf).reduce(both);
    case 'any':
      return when.of.map(requirementsOf).reduce(either);
    default:
      return when satisfies never;
  }
}
