import { describe, expect, test } from 'vitest';
import { ANNOTATIONS } from '../api/names.ts';
import type { Node } from '../api/builtin.ts';
import type { Machine } from '../api/machine.ts';
import type { Json, Stored } from '../api/wire.ts';
import { jsonPatch } from '@kubenode/embedded/testing';
import type { JsonPatchOperation } from '../kube/client.ts';
import { isMet, machinePatch, nodePatch } from './guarded-patch.ts';

const LIVE = { known: false };
const metadata = { name: 'a', uid: 'u', resourceVersion: '7', creationTimestamp: '2026-11-19T12:00:00Z' };
const manager = (name: string, fieldsV1: object) =>
  ({ manager: name, operation: 'Update', apiVersion: 'v1', fieldsType: 'FieldsV1', fieldsV1 }) as never;
const OURS = manager('kubenode-machine', { 'f:spec': { 'f:unschedulable': {} } });

const node = (change: (copy: Stored<Node>) => void = () => undefined): Stored<Node> => {
  const copy: Stored<Node> = {
    apiVersion: 'v1',
    kind: 'Node',
    metadata: {
      ...metadata,
      labels: { zone: 'h' },
      annotations: { [ANNOTATIONS.cordonOwner]: 'r1', [ANNOTATIONS.nodeWrite]: '5' },
      managedFields: [manager('kubelet', {}), OURS],
    },
    spec: { unschedulable: true, taints: [{ key: 'k', effect: 'NoSchedule' }] },
    status: {},
  };
  change(copy);
  return copy;
};
const machine = (change: (copy: Stored<Machine>) => void = () => undefined): Stored<Machine> => {
  const copy: Stored<Machine> = {
    apiVersion: 'kubenode.io/v1',
    kind: 'Machine',
    metadata: { ...metadata, generation: 3 },
    spec: {},
    status: { agent: { version: '1', apiLevel: 1, bootID: 'b', os: 'linux', arch: 'amd64' } },
  };
  change(copy);
  return copy;
};
const lifted = node(({ metadata: { annotations }, spec }) => {
  delete annotations?.[ANNOTATIONS.cordonOwner];
  delete spec?.unschedulable;
});

/** As the API server applies it; undefined: it refuses it. */
function applied(patch: JsonPatchOperation[], live: object): Stored<Node & Machine> | undefined {
  try {
    const result = jsonPatch(live as Json, patch as object as Json) as object as Stored<Node & Machine>;
    expect(isMet(patch, live as Stored<Node>)).toBe(true);
    return result;
  } catch {
    expect(isMet(patch, live as Stored<Node>)).toBe(false);
    return undefined;
  }
}

describe('C4a: a write of a Node', () => {
  test('takes effect after any write of the node meanwhile, and keeps that write', () => {
    const live = node((copy) => {
      copy.metadata.resourceVersion = '99';
      copy.metadata.annotations = { ...copy.metadata.annotations, 'example.com/x': 'y' };
      copy.metadata.labels = { ...copy.metadata.labels, other: 'z' };
      copy.status = { conditions: [{ type: 'Ready', status: 'True' }] };
    });
    const after = applied(nodePatch(node(), lifted, LIVE), live);
    expect([after?.spec?.unschedulable, after?.metadata.annotations]).toEqual([
      undefined,
      { [ANNOTATIONS.nodeWrite]: '7', 'example.com/x': 'y' },
    ]);
    expect([after?.metadata.labels, after?.status]).toEqual([live.metadata.labels, live.status]);
  });

  test.each<[string, (copy: Stored<Node>) => void]>([
    ['another Node', ({ metadata: meta }) => void (meta.uid = 'v')],
    ['another owner', ({ metadata: meta }) => void (meta.annotations = { ...meta.annotations, [ANNOTATIONS.cordonOwner]: 'r2' })],
    ['no owner', ({ metadata: meta }) => void (meta.annotations = { [ANNOTATIONS.nodeWrite]: '5' })],
    ['a fence', ({ metadata: meta }) => void (meta.annotations = { ...meta.annotations, [ANNOTATIONS.cordonFence]: 'r1' })],
    ['a kept cordon', ({ metadata: meta }) => void (meta.annotations = { ...meta.annotations, [ANNOTATIONS.cordonKept]: 'true' })],
    ['what was Degraded', ({ metadata: meta }) => void (meta.annotations = { ...meta.annotations, [ANNOTATIONS.cordonDegraded]: 'true' })],
    ['another write of ours', ({ metadata: meta }) => void (meta.annotations = { ...meta.annotations, [ANNOTATIONS.nodeWrite]: '6' })],
    ['no annotations', ({ metadata: meta }) => void delete meta.annotations],
    ["a human's uncordon", ({ spec }) => void delete spec?.unschedulable],
    [
      "a human's own cordon after ours",
      ({ metadata: meta }) =>
        void (meta.managedFields = [
          manager('kubectl', { 'f:spec': { 'f:unschedulable': {} } }),
          manager('kubenode-machine', { 'f:spec': {} }),
        ]),
    ],
  ])('loses against %s', (_, change) => {
    expect(applied(nodePatch(node(), lifted, LIVE), node(change))).toBeUndefined();
  });

  test('of a store, which may be old, takes effect on the newest alone', () => {
    const patch = nodePatch(node(), lifted, { known: true });
    expect(
      applied(
        patch,
        node(({ metadata: meta }) => void (meta.managedFields = [OURS])),
      ),
    ).toBeDefined();
    expect(
      applied(
        patch,
        node(({ metadata: meta }) => void (meta.resourceVersion = '8')),
      ),
    ).toBeUndefined();
  });

  test('changes labels and taints as they were read, and no others', () => {
    const wanted = node((copy) => {
      copy.metadata.labels = { zone: 'i', gpu: 'yes' };
      copy.spec = { ...copy.spec, taints: [] };
    });
    const patch = nodePatch(node(), wanted, LIVE);
    const after = applied(
      patch,
      node(({ metadata: meta }) => void (meta.labels = { ...meta.labels, other: 'z' })),
    );
    expect([after?.metadata.labels, after?.spec?.taints]).toEqual([{ zone: 'i', gpu: 'yes', other: 'z' }, undefined]);
    expect(
      applied(
        patch,
        node(({ metadata: meta }) => void (meta.labels = { zone: 'j' })),
      ),
    ).toBeUndefined();
    expect(
      applied(
        patch,
        node(({ metadata: meta }) => void (meta.labels = { zone: 'h', gpu: 'no' })),
      ),
    ).toBeUndefined();
    expect(
      applied(
        patch,
        node(({ spec }) => void spec?.taints?.push({ key: 'l', effect: 'NoSchedule' })),
      ),
    ).toBeUndefined();
  });

  test('finds a Node that has neither annotations nor labels nor a spec, and loses where it gets one', () => {
    const bare = { apiVersion: 'v1', kind: 'Node', metadata } as Stored<Node>;
    const wanted = { ...bare, metadata: { ...metadata, labels: { 'a/b~c': 'd' } }, spec: { unschedulable: true } };
    const patch = nodePatch(bare, wanted, LIVE);
    expect(applied(patch, bare)).toEqual({
      ...wanted,
      metadata: { ...wanted.metadata, annotations: { [ANNOTATIONS.nodeWrite]: '7' } },
    });
    expect(applied(patch, { ...bare, spec: { unschedulable: true } })).toBeUndefined();
  });
});

describe('C4a: a write of a Machine', () => {
  const operation = { id: 'r1', epoch: 3, kind: 'Change' as const, notAfter: '2026-11-20T12:00:00Z' };
  const order = () =>
    machinePatch(
      machine(),
      machine(({ spec }) => void (spec.operation = operation)),
      LIVE,
    );

  test('takes effect after any write of its agent meanwhile, and keeps that write', () => {
    const live = machine((copy) => {
      copy.metadata.resourceVersion = '99';
      copy.status = { operation: { id: 'r0', state: 'Done', outcome: 'Succeeded' } };
    });
    const after = applied(order(), live);
    expect([after?.spec.operation, after?.status]).toEqual([operation, live.status]);
  });

  test.each<[string, (copy: Stored<Machine>) => void]>([
    ['another Machine', ({ metadata: meta }) => void (meta.uid = 'v')],
    ['another spec', ({ metadata: meta }) => void (meta.generation = 4)],
    ['a deletion', ({ metadata: meta }) => void (meta.deletionTimestamp = '2026-11-20T12:00:00Z')],
    ['a fence', ({ metadata: meta }) => void (meta.annotations = { [ANNOTATIONS.orderFence]: 'r1' })],
  ])('loses against %s', (_, change) => {
    expect(applied(order(), machine(change))).toBeUndefined();
  });

  test('of its status is conditioned on the part that it changes', () => {
    const repair = { id: 'r1', state: 'Running' as const, bootID: 'b' };
    const wanted = machine((copy) => void (copy.status = { ...copy.status, repair }));
    const patch = machinePatch(machine(), wanted, LIVE, true);
    const moved = machine((copy) => void (copy.status = { providerID: 'p' }));
    expect(applied(patch, moved)?.status).toEqual({ providerID: 'p', repair });
    expect(
      applied(
        patch,
        machine((copy) => void (copy.status = { repair: { ...repair, id: 'r0' } })),
      ),
    ).toBeUndefined();
    expect(
      applied(
        patch,
        machine(({ metadata: meta }) => void (meta.generation = 4)),
      ),
    ).toBeUndefined();
  });

  test('of its conditions leaves the conditions of others as they are meanwhile, and is conditioned on its own', () => {
    const condition = (type: string, status: 'True' | 'False') => ({ type, status, reason: 'r', message: '', lastTransitionTime: '' });
    const withConditions = (...conditions: ReturnType<typeof condition>[]) =>
      machine((copy) => void (copy.status = { ...copy.status, conditions }));
    const read = withConditions(condition('AgentReady', 'True'), condition('Ready', 'False'));
    const wanted = withConditions(condition('AgentReady', 'True'), condition('Ready', 'True'), condition('Admitted', 'True'));
    const patch = machinePatch(read, wanted, LIVE, true);
    const moved = withConditions(condition('AgentReady', 'False'), condition('Ready', 'False'));
    expect(applied(patch, moved)?.status?.conditions).toEqual([
      condition('AgentReady', 'False'),
      condition('Ready', 'True'),
      condition('Admitted', 'True'),
    ]);
    expect(applied(patch, withConditions(condition('AgentReady', 'True'), condition('Ready', 'True')))).toBeUndefined();
    expect(applied(patch, withConditions(condition('Ready', 'False'), condition('AgentReady', 'True')))).toBeUndefined();
    const gone = machinePatch(read, withConditions(condition('Ready', 'False')), LIVE, true);
    expect(applied(gone, read)?.status?.conditions).toEqual([condition('Ready', 'False')]);
    expect(applied(gone, moved)).toBeUndefined();
  });

  test('without a generation, and of a store, takes effect on the newest alone', () => {
    const bare = machine(({ metadata: meta }) => void delete meta.generation);
    const wanted = { ...bare, spec: { operation } };
    for (const [of, from] of [
      [bare, LIVE],
      [machine(), { known: true }],
    ] as const) {
      const patch = machinePatch(of, { ...wanted, metadata: of.metadata }, from);
      expect(applied(patch, of)).toBeDefined();
      expect(applied(patch, { ...of, metadata: { ...of.metadata, resourceVersion: '8' } })).toBeUndefined();
    }
  });
});
