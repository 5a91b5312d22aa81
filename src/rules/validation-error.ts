import type { FieldError } from '../api/kind.ts';

/** What is wrong in a rule: where, what, and how to correct it. */
export interface ValidationError extends FieldError {
  hint: string;
}

export const validationError = (path: string, message: string, hint: string): ValidationError => ({ path, message, hint });

/** `spec.when.all[0]: … ; hint: …` */
export const validationErrorText = ({ path, message, hint }: ValidationError): string => `${path}: ${message}; hint: ${hint}`;
