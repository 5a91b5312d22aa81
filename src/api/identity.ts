/** Names by which the API server identifies who sends a request. */

export const serviceAccountUser = (namespace: string, name: string): string => `system:serviceaccount:${namespace}:${name}`;

/** Group of agents that have a certificate. */
export const AGENTS = 'kubenode:machines';

/** User of an agent that has a certificate (docs/protocols.md#g2). */
export const agentUser = (namespace: string, machine: string): string => `kubenode:machine:${namespace}:${machine}`;

/** Prefix of everything that an agent's rights are made of. Admission lets the machine controller write no other names. */
export const AGENT_PREFIX = 'kubenode-agent-';

/** ServiceAccount of an agent, in the Machine's namespace, where the cluster signs no certificates. */
export const agentServiceAccountName = (machine: string): string => `${AGENT_PREFIX}${machine}`;
