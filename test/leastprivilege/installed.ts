/** The manifests on the server, in force, for the tests of one file. */
import { agentUser, AGENTS } from '../../src/api/identity.ts';
import { API_VERSION } from '../../src/api/kind.ts';
import type { KubeObject } from '../../src/api/wire.ts';
import { attempt, everything, openRig, OPTIONS, until, WHO, type Rig } from './rig.ts';

const RBAC = 'rbac.authorization.k8s.io/v1';

/** What people bind to their own users and groups. */
const PEOPLE = [
  ['viewers', 'kubenode-view'],
  ['operators', 'kubenode-operator'],
  ['admins', 'kubenode-admin'],
] as const;

function binding(name: string, role: string, group: string): KubeObject {
  return {
    apiVersion: RBAC,
    kind: 'ClusterRoleBinding',
    metadata: { name },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: role },
    subjects: [{ kind: 'Group', apiGroup: 'rbac.authorization.k8s.io', name: group }],
  } as KubeObject;
}

const LOOSE = binding('leastprivilege-loose', 'cluster-admin', 'system:authenticated');

export async function install(): Promise<Rig & { remove: () => Promise<void> }> {
  const rig = await openRig();
  for (const object of everything()) {
    // Without nodes a Deployment only waits.
    if (object.kind === 'Deployment') continue;
    // A kind is served some time after it was made.
    await until(`${object.kind} ${object.metadata.name}`, async () => ['ok'].includes((await attempt(rig.apply(object))).outcome));
  }
  for (const namespace of ['web', 'db']) await rig.apply({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } });
  for (const [group, role] of PEOPLE) await rig.apply(binding(`leastprivilege-${group}`, role, group));
  await inForce(rig);
  return {
    ...rig,
    async remove() {
      for (const object of everything()) {
        if (object.kind !== 'ValidatingAdmissionPolicyBinding') continue;
        await rig.admin.request({
          method: 'DELETE',
          path: `/apis/${object.apiVersion}/validatingadmissionpolicybindings/${object.metadata.name}`,
        });
      }
      await rig.close();
    },
  };
}

/** Everyone may do everything, as far as RBAC goes: what is refused then, the policies refuse. */
export async function loosen({ apply, as, admin }: Rig): Promise<() => Promise<void>> {
  await apply(LOOSE);
  const list = () => as(WHO.stranger).request({ method: 'GET', path: '/api/v1/secrets' });
  await until('rights for everyone', async () => (await attempt(list())).outcome === 'ok');
  return async () => {
    await admin.request({ method: 'DELETE', path: `/apis/${RBAC}/clusterrolebindings/${LOOSE.metadata.name}` });
    await until('no rights for everyone', async () => (await attempt(list())).outcome === 'rbac');
  };
}

/** Policies and aggregated roles are known to the server some time after they were made. One attempt each that nothing else refuses. */
async function inForce(rig: Rig): Promise<void> {
  const { admin, as } = rig;
  const refuses = (what: string, work: () => Promise<unknown>) =>
    until(what, async () => (await attempt(work())).message.includes('ValidatingAdmissionPolicy'));
  const post = (client: typeof admin, path: string, body: object): Promise<unknown> =>
    client.request({
      method: 'POST',
      path,
      query: { dryRun: 'All' },
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
  const spec = { fleet: 'x', commit: 'x', sequence: 1, stages: [], units: [] };
  const path = '/apis/kubenode.io/v1alpha1';
  const lease = { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', metadata: { name: 'foreign' } };
  // The groups of an agent, the rights of the cluster's admin: two groups are one too many for `Who`, so the user has them.
  const loose = await loosen(rig);
  try {
    await refuses('the policy of the hub', () =>
      post(admin, `${path}/rollouts`, { apiVersion: API_VERSION, kind: 'Rollout', metadata: { name: 'x' }, spec }),
    );
    await refuses('the policy of the cell', () =>
      post(admin, `${path}/disruptionledgers`, { apiVersion: API_VERSION, kind: 'DisruptionLedger', metadata: { name: 'x' }, spec: {} }),
    );
    const agent = as({ user: agentUser('web', 'm1'), group: AGENTS });
    await refuses('the policy of agents', () =>
      post(agent, `${path}/freezes`, { apiVersion: API_VERSION, kind: 'Freeze', metadata: { name: 'x' }, spec: {} }),
    );
    await refuses('the policy of what agents create', () => post(agent, '/apis/coordination.k8s.io/v1/namespaces/web/leases', lease));
    await refuses('the policy of grants', () =>
      post(as(WHO.machine), '/api/v1/namespaces/web/serviceaccounts', {
        apiVersion: 'v1',
        kind: 'ServiceAccount',
        metadata: { name: 'foreign' },
      }),
    );
  } finally {
    await loose();
  }
  await until(
    'the roles of people',
    async () => (await attempt(as(WHO.admin).request({ method: 'GET', path: `${path}/fleets` }))).outcome === 'ok',
  );
  await until('the rights of sync', async () =>
    ['ok'].includes((await attempt(as(WHO.sync).request({ method: 'GET', path: `/api/v1/namespaces/${OPTIONS.namespace}` }))).outcome),
  );
}
