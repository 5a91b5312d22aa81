import type { FieldError } from '../api/kind.ts';

/** What is wrong in a rule: where, what, and how to correct it. */
export interface ValidationError extends FieldError {
  mend: string;
}

export const validationError = (path: string, message: string, mend: string): ValidationError => ({ path, message, mend });

/** `spec.when.all[0]: … ; mend: …` */
export const validationErrorText = ({ path, message, mend }: ValidationError): string => `${path}: ${message}; mend: ${mend}`;
