import type { FieldError } from '../api/kind.ts';

/** One mistake in a rule: where, what, and what would mend it. */
export interface Mistake extends FieldError {
  mend: string;
}

export const mistake = (path: string, message: string, mend: string): Mistake => ({ path, message, mend });

/** `spec.when.all[0]: … (mend: …)` */
export const mistakeText = ({ path, message, mend }: Mistake): string => `${path}: ${message}; mend: ${mend}`;
