/** CEL that tells who writes. */
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
