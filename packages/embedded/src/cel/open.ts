/** Expressions over values of any shape, as admission policies have them: their types are known only when they run. */
import type { Json } from '@kubenode/api-machinery/wire';
import { isObject } from '../json.ts';
import { compileWith } from './expression.ts';

export interface OpenExpression {
  readonly text: string;
  /** `bool`, `string` …; `dyn` when only its evaluation can show it. */
  readonly result: string;
  /** Throws an EvaluationFault. */
  readonly evaluate: (values: Readonly<Record<string, unknown>>) => unknown;
}

/** Throws a CompileFault. */
export function compileOpen(text: string, variables: readonly string[]): OpenExpression {
  const { result, evaluate } = compileWith(text, variables);
  return { text, result, evaluate };
}

/** A JSON value as expressions see it: whole numbers are integers. */
export function openValue(json: Json | undefined): unknown {
  if (json === undefined || json === null) return null;
  if (typeof json === 'number') return Number.isSafeInteger(json) ? BigInt(json) : json;
  if (Array.isArray(json)) return json.map(openValue);
  if (isObject(json)) return Object.fromEntries(Object.entries(json).map(([key, value]) => [key, openValue(value)]));
  return json;
}
