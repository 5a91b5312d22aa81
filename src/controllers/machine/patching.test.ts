import { jsonPatch } from '@kubenode/embedded/testing';
import { describe, expect, test } from 'vitest';
import type { Node } from '../../api/builtin.ts';
import { ANNOTATIONS } from '../../api/names.ts';
import type { Json, Stored } from '../../api/wire.ts';
import { ApiError } from '../../kube/api-error.ts';
import type { Client, JsonPatchOperation } from '../../kube/client.ts';
import { writeNode } from './patching.ts';

const record = (manager: string, fieldsV1: object = {}) =>
  ({ manager, operation: 'Update', apiVersion: 'v1', fieldsType: 'FieldsV1', fieldsV1 }) as never;
const OURS = record('kubenode-machine', { 'f:spec': { 'f:unschedulable': {} } });

const cordoned = (...managedFields: never[]): Stored<Node> => ({
  apiVersion: 'v1',
  kind: 'Node',
  metadata: {
    name: 'a',
    uid: 'u',
    resourceVersion: '7',
    creationTimestamp: '2026-11-19T12:00:00Z',
    annotations: { [ANNOTATIONS.cordonOwner]: 'r1' },
    managedFields,
  },
  spec: { unschedulable: true },
});

/** A server whose Node changes right before each patch, by each of `changes` in turn. */
function server(read: Stored<Node>, ...changes: Partial<Stored<Node>['metadata']>[]) {
  let live = read;
  let patches = 0;
  const client = {
    find: () => Promise.resolve(live),
    patch: (_resource: unknown, _key: unknown, { json }: { json: JsonPatchOperation[] }) => {
      live = { ...live, metadata: { ...live.metadata, ...changes[patches++] } };
      try {
        live = jsonPatch(live as object as Json, json as object as Json) as object as Stored<Node>;
        return Promise.resolve(live);
      } catch {
        return Promise.reject(new ApiError(422, { reason: 'Invalid', message: 'the server rejected our request' }));
      }
    },
  } as unknown as Client;
  return { client, live: () => live, patches: () => patches };
}

const lift = async ({ client }: { client: Client }, read: Stored<Node>): Promise<void> => {
  const { [ANNOTATIONS.cordonOwner]: _, ...annotations } = read.metadata.annotations ?? {};
  const wanted = { ...read, metadata: { ...read.metadata, annotations }, spec: {} };
  await writeNode(client, read, wanted, { known: false, signal: new AbortController().signal });
};

describe('C4a: a kubelet that moves the record of our cordon', () => {
  const there = { managedFields: [record('x'), record('kubelet'), OURS] };
  const back = { managedFields: [record('kubelet'), OURS] };

  test('before each write, does not keep the cordon: the write follows it', async () => {
    const read = cordoned(record('kubelet'), OURS);
    const world = server(read, there, back, there, back, {});
    await lift(world, read);
    expect(world.live().spec?.unschedulable).toBeUndefined();
    expect(world.patches()).toBe(5);
  });

  test('and back before the server is asked, does not keep it either', async () => {
    const read = cordoned(record('kubelet'), OURS);
    const world = server(read, there);
    const { client } = world;
    const found = {
      ...client,
      find: () => Promise.resolve({ ...world.live(), metadata: { ...world.live().metadata, ...back } }),
    } as Client;
    await expect(lift({ client: found }, read)).rejects.toMatchObject({ code: 'Invalid' });
    expect(world.patches()).toBe(3);
    const twice = server(read, there, back);
    const { client: other } = twice;
    await lift({ client: { ...other, find: () => Promise.resolve(read) } as Client }, read);
    expect(twice.live().spec?.unschedulable).toBeUndefined();
  });

  test.each<[string, Partial<Stored<Node>['metadata']>]>([
    [
      'a human who lifted it and cordoned since',
      { managedFields: [record('kubectl', { 'f:spec': { 'f:unschedulable': {} } }), record('kubenode-machine')] },
    ],
    ['another reservation', { ...there, annotations: { [ANNOTATIONS.cordonOwner]: 'r2' } }],
    ['another write of ours', { ...there, annotations: { [ANNOTATIONS.cordonOwner]: 'r1', [ANNOTATIONS.nodeWrite]: '8' } }],
  ])('is not taken for %s, against which the write loses', async (_, change) => {
    const read = cordoned(record('kubelet'), OURS);
    const world = server(read, change);
    await expect(lift(world, read)).rejects.toMatchObject({ code: 'Conflict' });
    expect([world.live().spec?.unschedulable, world.patches()]).toEqual([true, 1]);
  });

  test('faster than a write can follow, keeps it for this turn alone', async () => {
    const read = cordoned(record('kubelet'), OURS);
    const moves = Array.from({ length: 30 }, (_, n) => (n % 2 === 0 ? there : back));
    const world = server(read, ...moves);
    await expect(lift(world, read)).rejects.toMatchObject({ code: 'Conflict' });
    expect(world.patches()).toBe(11);
  });
});
