import { mistake, type Mistake } from './mistake.ts';

/** The conditions of one rule while they are compiled. */
export interface Compilation {
  readonly mistakes: Mistake[];
  /** Facts so far. */
  leaves: number;
}

export function refuse({ mistakes }: Compilation, path: string, message: string, mend: string): undefined {
  mistakes.push(mistake(path, message, mend));
  return undefined;
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return value !== null && typeof value === 'object' && !Array.isArray(value);
}
