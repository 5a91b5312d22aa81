/** What people do every day, with the rights that they are given, and the message that they get where they may not. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { BREAK_GLASS } from '../../deploy/identities.ts';
import { API_VERSION } from '../../src/api/kind.ts';
import { Freezes } from '../../src/api/freeze.ts';
import { Machines, type Machine } from '../../src/api/machine.ts';
import { MachineComponentSets } from '../../src/api/machine-component-set.ts';
import { MachineSets } from '../../src/api/machine-set.ts';
import { FINALIZERS, MANAGERS } from '../../src/api/names.ts';
import type { OwnerReference, Stored } from '../../src/api/wire.ts';
import { operatorRelease } from '../../src/controllers/machine/order/operator-release.ts';
import type { Client } from '../../src/kube/client.ts';
import { applyUnit, removeUnit } from '../../src/sync/apply-unit.ts';
import { install, loosen } from './installed.ts';
import { ENTRY, ORDER, SAMPLES } from './objects.ts';
import { attempt, WHO, write, type Rig } from './rig.ts';

const MACHINES = '/apis/kubenode.io/v1alpha1/namespaces/web/machines';
const SCALE = '/apis/kubenode.io/v1alpha1/namespaces/web/machinesets/web/scale';
const KEY = { namespace: 'web', name: 'h1' };
const STATUS = { operation: { id: 'reservation-1', state: 'Running' as const } };

let rig: Rig & { remove: () => Promise<void> };
let glass: Client;
let tighten: () => Promise<void>;
let olga: Client;
let owner: OwnerReference;

const sample = (plural: string) => {
  const found = SAMPLES.find((each) => each.plural === plural);
  if (found === undefined) throw new Error(plural);
  return structuredClone(found.object);
};

/** Breaks the glass: what several writers made of it together. */
async function make(spec: object, more: { finalizers?: string[]; ownerReferences?: OwnerReference[] } = {}): Promise<Stored<Machine>> {
  await attempt(rig.admin.patch(Machines, KEY, { merge: {} }));
  await attempt(glass.patch(Machines, KEY, { merge: { metadata: { finalizers: null } } }));
  await attempt(glass.delete(Machines, KEY));
  const made = await glass.create(Machines, { apiVersion: API_VERSION, kind: 'Machine', metadata: { ...KEY, ...more }, spec });
  return made;
}
const live = (): Promise<Stored<Machine>> => rig.admin.get(Machines, KEY);

beforeAll(async () => {
  rig = await install();
  olga = rig.as(WHO.operator);
  glass = rig.as({ user: 'root', group: BREAK_GLASS });
  // Only for the person who breaks the glass: the group gives no rights by itself.
  await rig.apply({
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind: 'ClusterRoleBinding',
    metadata: { name: 'leastprivilege-glass' },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'cluster-admin' },
    subjects: [{ kind: 'Group', apiGroup: 'rbac.authorization.k8s.io', name: BREAK_GLASS }],
  } as never);
  const set = sample('machinesets');
  await attempt(glass.delete(MachineSets, { namespace: 'web', name: 'web' }));
  const made = await glass.create(MachineSets, set as never);
  owner = { apiVersion: API_VERSION, kind: 'MachineSet', name: 'web', uid: made.metadata.uid, controller: true, blockOwnerDeletion: true };
  await attempt(glass.delete(MachineComponentSets, { name: 'kubelet' }));
  await glass.create(MachineComponentSets, sample('machinecomponentsets') as never);
}, 120_000);

afterAll(async () => {
  await attempt(glass.patch(Machines, KEY, { merge: { metadata: { finalizers: null } } }));
  await attempt(glass.delete(Machines, KEY));
  await attempt(glass.delete(MachineSets, { namespace: 'web', name: 'web' }));
  await attempt(glass.delete(MachineComponentSets, { name: 'kubelet' }));
  await rig.admin.request({ method: 'DELETE', path: '/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/leastprivilege-glass' });
  await rig.remove();
}, 60_000);

const tries = async (client: Client, merge: object, dryRun = true) => await attempt(client.patch(Machines, KEY, { merge }, { dryRun }));

describe('G5: an operator', () => {
  test('puts on hold, pauses, freezes, scales, retries', async () => {
    await make({ provider: { name: 'local' } }, { ownerReferences: [owner] });
    const done = [
      await tries(olga, { spec: { hold: true } }, false),
      await tries(olga, { spec: { paused: true } }, false),
      await tries(olga, { spec: { hold: null, paused: null } }, false),
      await tries(olga, { metadata: { annotations: { 'kubenode.io/delete-machine': 'true' } } }),
      await attempt(write(olga, 'PATCH', SCALE, { spec: { replicas: 0 } }, { dryRun: true })),
      await attempt(
        olga.patch(MachineSets, { namespace: 'web', name: 'web' }, { merge: { spec: { replicas: 5, paused: true } } }, { dryRun: true }),
      ),
      await attempt(olga.patch(MachineComponentSets, { name: 'kubelet' }, { merge: { spec: { rolloutID: 'again' } } }, { dryRun: true })),
      await attempt(olga.create(Freezes, { apiVersion: API_VERSION, kind: 'Freeze', metadata: { name: 'now' }, spec: {} })),
      await attempt(olga.delete(Freezes, { name: 'now' })),
      await attempt(olga.delete(Machines, KEY, { dryRun: true })),
    ];
    expect(done.map(({ outcome, message }) => `${outcome} ${message}`)).toEqual(done.map(() => 'ok '));
  });

  test('gets a message with who writes what he may not, and what he may', async () => {
    await make({ provider: { name: 'local' }, labels: { a: 'b' } }, { ownerReferences: [owner] });
    const messageOf = async (merge: object): Promise<string> =>
      (await tries(olga, merge)).message.split('denied request: ')[1] ?? 'no message';
    expect(await messageOf({ spec: { labels: { a: 'c' } } })).toMatch(
      /^spec.labels is written by the MachineSet controller, from the template of its set; olga may change only (hold, paused|paused, hold)$/,
    );
    expect(await messageOf({ spec: { components: [ENTRY] } })).toContain(
      'spec.components is written by the MachineComponentSet controller; olga may change only',
    );
    // Its set would make another one.
    expect(await messageOf({ spec: { deletionPolicy: 'Delete' } })).toContain(
      'spec.deletionPolicy is written by nobody; olga may change only',
    );
    expect(await messageOf({ metadata: { labels: { a: 'b' } } })).toBe(
      'metadata.labels of machines are written by the MachineSet controller, from the template of its set',
    );
    const set = await attempt(olga.patch(MachineComponentSets, { name: 'kubelet' }, { merge: { spec: { version: '9.9.9' } } }));
    expect(set.message).toContain('spec.version is written by the hub, from Git: change it in fleet/ or rules/; olga may change only');
  });

  test("G7b: writes by a name of his own, not by the name of one of KubeNode's writers", async () => {
    await make({});
    const by = (fieldManager: string) =>
      attempt(olga.patch(Machines, KEY, { merge: { spec: { hold: true } } }, { fieldManager, dryRun: true }));
    for (const name of Object.values(MANAGERS))
      expect([name, await by(name)]).toEqual([name, { outcome: 'policy', message: expect.stringContaining('field manager') }]);
    for (const name of ['kubectl', 'kubenode-cli']) expect([name, (await by(name)).outcome]).toEqual([name, 'ok']);
  });

  test("G7b: changes no record of KubeNode's writers in metadata.managedFields, but for what his own changes take from them", async () => {
    const spec = { provider: { name: 'local' }, labels: { a: '1', b: '1' }, drainTimeoutSeconds: 60 };
    await make(spec);
    const object = { apiVersion: API_VERSION, kind: 'Machine', metadata: KEY, spec };
    await glass.apply(Machines, object, { fieldManager: MANAGERS.machineSet, force: true });
    await glass.patch(Machines, KEY, { merge: { spec: { failureDomain: 'a' } } }, { fieldManager: MANAGERS.machine });
    type Records = NonNullable<Stored<Machine>['metadata']['managedFields']>;
    const put = async (change: (records: Records) => Records, more: object = {}) => {
      const { metadata, ...rest } = await live();
      const managedFields = change(structuredClone(metadata.managedFields ?? []));
      const changed = { ...rest, metadata: { ...metadata, managedFields }, spec: { ...rest.spec, ...more } };
      const { outcome, message } = await attempt(olga.update(Machines, changed, { dryRun: true }));
      return outcome === 'policy' ? `policy ${message.includes('managedFields')}` : `${outcome} ${message}`;
    };
    const isSets = ({ manager }: Records[number]): boolean => manager === MANAGERS.machineSet;
    const given = (field: string) => (records: Records) =>
      records.map((each) =>
        isSets(each) ? { ...each, fieldsV1: { 'f:spec': { ...(each.fieldsV1?.['f:spec'] as object), [field]: {} } } } : each,
      );
    expect((await live()).metadata.managedFields?.some(isSets)).toBe(true);
    expect((await tries(olga, { spec: { hold: true } }, false)).outcome).toBe('ok');
    const refused = {
      'a field of hers': await put(given('f:hold')),
      'the same beside a change': await put(given('f:hold'), { paused: true }),
      'a record more': await put((records) => [
        ...records,
        {
          manager: MANAGERS.remedy,
          operation: 'Apply',
          apiVersion: API_VERSION,
          fieldsType: 'FieldsV1',
          fieldsV1: { 'f:spec': { 'f:hold': {} } },
        } as never,
      ]),
      'a record less': await put((records) => records.filter((each) => !isSets(each))),
      'none at all': await put(() => [{}] as never),
    };
    expect(refused).toEqual(Object.fromEntries(Object.keys(refused).map((each) => [each, 'policy true'])));
    const free = {
      'the very same object': await put((records) => records),
      'a field of hers': await put((records) => records, { hold: false, paused: true }),
      'a field that a controller has set': await put((records) => records, { drainTimeoutSeconds: 90 }),
      'one of several in a map': await put((records) => records, { labels: { a: '2', b: '1' } }),
      'all of a map': await put((records) => records, { labels: undefined }),
      'what a controller wrote last': (await tries(olga, { spec: { drainTimeoutSeconds: null, labels: null, hold: null } })).outcome,
    };
    expect(free).toEqual(Object.fromEntries(Object.keys(free).map((each) => [each, expect.stringMatching(/^ok ?$/) as string])));
    const prepared = { ...object, metadata: { namespace: 'web', name: 'h2', managedFields: (await live()).metadata.managedFields } };
    expect((await attempt(olga.create(Machines, prepared as never, { dryRun: true }))).message).toContain('managedFields');
  });

  test('has no rights in Secrets, RBAC, CRDs or policies, nor to the status of anything', async () => {
    for (const path of [
      '/api/v1/secrets',
      '/api/v1/namespaces/kubenode-system/secrets/cluster-prod',
      '/apis/rbac.authorization.k8s.io/v1/clusterroles',
      '/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies',
    ])
      for (const who of [WHO.viewer, WHO.operator, WHO.admin])
        expect([path, (await attempt(rig.as(who).request({ method: 'GET', path }))).outcome]).toEqual([path, 'rbac']);
    for (const plural of ['machines', 'machinesets'])
      expect(
        (
          await attempt(
            olga.request({
              method: 'PATCH',
              path: `/apis/kubenode.io/v1alpha1/namespaces/web/${plural}/h1/status`,
              headers: { 'content-type': 'application/merge-patch+json' },
              body: '{}',
            }),
          )
        ).outcome,
      ).toBe('rbac');
  });

  test('does nothing as a viewer', async () => {
    const vera = rig.as(WHO.viewer);
    await make({});
    expect((await attempt(vera.get(Machines, KEY))).outcome).toBe('ok');
    expect((await tries(vera, { spec: { hold: true } })).outcome).toBe('rbac');
    expect((await attempt(vera.delete(Machines, KEY))).outcome).toBe('rbac');
    expect((await attempt(write(vera, 'PATCH', SCALE, { spec: { replicas: 0 } }))).outcome).toBe('rbac');
  });
});

test('E3: the hub takes out of a set what others own there, with the rights that it has', async () => {
  const key = { name: 'extra' };
  const object = {
    apiVersion: API_VERSION,
    kind: 'MachineComponentSet',
    metadata: key,
    spec: { componentName: 'extra', version: '1.0.0' },
  };
  const target = { client: rig.as(WHO.sync), resourceOf: () => Promise.resolve(MachineComponentSets) };
  const unit = { key: 'MachineComponentSet/extra', objects: [object], origins: [undefined] };
  const stamp = { digest: 'v1:extra', fleet: 'main', lane: 'Forward' } as const;
  const apply = () => applyUnit(target, unit, stamp, () => Promise.resolve({}), new AbortController().signal);
  const { inventory } = await apply();
  const spec = { maxFailed: 50, selector: { a: 'b' } };
  await glass.apply(MachineComponentSets, { ...object, spec: { ...object.spec, ...spec } } as never, { fieldManager: 'argo' });
  expect((await apply()).corrections.join()).toContain('spec.maxFailed from 50 to 1, set by argo');
  const found = (await rig.admin.get(MachineComponentSets, key)).spec;
  expect(found).toMatchObject({ maxFailed: 1 });
  expect(found).not.toHaveProperty('selector');
  await removeUnit(target, inventory, 'main', () => Promise.resolve(), new AbortController().signal);
});

describe('a machine that a person makes', () => {
  const made = (spec: object, metadata: object = {}) =>
    attempt(
      write(
        olga,
        'POST',
        MACHINES,
        { apiVersion: API_VERSION, kind: 'Machine', metadata: { name: 'h2', ...metadata }, spec },
        { dryRun: true },
      ),
    );

  test('is described and kept by him, but for its orders and components', async () => {
    expect((await made({ labels: { a: 'b' }, taints: [], provider: { name: 'ssh' }, hold: true }, { labels: { a: 'b' } })).outcome).toBe(
      'ok',
    );
    expect((await made({ operation: ORDER })).outcome).toBe('policy');
    expect((await made({ components: [ENTRY] })).outcome).toBe('policy');
    expect((await made({ failureDomain: 'h' })).outcome).toBe('policy');
    expect((await made({}, { finalizers: [FINALIZERS.machine] })).outcome).toBe('policy');
    await make({ provider: { name: 'ssh' }, labels: { a: 'b' } });
    expect(
      (await tries(olga, { spec: { labels: { a: 'c' }, drainTimeoutSeconds: 5 }, metadata: { labels: { canary: 'yes' } } })).outcome,
    ).toBe('ok');
    expect((await tries(olga, { spec: { deletionPolicy: 'Orphan' } })).outcome).toBe('ok');
    expect((await tries(olga, { spec: { provider: { name: 'other' } } })).outcome).toBe('policy');
    expect((await tries(olga, { spec: { failureDomain: 'h' } })).outcome).toBe('policy');
    expect((await tries(olga, { spec: { components: [ENTRY] } })).outcome).toBe('policy');
  });

  test('gets no label by which other tenants choose Nodes, or Defender counts it', async () => {
    const kept = [
      'node-restriction.kubernetes.io/tenant',
      'x.node-restriction.kubernetes.io/tenant',
      'node-role.kubernetes.io/control-plane',
      'kubernetes.io/hostname',
      'kubenode.io/pool',
      'topology.kubenode.io/rack',
      'topology.kubernetes.io/zone',
      'topology.kubernetes.io/region',
    ];
    for (const label of kept) expect([label, (await made({ labels: { [label]: 'x' } })).outcome]).toEqual([label, 'policy']);
    expect((await made({ labels: { 'example.com/topology.kubernetes.io': 'a', 'example.com/kubernetes.io': 'b' } })).outcome).toBe('ok');
    await make({ labels: { a: 'b' } });
    for (const label of kept)
      expect([label, (await tries(olga, { spec: { labels: { [label]: 'x' } } })).outcome]).toEqual([label, 'policy']);
    await make({ labels: { a: 'b', 'node-restriction.kubernetes.io/tenant': 'x' } });
    expect((await tries(olga, { spec: { labels: { 'node-restriction.kubernetes.io/tenant': 'y' } } })).message).toContain(
      'spec.labels: node-restriction.kubernetes.io/tenant of a Node decides what runs there, for whom and where it is; people do not set it',
    );
    expect((await tries(olga, { spec: { labels: { 'node-restriction.kubernetes.io/tenant': null } } })).outcome).toBe('policy');
    expect((await tries(olga, { spec: { labels: { a: 'c' } } })).outcome).toBe('ok');
    // The labels of the Machine itself count before those of its Node.
    const counted = ['topology.kubernetes.io/zone', 'topology.kubenode.io/rack', 'kubenode.io/machine-set'];
    for (const label of counted) {
      expect([label, (await made({}, { labels: { [label]: 'x' } })).outcome]).toEqual([label, 'policy']);
      expect([label, (await tries(olga, { metadata: { labels: { [label]: 'x' } } })).outcome]).toEqual([label, 'policy']);
    }
    expect((await tries(olga, { metadata: { labels: { 'topology.kubernetes.io/zone': 'x' } } })).message).toContain(
      'metadata.labels: topology.kubernetes.io/zone of a Machine decides where it is counted; people do not set it',
    );
  });

  test('is not smuggled into a set, nor one of a set out of it', async () => {
    expect((await made({}, { ownerReferences: [owner] })).outcome).toBe('policy');
    await make({});
    expect((await tries(olga, { metadata: { ownerReferences: [owner] } })).outcome).toBe('policy');
    await make({}, { ownerReferences: [owner] });
    for (const ownerReferences of [null, [], [{ ...owner, controller: false }]]) {
      expect((await tries(olga, { metadata: { ownerReferences } })).outcome).toBe('policy');
      expect((await tries(olga, { metadata: { ownerReferences }, spec: { labels: { a: 'b' } } })).outcome).toBe('policy');
    }
  });
});

test('only the machine controller takes the finalizer of a Machine, so that a deletion is safe', async () => {
  await make({}, { finalizers: [FINALIZERS.machine] });
  for (const finalizers of [null, [], ['another/one']])
    for (const who of [WHO.operator, WHO.clusterAdmin, WHO.machineSet, WHO.machineComponentSet])
      expect((await tries(rig.as(who), { metadata: { finalizers } })).outcome).toBe('policy');
  expect((await tries(rig.as(WHO.machine), { metadata: { finalizers: [] } })).outcome).toBe('ok');
});

test('C8a: a person takes back the mark of a machine that is to go, and marks none', async () => {
  await make({ provider: { name: 'local' }, retire: { epoch: 7 } }, { ownerReferences: [owner] });
  expect((await tries(olga, { spec: { retire: null } })).outcome).toBe('ok');
  expect((await tries(olga, { spec: { retire: { epoch: 8 } } })).outcome).toBe('policy');
  expect((await tries(rig.as(WHO.machine), { spec: { retire: null } })).outcome).toBe('policy');
  await make({ provider: { name: 'local' } }, { ownerReferences: [owner] });
  expect((await tries(olga, { spec: { retire: { epoch: 7 } } })).outcome).toBe('policy');
});

describe("an operator's release (D5)", () => {
  beforeEach(async () => {
    await make({ provider: { name: 'local' }, operation: ORDER }, { ownerReferences: [owner] });
  });

  test('is the one change of an order that a person makes', async () => {
    const machine = { ...(await live()), status: STATUS };
    const released = operatorRelease(machine, 'OperatorRelease: rack 12 burned down');
    expect(await attempt(olga.update(Machines, released))).toEqual({ outcome: 'ok', message: '' });
    expect((await live()).spec.operation).toEqual({
      ...ORDER,
      kind: 'Cancelled',
      cause: 'Released',
      reason: 'OperatorRelease: rack 12 burned down',
    });
    // Once is enough, and it is not taken back.
    expect((await tries(olga, { spec: { operation: { kind: 'Change' } } })).outcome).toBe('policy');
    expect((await tries(olga, { spec: { operation: { reason: 'another' } } })).outcome).toBe('policy');
  });

  test('is no way to anything else', async () => {
    const release = { ...ORDER, kind: 'Cancelled', reason: 'a' };
    expect((await tries(olga, { spec: { operation: release } })).outcome).toBe('ok');
    for (const change of [
      { id: 'reservation-2' },
      { epoch: 8 },
      { kind: 'Repair' },
      { kind: 'Delete' },
      { notAfter: '2027-01-01T00:00:00Z' },
      { reason: null },
      { reason: '' },
      { cause: 'DrainTimeout' },
      { components: [{ name: 'kubelet', revision: 4 }] },
      { components: [] },
      { components: null },
      { action: 'Reboot' },
      { args: { a: 'b' } },
    ])
      expect([change, (await tries(olga, { spec: { operation: { ...release, ...change } } })).outcome]).toEqual([change, 'policy']);
    expect((await tries(olga, { spec: { operation: release, provider: { name: 'other' } } })).outcome).toBe('policy');
    expect((await tries(olga, { spec: { operation: null } })).outcome).not.toBe('ok');
    for (const name of ['machineSet', 'machineComponentSet', 'sync', 'remedy', 'remedyJob', 'hub'] as const)
      expect([name, (await tries(rig.as(WHO[name]), { spec: { operation: release } })).outcome]).not.toEqual([name, 'ok']);
  });

  test('frees no machine that is being deleted', async () => {
    await make({ operation: { ...ORDER, kind: 'Delete' } });
    const release = { ...ORDER, kind: 'Cancelled', reason: 'a' };
    expect((await tries(olga, { spec: { operation: release } })).outcome).toBe('policy');
  });
});

describe('an administrator of the cluster', () => {
  test('is limited by the same table, and not in the group that breaks the glass', async () => {
    await make({ provider: { name: 'local' } }, { ownerReferences: [owner] });
    const root = rig.as(WHO.clusterAdmin);
    expect((await tries(root, { spec: { provider: { name: 'other' } } })).outcome).toBe('policy');
    expect((await tries(root, { spec: { operation: ORDER } })).outcome).toBe('policy');
    expect((await tries(glass, { spec: { provider: { name: 'other' } } })).outcome).toBe('ok');
  });

  test('the controllers of Kubernetes carry out deletions: of a namespace, and of what an owner leaves', async () => {
    await make({}, { finalizers: [FINALIZERS.machine], ownerReferences: [owner] });
    tighten = await loosen(rig);
    try {
      const collector = rig.as({ user: 'system:serviceaccount:kube-system:generic-garbage-collector' });
      const namespaces = rig.as({ user: 'system:serviceaccount:kube-system:namespace-controller' });
      expect((await tries(collector, { metadata: { ownerReferences: null } })).outcome).toBe('ok');
      expect((await attempt(collector.delete(Machines, KEY, { dryRun: true }))).outcome).toBe('ok');
      expect((await attempt(namespaces.delete(MachineSets, { namespace: 'web', name: 'web' }, { dryRun: true }))).outcome).toBe('ok');
      const other = rig.as({ user: 'system:serviceaccount:kube-system:something-else' });
      expect((await attempt(other.delete(MachineSets, { namespace: 'web', name: 'web' }, { dryRun: true }))).outcome).toBe('policy');
    } finally {
      await tighten();
    }
  });
});

describe('the rules that bind everybody, also who breaks the glass', () => {
  test('an order is replaced and never removed, by no way of writing nothing', async () => {
    await make({ operation: ORDER });
    for (const spec of [{ operation: null }, { operation: { epoch: 6 } }, null])
      expect([spec, (await tries(glass, { spec })).outcome]).toEqual([spec, 'invalid']);
    const put = await attempt(glass.update(Machines, { ...(await live()), spec: {} }, { dryRun: true }));
    expect(put.outcome).toBe('invalid');
  });

  test('the epoch of the ledger does not fall, also where its status is emptied, by PATCH or by PUT', async () => {
    const path = '/apis/kubenode.io/v1alpha1/disruptionledgers';
    const send = (method: 'POST' | 'PATCH' | 'PUT', at: string, body: object, client = glass) => attempt(write(client, method, at, body));
    await attempt(glass.request({ method: 'DELETE', path: `${path}/cell` }));
    const ledger = { apiVersion: API_VERSION, kind: 'DisruptionLedger', metadata: { name: 'cell' }, spec: {} };
    expect((await send('POST', path, ledger, rig.as(WHO.machine))).outcome).toBe('ok');
    const made = (await rig.admin.request({ method: 'GET', path: `${path}/cell` })) as object;
    expect(
      (await send('PUT', `${path}/cell/status`, { ...made, status: { epoch: 5, reservations: [] } }, rig.as(WHO.machine))).outcome,
    ).toBe('ok');
    const now = (await rig.admin.request({ method: 'GET', path: `${path}/cell` })) as object;
    for (const status of [null, {}, { epoch: null }, { epoch: 4 }]) {
      // In a merge patch `{}` changes nothing, which may be done.
      const expected = status !== null && Object.keys(status).length === 0 ? 'ok' : 'invalid';
      expect([status, (await send('PATCH', `${path}/cell/status`, { status })).outcome]).toEqual([status, expected]);
    }
    for (const status of [undefined, null, {}, { reservations: [] }, { epoch: 4 }])
      expect([status, (await send('PUT', `${path}/cell/status`, { ...now, status })).outcome]).toEqual([status, 'invalid']);
    // Not by another who may write the object but not its status, and not by making it again.
    for (const who of [WHO.operator, WHO.admin, WHO.sync, WHO.machineSet, WHO.machineComponentSet, WHO.remedy, WHO.agent]) {
      expect((await send('PATCH', `${path}/cell/status`, { status: { epoch: 9 } }, rig.as(who))).outcome).toBe('rbac');
      expect((await attempt(rig.as(who).request({ method: 'DELETE', path: `${path}/cell` }))).outcome).toBe('rbac');
    }
    expect((await attempt(rig.admin.request({ method: 'DELETE', path: `${path}/cell` }))).outcome).toBe('policy');
    await glass.request({ method: 'DELETE', path: `${path}/cell` });
  });
});

describe('what the machine controller gives agents', () => {
  const account = (name: string) => ({ apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name } });
  const post = (path: string, body: object, client = rig.as(WHO.machine)) =>
    attempt(
      client.request({
        method: 'POST',
        path,
        query: { dryRun: 'All' },
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(body),
      }),
    );

  test('are accounts, tokens and roles of agents, and no others', async () => {
    const accounts = '/api/v1/namespaces/web/serviceaccounts';
    expect((await post(accounts, account('kubenode-agent-h1'))).outcome).toBe('ok');
    for (const name of ['default', 'kubenode-cell', 'kubenode-agen'])
      expect([name, (await post(accounts, account(name))).outcome]).toEqual([name, 'policy']);
    for (const [namespace, name] of [
      ['web', 'default'],
      ['kubenode-system', 'kubenode-sync'],
      ['kubenode-system', 'kubenode-hub'],
      ['kube-system', 'default'],
    ] as const) {
      await rig.apply({ apiVersion: 'v1', kind: 'ServiceAccount', metadata: { namespace, name } });
      const token = { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec: { expirationSeconds: 600 } };
      expect([name, (await post(`/api/v1/namespaces/${namespace}/serviceaccounts/${name}/token`, token)).outcome]).toEqual([
        name,
        'policy',
      ]);
    }
    const rbac = '/apis/rbac.authorization.k8s.io/v1';
    const role = { apiVersion: 'rbac.authorization.k8s.io/v1', kind: 'Role', metadata: { name: 'mine' }, rules: [] };
    expect((await post(`${rbac}/namespaces/web/roles`, role)).outcome).toBe('policy');
    const wide = { ...role, metadata: { name: 'kubenode-agent-h1' }, rules: [{ apiGroups: [''], resources: ['secrets'], verbs: ['get'] }] };
    // More than it has itself it cannot give.
    expect((await post(`${rbac}/namespaces/web/roles`, wide)).outcome).toBe('rbac');
    const binding = {
      apiVersion: 'rbac.authorization.k8s.io/v1',
      kind: 'RoleBinding',
      metadata: { name: 'kubenode-agent-h1' },
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'kubenode-machine' },
      subjects: [{ kind: 'User', apiGroup: 'rbac.authorization.k8s.io', name: 'olga' }],
    };
    expect((await post(`${rbac}/namespaces/web/rolebindings`, binding)).outcome).toBe('policy');
    const cluster = { ...binding, kind: 'ClusterRoleBinding', metadata: { name: 'kubenode-agent-pool-web' } };
    expect((await post(`${rbac}/clusterrolebindings`, cluster)).outcome).toBe('policy');
  });

  test('of a Node it changes what it must and no more', async () => {
    await attempt(rig.admin.request({ method: 'DELETE', path: '/api/v1/nodes/h1' }));
    await rig.admin.request({
      method: 'POST',
      path: '/api/v1/nodes',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ apiVersion: 'v1', kind: 'Node', metadata: { name: 'h1' } }),
    });
    const patch = (change: { metadata?: object; spec?: object }) =>
      attempt(
        rig.as(WHO.machine).request({
          method: 'PATCH',
          path: '/api/v1/nodes/h1',
          query: { dryRun: 'All' },
          headers: { 'content-type': 'application/merge-patch+json' },
          body: JSON.stringify(change),
        }),
      );
    const taints = [{ key: 'a', effect: 'NoSchedule' }];
    expect(
      (await patch({ spec: { unschedulable: true, taints }, metadata: { labels: { a: 'b' }, annotations: { c: 'd' } } })).outcome,
    ).toBe('ok');
    for (const change of [
      { spec: { providerID: 'other://x' } },
      { spec: { podCIDR: '10.1.0.0/24', podCIDRs: ['10.1.0.0/24'] } },
      { metadata: { finalizers: ['a/b'] } },
    ])
      expect([change, (await patch(change)).outcome]).toEqual([change, 'policy']);
    await rig.admin.request({ method: 'DELETE', path: '/api/v1/nodes/h1' });
  });
});
