import { agentError } from '../errors.ts';

/** What a template may name. Leaves are text, numbers and booleans. */
export interface Variables {
  root: string;
  dir: string;
  version: string;
  bootstrap: string;
  values: Record<string, unknown>;
  machine: {
    name: string;
    namespace: string;
    uid: string;
    nodeName: string;
    providerID: string;
    labels: Record<string, string>;
  };
}

const LABELS = 'machine.labels.';

/**
 * Replaces `{{path.to.value}}`, once and without logic: what is put in is not expanded again. Label keys contain dots and slashes, so what
 * follows `machine.labels.` is one key. `where` is the path in the MachineComponent, for messages.
 * Errors: `TemplateInvalid`, `TemplateUnknown`.
 */
export function expand(template: string, variables: Variables, where: string): string {
  let out = '';
  let from = 0;
  for (let open = template.indexOf('{{'); open >= 0; open = template.indexOf('{{', from)) {
    const close = template.indexOf('}}', open);
    if (close < 0) throw agentError('TemplateInvalid', `${where}: "{{" at character ${open} has no "}}"`);
    out += template.slice(from, open) + valueOf(template.slice(open + 2, close).trim(), variables, where);
    from = close + 2;
  }
  return out + template.slice(from);
}

function valueOf(path: string, variables: Variables, where: string): string {
  const value = path.startsWith(LABELS)
    ? own(variables.machine.labels, path.slice(LABELS.length))
    : path.split('.').reduce<unknown>(own, variables);
  if (typeof value === 'string') return value;
  if (typeof value === 'number' || typeof value === 'boolean') return String(value);
  if (value === undefined || value === null) throw agentError('TemplateUnknown', `${where}: {{${path}}} is not known; ${known(variables)}`);
  throw agentError('TemplateInvalid', `${where}: {{${path}}} is no text, number or boolean`);
}

/** Only own properties: `values.constructor` is as unknown as any. */
function own(value: unknown, key: string): unknown {
  return value !== null && typeof value === 'object' && Object.hasOwn(value, key) ? (value as Record<string, unknown>)[key] : undefined;
}

function known(variables: Variables): string {
  const values = Object.keys(variables.values).map((key) => `values.${key}`);
  const machine = ['name', 'namespace', 'uid', 'nodeName', 'providerID'].map((key) => `machine.${key}`);
  const labels = Object.keys(variables.machine.labels).map((key) => `${LABELS}${key}`);
  return `known: ${['root', 'dir', 'version', 'bootstrap', ...values, ...machine, ...labels].join(', ')}`;
}
