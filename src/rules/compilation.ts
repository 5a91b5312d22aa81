import { validationError, type ValidationError } from './validation-error.ts';

/** The conditions of one rule while they are compiled. */
export interface Compilation {
  readonly errors: ValidationError[];
  /** Facts so far. */
  leaves: number;
}

export function refuse({ errors }: Compilation, path: string, message: string, hint: string): undefined {
  errors.push(validationError(path, message, hint));
  return undefined;
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return value !== null && typeof value === 'object' && !Array.isArray(value);
}
