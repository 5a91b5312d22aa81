/** One expression over `self` and `oldSelf`: compiled once, evaluated often, and what goes wrong in the words of the real server. */
import { Environment, EvaluationError, Optional, ParseError, TypeError } from '@marcbachmann/cel-js';
import type { Json, JsonObject } from '@kubenode/api-machinery/wire';
import { alike } from './equality.ts';
import { CostExceeded, meter, spend, withinEvaluation } from './cost.ts';
import { addFunctions, REPLACED } from './functions.ts';
import { EvaluationFault, Message, type CelType, type CelObjectType } from './types.ts';

export interface Values {
  readonly self: unknown;
  readonly oldSelf?: unknown;
}

export interface Expression {
  readonly usesOldSelf: boolean;
  /** `bool`, `string` …; `dyn` when only its evaluation can show it. */
  readonly result: string;
  /** As it was parsed: for the estimate of its cost. */
  readonly tree: unknown;
  /** Throws an EvaluationFault. */
  readonly evaluate: (values: Values) => unknown;
}

/** Why an expression cannot be compiled, in upstream's words. */
export class CompileFault extends Error {}

let shared: Environment | undefined;

/** Built-in functions are registered once for all; environments of schemas are clones. */
function base(): Environment {
  if (shared === undefined) {
    shared = new Environment({ enableOptionalTypes: true });
    addFunctions(shared);
  }
  return shared;
}

const raw = (value: unknown): JsonObject => (value instanceof Message ? value.raw : {});
const rawItems = (value: unknown): Json[] => (Array.isArray(value) ? value.map(raw) : []);

/** Types are registered from the leaves, since fields are given by the names of their types. */
function register(environment: Environment, type: CelType, objects: Map<string, CelObjectType>): void {
  if (type.item !== undefined) register(environment, type.item, objects);
  const { keyed, item, object } = type;
  // Only the evaluation knows the type of values that may be null.
  if (keyed !== undefined && item?.object !== undefined && type.name === `list<${item.object.name}>`)
    environment.registerOperator(`${type.name} == ${type.name}`, (a, b) => alike(rawItems(a), rawItems(b), keyed));
  if (object === undefined) return;
  for (const field of object.fields.values()) register(environment, field.type, objects);
  const { name, schema, fields, message } = object;
  objects.set(name, object);
  environment.registerType(name, {
    ctor: message,
    fields: Object.fromEntries([...fields].map(([field, child]) => [field, child.type.name])),
  });
  environment.registerOperator(`${name} == ${name}`, (a, b) => alike(raw(a), raw(b), schema));
}

/** All expressions of one schema: `root` is the type of the whole object, and every `self` is one of the types in it. */
export function compilerOf(root: CelType): (expression: string, self: CelType, optionalOldSelf?: boolean) => Expression {
  const environment = base().clone();
  const objects = new Map<string, CelObjectType>();
  register(environment, root, objects);
  return (expression, self, optionalOldSelf = false) => {
    const alone = environment.clone().registerVariable('self', self.name);
    const found = attempt(alone, expression, objects);
    if (!(found instanceof CompileProblem)) return { usesOldSelf: false, ...found };
    if (found.undeclared !== 'oldSelf') throw new CompileFault(found.message);
    const both = alone.clone().registerVariable('oldSelf', optionalOldSelf ? `optional<${self.name}>` : self.name);
    const again = attempt(both, expression, objects);
    if (again instanceof CompileProblem) throw new CompileFault(again.message);
    const evaluate = optionalOldSelf
      ? (values: Values) => again.evaluate({ self: values.self, oldSelf: Optional.of(values.oldSelf) })
      : again.evaluate;
    return { usesOldSelf: true, result: again.result, tree: again.tree, evaluate };
  };
}

let open: Environment | undefined;

function openEnvironment(): Environment {
  const environment = base().clone({ homogeneousAggregateLiterals: false });
  environment.registerOperator('optional<dyn> == optional<dyn>', (a: Optional, b: Optional) =>
    a.hasValue() && b.hasValue() ? sameOpen(a.value(), b.value()) : a.hasValue() === b.hasValue(),
  );
  return environment;
}

/** Equal as expressions see values of any shape. */
function sameOpen(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (Array.isArray(a) && Array.isArray(b)) return a.length === b.length && a.every((item, index) => sameOpen(item, b[index]));
  if (a === null || b === null || typeof a !== 'object' || typeof b !== 'object' || Array.isArray(a) || Array.isArray(b)) return false;
  const [left, right] = [Object.entries(a), new Map(Object.entries(b))];
  return left.length === right.size && left.every(([key, item]) => right.has(key) && sameOpen(item, right.get(key)));
}

/** An expression over variables whose types are not known before it runs. Throws a CompileFault. */
export function compileWith(expression: string, variables: readonly string[]): Pick<Program, 'result' | 'evaluate'> {
  open ??= openEnvironment();
  const environment = open.clone();
  for (const name of variables) environment.registerVariable(name, 'dyn');
  const found = attempt(environment, expression, new Map());
  if (found instanceof CompileProblem) throw new CompileFault(found.message);
  return found;
}

/** What the evaluator's errors carry. */
interface Fault {
  readonly code: string;
  readonly summary: string;
  readonly start: number;
  readonly about: unknown;
}

function faultOf(error: unknown): Fault {
  if (error instanceof ParseError || error instanceof TypeError || error instanceof EvaluationError) {
    const { code, summary, range, node } = error;
    return { code, summary, start: range?.start ?? 0, about: node?.args };
  }
  return { code: '', summary: error instanceof Error ? error.message : String(error), start: 0, about: undefined };
}

class CompileProblem {
  readonly message: string;
  /** The variable that was not declared. */
  readonly undeclared: string | undefined;

  constructor(expression: string, words: string, start: number, undeclared?: string) {
    const before = expression.slice(0, start).split('\n');
    const column = before.at(-1)?.length ?? 0;
    const line = expression.split('\n')[before.length - 1] ?? '';
    this.message = `compilation failed: ERROR: <input>:${before.length}:${column + 1}: ${words}\n | ${line}\n | ${'.'.repeat(column)}^`;
    this.undeclared = undeclared;
  }
}

function compileProblemOf(expression: string, error: unknown): CompileProblem {
  const { code, summary, start, about } = faultOf(error);
  const last = /: ([^:]*)$/.exec(summary)?.[1] ?? '';
  switch (code) {
    case 'no_such_key':
      // Upstream points at the dot before the field.
      return new CompileProblem(expression, `undefined field '${last}'`, Math.max(0, start - 1));
    case 'unknown_variable':
      return new CompileProblem(
        expression,
        `undeclared reference to '${last}' (in container '')`,
        start,
        typeof about === 'string' ? about : last,
      );
    default:
      return new CompileProblem(expression, summary, start);
  }
}

/** What compiling a short expression costs, as against a step of an evaluation. */
const COMPILING = 1000;

interface Program {
  readonly result: string;
  readonly tree: unknown;
  readonly evaluate: (values: object) => unknown;
}

function attempt(environment: Environment, expression: string, objects: ReadonlyMap<string, CelObjectType>): CompileProblem | Program {
  try {
    spend(COMPILING + expression.length);
    const program = environment.parse(expression);
    replaceCalls(program.ast);
    meter(program.ast);
    const checked = program.check();
    if (!checked.valid) return compileProblemOf(expression, checked.error);
    const absent = absentField(program.ast, objects);
    if (absent !== undefined) return new CompileProblem(expression, `undefined field '${absent.name}'`, absent.at);
    return {
      result: checked.type ?? 'dyn',
      tree: program.ast,
      evaluate(values) {
        try {
          return withinEvaluation(() => program({ ...values }));
        } catch (error) {
          throw error instanceof EvaluationFault ? error : new EvaluationFault(evaluationWords(error), { cause: error });
        }
      },
    };
  } catch (error) {
    if (error instanceof CostExceeded) throw error;
    return compileProblemOf(expression, error);
  }
}

/** Calls of functions of the evaluator whose time or result has no bound that fits: ours are called. */
function replaceCalls(value: unknown): void {
  if (Array.isArray(value)) return value.forEach(replaceCalls);
  if (isNode(value)) {
    const { args } = value;
    if (value.op === 'rcall' && Array.isArray(args) && typeof args[0] === 'string') args[0] = REPLACED[args[0]] ?? args[0];
    replaceCalls(args);
  }
}

/** A node of the evaluator's syntax tree, as far as it is read here. */
interface Node {
  readonly op: string;
  readonly args: unknown;
  readonly end: number;
  readonly checkedType?: { readonly name: string };
}

function isNode(value: unknown): value is Node {
  return value !== null && typeof value === 'object' && 'op' in value && 'args' in value && 'end' in value;
}

/** A field that `has()` asks for and no object of the schema can have: the checker ignores `has()`, upstream's does not. `at` is the dot before it. */
function absentField(value: unknown, objects: ReadonlyMap<string, CelObjectType>): { name: string; at: number } | undefined {
  if (Array.isArray(value)) {
    for (const item of value) {
      const found = absentField(item, objects);
      if (found !== undefined) return found;
    }
    return undefined;
  }
  if (!isNode(value)) return undefined;
  const [name, operands] = Array.isArray(value.args) ? value.args : [];
  if (value.op !== 'call' || name !== 'has' || !Array.isArray(operands)) return absentField(value.args, objects);
  const end = selected(operands[0], objects);
  return end !== undefined && 'absent' in end ? end.absent : undefined;
}

/** The type that a chain of fields ends in; undefined where it leaves the objects of the schema. */
function selected(
  value: unknown,
  objects: ReadonlyMap<string, CelObjectType>,
): CelObjectType | { absent: { name: string; at: number } } | undefined {
  if (!isNode(value)) return undefined;
  if (value.op === 'id') return objects.get(value.checkedType?.name ?? '');
  const [inner, name] = value.op === '.' && Array.isArray(value.args) ? value.args : [];
  const before = selected(inner, objects);
  if (before === undefined || 'absent' in before || typeof name !== 'string') return before;
  const field = before.fields.get(name);
  return field === undefined ? { absent: { name, at: value.end - name.length - 1 } } : objects.get(field.type.name);
}

/** The evaluator's error, in the words of cel-go. */
function evaluationWords(error: unknown): string {
  const { code, summary } = faultOf(error);
  switch (code) {
    case 'no_such_key':
      return summary.replace('No such key', 'no such key');
    case 'index_out_of_bounds':
      return `index out of bounds: ${/index (-?\d+)/.exec(summary)?.[1] ?? ''}`;
    case 'modulo_by_zero':
      return 'modulus by zero';
    case 'numeric_overflow':
      return 'integer overflow';
    case 'no_such_overload':
    case 'no_matching_overload':
      return 'no such overload';
    default:
      return summary;
  }
}
