/**
 * What evaluations may cost: the evaluator's steps are counted as cel-go counts them, about one for each node that is evaluated and one for every ten
 * bytes that a function goes through, so that no expression blocks the other clusters of this process. As on the real server there is a limit for one
 * evaluation and one for all of a request.
 */

import { EvaluationFault, Message } from './types.ts';

/** One evaluation may cost this much (`PerCallLimit` upstream). */
export const EVALUATION_LIMIT = 1_000_000;
/** All evaluations of a request may cost this much together. Upstream's `RuntimeCELCostBudget` is 10,000,000, on other processors than everybody's. */
export const REQUEST_LIMIT = 2_500_000;

/** The limit is exceeded: the object is refused, even a valid one. */
export class CostExceeded extends EvaluationFault {
  readonly of: 'evaluation' | 'request';

  constructor(of: 'evaluation' | 'request') {
    super(of === 'evaluation' ? 'operation cancelled: actual cost limit exceeded' : 'running out of cost budget');
    this.of = of;
  }
}

interface Budget {
  left: number;
}

/** Undefined outside of a request: what a process evaluates over its life is no request. */
let ofRequest: Budget | undefined;
let ofEvaluation: Budget | undefined;

/** Takes from what the request, and the evaluation that runs, have left. Throws CostExceeded. */
export function spend(cost: number): void {
  if (ofEvaluation !== undefined && (ofEvaluation.left -= cost) < 0) throw new CostExceeded('evaluation');
  if (ofRequest !== undefined && (ofRequest.left -= cost) < 0) throw new CostExceeded('request');
}

/** Runs the checks of one request, which does not wait for anything. `spent` is called with what they cost, also where that was too much. */
export function withinRequest<T>(check: () => T, spent?: (cost: number) => void): T {
  const before = ofRequest;
  const own: Budget = { left: REQUEST_LIMIT };
  ofRequest = own;
  try {
    return check();
  } finally {
    ofRequest = before;
    spent?.(REQUEST_LIMIT - own.left);
  }
}

/** Runs one evaluation. Throws CostExceeded, also when the evaluator took it for a value that is not needed. */
export function withinEvaluation<T>(evaluate: () => T): T {
  const before = ofEvaluation;
  const own: Budget = { left: EVALUATION_LIMIT };
  ofEvaluation = own;
  try {
    const value = evaluate();
    // `false && error` has a value, an evaluation that was stopped has none.
    if (own.left < 0) throw new CostExceeded('evaluation');
    if (ofRequest !== undefined && ofRequest.left < 0) throw new CostExceeded('request');
    return value;
  } catch (error) {
    if (own.left < 0) throw new CostExceeded('evaluation');
    if (ofRequest !== undefined && ofRequest.left < 0) throw new CostExceeded('request');
    throw error;
  } finally {
    ofEvaluation = before;
  }
}

type Evaluate = (evaluator: unknown, node: unknown, context: unknown) => unknown;

/** A node of the evaluator's syntax tree, as far as it is used here. */
interface Node {
  readonly op: string;
  readonly args: unknown;
  evaluate: Evaluate;
  readonly meta: { readonly evaluate: Evaluate; readonly alternate?: Node; readonly macro?: { readonly evaluate: Evaluate } };
}

function isNode(value: unknown): value is Node {
  return value !== null && typeof value === 'object' && 'op' in value && 'args' in value && 'meta' in value && 'evaluate' in value;
}

/** How much of a text one unit goes through. */
export const BYTES_A_UNIT = 10;

/** What going through a value once costs. */
function sizeOf(value: unknown, most: number = EVALUATION_LIMIT): number {
  if (typeof value === 'string') return value.length / BYTES_A_UNIT;
  if (value instanceof Uint8Array) return value.byteLength / BYTES_A_UNIT;
  if (value === null || typeof value !== 'object') return 0;
  let size = 1;
  for (const item of partsOf(value)) {
    size += 1 + sizeOf(item, most - size);
    if (size > most) break;
  }
  return size;
}

function partsOf(value: object): Iterable<unknown> {
  if (Array.isArray(value) || value instanceof Set) return value;
  // Fields of an object are converted when they are read: what it was made of is counted.
  if (value instanceof Message) return Object.values(value.raw);
  if (value instanceof Map) return value.values();
  return value.constructor === Object ? Object.values(value) : [];
}

/** Operators that go through their operands. */
const BINARY = new Set(['==', '!=', 'in', '+', '<', '<=', '>', '>=']);

/** The operands that a node goes through. */
function goneThrough({ op, args }: Node): unknown[] {
  if (BINARY.has(op)) return Array.isArray(args) ? args : [];
  if (op === 'comprehension') return args !== null && typeof args === 'object' && 'iterable' in args ? [args.iterable] : [];
  return op === 'call' || op === 'rcall' ? (Array.isArray(args) ? args.flat() : []) : [];
}

/** Makes each node of a parsed expression pay for its evaluation. */
export function meter(root: unknown): void {
  const seen = new Set<object>();
  const through = new Set<unknown>();
  const visit = (value: unknown): void => {
    if (value === null || typeof value !== 'object' || seen.has(value)) return;
    seen.add(value);
    if (Array.isArray(value)) value.forEach(visit);
    else if (isNode(value)) {
      for (const operand of goneThrough(value)) through.add(operand);
      charge(value, through);
      visit(value.args);
      visit(value.meta.alternate);
      visit(value.meta.macro);
    } else for (const part of Object.values(value)) if (isNode(part) || Array.isArray(part)) visit(part);
  };
  visit(root);
}

function charge(node: Node, through: ReadonlySet<unknown>): void {
  const { meta } = node;
  node.evaluate = (evaluator, _node, context) => {
    spend(1);
    const { alternate, macro } = meta;
    let value: unknown;
    if (alternate !== undefined) value = alternate.evaluate(evaluator, alternate, context);
    else if (macro !== undefined) value = macro.evaluate(evaluator, macro, context);
    else value = meta.evaluate(evaluator, node, context);
    if (through.has(node)) spend(sizeOf(value));
    return value;
  };
}
