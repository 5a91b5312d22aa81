import { CELL_KINDS, HUB_KINDS } from '../../api/kinds.ts';
import { serviceAccountUser } from '../../api/identity.ts';
import { GROUP } from '../../api/kind.ts';
import { MANAGERS, SYSTEM_NAMESPACE } from '../../api/names.ts';
import type { Clock } from '../../api/ports.ts';
import type { KubeObject } from '../../api/wire.ts';
import type { Client } from '../../kube/client.ts';
import { sleep } from '../../kube/clock.ts';
import { manifests } from '../manifests.ts';

/** What `kubenode install` prints, by plural; the rest of it runs the controllers as pods, and here they run beside this process. */
const PLURALS: Readonly<Record<string, string>> = {
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
};
const OF_PODS = new Set(['Deployment', 'NetworkPolicy', 'PodDisruptionBudget', 'Service']);
/** What the embedded server has not: requests are not queued by who makes them. */
const NOT_EMBEDDED = new Set(['PriorityLevelConfiguration', 'FlowSchema']);

/** Of everything that is granted what takes effect last: roles that are the sum of others, which a controller of Kubernetes adds up. */
const LAST_RIGHTS: Record<Role, { account: string; verb: string; resource: string }[]> = {
  hub: [{ account: 'kubenode-hub', verb: 'create', resource: 'rollouts' }],
  cell: [
    { account: 'kubenode-cell', verb: 'list', resource: 'machines' },
    { account: MANAGERS.sync, verb: 'create', resource: 'machinesets' },
  ],
};
const IN_FORCE_MS = 60_000;

type Role = 'hub' | 'cell';

export interface InstallingOptions {
  role: Role;
  fieldManager: string;
  /** The server is the one of `kubenode serve`. */
  embedded?: boolean;
  clock: Clock;
  signal: AbortSignal;
}

/** Makes a server a hub or a cell, as docs/install.md does, and waits until kinds and rights are in force. Returns what there is now, in words. */
export async function installOn(
  client: Client,
  { role, fieldManager, embedded = false, clock, signal }: InstallingOptions,
): Promise<string> {
  const all = await manifests({ role, namespace: SYSTEM_NAMESPACE, image: 'kubenode', replicas: 1 });
  const objects = all.filter(({ kind }) => !OF_PODS.has(kind) && !(embedded && NOT_EMBEDDED.has(kind)));
  for (const object of objects)
    await client.request({
      method: 'PATCH',
      path: pathOf(object),
      query: { fieldManager, force: 'true', fieldValidation: 'Strict' },
      headers: { 'content-type': 'application/apply-patch+yaml' },
      body: JSON.stringify(object),
      signal,
    });
  const deadline = clock.monotonic() + IN_FORCE_MS;
  const until = async (what: string, isMet: () => Promise<boolean>): Promise<void> => {
    while (!(await isMet())) {
      if (clock.monotonic() > deadline) throw new Error(`${what}: not within ${IN_FORCE_MS / 1000} s`);
      await sleep(clock, 100, signal);
    }
  };
  for (const kind of role === 'hub' ? HUB_KINDS : CELL_KINDS)
    await until(`${kind.plural} are served`, () =>
      client.list(kind, { limit: 1, signal }).then(
        () => true,
        () => false,
      ),
    );
  for (const { account, verb, resource } of LAST_RIGHTS[role])
    await until(`${account} may ${verb} ${resource}`, () => may(client, account, verb, resource, signal));
  const kinds = Map.groupBy(objects, ({ kind }) => kind);
  return [...kinds].map(([kind, { length }]) => `${length} ${length === 1 ? kind : words(kind)}`).join(', ');
}

async function may(client: Client, account: string, verb: string, resource: string, signal: AbortSignal): Promise<boolean> {
  const review = {
    apiVersion: 'authorization.k8s.io/v1',
    kind: 'SubjectAccessReview',
    spec: { user: serviceAccountUser(SYSTEM_NAMESPACE, account), resourceAttributes: { group: GROUP, resource, verb } },
  };
  const answer = await client.post('/apis/authorization.k8s.io/v1/subjectaccessreviews', review, { signal });
  return (answer as { status?: { allowed?: unknown } } | null)?.status?.allowed === true;
}

function pathOf({ apiVersion, kind, metadata }: KubeObject): string {
  const plural = PLURALS[kind];
  if (plural === undefined) throw new Error(`which resource is a ${kind}?`);
  const scope = metadata.namespace === undefined ? '' : `/namespaces/${metadata.namespace}`;
  return `${apiVersion.includes('/') ? '/apis' : '/api'}/${apiVersion}${scope}/${plural}/${metadata.name}`;
}

const words = (kind: string): string => (kind.endsWith('y') ? `${kind.slice(0, -1)}ies` : `${kind}s`);
