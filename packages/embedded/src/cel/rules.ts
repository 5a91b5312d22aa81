/**
 * The rules of a schema (`x-kubernetes-validations`), compiled once, and which of them an object or a change of one breaks: the same
 * sentences, at the same paths, as kube-apiserver 1.34.
 *
 * Left out: rules inside allOf, anyOf, oneOf and not, which the definition's check refuses.
 */
import type { Json } from '@kubenode/api-machinery/wire';
import { duplicate, forbidden, invalid, required, unsupported, type FieldProblem } from '../field-error.ts';
import { equal, isObject } from '../json.ts';
import type { Schema } from '../schema/schema.ts';
import { CostExceeded } from './cost.ts';
import { keyOf } from './equality.ts';
import { cardinalityOf, costOf, DEFINITION_LIMIT, overBudget, RULE_LIMIT } from './estimate.ts';
import { CompileFault, compilerOf, type Expression, type Values } from './expression.ts';
import { parseFieldPath } from './field-path.ts';
import { asResource, escaped, EvaluationFault, typeOf, type CelType } from './types.ts';

/** One rule as a definition contains it. */
interface Given {
  readonly rule: string;
  readonly message: string;
  readonly messageExpression: string;
  readonly reason: string;
  readonly fieldPath: string;
  readonly optionalOldSelf: boolean;
}

interface Rule {
  readonly given: Given;
  readonly test: Expression;
  readonly message: Expression | undefined;
  /** Ending of the path of its problems: `.epoch`. */
  readonly fieldPath: string;
}

/** A node of a schema at which, or below which, there are rules. */
interface SchemaNode {
  readonly schema: Schema;
  readonly type: CelType;
  readonly rules: readonly Rule[];
  readonly properties: ReadonlyMap<string, SchemaNode>;
  readonly entries: SchemaNode | undefined;
  readonly items: SchemaNode | undefined;
}

/** A rule that an object breaks. */
export interface RuleProblem {
  /** `spec.batches`; empty for the object itself. */
  readonly path: string;
  /** In the words of the rule. */
  readonly message: string;
  /** As the server answers. */
  readonly problem: FieldProblem;
}

/** The rules of one version of one definition. */
export interface Rules {
  /**
   * The rules that an object breaks which its schema accepts; `old` is what it was before an update. Errors that were there before, in a
   * part that did not change, are only warned of.
   */
  readonly evaluate: (object: Json, old: Json | undefined, warn?: (text: string) => void) => RuleProblem[];
}

export interface Compiled {
  /** Undefined when there is no rule that can be compiled. */
  readonly rules: Rules | undefined;
  readonly problems: readonly FieldProblem[];
}

const REASONS = ['FieldValueRequired', 'FieldValueDuplicate', 'FieldValueInvalid', 'FieldValueForbidden'];

const textOf = (value: Json | undefined): string => (typeof value === 'string' ? value : '');

function givenOf(item: Json): Given {
  const rule = isObject(item) ? item : {};
  return {
    rule: textOf(rule['rule']),
    message: textOf(rule['message']),
    messageExpression: textOf(rule['messageExpression']),
    reason: textOf(rule['reason']),
    fieldPath: textOf(rule['fieldPath']),
    optionalOldSelf: rule['optionalOldSelf'] === true,
  };
}

export function hasRules(schema: Schema): boolean {
  if (schema['x-kubernetes-validations'] !== undefined) return true;
  const { items, additionalProperties: rest, properties } = schema;
  return [...(items === undefined ? [] : [items]), ...(typeof rest === 'object' ? [rest] : []), ...Object.values(properties ?? {})].some(
    hasRules,
  );
}

type Compile = ReturnType<typeof compilerOf>;

class Compiler {
  readonly problems: FieldProblem[] = [];
  /** Cost of all rules, for all values that one object can have. */
  cost = 0;
  readonly #compile: Compile;

  constructor(compile: Compile) {
    this.#compile = compile;
  }

  /** `uncorrelatable` names the list whose items have no key, when the field is in one. */
  node(
    schema: Schema,
    type: CelType | undefined,
    path: string,
    uncorrelatable: string | undefined,
    cardinality: number,
  ): SchemaNode | undefined {
    if (type === undefined || !hasRules(schema)) return undefined;
    const given = schema['x-kubernetes-validations'];
    const rules = (Array.isArray(given) ? given : []).flatMap((item, index) => {
      const rule = this.#rule(item, schema, type, `${path}.x-kubernetes-validations[${index}]`, uncorrelatable, cardinality);
      return rule === undefined ? [] : [rule];
    });
    const properties = new Map<string, SchemaNode>();
    for (const [name, child] of Object.entries(schema.properties ?? {})) {
      const found = this.node(
        child,
        type.object?.fields.get(escaped(name) ?? '')?.type,
        `${path}.properties[${name}]`,
        uncorrelatable,
        cardinality,
      );
      if (found !== undefined) properties.set(name, found);
    }
    const { items, additionalProperties: rest } = schema;
    const within = cardinality * cardinalityOf(schema);
    const lost = schema['x-kubernetes-list-type'] === 'map' ? uncorrelatable : (uncorrelatable ?? path);
    return {
      schema,
      type,
      rules,
      properties,
      entries: typeof rest === 'object' ? this.node(rest, type.item, `${path}.additionalProperties`, uncorrelatable, within) : undefined,
      items: items === undefined ? undefined : this.node(items, type.item, `${path}.items`, lost, within),
    };
  }

  #rule(
    item: Json,
    schema: Schema,
    type: CelType,
    path: string,
    uncorrelatable: string | undefined,
    cardinality: number,
  ): Rule | undefined {
    const given = givenOf(item);
    const before = this.problems.length;
    const fieldPath = given.fieldPath === '' ? '' : parseFieldPath(given.fieldPath, schema);
    this.#form(given, path, fieldPath);
    if (given.rule.trim() === '') {
      this.problems.push(required(`${path}.rule`, 'rule is not specified'));
      return undefined;
    }
    const test = this.#expression(given.rule, 'bool', type, given.optionalOldSelf, `${path}.rule`, item);
    const message =
      given.messageExpression === ''
        ? undefined
        : this.#expression(given.messageExpression, 'string', type, given.optionalOldSelf, `${path}.messageExpression`, item);
    this.#estimate(test, schema, cardinality, `${path}.rule`, 'estimated rule cost');
    this.#estimate(message, schema, cardinality, `${path}.messageExpression`, 'estimated messageExpression cost');
    if (test?.usesOldSelf === true && uncorrelatable !== undefined) {
      const detail = `oldSelf cannot be used on the uncorrelatable portion of the schema within ${uncorrelatable}`;
      this.problems.push(invalid(`${path}.rule`, given.rule, detail));
    }
    if (test === undefined || fieldPath === undefined || this.problems.length > before) return undefined;
    return { given, test, message, fieldPath };
  }

  #estimate(made: Expression | undefined, schema: Schema, cardinality: number, path: string, what: string): void {
    if (made === undefined) return;
    const cost = costOf(made.tree, schema) * cardinality;
    this.cost += cost;
    if (cost > RULE_LIMIT) this.problems.push(forbidden(path, overBudget(what, cost, RULE_LIMIT)));
  }

  #form({ rule, message, reason, fieldPath }: Given, path: string, parsedPath: string | undefined): void {
    if (message !== '' && message.trim() === '')
      this.problems.push(invalid(`${path}.message`, message, 'message must be non-empty if specified'));
    else if (message.trim().includes('\n')) this.problems.push(invalid(`${path}.message`, message, 'message must not contain line breaks'));
    else if (rule.trim().includes('\n') && message === '')
      this.problems.push(required(`${path}.message`, 'message must be specified if rule contains line breaks'));
    if (reason !== '' && !REASONS.includes(reason)) this.problems.push(unsupported(`${path}.reason`, reason, REASONS));
    if (parsedPath === undefined) this.problems.push(invalid(`${path}.fieldPath`, fieldPath, 'must be a valid path'));
  }

  #expression(text: string, wanted: string, type: CelType, optional: boolean, path: string, item: Json): Expression | undefined {
    try {
      const made = this.#compile(text, type, optional);
      if (made.result === wanted || (made.result === 'dyn' && wanted === 'bool')) return made;
      this.problems.push(invalid(path, item, `${wanted === 'bool' ? 'cel' : 'messageExpression'} expression must evaluate to a ${wanted}`));
    } catch (error) {
      if (!(error instanceof CompileFault)) throw error;
      this.problems.push(invalid(path, item, error.message));
    }
    return undefined;
  }
}

/** Compiles the rules of a whole object's schema. `path` is the path of the schema in its definition. */
export function compileRules(schema: Schema, path: string): Compiled {
  if (!hasRules(schema)) return { rules: undefined, problems: [] };
  const type = typeOf(asResource(schema), 'selfType');
  if (type === undefined) return { rules: undefined, problems: [] };
  const compiler = new Compiler(compilerOf(type));
  const root = compiler.node(schema, type, path, undefined, 1);
  if (compiler.cost > DEFINITION_LIMIT && compiler.problems.length === 0) {
    const what = 'x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema';
    compiler.problems.push(forbidden(path, overBudget(what, compiler.cost, DEFINITION_LIMIT)));
  }
  if (root === undefined) return { rules: undefined, problems: compiler.problems };
  return {
    rules: {
      evaluate(object, old, warn) {
        const out: RuleProblem[] = [];
        visit(
          root,
          object,
          old,
          '',
          lazily(() => old !== undefined && equal(object, old)),
          { out, warn },
        );
        return out;
      },
    },
    problems: compiler.problems,
  };
}

interface Report {
  readonly out: RuleProblem[];
  readonly warn: ((text: string) => void) | undefined;
}

function lazily(ask: () => boolean): () => boolean {
  let known: boolean | undefined;
  return () => (known ??= ask());
}

/** `unchanged` is whether the nearest value that has an old one is as it was. */
function visit(node: SchemaNode, value: Json, old: Json | undefined, path: string, unchanged: () => boolean, report: Report): void {
  if (value === null) return;
  if (node.rules.length > 0) apply(node, value, old ?? undefined, path, unchanged, report);
  const below = (child: SchemaNode | undefined, item: Json | undefined, before: Json | undefined, where: string) => {
    if (child === undefined || item === undefined) return;
    const same = before === undefined || old === undefined ? unchanged : lazily(() => equal(item, before));
    visit(child, item, before, where, same, report);
  };
  if (Array.isArray(value)) {
    if (node.items === undefined) return;
    const before = correlator(node.schema, old);
    for (const [index, item] of value.entries()) below(node.items, item, before(item), `${path}[${index}]`);
  } else if (isObject(value)) {
    const before = isObject(old) ? old : {};
    for (const [name, child] of node.properties) below(child, value[name], before[name], path === '' ? name : `${path}.${name}`);
    if (node.entries !== undefined)
      for (const [key, item] of Object.entries(value)) below(node.entries, item, before[key], `${path}[${key}]`);
  }
}

function correlator(schema: Schema, old: Json | undefined): (item: Json) => Json | undefined {
  if (schema['x-kubernetes-list-type'] !== 'map' || !Array.isArray(old)) return () => undefined;
  const byKey = new Map(old.map((item) => [keyOf(item, schema), item]));
  return (item) => byKey.get(keyOf(item, schema));
}

function apply({ rules, schema, type }: SchemaNode, value: Json, old: Json | undefined, path: string, same: () => boolean, report: Report) {
  let converted: Values | undefined;
  const values = (): Values => (converted ??= { self: type.value(value), ...(old === undefined ? {} : { oldSelf: type.value(old) }) });
  for (const rule of rules) {
    const { given, test } = rule;
    if (test.usesOldSelf && old === undefined && !given.optionalOldSelf) continue;
    const found = problemOf(rule, values, path, schema.type ?? '');
    if (found === undefined) continue;
    if (test.usesOldSelf || !same()) report.out.push(found);
    else report.warn?.(`${found.path === '' ? '<nil>' : found.path}: ${found.problem.message}`);
  }
}

function problemOf({ given, test, message, fieldPath }: Rule, values: () => Values, path: string, type: string): RuleProblem | undefined {
  const named = given.message.trim() === '' ? given.rule.trim() : given.message.trim();
  try {
    if (test.evaluate(values()) === true) return undefined;
  } catch (error) {
    if (!(error instanceof EvaluationFault)) throw error;
    if (error instanceof CostExceeded)
      return { path, message: costDetail(error, named), problem: invalid(path, type, costDetail(error, named)) };
    // oxlint-disable-next-line kubenode/no-sentence-decisions -- the CEL library gives no code
    const detail = error.message.startsWith('no such overload')
      ? `'${error.message}': call arguments did not match a supported operator, function or macro signature for rule: ${named}`
      : `${error.message} evaluating rule: ${named}`;
    return { path, message: detail, problem: invalid(path, type, detail) };
  }
  const detail = evaluatedMessage(message, values()) ?? (given.message === '' ? `failed rule: ${named}` : named);
  const field = `${path}${fieldPath}`.replace(/^\./, '');
  return { path: field, message: detail, problem: reasoned(given.reason, field, type, detail) };
}

const costDetail = ({ of }: CostExceeded, rule: string): string =>
  of === 'evaluation'
    ? `call cost exceeds limit for rule: ${rule}, no further validation rules will be run`
    : 'validation failed due to running out of cost budget, no further validation rules will be run';

function reasoned(reason: string, field: string, type: string, detail: string): FieldProblem {
  switch (reason) {
    case 'FieldValueForbidden':
      return forbidden(field, detail);
    case 'FieldValueRequired':
      return required(field, detail);
    case 'FieldValueDuplicate':
      return duplicate(field, type);
    default:
      return invalid(field, type, detail);
  }
}

/** The message that an expression computes; undefined when it fails or does not fit a line: then the rule's own message is reported. */
function evaluatedMessage(message: Expression | undefined, values: Values): string | undefined {
  if (message === undefined) return undefined;
  try {
    const text = message.evaluate(values);
    return typeof text === 'string' && text.trim() !== '' && !text.includes('\n') ? text : undefined;
  } catch (error) {
    if (error instanceof EvaluationFault) return undefined;
    throw error;
  }
}
