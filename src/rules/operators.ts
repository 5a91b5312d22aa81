import type { FactType } from '../api/facts.ts';

interface OperatorTraits {
  /** Types of facts that it can compare. */
  facts: readonly FactType[];
  /** What `value` contains: one constant, or a list of them. */
  value: 'One' | 'List';
  /** True where its like over a fact without a value would be true in json-rules-engine: it concludes something from an absence. */
  negative: boolean;
}

const SCALARS = ['string', 'number', 'boolean'] as const;

/** The operators of json-rules-engine that a rule may use. Its decorators (`not:`, `everyFact:` …) are not among them: on an absent fact or an empty list they are true. */
export const OPERATORS = {
  equal: { facts: SCALARS, value: 'One', negative: false },
  notEqual: { facts: SCALARS, value: 'One', negative: true },
  in: { facts: SCALARS, value: 'List', negative: false },
  notIn: { facts: SCALARS, value: 'List', negative: true },
  contains: { facts: ['list'], value: 'One', negative: false },
  doesNotContain: { facts: ['list'], value: 'One', negative: true },
  lessThan: { facts: ['number'], value: 'One', negative: false },
  lessThanInclusive: { facts: ['number'], value: 'One', negative: false },
  greaterThan: { facts: ['number'], value: 'One', negative: false },
  greaterThanInclusive: { facts: ['number'], value: 'One', negative: false },
} as const satisfies Record<string, OperatorTraits>;

export type Operator = keyof typeof OPERATORS;

export function isOperator(value: unknown): value is Operator {
  return typeof value === 'string' && Object.hasOwn(OPERATORS, value);
}

export const traitsOf = (operator: Operator): OperatorTraits => OPERATORS[operator];

/** Operators that a fact of this type takes. */
export function operatorsFor(type: FactType): Operator[] {
  return Object.keys(OPERATORS)
    .filter(isOperator)
    .filter((operator) => traitsOf(operator).facts.includes(type));
}

const TEXTS: Record<Operator, string> = {
  equal: 'is',
  notEqual: 'is not',
  in: 'is one of',
  notIn: 'is none of',
  contains: 'contains',
  doesNotContain: 'does not contain',
  lessThan: 'is below',
  lessThanInclusive: 'is at most',
  greaterThan: 'is above',
  greaterThanInclusive: 'is at least',
};

export const operatorText = (operator: Operator): string => TEXTS[operator];
