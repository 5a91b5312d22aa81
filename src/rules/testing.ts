/** Rules and histories for tests. */
import { NodeRemediers, type NodeRemedier, type NodeRemedierSpec } from '../api/node-remedier.ts';
import { API_VERSION } from '../api/kind.ts';
import { parseHistory, type History } from './history.ts';
import { validationErrorText } from './validation-error.ts';

export const bad = (type: string) => ({ fact: `condition.${type}.status`, operator: 'equal', value: 'True' });
export const good = (type: string) => ({ fact: `condition.${type}.status`, operator: 'equal', value: 'False' });

const BASE = {
  when: { all: [bad('KernelDeadlock')] },
  holdsForSeconds: 30,
  ladder: [{ action: 'Reboot' }, { action: 'Human' }],
  healedWhen: { condition: 'KernelDeadlock', is: 'False', forSeconds: 300 },
  mode: 'Enforce',
};

export function ruleObject(name: string, spec: object = {}) {
  return { apiVersion: API_VERSION, kind: 'NodeRemedier', metadata: { name, uid: `uid-${name}` }, spec: { ...BASE, ...spec } };
}

export function rule(name: string, spec: Partial<NodeRemedierSpec> = {}): NodeRemedier {
  return NodeRemediers.parse(ruleObject(name, spec));
}

/** Throws with every error where it is none. */
export function history(events: History['events'], rest: Partial<History> = {}): History {
  const { history, errors } = parseHistory({ name: 'history', events, expect: [], ...rest });
  if (history === undefined) throw new Error(errors.map(validationErrorText).join('; '));
  return history;
}
