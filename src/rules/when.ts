/** The conditions of a rule: what json-rules-engine takes, narrowed to what can be answered, and compiled with the facts they read. */
import { isRecord, refuse, type Compilation } from './compilation.ts';
import { compileLeaf, type Leaf } from './leaf.ts';
import type { ValidationError } from './validation-error.ts';

export type When = { kind: 'all' | 'any'; at: string; of: readonly When[] } | { kind: 'not'; at: string; of: readonly [When] } | Leaf;

const MAX_DEPTH = 8;
const MAX_LEAVES = 64;
const GROUP_KEYS = ['all', 'any', 'not'] as const;

/** The compiled conditions, or every error in them. */
export function compileWhen(value: unknown, at = 'spec.when'): { when: When; errors: [] } | { when: undefined; errors: ValidationError[] } {
  const compilation: Compilation = { errors: [], leaves: 0 };
  const { errors } = compilation;
  const isLeaf = isRecord(value) && !GROUP_KEYS.some((key) => key in value) && 'fact' in value;
  const when = isLeaf ? refuse(compilation, at, 'is a single fact', 'put it into "all": [ … ]') : compile(compilation, value, at, 0, false);
  if (compilation.leaves > MAX_LEAVES)
    refuse(compilation, at, `has ${compilation.leaves} facts to read`, `split it: at most ${MAX_LEAVES} in one rule`);
  return when !== undefined && errors.length === 0 ? { when, errors: [] } : { when: undefined, errors };
}

function compile(compilation: Compilation, node: unknown, path: string, depth: number, negated: boolean): When | undefined {
  if (!isRecord(node))
    return refuse(
      compilation,
      path,
      'is not a condition',
      'write {"all": [ … ]}, {"any": [ … ]}, {"not": { … }} or {"fact", "operator", "value"}',
    );
  if (depth > MAX_DEPTH) return refuse(compilation, path, 'is nested too deeply', `at most ${MAX_DEPTH} levels`);
  if ('condition' in node)
    return refuse(compilation, `${path}.condition`, 'named conditions are not shared between rules', 'write the condition out here');
  const groups = GROUP_KEYS.filter((key) => key in node);
  const [group] = groups;
  if (group === undefined) return compileLeaf(compilation, node, path, negated);
  const others = Object.keys(node).filter((key) => key !== group);
  if (others.length > 0)
    return refuse(
      compilation,
      `${path}.${others[0]}`,
      `stands beside "${group}"`,
      `one object contains one of ${GROUP_KEYS.join(', ')} and nothing else`,
    );
  const inner = node[group];
  if (group === 'not') {
    const of = compile(compilation, inner, `${path}.not`, depth + 1, true);
    return of === undefined ? undefined : { kind: 'not', at: path, of: [of] };
  }
  if (!Array.isArray(inner)) return refuse(compilation, `${path}.${group}`, 'is not a list', `write "${group}": [ … ]`);
  if (inner.length === 0)
    return refuse(
      compilation,
      `${path}.${group}`,
      'is empty, which json-rules-engine takes as true on every node',
      'name at least one condition, or leave it out',
    );
  const of = inner.map((each: unknown, index) => compile(compilation, each, `${path}.${group}[${index}]`, depth + 1, negated));
  const whole = of.filter((each) => each !== undefined);
  return whole.length === of.length ? { kind: group, at: path, of: whole } : undefined;
}

export function* leavesOf(when: When): Generator<Leaf> {
  if (when.kind === 'leaf') yield when;
  else for (const each of when.of) yield* leavesOf(each);
}
