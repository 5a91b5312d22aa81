/**
 * A real API server with KubeNode's manifests on it, and clients that act as the user that a test names. What the embedded server
 * grants is not the last word, so these tests ask a real one: `npm run test:kubernetes`.
 */
import { manifests } from '../../deploy/main.ts';
import { bootstrapAccountName } from '../../src/api/admission.ts';
import { AGENTS, agentServiceAccountName, agentUser, serviceAccountUser } from '../../src/api/identity.ts';
import { SYSTEM_NAMESPACE } from '../../src/api/names.ts';
import type { Transport } from '../../src/api/transport.ts';
import type { KubeObject } from '../../src/api/wire.ts';
import { ApiError } from '../../src/kube/api-error.ts';
import type { Client } from '../../src/kube/client.ts';
import { systemClock } from '../../src/kube/clock.ts';
import { createClient } from '../../src/kube/http-client.ts';
import { httpTransport } from '../../src/kube/http-transport.ts';
import { loadKubeconfig } from '../../src/kube/kubeconfig.ts';

/** Who a request is made as. */
export interface Who {
  user: string;
  /** One at most: `system:authenticated` comes by itself, and so do those of a ServiceAccount. */
  group?: string;
}

const account = (name: string, namespace = SYSTEM_NAMESPACE): Who => ({ user: serviceAccountUser(namespace, name) });

/** Everyone there is. */
export const WHO = {
  cell: account('kubenode-cell'),
  machine: account('kubenode-machine'),
  identity: account('kubenode-identity'),
  machineSet: account('kubenode-machineset'),
  machineComponentSet: account('kubenode-machinecomponentset'),
  defender: account('kubenode-defender'),
  remedy: account('kubenode-remedy'),
  remedyJob: account('kubenode-remedyjob'),
  sync: account('kubenode-sync'),
  hub: account('kubenode-hub'),
  agent: { user: agentUser('web', 'm1'), group: AGENTS },
  agentAccount: account(agentServiceAccountName('m1'), 'web'),
  bootstrap: account(bootstrapAccountName('m1'), 'web'),
  viewer: { user: 'vera', group: 'viewers' },
  operator: { user: 'olga', group: 'operators' },
  admin: { user: 'ada', group: 'admins' },
  stranger: { user: 'stranger' },
  stolenAccount: account('default', 'web'),
  clusterAdmin: { user: 'root', group: 'system:masters' },
} satisfies Record<string, Who>;
export type Name = keyof typeof WHO;

export interface Rig {
  admin: Client;
  as: (who: Who) => Client;
  /** As kubectl apply --server-side --force-conflicts; answers with the object. */
  apply: (object: KubeObject, client?: Client) => Promise<KubeObject>;
  close: () => Promise<void>;
}

const plurals: Record<string, string> = {
  Namespace: 'namespaces',
  CustomResourceDefinition: 'customresourcedefinitions',
  ValidatingAdmissionPolicy: 'validatingadmissionpolicies',
  ValidatingAdmissionPolicyBinding: 'validatingadmissionpolicybindings',
  PriorityLevelConfiguration: 'prioritylevelconfigurations',
  FlowSchema: 'flowschemas',
  ServiceAccount: 'serviceaccounts',
  ClusterRole: 'clusterroles',
  ClusterRoleBinding: 'clusterrolebindings',
  Role: 'roles',
  RoleBinding: 'rolebindings',
  Service: 'services',
  NetworkPolicy: 'networkpolicies',
  PodDisruptionBudget: 'poddisruptionbudgets',
  Deployment: 'deployments',
};

export function pathOfObject({ apiVersion, kind, metadata }: KubeObject): string {
  const plural = plurals[kind];
  if (plural === undefined) throw new Error(`which resource is a ${kind}?`);
  const scope = metadata.namespace === undefined ? '' : `/namespaces/${metadata.namespace}`;
  return `${apiVersion.includes('/') ? '/apis' : '/api'}/${apiVersion}${scope}/${plural}/${metadata.name}`;
}

export async function openRig(): Promise<Rig> {
  const path = process.env['KUBENODE_TEST_KUBECONFIG'];
  if (path === undefined) throw new Error('npm run test:kubernetes starts the API server that this needs');
  const transport = httpTransport(await loadKubeconfig({ path, env: {}, clock: systemClock() }));
  const admin = createClient(transport, { userAgent: 'leastprivilege' });
  const as = ({ user, group }: Who): Client => {
    const headers = { 'impersonate-user': user, ...(group === undefined ? {} : { 'impersonate-group': group }) };
    const impersonating: Transport = (request) => transport({ ...request, headers: { ...request.headers, ...headers } });
    return createClient(impersonating, { userAgent: 'leastprivilege' });
  };
  return {
    admin,
    as,
    close: () => transport.close(),
    apply: async (object, client = admin) =>
      (await client.request({
        method: 'PATCH',
        path: pathOfObject(object),
        // The name that kubectl apply --server-side goes by, so that the two never conflict.
        query: { fieldManager: 'kubectl', force: 'true' },
        headers: { 'content-type': 'application/apply-patch+yaml' },
        body: JSON.stringify(object),
      })) as KubeObject,
  };
}

export const OPTIONS = { namespace: SYSTEM_NAMESPACE, image: 'kubenode:test', replicas: 2, server: 'https://api.example:6443' };
/** Hub and cell in one cluster, which they may be. */
export const everything = (): KubeObject[] => [
  ...manifests({ ...OPTIONS, role: 'cell' }),
  ...manifests({ role: 'hub', namespace: OPTIONS.namespace, image: OPTIONS.image, replicas: OPTIONS.replicas }),
];

/** Waits for what the server does in its own time. */
export async function until(what: string, isTrue: () => Promise<boolean>, seconds = 30): Promise<void> {
  const deadline = performance.now() + seconds * 1000;
  while (!(await isTrue())) {
    if (performance.now() > deadline) throw new Error(`${what}: not within ${seconds} s`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

const TYPES = { POST: 'application/json', PUT: 'application/json', PATCH: 'application/merge-patch+json', DELETE: 'application/json' };

/** One write, with any answer of the server. */
export function write(
  client: Client,
  method: keyof typeof TYPES,
  path: string,
  body?: object,
  { dryRun = false }: { dryRun?: boolean } = {},
): Promise<unknown> {
  return client.request({
    method,
    path,
    query: dryRun ? { dryRun: 'All' } : {},
    ...(body === undefined ? {} : { headers: { 'content-type': TYPES[method] }, body: JSON.stringify(body) }),
  });
}

/** What came of an attempt, in a few words. */
export type Outcome = 'ok' | 'rbac' | 'policy' | 'invalid' | 'absent' | 'conflict' | 'busy';

export interface Result {
  outcome: Outcome;
  message: string;
}

/** Tries, and returns who refused. Anything else that goes wrong is thrown. */
export async function attempt(work: Promise<unknown>): Promise<Result> {
  try {
    await work;
    return { outcome: 'ok', message: '' };
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    const { message, status } = error;
    if (message.includes('ValidatingAdmissionPolicy')) return { outcome: status === 403 ? 'policy' : 'invalid', message };
    if (status === 403) return { outcome: 'rbac', message };
    if (status === 422) return { outcome: 'invalid', message };
    if (status === 404) return { outcome: 'absent', message };
    // A kind that was made a moment ago.
    if (status === 429 || status === 503) return { outcome: 'busy', message };
    if (status === 409) return { outcome: 'conflict', message };
    throw error;
  }
}
