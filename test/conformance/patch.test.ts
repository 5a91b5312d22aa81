/* oxlint-disable vitest/no-standalone-expect -- every sentence is a test */
import { expect } from 'vitest';
import { at, version, type JsonObject, type Json } from './scene.ts';
import { conformance } from './suite.ts';
import { configMap, defineWidgets, WIDGET, widget } from './widgets.ts';

const POD: JsonObject = {
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name: 'p', labels: { app: 'x' }, finalizers: ['x.io/a'] },
  spec: {
    serviceAccountName: 'default',
    containers: [
      { name: 'a', image: 'a:1', env: [{ name: 'X', value: '1' }] },
      { name: 'b', image: 'b:1' },
    ],
  },
};

conformance('patch', { prepare: defineWidgets }, (it) => {
  it('a merge patch sets, removes with null and replaces lists', async (scene) => {
    await scene.unrecorded.create(scene.in(WIDGET), widget('a', { color: 'red', tags: ['x'], nest: { c: '1' } }));
    const changed = await scene.api.merge(scene.in(WIDGET, 'a'), { spec: { tags: ['y', 'z'], nest: { c: null, a: 'bye' }, max: 4 } });
    expect(at(changed, 'spec')).toEqual({ color: 'red', replicas: 1, tags: ['y', 'z'], nest: { a: 'bye' }, max: 4 });
    await scene.api.merge(scene.in(WIDGET, 'a'), { spec: { nest: null, replicas: null } });
    await scene.api.merge(scene.in(WIDGET, 'a'), { metadata: { labels: { a: 'b' }, annotations: { c: 'd' } } });
    await scene.api.merge(scene.in(WIDGET, 'a'), { metadata: { labels: null } });
    await scene.api.merge(scene.in(WIDGET, 'a'), { spec: { color: null } });
    await scene.api.merge(scene.in(WIDGET, 'a'), { spec: null });
  });

  it('a patch without a resourceVersion meets the newest object, with one it must be the newest', async (scene) => {
    const made = await scene.unrecorded.create(scene.in(WIDGET), widget('a'));
    await scene.unrecorded.merge(scene.in(WIDGET, 'a'), { spec: { color: 'green' } });
    expect((await scene.api.merge(scene.in(WIDGET, 'a'), { spec: { replicas: 2 } })).status).toBe(200);
    const stale = await scene.api.merge(scene.in(WIDGET, 'a'), { metadata: { resourceVersion: version(made) }, spec: { replicas: 3 } });
    expect(stale.status).toBe(409);
    await scene.api.json(scene.in(WIDGET, 'a'), [{ op: 'replace', path: '/metadata/resourceVersion', value: version(made) }]);
    await scene.api.merge(scene.in(WIDGET, 'a'), { metadata: { uid: '11111111-2222-3333-4444-555555555555' } });
  });

  it('JSON operations are done in order, or not at all', async (scene) => {
    await scene.unrecorded.create(scene.in(WIDGET), widget('a', { color: 'red', nest: { c: 'x' } }));
    const good = await scene.api.json(scene.in(WIDGET, 'a'), [
      { op: 'test', path: '/spec/color', value: 'red' },
      { op: 'add', path: '/spec/tags', value: ['x'] },
      { op: 'add', path: '/spec/tags/-', value: 'z' },
      { op: 'add', path: '/spec/tags/1', value: 'y' },
      { op: 'copy', from: '/spec/nest/c', path: '/spec/nest/b' },
      { op: 'move', from: '/spec/nest/c', path: '/spec/nest/a' },
      { op: 'remove', path: '/spec/tags/0' },
    ]);
    expect(at(good, 'spec')).toEqual({ color: 'red', replicas: 1, tags: ['y', 'z'], nest: { b: 'x', a: 'x' } });
    const bad: Json[][] = [
      [{ op: 'test', path: '/spec/color', value: 'blue' }],
      [{ op: 'remove', path: '/spec/none' }],
      [{ op: 'add', path: '/spec/none/deep', value: 1 }],
      [{ op: 'add', path: '/spec/tags/9', value: 'q' }],
      [{ op: 'frobnicate', path: '/spec' }],
      [{ op: 'move', from: '/spec/none', path: '/spec/x' }],
    ];
    for (const operations of bad) {
      const answer = await scene.api.json(scene.in(WIDGET, 'a'), operations);
      expect([operations, answer.status >= 400]).toEqual([operations, true]);
    }
    await scene.api.json(scene.in(WIDGET, 'a'), [{ op: 'replace', path: '/spec/max', value: 1 }]);
    await scene.api.json(scene.in(WIDGET, 'a'), []);
    await scene.api.send('PATCH', scene.in(WIDGET, 'a'), { op: 'add' }, 'application/json-patch+json');
    await scene.api.send('PATCH', scene.in(WIDGET, 'a'), 'nonsense', 'application/json-patch+json');
  });

  it('a test for null is true where there is nothing, if its parent is there; on a status the rest of the object can be tested', async (scene) => {
    await scene.unrecorded.create(scene.in(WIDGET), widget('a'));
    await scene.unrecorded.create(scene.in('configmaps'), configMap('a', { x: '1' }));
    for (const [path, changes] of [
      [scene.in(WIDGET, 'a'), '/metadata/labels'],
      [scene.in('configmaps', 'a'), '/metadata/labels'],
    ] as const) {
      const labelled = { op: 'add', path: changes, value: { a: 'b' } };
      expect((await scene.api.json(path, [{ op: 'test', path: '/metadata/annotations/x', value: null }, labelled])).status).toBe(422);
      expect((await scene.api.json(path, [{ op: 'test', path: '/metadata/annotations', value: null }, labelled])).status).toBe(200);
      expect((await scene.api.json(path, [{ op: 'test', path: '/metadata/labels', value: null }])).status).toBe(422);
      expect((await scene.api.json(path, [{ op: 'test', path: '/metadata/labels/c', value: null }])).status).toBe(200);
      expect((await scene.api.json(path, [{ op: 'test', path: '/metadata/labels/a', value: null }])).status).toBe(422);
      expect((await scene.api.json(path, [{ op: 'test', path: '/metadata/managedFields/0/operation', value: 'Update' }])).status).toBe(200);
      expect((await scene.api.json(path, [{ op: 'test', path: '/metadata/managedFields/9/operation', value: 'Update' }])).status).toBe(422);
    }
    expect((await scene.api.json(scene.in(WIDGET, 'a'), [{ op: 'test', path: '/metadata/generation', value: 1 }])).status).toBe(200);
    expect((await scene.api.json(scene.in(WIDGET, 'a'), [{ op: 'test', path: '/metadata/generation', value: 2 }])).status).toBe(422);
  });

  it('a patch of more than ten thousand operations is refused', async (scene) => {
    await scene.unrecorded.create(scene.in('configmaps'), configMap('a', { x: '1' }));
    const operations = Array.from({ length: 10_001 }, () => ({ op: 'test', path: '/data/x', value: '1' }));
    expect((await scene.api.json(scene.in('configmaps', 'a'), operations)).status).toBe(413);
  });

  it('custom resources refuse strategic merge, and every resource what is no patch', async (scene) => {
    await scene.unrecorded.create(scene.in(WIDGET), widget('a'));
    await scene.unrecorded.create(scene.in('configmaps'), configMap('a'));
    expect((await scene.api.strategic(scene.in(WIDGET, 'a'), { spec: { color: 'blue' } })).status).toBe(415);
    await scene.api.send('PATCH', scene.in(WIDGET, 'a'), {}, 'application/json');
    await scene.api.send('PATCH', scene.in('configmaps', 'a'), {}, 'application/json');
    await scene.api.send('PATCH', scene.in('configmaps', 'a'), '[', 'application/merge-patch+json');
    await scene.api.send('PATCH', scene.in(WIDGET, 'a'), '[', 'application/merge-patch+json');
    await scene.api.send('PATCH', scene.in('configmaps', 'a'), '[]', 'application/strategic-merge-patch+json');
    await scene.api.merge(scene.in('configmaps', 'a'), { data: { x: '1' } }, { force: 'true' });
  });

  it('a patch cannot make the object another one, or an invalid one', async (scene) => {
    await scene.unrecorded.create(scene.in(WIDGET), widget('a'));
    await scene.unrecorded.create(scene.in('configmaps'), configMap('a'));
    for (const path of [scene.in(WIDGET, 'a'), scene.in('configmaps', 'a')]) {
      await scene.api.merge(path, { metadata: { name: 'b' } });
      await scene.api.merge(path, { metadata: { namespace: 'other' } });
      await scene.api.merge(path, { kind: 'Gadget' });
      await scene.api.merge(path, { apiVersion: 'example.io/v7' });
      await scene.api.merge(path, { metadata: { creationTimestamp: '2000-01-01T00:00:00Z' } });
      await scene.api.merge(path, { metadata: { labels: { 'a b': 'c' } } });
      await scene.api.merge(path, { metadata: { labels: { a: 1 } } });
    }
    expect((await scene.api.merge(scene.in(WIDGET, 'a'), { spec: { color: 'pink' } })).status).toBe(422);
    expect(at(await scene.api.get(scene.in(WIDGET, 'a')), 'spec.color')).toBe('red');
  });

  it('a strategic merge knows lists by their keys', async (scene) => {
    await scene.unrecorded.create(scene.in('pods'), POD);
    const image = await scene.api.strategic(scene.in('pods', 'p'), { spec: { containers: [{ name: 'b', image: 'b:2' }] } });
    expect([at(image, 'spec.containers.0.image'), at(image, 'spec.containers.1.image')]).toEqual(['a:1', 'b:2']);
    await scene.api.strategic(scene.in('pods', 'p'), {
      spec: { '$setElementOrder/containers': [{ name: 'a' }, { name: 'b' }], containers: [{ name: 'a', image: 'a:3' }] },
    });
    await scene.api.strategic(scene.in('pods', 'p'), {
      metadata: { finalizers: ['x.io/b'], '$deleteFromPrimitiveList/finalizers': ['x.io/a'] },
    });
    await scene.api.strategic(scene.in('pods', 'p', 'status'), {
      status: {
        conditions: [
          { type: 'Ready', status: 'True' },
          { type: 'Other', status: 'False' },
        ],
      },
    });
    await scene.api.strategic(scene.in('pods', 'p', 'status'), {
      status: {
        '$setElementOrder/conditions': [{ type: 'Other' }, { type: 'Ready' }],
        conditions: [{ type: 'Ready', status: 'False' }],
      },
    });
    await scene.api.strategic(scene.in('pods', 'p', 'status'), { status: { conditions: [{ $patch: 'delete', type: 'Other' }] } });
    await scene.api.strategic(scene.in('pods', 'p'), { metadata: { labels: { $patch: 'replace', only: 'this' } } });
    await scene.api.strategic(scene.in('pods', 'p'), { metadata: { labels: null } });
    await scene.api.strategic(scene.in('pods', 'p'), { spec: { containers: [{ image: 'nameless' }] } });
    await scene.api.strategic(scene.in('pods', 'p'), { spec: { containers: [{ name: 'a', $patch: 'frobnicate' }] } });
    await scene.api.strategic(scene.in('pods', 'p'), { spec: { containers: [{ name: 'a', command: ['x'] }] } });
  });
});
