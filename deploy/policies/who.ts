/** CEL that decides who writes. */
import { bootstrapAccountName } from '../../src/api/admission.ts';
import { AGENT_PREFIX, AGENTS, serviceAccountUser } from '../../src/api/identity.ts';
import { MANAGERS } from '../../src/api/names.ts';
import { CELL, CELL_WRITERS, HUB, SYNC } from '../identities.ts';
import { literal } from './policy.ts';

const BOOTSTRAP_PREFIX = bootstrapAccountName('');

/** By certificate, by the ServiceAccount that stands in for one, or by the bootstrap token of its Machine, which is no identity yet. */
export const IS_AGENT = `('${AGENTS}' in request.userInfo.groups || request.userInfo.username.startsWith('kubenode:machine:')
  || request.userInfo.username.matches('^system:serviceaccount:[^:]+:(${AGENT_PREFIX}|${BOOTSTRAP_PREFIX})'))`;

/** `[namespace, name]` of the agent's Machine; empty strings where the user name is none of an agent's. */
export const AGENT_OF = {
  name: 'me',
  expression: `request.userInfo.username.matches('^kubenode:machine:[^:]+:[^:]+$')
    ? [request.userInfo.username.split(':')[2], request.userInfo.username.split(':')[3]]
    : request.userInfo.username.matches('^system:serviceaccount:[^:]+:${AGENT_PREFIX}[^:]+$')
      ? [request.userInfo.username.split(':')[2], request.userInfo.username.split(':')[3].substring(${AGENT_PREFIX.length})]
      : ['', '']`,
};

/** The writer as `owners.ts` names it; `human` is everyone else. */
export function whoIs(namespace: string): { name: string; expression: string } {
  const users: Record<string, string> = {
    ...Object.fromEntries(Object.entries(CELL_WRITERS).map(([writer, name]) => [serviceAccountUser(namespace, name), writer])),
    // It writes as the others, never as itself.
    [serviceAccountUser(namespace, CELL)]: 'nobody',
    [serviceAccountUser(namespace, SYNC)]: 'sync',
    [serviceAccountUser(namespace, HUB)]: 'hub',
  };
  return { name: 'who', expression: `${literal(users)}[?request.userInfo.username].orValue('human')` };
}

/** The name that the request gives itself in managedFields; empty where it gives none, and of a deletion. */
export const FIELD_MANAGER = "request.?options.?fieldManager.orValue('')";

/** A client that applies by the name of another gives that one fields that it then removes with its next apply. */
export const OWN_MANAGERS: readonly string[] = Object.values(MANAGERS);

export const sameWriter = (a: string, b: string): string =>
  ['manager', 'operation', 'subresource'].map((field) => `${a}.?${field}.orValue('') == ${b}.?${field}.orValue('')`).join(' && ');

/** Two records of managedFields are equal but for their times. */
export const sameRecord = (a: string, b: string): string =>
  `${sameWriter(a, b)} && ${a}.?fieldsV1.orValue({}) == ${b}.?fieldsV1.orValue({})`;

/** A record names no field that another of the same writer does not. */
export const fewerFields = (a: string, b: string): string =>
  `${sameWriter(a, b)} && ${within(`${a}.?fieldsV1.orValue({})`, `${b}.?fieldsV1.orValue({})`, DEEPEST)}`;

/** What is deeper is compared as a whole: `f:spec`, `f:operation`, `f:subject`, an item, its field. */
const DEEPEST = 5;

function within(a: string, b: string, depth: number): string {
  if (depth === 0) return `${a} == ${b}`;
  const k = `k${depth}`;
  return `(${a} == ${b} || ${a}.all(${k}, ${k} in ${b} && ${within(`${a}[${k}]`, `${b}[${k}]`, depth - 1)}))`;
}
