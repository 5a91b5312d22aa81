import { MAX_RISES } from '../api/facts.ts';
import { factNamed, paramsOf, patternsLike, type FactRef } from '../api/named-fact.ts';
import { isRecord, refuse, type Compilation } from './compilation.ts';
import { isOperator, operatorsFor, OPERATORS, traitsOf, type Operator } from './operators.ts';

export type Scalar = string | number | boolean;
export type Params = Readonly<Record<string, Scalar>>;

export interface Leaf {
  kind: 'leaf';
  /** Field path, such as `spec.when.all[0]`. */
  at: string;
  ref: FactRef;
  operator: Operator;
  value: Scalar | readonly Scalar[];
  params: Params;
  /** Two leaves with the same key always read the same value. */
  key: string;
}

const LEAF_KEYS: readonly string[] = ['fact', 'path', 'operator', 'value', 'params'];
/** What only JSONPath has a use for. A dotted path is read, never evaluated. */
const JSON_PATH = /[$[\]()?@*!'"]|\.\./;

const isScalar = (value: unknown): value is Scalar =>
  typeof value === 'string' || typeof value === 'boolean' || (typeof value === 'number' && Number.isFinite(value));

export function compileLeaf(compilation: Compilation, node: Record<string, unknown>, path: string, negated: boolean): Leaf | undefined {
  compilation.leaves += 1;
  const before = compilation.errors.length;
  for (const key of Object.keys(node))
    if (!LEAF_KEYS.includes(key)) refuse(compilation, `${path}.${key}`, 'unknown field', `a fact is written with ${LEAF_KEYS.join(', ')}`);
  const ref = compileFact(compilation, node, path);
  const { operator } = node;
  if (!isOperator(operator))
    return refuse(
      compilation,
      `${path}.operator`,
      operator === undefined ? 'must be set' : `unknown operator ${JSON.stringify(operator)}`,
      `use one of ${ref === undefined ? Object.keys(OPERATORS).join(', ') : operatorsFor(ref.definition.type).join(', ')}`,
    );
  if (ref === undefined) return undefined;
  const { definition } = ref;
  if (!traitsOf(operator).facts.includes(definition.type))
    refuse(
      compilation,
      `${path}.operator`,
      `${operator} does not apply to ${ref.name}, which is a ${definition.type}`,
      `use one of ${operatorsFor(definition.type).join(', ')}`,
    );
  const value = compileValue(compilation, node['value'], ref, operator, `${path}.value`);
  const params = compileParams(compilation, node['params'], ref, `${path}.params`);
  if (params !== undefined && value !== undefined) checkAbsence(compilation, ref, operator, value, params, path, negated);
  if (compilation.errors.length > before || value === undefined || params === undefined) return undefined;
  return { kind: 'leaf', at: path, ref, operator, value, params, key: readKey(ref.name, params) };
}

function compileFact(compilation: Compilation, node: Record<string, unknown>, path: string): FactRef | undefined {
  const { fact, path: inner } = node;
  if (typeof fact !== 'string' || fact === '')
    return refuse(compilation, `${path}.fact`, 'must be the name of a fact', 'for instance "condition.KernelDeadlock.status"');
  if (inner !== undefined && (typeof inner !== 'string' || inner === ''))
    return refuse(compilation, `${path}.path`, 'must be a dotted path', `leave it out, or write the rest of the fact's name`);
  if (typeof inner === 'string' && JSON_PATH.test(inner))
    return refuse(
      compilation,
      `${path}.path`,
      `${JSON.stringify(inner)} is JSONPath, which is not evaluated here`,
      'write a dotted path such as "status", or the whole name in "fact"',
    );
  const full = inner === undefined ? fact : `${fact}.${inner}`;
  const ref = factNamed(full);
  if (ref !== undefined) return ref;
  const known = factNamed(fact) !== undefined;
  return refuse(
    compilation,
    known || inner !== undefined ? `${path}.path` : `${path}.fact`,
    known ? `${fact} has nothing below it` : `unknown ${inner === undefined ? 'fact' : 'path'}: there is no fact ${JSON.stringify(full)}`,
    known ? 'leave the path out' : `use one of ${patternsLike(fact).join(', ')}`,
  );
}

function compileValue(compilation: Compilation, raw: unknown, ref: FactRef, operator: Operator, path: string): Leaf['value'] | undefined {
  const { definition } = ref;
  const wanted = definition.type === 'list' ? 'string' : definition.type;
  const one = (value: unknown, where: string): value is Scalar => {
    if (!isScalar(value) || typeof value !== wanted) {
      refuse(
        compilation,
        where,
        `${JSON.stringify(value) ?? 'nothing'} is not a ${wanted}, which ${ref.name} is compared with`,
        isRecord(value) ? 'write a constant: facts are not compared with each other' : `write a ${wanted}`,
      );
      return false;
    }
    if (definition.values !== undefined && !definition.values.includes(String(value))) {
      refuse(
        compilation,
        where,
        `${ref.name} is never ${JSON.stringify(value)}`,
        `use one of ${definition.values.map((each) => JSON.stringify(each)).join(', ')}`,
      );
      return false;
    }
    return true;
  };
  if (traitsOf(operator).value === 'One') {
    if (!one(raw, path)) return undefined;
    if (ref.id === 'condition.rises' && Number(raw) > MAX_RISES)
      return refuse(compilation, path, `no more than ${MAX_RISES} rises are counted`, `compare with ${MAX_RISES} or less`);
    return raw;
  }
  if (!Array.isArray(raw) || raw.length === 0)
    return refuse(compilation, path, `${operator} needs a list of values`, 'write ["…"] with at least one');
  const values = raw.filter((value: unknown, index): value is Scalar => one(value, `${path}[${index}]`));
  return values.length === raw.length ? values : undefined;
}

function compileParams(compilation: Compilation, raw: unknown, ref: FactRef, path: string): Params | undefined {
  const needed = paramsOf(ref);
  const allowed = ref.definition.missing === 'Absent' ? [...needed, 'default'] : needed;
  if (raw !== undefined && !isRecord(raw)) return refuse(compilation, path, 'must be an object', 'write {"name": value}');
  const params = raw ?? {};
  const before = compilation.errors.length;
  for (const key of Object.keys(params))
    if (!allowed.includes(key))
      refuse(
        compilation,
        `${path}.${key}`,
        `${ref.name} has no such parameter`,
        allowed.length === 0 ? 'remove it' : `it takes ${allowed.join(', ')}`,
      );
  for (const key of needed) {
    const value = params[key];
    if (typeof value !== 'number' || !Number.isFinite(value) || (key === 'windowSeconds' && (value < 1 || value > 604_800)))
      refuse(
        compilation,
        `${path}.${key}`,
        value === undefined ? 'must be set' : `${JSON.stringify(value)} is not possible`,
        key === 'windowSeconds' ? 'seconds from 1 to 604800' : 'write a number',
      );
  }
  if ('default' in params && allowed.includes('default') && typeof params['default'] !== ref.definition.type)
    refuse(compilation, `${path}.default`, `is not a ${ref.definition.type}`, `write a ${ref.definition.type}`);
  if (ref.inner !== undefined && compilation.errors.length === before && Number(params['leave']) >= Number(params['enter']))
    refuse(
      compilation,
      `${path}.leave`,
      `is not below enter (${Number(params['enter'])})`,
      'a hysteresis leaves at a lower number than it enters at',
    );
  if (ref.inner?.id === 'condition.rises' && compilation.errors.length === before && Number(params['enter']) > MAX_RISES)
    refuse(compilation, `${path}.enter`, `no more than ${MAX_RISES} rises are counted`, `write ${MAX_RISES} or less`);
  return compilation.errors.length === before ? (params as Params) : undefined;
}

/** json-rules-engine takes a missing fact as different from everything: what is not known would then repair nodes. */
function checkAbsence(
  compilation: Compilation,
  ref: FactRef,
  operator: Operator,
  value: Leaf['value'],
  params: Params,
  path: string,
  negated: boolean,
): void {
  if (ref.definition.missing === 'Never' || 'default' in params) return;
  if (!negated && !traitsOf(operator).negative) return;
  const what = negated ? 'a "not"' : `"${operator}"`;
  const { values } = ref.definition;
  const others = values?.filter((each) => (Array.isArray(value) ? !value.includes(each) : each !== value) && each !== 'Unknown') ?? [];
  refuse(
    compilation,
    negated ? path : `${path}.operator`,
    `${what} over ${ref.name} would be true while it is missing (${ref.definition.missingWhen})`,
    ref.definition.missing === 'Absent'
      ? 'name what its absence stands for: "params": {"default": "…"}'
      : `name what it must be: "in": ${others.length > 0 ? JSON.stringify(others) : '[ … ]'}, without a negation`,
  );
}

/** What identifies a fact with these parameters in one run. */
export const readKey = (name: string, params: object | undefined): string =>
  params === undefined || Object.keys(params).length === 0 ? name : `${name} ${JSON.stringify(params)}`;
