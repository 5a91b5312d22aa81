/** The manifests on the server, in force, for the tests of one file. */
import { agentUser, AGENTS } from '../../src/api/identity.ts';
import { API_VERSION } from '../../src/api/kind.ts';
import type { KubeObject } from '../../src/api/wire.ts';
import { attempt, everything, openRig, OPTIONS, until, WHO, write, type Rig, type Who } from './rig.ts';

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
      await policies(rig, false);
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

/** For each policy an attempt that it refuses and nothing else does, where everyone may do everything. */
function refusedBy({ admin, as }: Rig): Record<string, () => Promise<unknown>> {
  const post = (client: typeof admin, path: string, body: object): Promise<unknown> => write(client, 'POST', path, body, { dryRun: true });
  const ours = (kind: string, spec: object): object => ({ apiVersion: API_VERSION, kind, metadata: { name: 'x' }, spec });
  const path = '/apis/kubenode.io/v1alpha1';
  const spec = { fleet: 'x', commit: 'x', sequence: 1, stages: [], units: [] };
  // The groups of an agent, the rights of the cluster's admin: two groups are one too many for `Who`, so the user has them.
  const agent = as({ user: agentUser('web', 'm1'), group: AGENTS });
  return {
    hub: () => post(admin, `${path}/rollouts`, ours('Rollout', spec)),
    cell: () => post(admin, `${path}/disruptionledgers`, ours('DisruptionLedger', {})),
    agents: () => post(agent, `${path}/freezes`, ours('Freeze', {})),
    'what agents create': () =>
      post(agent, '/apis/coordination.k8s.io/v1/namespaces/web/leases', {
        apiVersion: 'coordination.k8s.io/v1',
        kind: 'Lease',
        metadata: { name: 'foreign' },
      }),
    kubelets: () =>
      post(as({ user: 'system:node:m1', group: 'system:nodes' }), '/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases', {
        apiVersion: 'coordination.k8s.io/v1',
        kind: 'Lease',
        metadata: { name: 'm1', finalizers: ['x.example/y'] },
      }),
    grants: () =>
      post(as(WHO.machine), '/api/v1/namespaces/web/serviceaccounts', {
        apiVersion: 'v1',
        kind: 'ServiceAccount',
        metadata: { name: 'foreign' },
      }),
  };
}

/** The server learns of a policy, and that it is gone, some time after it was written: until then other tests would be refused by it. */
async function policies(rig: Rig, inForce: boolean): Promise<void> {
  const loose = await loosen(rig);
  try {
    for (const [whose, work] of Object.entries(refusedBy(rig)))
      await until(
        `the policy of ${whose} is ${inForce ? '' : 'no longer '}in force`,
        async () => (await attempt(work())).message.includes('ValidatingAdmissionPolicy') === inForce,
      );
  } finally {
    await loose();
  }
}

/** Policies and aggregated roles are known to the server some time after they were made. */
async function inForce(rig: Rig): Promise<void> {
  await policies(rig, true);
  const succeeds = (what: string, who: Who, path: string): Promise<void> =>
    until(what, async () => (await attempt(rig.as(who).request({ method: 'GET', path }))).outcome === 'ok');
  await succeeds('the roles of people', WHO.admin, '/apis/kubenode.io/v1alpha1/fleets');
  await succeeds('the rights of sync', WHO.sync, `/api/v1/namespaces/${OPTIONS.namespace}`);
}
