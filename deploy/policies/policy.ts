/** A ValidatingAdmissionPolicy with its binding. */
import type { Construct } from 'constructs';
import { BREAK_GLASS, CLUSTER_CONTROLLERS } from '../identities.ts';
import { object } from '../object.ts';

export interface ResourceRule {
  apiGroups: string[];
  apiVersions: string[];
  operations: ('CREATE' | 'UPDATE' | 'DELETE')[];
  /** `*` includes no subresource, and is refused beside another entry. */
  resources: string[];
}

export interface Validation {
  expression: string;
  messageExpression: string;
}

export interface Variable {
  name: string;
  expression: string;
}

export interface Policy {
  name: string;
  match: ResourceRule[];
  conditions: { name: string; expression: string }[];
  variables: Variable[];
  validations: Validation[];
}

const GROUP = 'admissionregistration.k8s.io/v1';

export function policy(scope: Construct, { name, match, conditions, variables, validations }: Policy): void {
  object(scope, {
    apiVersion: GROUP,
    kind: 'ValidatingAdmissionPolicy',
    metadata: { name },
    spec: {
      failurePolicy: 'Fail',
      matchConstraints: { resourceRules: match },
      matchConditions: conditions.map(oneLined),
      variables: variables.map(oneLined),
      validations: validations.map(({ expression, messageExpression }) => ({
        expression: oneLine(expression),
        messageExpression: oneLine(messageExpression),
        // Without it the answer is 422, which asks people to correct the object.
        reason: 'Forbidden',
      })),
    },
  });
  object(scope, {
    apiVersion: GROUP,
    kind: 'ValidatingAdmissionPolicyBinding',
    metadata: { name },
    spec: { policyName: name, validationActions: ['Deny'] },
  });
}

const oneLine = (text: string): string => text.replaceAll(/\s+/g, ' ').trim();
const oneLined = (each: { name: string; expression: string }) => ({ name: each.name, expression: oneLine(each.expression) });

/** A value as a CEL literal. */
export function literal(value: string | readonly string[] | Record<string, unknown>): string {
  if (typeof value === 'string') return `'${value}'`;
  if (Array.isArray(value)) return `[${value.map((each: string) => literal(each)).join(', ')}]`;
  const entries = Object.entries(value).map(([key, each]) => `'${key}': ${literal(each as string)}`);
  return `{${entries.join(', ')}}`;
}

/** Who is held to the owner table: all but the parts of Kubernetes that carry out deletions, and the group for emergencies. */
export const HELD = [
  { name: 'not-kubernetes', expression: `!(request.userInfo.username in ${literal(CLUSTER_CONTROLLERS)})` },
  { name: 'not-break-glass', expression: `!(${literal(BREAK_GLASS)} in request.userInfo.groups)` },
];
