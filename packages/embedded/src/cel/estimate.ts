/**
 * What a rule can cost at most, from the sizes that its schema lets in, as kube-apiserver estimates it when a definition is written: a definition whose
 * rules could block the server is refused before there is any object.
 */
import type { Schema } from '../schema/schema.ts';

/** One rule, with all values for which it is evaluated (`StaticEstimatedCostLimit`). */
export const RULE_LIMIT = 10_000_000;
/** All rules of one version of a definition (`StaticEstimatedCRDCostLimit`). */
export const DEFINITION_LIMIT = 100_000_000;

const REQUEST_BYTES = 3 * 1024 * 1024;
const A_BYTE = 0.1;

/** What a part of an expression can be: how many bytes or items it has at most, and what is in it. */
interface Value {
  readonly size: number;
  readonly schema?: Schema;
}

interface Estimate {
  readonly cost: number;
  readonly value: Value;
}

const SMALL: Value = { size: 1 };

function minimumBytes(schema: Schema): number {
  switch (schema.type ?? '') {
    case 'boolean':
      return 4;
    case 'string':
    case 'array':
      return 2;
    case 'object':
      return (schema.required ?? []).reduce((sum, name) => {
        const child = schema.properties?.[name];
        return child === undefined || child.default !== undefined ? sum : sum + name.length + 4 + minimumBytes(child);
      }, 2);
    default:
      return 1;
  }
}

/** Bytes of a text, items of a list, entries of a map: the limit of the schema, else what fits into a request. */
function sizeOf(schema: Schema): number {
  switch (schema.type ?? '') {
    case 'string':
      if (schema.maxLength !== undefined) return schema.maxLength * 4;
      if (schema.enum !== undefined) return Math.max(0, ...schema.enum.map((item) => (typeof item === 'string' ? item.length : 0)));
      return schema.format === 'date-time' || schema.format === 'date' || schema.format === 'duration' ? 32 : REQUEST_BYTES;
    case 'array':
      return schema.maxItems ?? REQUEST_BYTES / (minimumBytes(schema.items ?? {}) + 1);
    case 'object':
      if (typeof schema.additionalProperties !== 'object') return Object.keys(schema.properties ?? {}).length;
      return schema.maxProperties ?? REQUEST_BYTES / (minimumBytes(schema.additionalProperties) + 6);
    default:
      return schema['x-kubernetes-int-or-string'] === true ? (schema.maxLength ?? REQUEST_BYTES / 4) * 4 : 1;
  }
}

const valueOf = (schema: Schema | undefined): Value => (schema === undefined ? SMALL : { size: sizeOf(schema), schema });

/** How often a value of this schema can be in one object. */
export const cardinalityOf = (schema: Schema): number => Math.max(1, sizeOf(schema));

function fieldOf(schema: Schema | undefined, escaped: string): Value {
  const { properties = {}, additionalProperties: rest } = schema ?? {};
  const name = escaped
    .replace(/^__(\w+)__$/, '$1')
    .replaceAll('__dot__', '.')
    .replaceAll('__dash__', '-')
    .replaceAll('__slash__', '/');
  return valueOf(properties[escaped] ?? properties[name] ?? (typeof rest === 'object' ? rest : undefined));
}

function itemOf({ schema }: Value): Value {
  const rest = schema?.additionalProperties;
  return valueOf(schema?.items ?? (typeof rest === 'object' ? rest : undefined));
}

interface Node {
  readonly op: string;
  readonly args: unknown;
}

function isNode(value: unknown): value is Node {
  return value !== null && typeof value === 'object' && 'op' in value && 'args' in value;
}

type Scope = ReadonlyMap<string, Value>;

const larger = (a: Value, b: Value): Value => (a.size >= b.size ? a : b);
const COMPREHENSIONS = new Set(['all', 'exists', 'exists_one', 'map', 'filter']);

/** The most that an expression, as it was parsed, can cost for these variables. */
export function estimate(node: unknown, scope: Scope): Estimate {
  if (!isNode(node)) return { cost: 0, value: SMALL };
  const { op, args } = node;
  const list: readonly unknown[] = Array.isArray(args) ? args : [args];
  switch (op) {
    case 'value':
      return { cost: 0, value: { size: typeof args === 'string' ? args.length : 1 } };
    case 'id':
      return { cost: 1, value: scope.get(String(args)) ?? SMALL };
    case '.':
    case '.?': {
      const on = estimate(list[0], scope);
      return { cost: on.cost + 1, value: fieldOf(on.value.schema, String(list[1])) };
    }
    case '[]':
    case '[?]': {
      const [on, key] = [estimate(list[0], scope), estimate(list[1], scope)];
      return { cost: on.cost + key.cost + 1, value: itemOf(on.value) };
    }
    case '?:': {
      const [test, yes, no] = [estimate(list[0], scope), estimate(list[1], scope), estimate(list[2], scope)];
      return { cost: test.cost + Math.max(yes.cost, no.cost), value: larger(yes.value, no.value) };
    }
    case 'list':
    case 'map':
      return { cost: sum(list.flat(), scope) + 10, value: { size: list.length } };
    case 'call':
      return called(String(list[0]), undefined, Array.isArray(list[1]) ? list[1] : [], scope);
    case 'rcall':
      return called(String(list[0]), list[1], Array.isArray(list[2]) ? list[2] : [], scope);
    default:
      return operated(op, list, scope);
  }
}

const sum = (nodes: readonly unknown[], scope: Scope): number => nodes.reduce<number>((all, node) => all + estimate(node, scope).cost, 0);

function operated(op: string, list: readonly unknown[], scope: Scope): Estimate {
  const parts = list.map((item) => estimate(item, scope));
  const cost = parts.reduce((all, part) => all + part.cost, 0);
  // For lists the real server counts the items here, and not what is in them.
  const sizes = parts.map((part) => part.value.size * A_BYTE);
  switch (op) {
    case '==':
    case '!=':
      return { cost: cost + 1 + Math.min(...sizes), value: SMALL };
    case 'in':
      return { cost: cost + 1 + (parts[1]?.value.size ?? 0), value: SMALL };
    case '+':
      return {
        cost: cost + 1 + sizes.reduce((all, size) => all + size, 0),
        value: { ...parts[0]?.value, size: parts.reduce((all, part) => all + part.value.size, 0) },
      };
    case '<':
    case '<=':
    case '>':
    case '>=':
      return { cost: cost + 1 + Math.min(...sizes), value: SMALL };
    default:
      return { cost: cost + (op === '||' || op === '&&' ? 0 : 1), value: SMALL };
  }
}

/** What going through a value costs. */
function through({ size, schema = {} }: Value): number {
  switch (schema.type ?? '') {
    case 'array':
      return size * (1 + (schema.items === undefined ? 0 : through(valueOf(schema.items))));
    case 'object': {
      const rest = schema.additionalProperties;
      if (typeof rest === 'object') return size * (1 + through(valueOf(rest)));
      return Object.values(schema.properties ?? {}).reduce((all, child) => all + 1 + through(valueOf(child)), 0);
    }
    default:
      return size * A_BYTE;
  }
}

function called(name: string, receiver: unknown, args: readonly unknown[], scope: Scope): Estimate {
  const on = estimate(receiver, scope);
  if (receiver !== undefined && COMPREHENSIONS.has(name) && isNode(args[0])) {
    const iterated = on.value.schema?.type === 'object' ? { size: 256 } : itemOf(on.value);
    const inner = new Map(scope).set(String(args[0].args), iterated);
    const steps = args.slice(1).map((step) => estimate(step, inner));
    const step = steps.reduce((all, each) => all + each.cost, 2);
    const made = name === 'map' ? { size: on.value.size, ...listed(steps.at(-1)?.value) } : name === 'filter' ? on.value : SMALL;
    return { cost: on.cost + 1 + on.value.size * step, value: made };
  }
  if (name === 'bind' && isNode(args[0])) {
    const bound = estimate(args[1], scope);
    const inner = estimate(args[2], new Map(scope).set(String(args[0].args), bound.value));
    return { cost: bound.cost + inner.cost + 1, value: inner.value };
  }
  if (name === 'has') return { cost: sum(args, scope), value: SMALL };
  const given = args.map((arg) => estimate(arg, scope));
  const cost = on.cost + given.reduce((all, each) => all + each.cost, 0) + 1;
  const bytes = on.value.size * A_BYTE;
  switch (name) {
    case 'matches':
    case 'find':
    case 'findAll':
      return { cost: cost + bytes * Math.max(1, (given[0]?.value.size ?? 0) * 0.25), value: on.value };
    case 'orValue':
    case 'or':
      return { cost, value: larger(on.value, given[0]?.value ?? SMALL) };
    case 'hasValue':
    case 'size':
      return { cost, value: SMALL };
    case 'value':
    case 'optional.of':
      return { cost, value: on.value };
    case 'startsWith':
    case 'endsWith':
      return { cost: cost + (given[0]?.value.size ?? 0) * A_BYTE, value: SMALL };
    case 'join':
      return {
        cost: cost + through(on.value),
        value: { size: on.value.size * ((itemOf(on.value).size || 1) + (given[0]?.value.size ?? 0)) },
      };
    case 'replace':
      return { cost: cost + bytes, value: { size: on.value.size * Math.max(1, given[1]?.value.size ?? 1) } };
    case 'string':
    case 'dyn':
    case 'duration':
    case 'timestamp':
    case 'quantity':
      return { cost: cost + (given[0]?.value.size ?? 0) * A_BYTE, value: given[0]?.value ?? SMALL };
    default:
      return { cost: cost + through(on.value), value: { size: on.value.size } };
  }
}

const listed = (item: Value | undefined): { schema: Schema } | Record<string, never> =>
  item?.schema === undefined ? {} : { schema: { type: 'array', items: item.schema } };

/** The words for a cost above a limit. */
export function overBudget(what: string, cost: number, limit: number): string {
  const factor = cost / limit;
  const by = factor > 100 ? 'more than 100x' : `${factor.toFixed(1)}x`;
  return `${what} exceeds budget by factor of ${by} (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)`;
}

/** What one rule can cost for one value. */
export function costOf(ast: unknown, self: Schema): number {
  const value = valueOf(self);
  return estimate(
    ast,
    new Map([
      ['self', value],
      ['oldSelf', value],
    ]),
  ).cost;
}
