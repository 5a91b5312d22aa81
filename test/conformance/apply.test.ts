/* oxlint-disable vitest/no-standalone-expect -- every sentence is a test */
import { expect } from 'vitest';
import { pick, text } from '@kubenode/embedded/testing';
import { at, version, type JsonObject, type Scene } from './scene.ts';
import { conformance } from './suite.ts';
import { configMap, defineWidgets, WIDGET, widget } from './widgets.ts';

const W = (scene: Scene): string => scene.in(WIDGET, 'a');
const C = (scene: Scene): string => scene.in('configmaps', 'a');
const force = { force: 'true' };

const parts = (...items: JsonObject[]): JsonObject => widget('a', { color: 'red', parts: items });

/** A ConfigMap of a name only, or with data. */
const map = (data?: JsonObject, metadata: JsonObject = {}): JsonObject => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { name: 'a', ...metadata },
  ...(data === undefined ? {} : { data }),
});

conformance('apply', { prepare: defineWidgets }, (it) => {
  it('an apply makes what is not there, and owns what it named', async (scene) => {
    const made = await scene.api.apply(W(scene), widget('a', { color: 'red', nest: {} }), 'one');
    expect([made.status, pick(made.body, 'metadata.managedFields.0.operation')]).toEqual([201, 'Apply']);
    expect((await scene.api.apply(C(scene), map({ x: '1' }), 'one')).status).toBe(201);
  });

  it('an apply that names the version before all others makes what is not there, and changes nothing that is', async (scene) => {
    const named = { metadata: { name: 'a', resourceVersion: '1' } };
    const made = await scene.api.apply(W(scene), { ...widget('a', { color: 'red' }), ...named }, 'one');
    expect([made.status, pick(made.body, 'metadata.managedFields.0.operation')]).toEqual([201, 'Apply']);
    expect((await scene.api.apply(W(scene), { ...widget('a', { color: 'blue' }), ...named }, 'one', force)).status).toBe(409);
    expect((await scene.api.apply(W(scene), { ...widget('a', { color: 'blue' }), ...named }, 'two', force)).status).toBe(409);
    expect((await scene.api.apply(C(scene), map({ x: '1' }, { resourceVersion: '1' }), 'one')).status).toBe(201);
    expect((await scene.api.apply(C(scene), map({ x: '2' }, { resourceVersion: '1' }), 'one', force)).status).toBe(409);
    expect(at(await scene.unrecorded.get(C(scene)), 'data.x')).toBe('1');
  });

  it('an apply that names the UID and version of what is gone, or was made again, makes nothing', async (scene) => {
    for (const [path, object] of [
      [W(scene), widget('a', { color: 'red' })],
      [C(scene), map({ x: '1' })],
    ] as const) {
      const made = await scene.api.apply(path, object, 'one');
      const [uid, resourceVersion] = [text(pick(made.body, 'metadata.uid')), version(made)];
      const again = { ...object, metadata: { name: 'a', uid, resourceVersion } };
      await scene.unrecorded.remove(path);
      // The answer names the UID, which is another on each server.
      expect((await scene.unrecorded.apply(path, again, 'one', force)).status).toBe(409);
      expect((await scene.unrecorded.get(path)).status).toBe(404);
      await scene.unrecorded.apply(path, object, 'one');
      expect((await scene.unrecorded.apply(path, again, 'one', force)).status).toBe(409);
      expect((await scene.api.apply(path, { ...object, metadata: { name: 'a', resourceVersion } }, 'one', force)).status).toBe(409);
    }
  });

  it('the same apply again changes nothing', async (scene) => {
    const made = await scene.api.apply(W(scene), widget('a', { color: 'red', tags: ['x'] }), 'one');
    expect(version(await scene.api.apply(W(scene), widget('a', { color: 'red', tags: ['x'] }), 'one'))).toBe(version(made));
    expect((await scene.api.apply(W(scene), widget('a', { color: 'red', tags: ['x'] }), 'two')).status).toBe(200);
  });

  it('equal values are shared, other values conflict with a cause for each field, force takes them', async (scene) => {
    await scene.api.apply(W(scene), widget('a', { color: 'red', replicas: 2, labels: { a: '1', b: '2' } }), 'one');
    expect((await scene.api.apply(W(scene), widget('a', { color: 'red' }), 'two')).status).toBe(200);
    const refused = await scene.api.apply(W(scene), widget('a', { color: 'blue', replicas: 3, labels: { a: '9', c: '3' } }), 'three');
    expect([refused.status, (pick(refused.body, 'details.causes') as JsonObject[]).length]).toEqual([409, 4]);
    const taken = await scene.api.apply(W(scene), widget('a', { color: 'blue', replicas: 3, labels: { a: '9', c: '3' } }), 'three', force);
    expect(taken.status).toBe(200);
    await scene.api.apply(W(scene), widget('a', { color: 'blue' }), 'one');
  });

  it('what an applier no longer names goes, unless someone else owns it too', async (scene) => {
    await scene.api.apply(W(scene), widget('a', { color: 'red', max: 3, labels: { a: '1', b: '2' } }), 'one');
    await scene.api.apply(W(scene), widget('a', { color: 'red', labels: { b: '2' } }), 'two');
    await scene.api.merge(W(scene), { spec: { nest: { c: 'kept' } } }, { fieldManager: 'hand' });
    const left = await scene.api.apply(W(scene), widget('a', { color: 'red' }), 'one');
    expect([at(left, 'spec.max'), at(left, 'spec.labels'), at(left, 'spec.nest.c')]).toEqual([undefined, { b: '2' }, 'kept']);
    await scene.api.apply(W(scene), { apiVersion: 'example.io/v1', kind: 'Widget', metadata: { name: 'a' } }, 'one');
    await scene.api.apply(W(scene), { apiVersion: 'example.io/v1', kind: 'Widget', metadata: { name: 'a' } }, 'two');
  });

  it('what an updater set it keeps when an applier of the same value lets it go', async (scene) => {
    await scene.api.apply(C(scene), map({ x: '1', y: '1' }), 'one');
    await scene.api.merge(C(scene), { data: { x: '2' } }, { fieldManager: 'hand' });
    await scene.api.apply(C(scene), map({ x: '2', y: '1' }), 'one');
    const left = await scene.api.apply(C(scene), map({ y: '1' }), 'one');
    expect(at(left, 'data')).toEqual({ x: '2', y: '1' });
  });

  it('an update takes what it changes from its appliers without asking', async (scene) => {
    const made = await scene.api.apply(W(scene), widget('a', { color: 'red', replicas: 2 }), 'one');
    await scene.api.merge(W(scene), { spec: { color: 'blue' } }, { fieldManager: 'hand' });
    expect((await scene.api.apply(W(scene), widget('a', { color: 'red', replicas: 2 }), 'one')).status).toBe(409);
    await scene.api.put(
      W(scene),
      { ...(await scene.unrecorded.get(W(scene))).body, spec: { color: 'green', replicas: 2 } },
      { fieldManager: 'putter' },
    );
    await scene.api.json(W(scene), [{ op: 'remove', path: '/spec/replicas' }], { fieldManager: 'hand' });
    await scene.api.apply(W(scene), widget('a', { color: 'red', replicas: 2 }), 'one', force);
    expect(version(made)).not.toBe('');
  });

  it('an object that was never applied belongs to before-first-apply', async (scene) => {
    await scene.unrecorded.create(C(scene).replace(/\/a$/, ''), configMap('a', { x: '1', y: '1' }));
    await scene.api.json(C(scene), [{ op: 'replace', path: '/metadata/managedFields', value: [{}] }]);
    const refused = await scene.api.apply(C(scene), map({ x: '2' }), 'one');
    expect([refused.status, at(refused, 'details.causes.0.message')]).toEqual([409, 'conflict with "before-first-apply" using v1']);
    await scene.api.apply(C(scene), map({ x: '1' }), 'one');
    await scene.api.apply(C(scene), map({ x: '2' }), 'one', force);
  });

  it('the items of a list map are owned one by one', async (scene) => {
    await scene.api.apply(W(scene), parts({ name: 'a', count: 1 }, { name: 'b', count: 1 }), 'one');
    await scene.api.apply(W(scene), parts({ name: 'c', count: 3 }, { name: 'a', count: 1 }), 'two');
    expect((await scene.api.apply(W(scene), parts({ name: 'b', count: 9 }), 'two')).status).toBe(409);
    const left = await scene.api.apply(W(scene), parts({ name: 'b', count: 1 }), 'one');
    expect(at(left, 'spec.parts')).toEqual([
      { name: 'c', count: 3 },
      { name: 'a', count: 1 },
      { name: 'b', count: 1 },
    ]);
    await scene.api.apply(W(scene), parts({ name: 'z' }, { name: 'c', count: 3 }), 'two');
    await scene.api.apply(W(scene), parts({ name: 'c' }), 'three');
    await scene.api.apply(W(scene), parts({ name: 'q', count: 1 }, { name: 'q', count: 2 }), 'three');
    await scene.api.apply(W(scene), parts({ count: 2 }), 'three');
  });

  it('a set keeps the members of all its appliers', async (scene) => {
    const tags = (...values: string[]): JsonObject => widget('a', { color: 'red', tags: values });
    await scene.api.apply(W(scene), tags('x', 'y'), 'one');
    await scene.api.apply(W(scene), tags('z', 'x'), 'two');
    const left = await scene.api.apply(W(scene), tags('y'), 'one');
    expect(at(left, 'spec.tags')).toEqual(['z', 'x', 'y']);
    await scene.api.apply(W(scene), tags('y', 'y'), 'one');
    await scene.api.apply(W(scene), tags(), 'two');
    await scene.api.merge(W(scene), { spec: { tags: ['q'] } }, { fieldManager: 'hand' });
    await scene.api.apply(W(scene), tags('p'), 'one');
  });

  it('an atomic list belongs to one', async (scene) => {
    const node = (taints: JsonObject[]): JsonObject => ({
      apiVersion: 'v1',
      kind: 'Node',
      metadata: { name: `${scene.ns}-n` },
      spec: { taints },
    });
    const path = `/api/v1/nodes/${scene.ns}-n`;
    await scene.unrecorded.apply(path, node([]), 'zero');
    await scene.unrecorded.apply(path, node([]), 'zero', force);
    await scene.api.apply(path, node([{ key: 'a', effect: 'NoSchedule' }]), 'one', force);
    await scene.api.apply(path, node([{ key: 'a', effect: 'NoSchedule' }]), 'two');
    expect((await scene.api.apply(path, node([{ key: 'b', effect: 'NoSchedule' }]), 'two')).status).toBe(409);
    const taken = await scene.api.apply(path, node([{ key: 'b', effect: 'NoSchedule' }]), 'two', force);
    expect(at(taken, 'spec.taints')).toEqual([{ key: 'b', effect: 'NoSchedule' }]);
  });

  it('keys with defaults may be left out', async (scene) => {
    const pod = (ports: JsonObject[]): JsonObject => ({
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: 'p' },
      spec: { serviceAccountName: 'default', containers: [{ name: 'c', image: 'i:1', ports }] },
    });
    const path = scene.in('pods', 'p');
    await scene.api.apply(path, pod([{ containerPort: 80 }, { containerPort: 80, protocol: 'UDP' }]), 'one');
    await scene.api.apply(
      path,
      pod([
        { containerPort: 80, protocol: 'TCP' },
        { containerPort: 80, protocol: 'UDP' },
      ]),
      'one',
    );
    await scene.api.apply(path, pod([{ containerPort: 80 }]), 'two');
  });

  it('status has managers of its own', async (scene) => {
    const status = (type: string, value: string): JsonObject => ({
      apiVersion: 'example.io/v1',
      kind: 'Widget',
      metadata: { name: 'a' },
      status: { conditions: [{ type, status: value }] },
    });
    await scene.api.apply(W(scene), { ...widget('a'), status: { replicas: 9 } }, 'one');
    await scene.api.apply(`${W(scene)}/status`, status('Ready', 'True'), 'one');
    const two = await scene.api.apply(`${W(scene)}/status`, status('Other', 'False'), 'two');
    expect((at(two, 'status.conditions') as JsonObject[]).length).toBe(2);
    expect((await scene.api.apply(`${W(scene)}/status`, status('Ready', 'False'), 'two')).status).toBe(409);
    await scene.api.apply(`${W(scene)}/status`, { ...status('Other', 'True'), spec: { color: 'blue' } }, 'two');
    await scene.api.merge(`${W(scene)}/status`, { status: { replicas: 1 } }, { fieldManager: 'one' });
    await scene.api.apply(`${W(scene)}/status`, { apiVersion: 'example.io/v1', kind: 'Widget', metadata: { name: 'a' } }, 'two');
    await scene.api.apply(scene.in(WIDGET, 'none', 'status'), { ...status('Ready', 'True'), metadata: { name: 'none' } }, 'one');
  });

  it('managedFields may be cleared, or be written by hand, and are checked then', async (scene) => {
    await scene.unrecorded.apply(W(scene), widget('a', { color: 'red', replicas: 2 }), 'one');
    const fields = (value: JsonObject[]) => scene.api.merge(W(scene), { metadata: { managedFields: value } }, { fieldManager: 'hand' });
    const entry = {
      manager: 'z',
      operation: 'Update',
      apiVersion: 'example.io/v1',
      fieldsType: 'FieldsV1',
      fieldsV1: { 'f:spec': { 'f:color': {} } },
    };
    await fields([entry]);
    await fields([{ ...entry, operation: 'Replace' }]);
    await fields([{ ...entry, fieldsType: 'FieldsV2' }]);
    await fields([{ ...entry, manager: 'x'.repeat(129) }]);
    await fields([{ ...entry, fieldsV1: { 'x:nonsense': {} } }]);
    await fields([{ ...entry, apiVersion: '' }]);
    await fields([{}]);
    await scene.api.merge(W(scene), { spec: { color: 'blue' } }, { fieldManager: 'hand' });
    await scene.api.put(W(scene), { ...(await scene.unrecorded.get(W(scene))).body }, { fieldManager: 'hand' });
  });

  it('more than ten updaters are folded into ancient-changes', async (scene) => {
    await scene.unrecorded.create(scene.in('configmaps'), configMap('a', { k: 'v' }), { fieldManager: 'm00' });
    for (let n = 1; n <= 12; n++) {
      await scene.unrecorded.merge(C(scene), { data: { [`k${n}`]: 'v' } }, { fieldManager: `m${String(n).padStart(2, '0')}` });
    }
    const { body } = await scene.unrecorded.get(C(scene));
    const managers = (pick(body, 'metadata.managedFields') as JsonObject[]).map((entry) => text(entry['manager']));
    expect([managers.includes('ancient-changes'), managers.length]).toEqual([true, 10]);
    scene.see('number of managers', managers.length);
  });

  it('an apply that cannot be is refused', async (scene) => {
    await scene.unrecorded.apply(W(scene), widget('a'), 'one');
    await scene.api.send('PATCH', W(scene), widget('a'), 'application/apply-patch+yaml');
    await scene.api.apply(W(scene), widget('a'), 'x'.repeat(129));
    await scene.api.apply(W(scene), widget('a'), 'bell\u0007');
    await scene.api.apply(W(scene), widget('b'), 'one');
    await scene.api.apply(W(scene), widget('a', { color: 'red' }, { namespace: 'other' }), 'one');
    await scene.api.apply(W(scene), { ...widget('a'), kind: 'Gadget' }, 'one');
    await scene.api.apply(W(scene), { ...widget('a'), apiVersion: 'example.io/v2' }, 'one');
    await scene.api.apply(W(scene), { spec: { color: 'red' } }, 'one');
    await scene.api.apply(W(scene), widget('a', { color: 'red' }, { managedFields: [] }), 'one');
    await scene.api.apply(W(scene), widget('a', { color: 'red' }, { managedFields: [{}] }), 'one');
    await scene.api.apply(W(scene), widget('a', { color: 'red' }, { resourceVersion: '1' }), 'one');
    await scene.api.apply(W(scene), widget('a', { color: 'red' }, { uid: '11111111-2222-3333-4444-555555555555' }), 'one');
    await scene.api.apply(scene.in(WIDGET, 'new'), widget('new', { color: 'red' }, { uid: '11111111-2222-3333-4444-555555555555' }), 'one');
    await scene.api.apply(scene.in(WIDGET, 'new'), widget('new', { color: 'red' }, { resourceVersion: '1' }), 'one');
    await scene.api.apply(W(scene), widget('a', { color: 'pink' }), 'one');
    await scene.api.apply(W(scene), widget('a', { colour: 'red' }), 'one');
    await scene.api.apply(W(scene), widget('a', { color: 'red', colour: 1 }), 'one', { fieldValidation: 'Strict' });
    await scene.api.apply(W(scene), widget('a', { color: 'red', parts: 'none' }), 'one');
    await scene.api.apply(W(scene), widget('a', { color: 'red', nest: null }), 'one');
    await scene.api.send('PATCH', W(scene), '{', 'application/apply-patch+yaml', { query: { fieldManager: 'one' } });
    await scene.api.send('PATCH', W(scene), '[]', 'application/apply-patch+yaml', { query: { fieldManager: 'one' } });
    await scene.api.send('PATCH', W(scene), 'a: b: c', 'application/apply-patch+yaml', { query: { fieldManager: 'one' } });
    await scene.api.apply(scene.in(WIDGET, ''), widget('a'), 'one');
  });

  it('labels, annotations, finalizers and owners are merged by the same rules', async (scene) => {
    const uid = '11111111-2222-3333-4444-555555555555';
    const reference = (name: string, n: number): JsonObject => ({
      apiVersion: 'v1',
      kind: 'Node',
      name,
      uid: uid.replace(/^1/, String(n)),
    });
    await scene.api.apply(C(scene), map(undefined, { labels: { a: '1' }, annotations: { b: '1' }, finalizers: ['x.io/a'] }), 'one');
    await scene.api.apply(C(scene), map(undefined, { labels: { c: '1' }, finalizers: ['x.io/b'] }), 'two');
    expect((await scene.api.apply(C(scene), map(undefined, { labels: { a: '2' } }), 'two')).status).toBe(409);
    const left = await scene.api.apply(C(scene), map(), 'one');
    expect([at(left, 'metadata.labels'), at(left, 'metadata.finalizers')]).toEqual([{ c: '1' }, ['x.io/b']]);
    await scene.api.apply(C(scene), map(undefined, { ownerReferences: [reference('n', 2)] }), 'three', { dryRun: 'All' });
    await scene.api.apply(C(scene), map(undefined, { ownerReferences: [reference('n', 2), reference('m', 3)] }), 'three', {
      dryRun: 'All',
    });
  });

  it('kubectl’s note of what it applied is taken over', async (scene) => {
    const note = JSON.stringify(map({ x: '1', y: '1' }));
    const annotations = { 'kubectl.kubernetes.io/last-applied-configuration': note };
    await scene.unrecorded.create(scene.in('configmaps'), map({ x: '1', y: '1' }, { annotations }), {
      fieldManager: 'kubectl-client-side-apply',
    });
    await scene.api.apply(C(scene), map({ x: '2' }, { annotations }), 'kubectl');
    await scene.api.apply(C(scene), map({ x: '2' }), 'kubectl');
  });
});
