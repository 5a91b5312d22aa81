/** ValidatingAdmissionPolicies, compiled: their conditions, variables and validations as expressions. */
import type { Json, JsonObject } from '@kubenode/api-machinery/wire';
import { compileOpen, type OpenExpression } from '../cel/open.ts';
import { CompileFault } from '../cel/expression.ts';
import { invalid, required, type FieldProblem } from '../field-error.ts';
import { listAt, textAt } from '../json.ts';

interface Named {
  readonly name: string;
  readonly test: OpenExpression;
}

interface Validation {
  readonly test: OpenExpression;
  readonly message: string;
  readonly messageExpression: OpenExpression | undefined;
  readonly reason: string;
}

export interface CompiledPolicy {
  readonly name: string;
  readonly failsClosed: boolean;
  readonly conditions: readonly Named[];
  readonly variables: readonly Named[];
  readonly validations: readonly Validation[];
  readonly problems: readonly FieldProblem[];
}

/** Never throws because of the policy's content: an error is a problem, and a policy with problems evaluates nothing and refuses everything. */
export function compilePolicy(policy: JsonObject): CompiledPolicy {
  const problems: FieldProblem[] = [];
  const expression = (item: Json, field: string, path: string, wanted: 'bool' | 'string' | undefined, more: string[]): OpenExpression => {
    const text = textAt(item, field) ?? '';
    if (text.trim() === '') {
      problems.push(required(`${path}.${field}`, `${field} is not specified`));
      return NOTHING;
    }
    try {
      const made = compileOpen(text, ['object', 'oldObject', 'request', 'namespaceObject', ...more]);
      if (wanted === undefined || made.result === wanted || made.result === 'dyn') return made;
      problems.push(invalid(`${path}.${field}`, text, `must evaluate to ${wanted}`));
    } catch (error) {
      if (!(error instanceof CompileFault)) throw error;
      problems.push(invalid(`${path}.${field}`, text, error.message));
    }
    return NOTHING;
  };
  const conditions = listAt(policy, 'spec', 'matchConditions').map((item, index) => ({
    name: textAt(item, 'name') ?? '',
    test: expression(item, 'expression', `spec.matchConditions[${index}]`, 'bool', []),
  }));
  const variables = listAt(policy, 'spec', 'variables').map((item, index) => ({
    name: textAt(item, 'name') ?? '',
    test: expression(item, 'expression', `spec.variables[${index}]`, undefined, ['variables']),
  }));
  const validations = listAt(policy, 'spec', 'validations').map((item, index) => {
    const path = `spec.validations[${index}]`;
    return {
      test: expression(item, 'expression', path, 'bool', ['variables']),
      message: textAt(item, 'message') ?? '',
      messageExpression:
        textAt(item, 'messageExpression') === undefined ? undefined : expression(item, 'messageExpression', path, 'string', ['variables']),
      reason: textAt(item, 'reason') ?? 'Invalid',
    };
  });
  const name = textAt(policy, 'metadata', 'name') ?? '';
  return { name, failsClosed: textAt(policy, 'spec', 'failurePolicy') !== 'Ignore', conditions, variables, validations, problems };
}

const NOTHING: OpenExpression = { text: '', result: 'dyn', evaluate: () => undefined };
