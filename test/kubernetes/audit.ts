/** What API servers wrote down of who asked them for what. */
import { readFileSync, statSync } from 'node:fs';

/** The part of an audit.k8s.io/v1 Event that is read. */
export interface AuditEvent {
  stage: string;
  verb: string;
  user: { username: string };
  impersonatedUser?: { username: string };
  objectRef?: { resource?: string; subresource?: string; apiGroup?: string; namespace?: string; name?: string };
  responseStatus?: { code?: number; message?: string };
}

export interface Verdict {
  requests: number;
  /** By whom requests were made. */
  identities: number;
  /** Requests of KubeNode's identities, or of a node, that were refused. */
  refused: string[];
  /** What the administrator wrote that is for KubeNode's own identities to write. */
  byAdministrator: string[];
}

const READS = new Set(['get', 'list', 'watch']);
/** Kubernetes' own parts may try what they like; people try until they may. */
const KUBENODE = /^(system:serviceaccount:kubenode-system:|system:serviceaccount:[^:]+:kubenode-|system:node:|kubenode:machine:)/;
const PERSON = 'kubenode-tour';
const ADMINISTRATOR = 'kubernetes-admin';
/** What a person applies by hand: docs/install.md. */
const BY_HAND = new Set(['fleets']);

export function judge(events: Iterable<AuditEvent>): Verdict {
  let requests = 0;
  const identities = new Set<string>();
  const refused: string[] = [];
  const byAdministrator: string[] = [];
  for (const { stage, verb, user, impersonatedUser, objectRef = {}, responseStatus } of events) {
    if (stage !== 'ResponseComplete') continue;
    requests += 1;
    const who = impersonatedUser?.username ?? user.username;
    identities.add(who);
    const { resource = '', subresource, namespace, name = '' } = objectRef;
    const what = `${who}: ${verb} ${[resource, subresource].filter(Boolean).join('/')} ${namespace === undefined ? name : `${namespace}/${name}`}`;
    const writes = !READS.has(verb);
    if (responseStatus?.code === 403 && (KUBENODE.test(who) || (who === PERSON && writes)))
      refused.push(`${what}: ${responseStatus.message ?? ''}`);
    if (who === ADMINISTRATOR && writes && objectRef.apiGroup === 'kubenode.io' && !BY_HAND.has(resource)) byAdministrator.push(what);
  }
  return { requests, identities: identities.size, refused, byAdministrator };
}

/** From now on: what comes to these files. */
export function openAudits(paths: readonly string[]): { read(): AuditEvent[] } {
  const from = paths.map((path) => ({ path, offset: statSync(path, { throwIfNoEntry: false })?.size ?? 0 }));
  return {
    read: () =>
      from.flatMap(({ path, offset }) =>
        readFileSync(path)
          .subarray(offset)
          .toString('utf8')
          .split('\n')
          .filter((line) => line !== '')
          // Written by an API server.
          .map((line) => JSON.parse(line) as AuditEvent),
      ),
  };
}
