import { errorsOf, surroundings, type ErrorTable } from '../api/errors.ts';

/** Why rules are not evaluated. */
export const ruleErrorCodes = {
  EngineDisagrees: surroundings('json-rules-engine gave no result for a rule that it was asked for'),
  RuleRefused: surroundings('a rule that does not pass its check'),
} as const satisfies ErrorTable;

export const ruleError = errorsOf(ruleErrorCodes);
