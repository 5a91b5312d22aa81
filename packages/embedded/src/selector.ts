import type { Json } from '@kubenode/api-machinery/wire';
import { isObject, listAt, stringsAt, textAt } from './json.ts';
import { badRequest } from './refusal.ts';
import { checkLabelValue, checkQualifiedName } from './names.ts';

type Operator = 'In' | 'NotIn' | 'Exists' | 'DoesNotExist' | 'Gt' | 'Lt';

interface Requirement {
  readonly key: string;
  readonly operator: Operator;
  readonly values: readonly string[];
}

export type Labels = Readonly<Record<string, string>>;

export interface LabelSelector {
  /** True when it selects everything. */
  readonly empty: boolean;
  matches(labels: Labels): boolean;
}

function isMet({ key, operator, values }: Requirement, labels: Labels): boolean {
  const value = labels[key];
  switch (operator) {
    case 'Exists':
      return value !== undefined;
    case 'DoesNotExist':
      return value === undefined;
    case 'In':
      return value !== undefined && values.includes(value);
    case 'NotIn':
      return value === undefined || !values.includes(value);
    case 'Gt':
      return value !== undefined && Number(value) > Number(values[0]);
    case 'Lt':
      return value !== undefined && Number(value) < Number(values[0]);
    default:
      return operator satisfies never;
  }
}

function selectorOf(requirements: readonly Requirement[]): LabelSelector {
  return {
    empty: requirements.length === 0,
    matches: (labels) => requirements.every((requirement) => isMet(requirement, labels)),
  };
}

const EVERYTHING: LabelSelector = selectorOf([]);

/** Commas inside parentheses do not part requirements. */
function split(text: string): string[] {
  const out: string[] = [];
  let depth = 0;
  let start = 0;
  for (let index = 0; index < text.length; index++) {
    const char = text[index];
    if (char === '(') depth++;
    else if (char === ')') depth--;
    else if (char === ',' && depth === 0) {
      out.push(text.slice(start, index));
      start = index + 1;
    }
  }
  out.push(text.slice(start));
  return out;
}

function requirement(text: string): Requirement {
  const trimmed = text.trim();
  const set = /^(\S+)\s+(in|notin)\s*\(([^()]*)\)$/.exec(trimmed);
  if (set !== null) {
    return {
      key: set[1] ?? '',
      operator: set[2] === 'in' ? 'In' : 'NotIn',
      values: (set[3] ?? '').split(',').map((value) => value.trim()),
    };
  }
  const equality = /^([^\s=!<>]+)\s*(==|=|!=|>|<)\s*([^\s=!<>]*)$/.exec(trimmed);
  if (equality !== null) {
    const operator = ({ '=': 'In', '==': 'In', '!=': 'NotIn', '>': 'Gt', '<': 'Lt' } as const)[
      equality[2] as '=' | '==' | '!=' | '>' | '<'
    ];
    return { key: equality[1] ?? '', operator, values: [equality[3] ?? ''] };
  }
  const existence = /^(!?)\s*([^\s=!<>()]+)$/.exec(trimmed);
  if (existence !== null) return { key: existence[2] ?? '', operator: existence[1] === '!' ? 'DoesNotExist' : 'Exists', values: [] };
  throw badRequest(`unable to parse requirement: found '${trimmed}', expected: a label requirement`);
}

/** Parses `a=b,c!=d,e in (f,g),h,!i`. Throws a Refusal 400 in the API server's manner. */
export function parseLabelSelector(text: string | undefined): LabelSelector {
  if (text === undefined || text.trim() === '') return EVERYTHING;
  const requirements = split(text).map(requirement);
  for (const { key, operator, values } of requirements) {
    const wrongKey = checkQualifiedName(key);
    if (wrongKey.length > 0)
      throw badRequest(`unable to parse requirement: <nil>: Invalid value: ${JSON.stringify(key)}: ${wrongKey.join('; ')}`);
    if (operator === 'Gt' || operator === 'Lt') {
      if (!/^-?\d+$/.test(values[0] ?? '')) {
        throw badRequest(
          `unable to parse requirement: values[0][${key}]: Invalid value: ${JSON.stringify(values[0])}: for 'Gt', 'Lt' operators, the value must be an integer`,
        );
      }
      continue;
    }
    for (const [index, value] of values.entries()) {
      const wrong = checkLabelValue(value);
      if (wrong.length > 0) {
        throw badRequest(
          `unable to parse requirement: values[${index}][${key}]: Invalid value: ${JSON.stringify(value)}: ${wrong.join('; ')}`,
        );
      }
    }
  }
  return selectorOf(requirements);
}

/** metav1.LabelSelector. Absent or null selects nothing, empty selects everything. */
export function labelSelectorOf(selector: Json | undefined): LabelSelector {
  if (!isObject(selector)) return { empty: false, matches: () => false };
  const requirements: Requirement[] = [];
  const labels = selector['matchLabels'];
  if (isObject(labels)) {
    for (const [key, value] of Object.entries(labels)) {
      if (typeof value === 'string') requirements.push({ key, operator: 'In', values: [value] });
    }
  }
  for (const expression of listAt(selector, 'matchExpressions')) {
    const operator = textAt(expression, 'operator');
    if (operator !== 'In' && operator !== 'NotIn' && operator !== 'Exists' && operator !== 'DoesNotExist') continue;
    requirements.push({ key: textAt(expression, 'key') ?? '', operator, values: stringsAt(expression, 'values') });
  }
  return selectorOf(requirements);
}

interface FieldTerm {
  readonly field: string;
  readonly value: string;
  readonly equal: boolean;
}

export interface FieldSelector {
  readonly empty: boolean;
  /** The value that a field must have, when one term pins it. */
  exactly(field: string): string | undefined;
  matches(value: (field: string) => string): boolean;
}

function unescape(text: string): string {
  return text.replaceAll(/\\([\\,=])/g, '$1');
}

/** Parses `metadata.name=a,status.phase!=Running`. `known` names the fields by which the kind can be selected. */
export function parseFieldSelector(text: string | undefined, known: (field: string) => boolean, onlyMetadata = false): FieldSelector {
  const terms: FieldTerm[] = [];
  for (const part of (text ?? '').split(/(?<!\\),/)) {
    if (part === '') continue;
    const match = /^([^=!]+?)(==|!=|=)(.*)$/s.exec(part);
    if (match === null) throw badRequest(`invalid selector: '${text}'; can't understand '${part}'`);
    const field = (match[1] ?? '').trim();
    if (!known(field)) {
      if (field === '') throw badRequest(`invalid selector: '${text}'`);
      throw badRequest(
        onlyMetadata
          ? `${JSON.stringify(field)} is not a known field selector: only "metadata.name", "metadata.namespace"`
          : `field label not supported: ${field}`,
      );
    }
    terms.push({ field, value: unescape(match[3] ?? ''), equal: match[2] !== '!=' });
  }
  return {
    empty: terms.length === 0,
    exactly: (field) => terms.find((term) => term.equal && term.field === field)?.value,
    matches: (value) => terms.every((term) => (value(term.field) === term.value) === term.equal),
  };
}
