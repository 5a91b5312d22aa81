/* oxlint-disable vitest/no-standalone-expect -- every sentence is a test */
import { expect } from 'vitest';
import { at, version, type JsonObject } from './scene.ts';
import { conformance } from './suite.ts';
import { configMap, defineWidgets, WIDGET, widget } from './widgets.ts';

const odd = (): JsonObject => ({ ...widget('a', { color: 'red', bogus: 1, nest: { zz: 1 } }, { foo: 1 }), extra: true });

conformance('objects', { prepare: defineWidgets }, (it) => {
  it('a create gives identity, generation 1 and defaults, and drops the status', async (scene) => {
    const made = await scene.api.create(scene.in(WIDGET), { ...widget('a', { color: 'red', nest: {} }), status: { replicas: 9 } });
    expect([made.status, at(made, 'metadata.generation'), at(made, 'status')]).toEqual([201, 1, undefined]);
    await scene.api.get(scene.in(WIDGET, 'a'));
    await scene.api.create(scene.in('configmaps'), configMap('c', { a: '1' }, { uid: 'x', creationTimestamp: '2000-01-01T00:00:00Z' }));
  });

  it('a name that exists is refused with AlreadyExists', async (scene) => {
    await scene.unrecorded.create(scene.in(WIDGET), widget('a'));
    expect((await scene.api.create(scene.in(WIDGET), widget('a'))).status).toBe(409);
    await scene.unrecorded.create(scene.in('configmaps'), configMap('a'));
    await scene.api.create(scene.in('configmaps'), configMap('a'));
  });

  it('generateName makes a name of five more letters', async (scene) => {
    const made = await scene.api.send('POST', scene.in(WIDGET), { ...widget(''), metadata: { generateName: 'g-' } });
    expect(at(made, 'metadata.name')).toMatch(/^g-[bcdfghjklmnpqrstvwxz2-9]{5}$/);
    await scene.api.send('POST', scene.in('configmaps'), { ...configMap(''), metadata: { generateName: 'g-' } });
  });

  it('what cannot be created is refused with the field and the reason', async (scene) => {
    const bad: JsonObject[] = [
      { metadata: { name: 'a' }, spec: { color: 'red' } },
      { ...widget('a'), apiVersion: 'example.io/v9' },
      { ...widget('a'), kind: 'Gadget' },
      { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'a' } },
      widget(''),
      widget('A_b'),
      widget('a', { color: 'red' }, { namespace: 'other' }),
      widget('a', { color: 'red' }, { labels: { 'a b': 'x' } }),
      widget('a', { color: 'red' }, { labels: { a: 'x y' } }),
      widget('a', { color: 'red' }, { annotations: { 'a b': 'x' } }),
      widget('a', { color: 'red' }, { finalizers: ['a b'] }),
      widget('a', { color: 'red' }, { ownerReferences: [{ apiVersion: 'v1', kind: 'Node', name: '', uid: 'u' }] }),
      widget('a', { color: 'red' }, { resourceVersion: '5' }),
      widget('a', { color: 'pink' }),
      widget('a', { color: 3 }),
      widget('a', { color: 'red', replicas: 11 }),
      widget('a', { color: 'red', replicas: 1.5 }),
      widget('a', { color: 'red', tags: ['x', 'x'] }),
      widget('a', { color: 'red', tags: ['x', 'y', 'z', 'toolong'] }),
      widget('a', { color: 'red', parts: [{ name: 'x' }, { name: 'x' }] }),
      widget('a', { color: 'red', parts: [{ name: 'X' }, {}] }),
      widget('a', { color: 'red', size: 'big' }),
      widget('a', { color: 'red', since: 'yesterday' }),
      widget('a', { color: 'red', labels: { a: 1 } }),
      { apiVersion: 'example.io/v1', kind: 'Widget', metadata: { name: 'a' } },
    ];
    for (const object of bad) {
      const answer = await scene.api.create(scene.in(WIDGET), object);
      expect([object, answer.status >= 400]).toEqual([object, true]);
    }
  });

  it('what is not an object is refused', async (scene) => {
    for (const body of ['{"a":', '[]', '', 'null', '"x"']) {
      const answer = await scene.api.send('POST', scene.in(WIDGET), body);
      expect([body, answer.status]).toEqual([body, 400]);
    }
  });

  it('an object in YAML is taken, and a language that is not known is refused', async (scene) => {
    const yaml = 'apiVersion: example.io/v1\nkind: Widget\nmetadata: {name: yam}\nspec: {color: blue}\n';
    await scene.api.send('POST', scene.in(WIDGET), yaml, 'application/yaml');
    await scene.api.send('POST', scene.in(WIDGET), `---\n${yaml.replaceAll('{name: yam}', '\n  name: z')}`, 'application/yaml');
    expect((await scene.api.send('POST', scene.in(WIDGET), yaml, 'text/plain')).status).toBe(415);
  });

  it('a namespace that is not there takes no object', async (scene) => {
    expect((await scene.api.create(`/api/v1/namespaces/${scene.ns}-none/configmaps`, configMap('a'))).status).toBe(404);
    expect((await scene.api.create(`/apis/example.io/v1/namespaces/${scene.ns}-none/widgets`, widget('a'))).status).toBe(404);
  });

  it('fields that are not known are refused, named or dropped as asked', async (scene) => {
    expect((await scene.api.create(scene.in(WIDGET), odd(), { fieldValidation: 'Strict' })).status).toBe(400);
    const warned = await scene.api.create(scene.in(WIDGET), odd());
    expect(warned.headers['warning']).toContain('unknown field');
    expect(
      (await scene.api.create(scene.in(WIDGET), { ...odd(), metadata: { name: 'b' } }, { fieldValidation: 'Ignore' })).headers['warning'],
    ).toBe(undefined);
    await scene.api.merge(scene.in(WIDGET, 'a'), { spec: { bogus: 1 } }, { fieldValidation: 'Strict' });
    await scene.api.merge(scene.in(WIDGET, 'a'), { spec: { bogus: 1 } });
    await scene.api.create(scene.in('configmaps'), { ...configMap('a'), bogus: 1 }, { fieldValidation: 'Strict' });
    await scene.api.create(scene.in('configmaps'), { ...configMap('a'), bogus: 1 });
    await scene.api.create(scene.in('configmaps'), configMap('b'), { fieldValidation: 'Maybe' });
  });

  it('a write that changes nothing leaves version and generation, and sends no watch event', async (scene) => {
    const made = await scene.api.create(scene.in(WIDGET), widget('a'));
    const watch = await scene.watch(scene.in(WIDGET), { resourceVersion: version(made) });
    expect(version(await scene.api.put(scene.in(WIDGET, 'a'), made.body))).toBe(version(made));
    expect(version(await scene.api.merge(scene.in(WIDGET, 'a'), { spec: { color: 'red' } }))).toBe(version(made));
    expect(version(await scene.api.json(scene.in(WIDGET, 'a'), [{ op: 'replace', path: '/spec/color', value: 'red' }]))).toBe(
      version(made),
    );
    await scene.api.merge(scene.in(WIDGET, 'a'), { spec: { color: 'blue' } });
    expect((await scene.take(watch, 1))[0]?.type).toBe('MODIFIED');
  });

  it('resourceVersions are of one counter over all resources', async (scene) => {
    const first = await scene.unrecorded.create(scene.in(WIDGET), widget('a'));
    const second = await scene.unrecorded.create(scene.in('configmaps'), configMap('a'));
    const third = await scene.unrecorded.merge(scene.in(WIDGET, 'a'), { spec: { color: 'blue' } });
    expect(Number(version(first)) < Number(version(second)) && Number(version(second)) < Number(version(third))).toBe(true);
    scene.see('order', true);
  });

  it('a PUT needs a resourceVersion for custom resources, and not for ConfigMaps', async (scene) => {
    await scene.unrecorded.create(scene.in(WIDGET), widget('a'));
    await scene.unrecorded.create(scene.in('configmaps'), configMap('a'));
    expect((await scene.api.put(scene.in(WIDGET, 'a'), widget('a', { color: 'blue' }))).status).toBe(422);
    expect((await scene.api.put(scene.in('configmaps', 'a'), configMap('a', { x: '1' }))).status).toBe(200);
  });

  it('a PUT of an old version or another uid is a Conflict', async (scene) => {
    const made = await scene.unrecorded.create(scene.in(WIDGET), widget('a'));
    await scene.unrecorded.merge(scene.in(WIDGET, 'a'), { spec: { color: 'green' } });
    const stale = { ...made.body, spec: { color: 'blue' } };
    expect((await scene.api.put(scene.in(WIDGET, 'a'), stale)).status).toBe(409);
    const live = await scene.unrecorded.get(scene.in(WIDGET, 'a'));
    const other = widget('a', { color: 'blue' }, { resourceVersion: version(live), uid: '11111111-2222-3333-4444-555555555555' });
    expect((await scene.api.put(scene.in(WIDGET, 'a'), other)).status).toBe(409);
    await scene.api.put(scene.in(WIDGET, 'a'), widget('a', { color: 'blue' }, { resourceVersion: 'abc' }));
    await scene.api.put(scene.in(WIDGET, 'a'), widget('b', { color: 'blue' }, { resourceVersion: '1' }));
    await scene.api.put(scene.in(WIDGET, 'a'), widget('', { color: 'blue' }, { resourceVersion: '1' }));
  });

  it('a PUT of what is not there is NotFound, but makes a Lease', async (scene) => {
    expect((await scene.api.put(scene.in(WIDGET, 'a'), widget('a', { color: 'blue' }, { resourceVersion: '1' }))).status).toBe(404);
    const lease = { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', metadata: { name: 'l' }, spec: { holderIdentity: 'me' } };
    expect((await scene.api.put(scene.in('coordination.k8s.io/v1/leases', 'l'), lease)).status).toBe(201);
    await scene.api.put(scene.in('configmaps', 'a'), configMap('a', { x: '1' }));
  });

  it('what is absent is NotFound, for any request', async (scene) => {
    for (const path of [
      scene.in(WIDGET, 'a'),
      scene.in('configmaps', 'a'),
      scene.in(WIDGET, 'a', 'status'),
      scene.in(WIDGET, 'a', 'scale'),
    ]) {
      await scene.api.get(path);
      await scene.api.merge(path, { metadata: { labels: { a: 'b' } } });
    }
    await scene.api.remove(scene.in(WIDGET, 'a'));
    await scene.api.remove(scene.in('configmaps', 'a'));
    await scene.api.get(scene.in('example.io/v1/gadgets', 'a'));
    await scene.api.get(scene.in('example.io/v2/widgets', 'a'));
    await scene.api.get(scene.in('gadgets', 'a'));
    await scene.api.get(scene.in(WIDGET, 'a', 'nope'));
  });

  it('the main resource never writes status, and the status subresource nothing else', async (scene) => {
    await scene.unrecorded.create(scene.in(WIDGET), widget('a'));
    const set = await scene.api.merge(scene.in(WIDGET, 'a', 'status'), {
      metadata: { labels: { x: 'y' }, annotations: { n: '1' } },
      spec: { color: 'blue' },
      status: { replicas: 2 },
    });
    expect([set.status, at(set, 'spec.color'), at(set, 'metadata.generation'), at(set, 'status.replicas')]).toEqual([200, 'red', 1, 2]);
    const put = await scene.api.put(scene.in(WIDGET, 'a'), { ...set.body, spec: { color: 'green' }, status: { replicas: 7 } });
    expect([at(put, 'spec.color'), at(put, 'metadata.generation'), at(put, 'status.replicas')]).toEqual(['green', 2, 2]);
    const stale = await scene.api.put(scene.in(WIDGET, 'a', 'status'), { ...set.body, status: { replicas: 8 } });
    expect(stale.status).toBe(409);
    await scene.api.put(scene.in(WIDGET, 'a', 'status'), { ...put.body, spec: { color: 'red' }, status: { replicas: 8 } });
    await scene.api.get(scene.in(WIDGET, 'a', 'status'));
    await scene.api.merge(scene.in(WIDGET, 'a', 'status'), { status: { replicas: 'many' } });
    await scene.api.merge(scene.in(WIDGET, 'a', 'status'), { status: { replicas: 2 ** 31 } });
    await scene.api.json(scene.in(WIDGET, 'a', 'status'), [{ op: 'replace', path: '/status', value: null }]);
    await scene.api.json(scene.in(WIDGET, 'a', 'status'), [{ op: 'replace', path: '/status', value: ['a', { b: null, a: 1.5 }] }]);
    await scene.api.merge(scene.in(WIDGET, 'a', 'status'), { status: null });
    await scene.api.create(scene.in(WIDGET, 'a', 'status'), widget('a'));
    await scene.api.remove(scene.in(WIDGET, 'a', 'status'));
  });

  it('generation counts changes of spec, not of metadata or status, and the mark of deletion', async (scene) => {
    const g = (answer: Parameters<typeof at>[0]) => at(answer, 'metadata.generation');
    expect(g(await scene.api.create(scene.in(WIDGET), widget('a', { color: 'red' }, { finalizers: ['x.io/f'], generation: 7 })))).toBe(1);
    expect(g(await scene.api.merge(scene.in(WIDGET, 'a'), { metadata: { labels: { a: 'b' }, generation: 9 } }))).toBe(1);
    expect(g(await scene.api.merge(scene.in(WIDGET, 'a', 'status'), { status: { replicas: 1 } }))).toBe(1);
    expect(g(await scene.api.merge(scene.in(WIDGET, 'a'), { spec: { color: 'blue' } }))).toBe(2);
    expect(g(await scene.api.remove(scene.in(WIDGET, 'a')))).toBe(3);
    const map = await scene.api.create(scene.in('configmaps'), configMap('a'));
    expect(g(map)).toBe(undefined);
  });

  it('a dry run answers as if and does nothing', async (scene) => {
    const dry = { dryRun: 'All' };
    expect((await scene.api.create(scene.in(WIDGET), widget('a'), dry)).status).toBe(201);
    expect((await scene.api.get(scene.in(WIDGET, 'a'))).status).toBe(404);
    const made = await scene.api.create(scene.in(WIDGET), widget('a'));
    const watch = await scene.watch(scene.in(WIDGET), { resourceVersion: version(made) });
    await scene.api.merge(scene.in(WIDGET, 'a'), { spec: { color: 'blue' } }, dry);
    await scene.api.merge(scene.in(WIDGET, 'a'), { spec: { color: 'pink' } }, dry);
    await scene.api.apply(scene.in(WIDGET, 'a'), widget('a', { color: 'green' }), 'm', { ...dry, force: 'true' });
    await scene.api.remove(scene.in(WIDGET, 'a'), undefined, dry);
    await scene.api.create(scene.in(WIDGET), widget('b'), { dryRun: 'Some' });
    expect(version(await scene.api.get(scene.in(WIDGET, 'a')))).toBe(version(made));
    await scene.unrecorded.merge(scene.in(WIDGET, 'a'), { metadata: { labels: { end: 'x' } } });
    expect((await scene.take(watch, 1))[0]?.type).toBe('MODIFIED');
  });

  it('methods that a resource does not have are refused', async (scene) => {
    await scene.api.send('POST', scene.in(WIDGET, 'a'), widget('a'));
    await scene.api.send('PUT', scene.in(WIDGET), widget('a'));
    await scene.api.send('PATCH', scene.in(WIDGET), {}, 'application/merge-patch+json');
    await scene.api.send('POST', scene.in('configmaps', 'a'), configMap('a'));
    await scene.api.send('PUT', scene.in('configmaps'), configMap('a'));
    await scene.api.remove('/api/v1/namespaces');
  });

  it('the size of a resource is its scale', async (scene) => {
    await scene.unrecorded.create(scene.in(WIDGET), widget('a', { color: 'red', replicas: 3 }));
    await scene.unrecorded.merge(scene.in(WIDGET, 'a', 'status'), { status: { replicas: 2, selector: 'a=b' } });
    const scale = await scene.api.get(scene.in(WIDGET, 'a', 'scale'));
    expect([at(scale, 'spec.replicas'), at(scale, 'status')]).toEqual([3, { replicas: 2, selector: 'a=b' }]);
    await scene.api.put(scene.in(WIDGET, 'a', 'scale'), { ...scale.body, spec: { replicas: 5 } });
    await scene.api.merge(scene.in(WIDGET, 'a', 'scale'), { spec: { replicas: 4 } });
    await scene.api.merge(scene.in(WIDGET, 'a', 'scale'), { spec: { replicas: 40 } });
    await scene.api.merge(scene.in(WIDGET, 'a', 'scale'), { spec: { replicas: -1 } });
    await scene.api.put(scene.in(WIDGET, 'a', 'scale'), { ...scale.body, spec: { replicas: 6 } });
    const end = await scene.api.get(scene.in(WIDGET, 'a'));
    expect([at(end, 'spec.replicas'), at(end, 'metadata.generation')]).toEqual([4, 3]);
  });
});
