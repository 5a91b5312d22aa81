import { errorsOf, surroundings, type ErrorTable } from '../src/api/errors.ts';

export const benchErrorCodes = {
  BenchmarkFailed: surroundings('a benchmark that ended with an error'),
  Usage: surroundings('a call with a flag or argument that cannot be'),
} as const satisfies ErrorTable;

export const benchError = errorsOf(benchErrorCodes);
