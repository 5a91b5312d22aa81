import { beforeEach, describe, expect, it } from 'vitest';
import type { JsonObject } from '@kubenode/api-machinery/wire';
import { settled } from '../testing/clock.ts';
import { names, closeRig, openRig, pick, text, type Rig } from '../testing/rig.ts';
import { configMap, MAPS } from '../testing/widgets.ts';

let rig: Rig;

beforeEach(async () => {
  rig = await openRig();
  return () => closeRig(rig);
});

interface Owner {
  readonly name: string;
  readonly uid: string;
}

const reference = ({ name, uid }: Owner, more: JsonObject = {}): JsonObject => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  name,
  uid,
  ...more,
});

async function make(name: string, owners: JsonObject[] = [], metadata: JsonObject = {}): Promise<Owner> {
  const { body } = await rig.api.create(
    MAPS,
    configMap(name, {}, { ...metadata, ...(owners.length === 0 ? {} : { ownerReferences: owners }) }),
  );
  return { name, uid: text(pick(body, 'metadata.uid')) };
}

async function left(): Promise<string[]> {
  await settled();
  return names((await rig.api.get(MAPS)).body);
}

describe('the garbage collector', () => {
  it('deletes what has lost its owner, and what that owned', async () => {
    const a = await make('a');
    const b = await make('b', [reference(a)]);
    await make('c', [reference(b)]);
    await make('free');
    await rig.api.remove(`${MAPS}/a`);
    expect(await left()).toEqual(['free']);
  });

  it('keeps what has another owner, and takes the lost reference away', async () => {
    const a = await make('a');
    const b = await make('b');
    await make('c', [reference(a), reference(b)]);
    await rig.api.remove(`${MAPS}/a`);
    expect(await left()).toEqual(['b', 'c']);
    expect(pick((await rig.api.get(`${MAPS}/c`)).body, 'metadata.ownerReferences')).toEqual([reference(b)]);
    await rig.api.remove(`${MAPS}/b`);
    expect(await left()).toEqual([]);
  });

  it('takes an object of the same name but another UID for another', async () => {
    await make('a');
    await make('c', [reference({ name: 'a', uid: 'an-older-a' })]);
    expect(await left()).toEqual(['a']);
  });

  it('leaves alone what belongs to a kind that is not served', async () => {
    await make('c', [{ apiVersion: 'nope.io/v1', kind: 'Gone', name: 'x', uid: 'u' }]);
    expect(await left()).toEqual(['c']);
  });

  it('finds cluster-scoped owners', async () => {
    const { body } = await rig.api.create('/api/v1/nodes', { apiVersion: 'v1', kind: 'Node', metadata: { name: 'n' } });
    await make('c', [{ apiVersion: 'v1', kind: 'Node', name: 'n', uid: text(pick(body, 'metadata.uid')) }]);
    expect(await left()).toEqual(['c']);
    await rig.api.remove('/api/v1/nodes/n');
    expect(await left()).toEqual([]);
  });

  it('orphans: the owner goes, its dependents stay and forget it', async () => {
    const a = await make('a');
    await make('b', [reference(a)]);
    const marked = await rig.api.remove(`${MAPS}/a`, { propagationPolicy: 'Orphan' });
    expect(pick(marked.body, 'metadata.finalizers')).toEqual(['orphan']);
    expect(await left()).toEqual(['b']);
    expect(pick((await rig.api.get(`${MAPS}/b`)).body, 'metadata.ownerReferences')).toBeUndefined();
  });

  it('in the foreground lets blocking dependents go first', async () => {
    const a = await make('a');
    await make('b', [reference(a, { blockOwnerDeletion: true })], { finalizers: ['x.io/slow'] });
    await make('c', [reference(a)]);
    const marked = await rig.api.remove(`${MAPS}/a`, { propagationPolicy: 'Foreground' });
    expect(pick(marked.body, 'metadata.finalizers')).toEqual(['foregroundDeletion']);
    expect(await left()).toEqual(['a', 'b']);
    await rig.api.merge(`${MAPS}/b`, { metadata: { finalizers: null } });
    expect(await left()).toEqual([]);
  });

  it('in the foreground does not wait for dependents that do not block', async () => {
    const a = await make('a');
    await make('b', [reference(a)], { finalizers: ['x.io/slow'] });
    await rig.api.remove(`${MAPS}/a`, { propagationPolicy: 'Foreground' });
    expect(await left()).toEqual(['b']);
    expect(pick((await rig.api.get(`${MAPS}/b`)).body, 'metadata.deletionTimestamp')).toBeDefined();
  });

  it('frees an owner in the foreground when its last blocking dependent is given away', async () => {
    const a = await make('a');
    await make('b', [reference(a, { blockOwnerDeletion: true })], { finalizers: ['x.io/slow'] });
    await rig.api.remove(`${MAPS}/a`, { propagationPolicy: 'Foreground' });
    await settled();
    await rig.api.merge(`${MAPS}/b`, { metadata: { ownerReferences: null } });
    expect(await left()).toEqual(['b']);
  });
});
