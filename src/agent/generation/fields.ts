import { agentError } from '../errors.ts';

/* Fields of a spec as they come from the API server, read one by one. Errors: `SpecInvalid` with the field's path. */

export type Fields = Record<string, unknown>;

export function object(value: unknown, path: string): Fields {
  if (value !== null && typeof value === 'object' && !Array.isArray(value)) return value as Fields;
  throw agentError('SpecInvalid', `${path} must be an object`);
}

export function list(value: unknown, path: string): unknown[] {
  if (value === undefined) return [];
  if (Array.isArray(value)) return value;
  throw agentError('SpecInvalid', `${path} must be a list`);
}

export function text(value: unknown, path: string, pattern?: RegExp, mayBeEmpty = false): string {
  if (typeof value !== 'string' || (value === '' && !mayBeEmpty)) throw agentError('SpecInvalid', `${path} must be text`);
  if (pattern !== undefined && !pattern.test(value)) {
    throw agentError('SpecInvalid', `${path} must match ${pattern.source}, got ${JSON.stringify(value)}`);
  }
  return value;
}

export function argv(value: unknown, path: string): string[] {
  const parts = list(value, path).map((each, index) => text(each, `${path}[${index}]`, undefined, true));
  if (parts.length === 0 || parts[0] === '')
    throw agentError('SpecInvalid', `${path} must be an argument vector that begins with a program`);
  return parts;
}

/** `otherwise` absent: it must be there. */
export function count(value: unknown, path: string, otherwise: number | undefined, minimum: number): number {
  if (value === undefined && otherwise !== undefined) return otherwise;
  if (typeof value === 'number' && Number.isInteger(value) && value >= minimum) return value;
  throw agentError('SpecInvalid', `${path} must be a whole number, at least ${minimum}`);
}

export function oneOf<T extends string>(value: unknown, path: string, allowed: readonly T[], otherwise: T): T {
  if (value === undefined) return otherwise;
  const found = allowed.find((each) => each === value);
  if (found !== undefined) return found;
  throw agentError('SpecInvalid', `${path} must be one of ${allowed.join(', ')}, got ${JSON.stringify(value)}`);
}

export function modeOf(value: unknown, path: string, otherwise: string): number {
  return Number.parseInt(value === undefined ? otherwise : text(value, path, /^0[0-7]{3}$/), 8);
}

export function unique<T>(items: T[], key: (item: T) => string, path: string): void {
  const seen = new Set<string>();
  for (const item of items) {
    if (seen.has(key(item))) throw agentError('SpecInvalid', `${path} names "${key(item)}" twice`);
    seen.add(key(item));
  }
}

export function within(value: unknown, path: string, { minimum, maximum }: { minimum: number; maximum: number }): number {
  if (typeof value === 'number' && Number.isInteger(value) && value >= minimum && value <= maximum) return value;
  throw agentError('SpecInvalid', `${path} must be a whole number from ${minimum} to ${maximum}`);
}
