/**
 * Facts as rules ask for them, typed by the fact catalogue: a fact that is not in it, a value that it never has, an operator that its type
 * does not take and a negation over what may be missing do not compile. Without types they are FleetErrors.
 */
import type { FactDefinition, FACTS, CONDITION_STATUSES, PeerScope } from '../../api/facts.ts';
import { factNamed, paramsOf, patternsLike } from '../../api/named-fact.ts';
import { FleetError } from '../errors.ts';
import type { Term } from './term.ts';

type Catalogue = Exclude<(typeof FACTS)[number], { id: 'hysteresis' }>;

type Filled<Pattern extends string> = Pattern extends `${infer Head}<scope>${infer Tail}`
  ? `${Head}${PeerScope}${Filled<Tail>}`
  : Pattern extends `${infer Head}<${infer _Subject}>${infer Tail}`
    ? `${Head}${string}${Filled<Tail>}`
    : Pattern;

/** Every name that the catalogue has: `machine.phase`, `condition.KernelDeadlock.status`, `peers.rack.unhealthyPercent` … */
export type FactName = Filled<Catalogue['pattern']>;

type DefinitionOf<Name extends string> = Catalogue extends infer Each
  ? Each extends Catalogue
    ? Name extends Filled<Each['pattern']>
      ? Each
      : never
    : never
  : never;

type Scalar<Definition> = Definition extends { values: readonly (infer Value)[] }
  ? Value
  : Definition extends { type: 'number' }
    ? number
    : Definition extends { type: 'boolean' }
      ? boolean
      : string;

/** Parameters that a fact needs, and the default of one whose absence is knowledge. */
export type FactParams<Name extends string> = (DefinitionOf<Name> extends { params: readonly ['windowSeconds'] }
  ? { windowSeconds: number }
  : { windowSeconds?: never }) &
  (DefinitionOf<Name> extends { missing: 'Absent' } ? { default?: string } : { default?: never });

type Known<Definition, Params> = Definition extends { missing: 'Never' } ? true : Params extends { default: string } ? true : false;

interface Asked<Value, K extends boolean> {
  equals(value: Value): Term<K>;
  /** One of them. */
  in(first: Value, ...more: Value[]): Term<K>;
}

/** Only of facts that always have a value: a missing one would be different from everything. */
interface Negatable<Value> {
  notEquals(value: Value): Term<true>;
  notIn(first: Value, ...more: Value[]): Term<true>;
}

interface NumberAsked<K extends boolean> extends Asked<number, K> {
  below(value: number): Term<K>;
  atMost(value: number): Term<K>;
  above(value: number): Term<K>;
  atLeast(value: number): Term<K>;
  /** True from when the number reaches `enter` until it is at `leave` or below. */
  hysteresis(band: { enter: number; leave: number }): Term<false>;
}

interface ListAsked {
  contains(value: string): Term<false>;
}

/** The comparisons that a fact has. */
export type FactQuestion<Name extends string, Params = object> =
  DefinitionOf<Name> extends { type: 'list' }
    ? ListAsked
    : DefinitionOf<Name> extends { type: 'number' }
      ? NumberAsked<Known<DefinitionOf<Name>, Params>>
      : Known<DefinitionOf<Name>, Params> extends true
        ? Asked<Scalar<DefinitionOf<Name>>, true> & Negatable<Scalar<DefinitionOf<Name>>>
        : Asked<Scalar<DefinitionOf<Name>>, false>;

type Given<Name extends string, Params> = object extends FactParams<Name> ? [params?: Params] : [params: Params];

/** A fact of the catalogue (`kubenode rules facts`), by its dotted name: `fact('machine.phase').equals('Running')`. */
export function fact<const Name extends FactName, const Params extends FactParams<Name> = FactParams<Name>>(
  name: Name,
  ...[params]: Given<Name, Params>
): FactQuestion<Name, Params> {
  // The interfaces above give of it what this fact has.
  return new Question(name, params ?? {}) as unknown as FactQuestion<Name, Params>;
}

export interface ConditionQuestion {
  /** Its status. A stale heartbeat makes it Unknown, with any reported status. */
  is(status: (typeof CONDITION_STATUSES)[number]): Term<false>;
  isOneOf(first: (typeof CONDITION_STATUSES)[number], ...more: (typeof CONDITION_STATUSES)[number][]): Term<false>;
  reason: Asked<string, false>;
}

export interface NodeConditionQuestion extends ConditionQuestion {
  /** Good or bad by the condition's polarity: Ready is bad when False, KernelDeadlock when True. */
  health: Asked<'Healthy' | 'Unhealthy' | 'Unknown', false>;
  /** Seconds since a controller first saw it unhealthy; not known while it is not. */
  ageSeconds: NumberAsked<false>;
  /** How often it became unhealthy in the last so many seconds, as a controller saw it; at most 10 are counted. */
  rises(windowSeconds: number): NumberAsked<false>;
}

/** A condition of the Node: `condition('KernelDeadlock').is('True')`. */
export function condition(type: string): NodeConditionQuestion {
  const ask = (part: string, params: Values = {}) => new Question(`condition.${type}.${part}`, params);
  const status = ask('status');
  return {
    is: (value) => status.equals(value),
    isOneOf: (...values) => status.in(...values),
    get reason() {
      return ask('reason');
    },
    get health() {
      return ask('health');
    },
    get ageSeconds() {
      return ask('ageSeconds');
    },
    rises: (windowSeconds) => ask('rises', { windowSeconds }),
  };
}

/** A condition of the Machine: what the agent reports of its host, such as DiskFull. */
export function machineCondition(type: string): ConditionQuestion {
  const status = new Question(`machine.condition.${type}.status`, {});
  return {
    is: (value) => status.equals(value),
    isOneOf: (...values) => status.in(...values),
    get reason() {
      return new Question(`machine.condition.${type}.reason`, {});
    },
  };
}

type Value = string | number | boolean;
type Values = Readonly<Record<string, Value | undefined>>;

const OPERATORS = {
  equals: { operator: 'equal', types: ['string', 'number', 'boolean'] },
  in: { operator: 'in', types: ['string', 'number', 'boolean'] },
  notEquals: { operator: 'notEqual', types: ['string', 'number', 'boolean'] },
  notIn: { operator: 'notIn', types: ['string', 'number', 'boolean'] },
  below: { operator: 'lessThan', types: ['number'] },
  atMost: { operator: 'lessThanInclusive', types: ['number'] },
  above: { operator: 'greaterThan', types: ['number'] },
  atLeast: { operator: 'greaterThanInclusive', types: ['number'] },
  contains: { operator: 'contains', types: ['list'] },
} as const;
type Method = keyof typeof OPERATORS;

class Question implements Asked<Value, false>, NumberAsked<false>, ListAsked {
  readonly #name: string;
  readonly #definition: FactDefinition;
  readonly #params: Values;

  constructor(name: string, params: Values) {
    const ref = factNamed(name);
    if (ref === undefined)
      throw new FleetError('FactUnknown', `there is no fact "${name}"; there are ${patternsLike(name).join(', ')}`, 'kubenode rules facts');
    const needed = paramsOf(ref);
    const allowed = ref.definition.missing === 'Absent' ? [...needed, 'default'] : needed;
    const extra = Object.keys(params).find((key) => !allowed.includes(key));
    if (extra !== undefined)
      throw new FleetError('RuleInvalid', `fact "${name}" has no parameter "${extra}"${list(allowed, '; it takes ')}`);
    const absent = needed.find((key) => typeof params[key] !== 'number');
    if (absent !== undefined)
      throw new FleetError('RuleInvalid', `fact "${name}" needs "${absent}"`, `fact('${name}', { ${absent}: 600 })`);
    this.#name = name;
    this.#definition = ref.definition;
    this.#params = params;
  }

  equals(value: Value): Term<false> {
    return this.#ask('equals', [value], value);
  }
  in(...values: Value[]): Term<false> {
    return this.#ask('in', values, values);
  }
  notEquals(value: Value): Term<false> {
    return this.#ask('notEquals', [value], value);
  }
  notIn(...values: Value[]): Term<false> {
    return this.#ask('notIn', values, values);
  }
  below(value: number): Term<false> {
    return this.#ask('below', [value], value);
  }
  atMost(value: number): Term<false> {
    return this.#ask('atMost', [value], value);
  }
  above(value: number): Term<false> {
    return this.#ask('above', [value], value);
  }
  atLeast(value: number): Term<false> {
    return this.#ask('atLeast', [value], value);
  }
  contains(value: string): Term<false> {
    return this.#ask('contains', [value], value);
  }
  hysteresis({ enter, leave }: { enter: number; leave: number }): Term<false> {
    this.#ask('below', [enter, leave], enter);
    if (!(leave < enter))
      throw new FleetError(
        'RuleInvalid',
        `the hysteresis of "${this.#name}" must leave below where it enters: enter ${enter}, leave ${leave}`,
      );
    const params = { ...this.#params, enter, leave };
    return { term: { fact: `hysteresis.${this.#name}`, operator: 'equal', value: true, params }, known: false };
  }

  #ask(method: Method, values: readonly Value[], value: Value | readonly Value[]): Term<false> {
    const { type, values: possible, missing, missingWhen } = this.#definition;
    const { operator, types } = OPERATORS[method];
    const fact = `fact "${this.#name}"`;
    if (!(types as readonly string[]).includes(type))
      throw new FleetError('RuleInvalid', `${fact} is a ${type}: ${method}(…) does not apply to it${list(methodsFor(type), '; ')}`);
    if (values.length === 0) throw new FleetError('RuleInvalid', `${method}(…) of ${fact} needs at least one value`);
    const wanted = type === 'list' ? 'string' : type;
    for (const each of values) {
      if (typeof each !== wanted) throw new FleetError('RuleInvalid', `${fact} is a ${wanted}, and is never ${JSON.stringify(each)}`);
      if (possible !== undefined && !possible.includes(String(each)))
        throw new FleetError('RuleInvalid', `${fact} is never ${JSON.stringify(each)}${list(possible, '; it is one of ')}`);
    }
    const known = missing === 'Never' || this.#params['default'] !== undefined;
    if ((method === 'notEquals' || method === 'notIn') && !known)
      throw new FleetError(
        'RuleInvalid',
        `${method}(…) of ${fact} would be true while it is missing (${missingWhen})`,
        missing === 'Absent' ? `fact('${this.#name}', { default: '…' })` : 'name what it must be: in(…)',
      );
    const params = Object.keys(this.#params).length === 0 ? {} : { params: this.#params };
    // Typed callers see what the catalogue has for this fact; `not` asks the value itself.
    return { term: { fact: this.#name, operator, value, ...params }, known: known as false };
  }
}

const list = (names: readonly string[], before: string): string => (names.length === 0 ? '' : `${before}${names.join(', ')}`);

function methodsFor(type: string): string[] {
  return (Object.keys(OPERATORS) as Method[]).filter((method) => (OPERATORS[method].types as readonly string[]).includes(type));
}
