import type { Json, StatusCause } from '@kubenode/api-machinery/wire';

/** The cause reasons of apimachinery's field errors, and the words that stand for them in messages. */
const WORDS = {
  FieldValueRequired: 'Required value',
  FieldValueDuplicate: 'Duplicate value',
  FieldValueInvalid: 'Invalid value',
  FieldValueNotSupported: 'Unsupported value',
  FieldValueForbidden: 'Forbidden',
  FieldValueTooLong: 'Too long',
  FieldValueTooMany: 'Too many',
  FieldValueTypeInvalid: 'Invalid value',
} as const;

type FieldErrorType = keyof typeof WORDS;

/** One validation error of one field, worded as kube-apiserver words it. */
export interface FieldProblem {
  type: FieldErrorType;
  /** `spec.batches[0]`; empty for the object itself. */
  field: string;
  /** `Invalid value: "x": must be …` */
  message: string;
}

function shown(value: Json | undefined): string {
  if (value === undefined || value === null) return 'null';
  return typeof value === 'string' || typeof value === 'object' ? JSON.stringify(value) : String(value);
}

function withValue(type: FieldErrorType, field: string, value: Json | undefined, detail: string): FieldProblem {
  return { type, field, message: `${WORDS[type]}: ${shown(value)}${detail === '' ? '' : `: ${detail}`}` };
}

function withoutValue(type: FieldErrorType, field: string, detail: string): FieldProblem {
  return { type, field, message: `${WORDS[type]}${detail === '' ? '' : `: ${detail}`}` };
}

export const invalid = (field: string, value: Json | undefined, detail: string) => withValue('FieldValueInvalid', field, value, detail);
export const typeInvalid = (field: string, value: Json | undefined, detail: string) =>
  withValue('FieldValueTypeInvalid', field, value, detail);
export const required = (field: string, detail = '') => withoutValue('FieldValueRequired', field, detail);
export const forbidden = (field: string, detail: string) => withoutValue('FieldValueForbidden', field, detail);
export const duplicate = (field: string, value: Json) => withValue('FieldValueDuplicate', field, value, '');
export const tooLong = (field: string, limit: number) =>
  withoutValue('FieldValueTooLong', field, `may not be more than ${limit} ${limit === 1 ? 'byte' : 'bytes'}`);
export const tooMany = (field: string, actual: number, limit: number) =>
  withValue('FieldValueTooMany', field, actual, `must have at most ${limit} ${limit === 1 ? 'item' : 'items'}`);

export function unsupported(field: string, value: Json | undefined, supported: readonly (string | number | boolean)[]): FieldProblem {
  return withValue(
    'FieldValueNotSupported',
    field,
    value,
    `supported values: ${supported.map((item) => JSON.stringify(String(item))).join(', ')}`,
  );
}

export function causesOf(problems: readonly FieldProblem[]): StatusCause[] {
  return problems.map(({ type, field, message }) => ({ reason: type, message, field: field === '' ? '<nil>' : field }));
}

/** As an aggregate prints: one plain, several in brackets, repeated ones once. */
export function aggregate(problems: readonly FieldProblem[]): string {
  const lines = [...new Set(problems.map(({ field, message }) => `${field === '' ? '<nil>' : field}: ${message}`))];
  return lines.length === 1 ? (lines[0] ?? '') : `[${lines.join(', ')}]`;
}
